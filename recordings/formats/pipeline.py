"""The whole way: from files or a topic to documents in the order in which requests arrived."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, tzinfo
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from brokertwin.errors import UserError
from brokertwin.recordings.formats.batches import Completion, Needs
from brokertwin.recordings.formats.brokers import Brokers
from brokertwin.recordings.formats.documents import (
    NOT_ANSWERED,
    Document,
    Fields,
    Left,
    Texts,
    redacted,
)
from brokertwin.recordings.formats.lines import Line, lines_of, names_of, spooled
from brokertwin.recordings.formats.order import LAST, Arrivals, Seen, Sorter, Turn
from brokertwin.recordings.formats.readers import Origin, Reader, dead_letter
from brokertwin.recordings.formats.summary import Summary
from brokertwin.state.core.kafka_apis import FETCH, PRODUCE

Source = Callable[[Summary], Iterator[Document]]
"""Where documents come from: files, or a topic. What of them cannot be read is told a summary."""

CUT_FILE = "the compressed file has no end: it is still written, or was cut"
REPEATED = "a copy of a line that came before"

TOPIC_ID = re.compile(rb'"topicId":"([^"]{22})"')


class Reading(NamedTuple):
    """How logs are read.

    Attributes:
        broker: whose logs they are; None: as content or name of each file tells.
        zone: of the JVMs that wrote them.
        warn: is told what may make times wrong.
        texts: which logs with requests as text are read, too.
    """

    broker: int | None = None
    zone: tzinfo = UTC
    warn: Callable[[str], None] = lambda _: None
    texts: Texts = Texts.NONE


def zone_of(name: str) -> tzinfo:
    """The time zone of that name.

    Raises:
        UserError: there is none.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UserError(
            f"Unknown time zone {name}.",
            "Pass the zone of the JVM that wrote the log, such as Europe/Berlin or UTC.",
        ) from None


def read_files(
    paths: Sequence[Path],
    reading: Reading,
    summary: Summary,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> Iterator[Document]:
    """The documents of files, each in the order of its lines, without credentials.

    Raises:
        UserError: a file cannot be read, or nobody can tell whose log it is.
    """
    seen = Seen()
    for path, name in zip(paths, names_of(paths), strict=True):
        with spooled(path) as file:
            yield from _read_file(file, name, reading, len(paths) > 1, seen, summary, on_bytes)


def _read_file(
    path: Path,
    name: str,
    reading: Reading,
    is_qualified: bool,
    seen: Seen,
    summary: Summary,
    on_bytes: Callable[[int], None],
) -> Iterator[Document]:
    """The documents of one file, each line of a log once."""
    origin = Origin(name, reading.zone, is_qualified, reading.texts)

    def again() -> Iterator[Document]:
        reader = Reader(origin)
        return _read(reader, lines_of(path, name), Summary())

    def cut() -> None:
        summary.leave(Left(Line(name, 0, b""), CUT_FILE, is_dead=False))

    reader = Reader(origin)
    brokers = Brokers(path, name, again)
    for document in _read(reader, lines_of(path, name, on_bytes, cut), summary, seen):
        if document.broker is None and reading.broker is not None:
            document.broker = reading.broker
            brokers.note(document)
        elif document.broker is None and document.is_from_log:
            document.broker = brokers.of(document)
        yield document
    if reading.broker is not None and brokers.is_of_several():
        reading.warn(
            f"{name} seems to have lines of several brokers. All are read as those of broker"
            f" {reading.broker}: leave out --broker to tell them apart."
        )
    for zone in sorted(reader.unknown_zones):
        reading.warn(
            f"{name}: the time zone {zone} is not known. Its times are read as {reading.zone};"
            " pass --time-zone if that is wrong."
        )


def read_lines(
    lines: Iterable[Line], name: str, reading: Reading, summary: Summary
) -> Iterator[Document]:
    """The documents in the rows of a topic, without credentials."""
    for document in _read(Reader(Origin(name, reading.zone)), iter(lines), summary):
        if document.broker is None:
            document.broker = reading.broker
        yield document


def _read(
    reader: Reader, lines: Iterator[Line], summary: Summary, seen: Seen | None = None
) -> Iterator[Document]:
    """The documents in lines, without credentials; copies of lines are left out if `seen`."""
    for found in reader.read(summary.counted(lines)):
        if isinstance(found, Document):
            if seen is not None and found.is_from_log and not seen.is_new(found):
                summary.leave(Left(_line_of(found), REPEATED, is_dead=False))
                continue
            try:
                document = redacted(found)
            except RecursionError as error:
                summary.leave(dead_letter(_line_of(found), error))
            else:
                summary.made(document)
                yield document
        else:
            summary.leave(found)


def _line_of(document: Document) -> Line:
    number = document.place.rpartition(":")[2]
    return Line(document.source, int(number) if number.isdigit() else 0, b"")


def sort(documents: Iterable[Document], sorter: Sorter, summary: Summary) -> Needs:
    """Put documents into a sorter, and note what of the topics is needed to complete them."""
    arrivals = Arrivals()
    needs = Needs()
    topic_ids: set[bytes] = set()
    for document in documents:
        needs.add(document)
        key = document.header.request_api_key
        if key == FETCH.key:
            topic_ids.update(TOPIC_ID.findall(document.request))
        origin = "" if document.is_from_log else document.source
        connection = origin, document.broker, document.connection
        number = document.header.correlation_id if document.is_request else LAST
        time = arrivals.time(connection, document.time, number)
        turn = Turn(hash(connection), number)
        sorter.add(time, document.encoded(), key == PRODUCE.key, turn)
    needs.close()
    known = {topic_id.encode() for topic_id in needs.names}
    summary.nameless_topic_ids = len(topic_ids - known)
    return needs


class _Exchange(msgspec.Struct):
    time: int
    request: msgspec.Raw
    response: msgspec.Raw = NOT_ANSWERED


_exchange_decoder = msgspec.json.Decoder(_Exchange)
_fields_decoder = msgspec.json.Decoder(Fields)
_encoder = msgspec.json.Encoder()


def in_order(sorter: Sorter, completion: Completion) -> Iterator[bytes]:
    """The documents in order of arrival, Produce requests with the batch headers that are known."""
    for entry in sorter:
        if not entry.is_marked:
            yield entry.document
            continue
        produce = _exchange_decoder.decode(entry.document)
        request = completion.complete(produce.request, produce.response, produce.time)
        if request is produce.request:
            yield entry.document
        else:
            yield _encoder.encode(_fields_decoder.decode(entry.document) | {"request": request})


def completed(document: Document, completion: Completion) -> bytes:
    """A document, encoded; a Produce request with the batch headers that are known."""
    if document.header.request_api_key == PRODUCE.key:
        document.request = completion.complete(document.request, document.response, document.time)
    return document.encoded()
