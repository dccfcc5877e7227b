"""From files or topics to documents in arrival order."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, tzinfo
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from brokertwin.errors import UserError
from brokertwin.protocol.kafka_apis import FETCH, PRODUCE
from brokertwin.recordings.formats import shapes
from brokertwin.recordings.formats.batches import Completion, Needs
from brokertwin.recordings.formats.brokers import Brokers
from brokertwin.recordings.formats.documents import (
    NO_RESPONSE,
    Document,
    Fields,
    Texts,
    UnpairedDocuments,
    redacted,
)
from brokertwin.recordings.formats.lines import SourceLine, lines_of, names_of, spooled
from brokertwin.recordings.formats.order import LAST, ArrivalOrder, OrderTurn, Seen, Sorter
from brokertwin.recordings.formats.prefilter import NeededLines, Prefilter
from brokertwin.recordings.formats.readers import FormatReader, Origin, dead_letter
from brokertwin.recordings.formats.stamps import DateOrder, order_of_dates
from brokertwin.recordings.formats.summary import Summary
from brokertwin.unpacked import CUT

Source = Callable[[Summary], Iterator[Document]]
"""A source of documents, which counts unreadable ones in a summary."""

REPEATED = "a copy of a line that came before"

TOPIC_ID = re.compile(rb'"topicId":"([^"]{22})"')


class FileReading(NamedTuple):
    """How to read logs.

    Attributes:
        broker: the broker of the logs; None finds it by content or file name.
        zone: zone of the JVMs that wrote them.
        warn: called with warnings about times and cut files.
        texts: accepted text logs.
        needed: the lines that are needed; None reads all.
        ahead: decodes lines before they are read.
    """

    broker: int | None = None
    zone: tzinfo = UTC
    warn: Callable[[str], None] = lambda _: None
    texts: Texts = Texts.NONE
    needed: NeededLines | None = None
    ahead: Callable[[Iterator[SourceLine]], Iterator[SourceLine]] = lambda lines: lines


def zone_of(name: str) -> tzinfo:
    """Return a time zone by name. Raises UserError: it does not exist."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UserError(
            f"Unknown time zone {name}.",
            "Pass the zone of the JVM that wrote the log, such as Europe/Berlin or UTC.",
        ) from None


def read_files(
    paths: Sequence[Path],
    reading: FileReading,
    summary: Summary,
    on_bytes: Callable[[int], None] = lambda _: None,
) -> Iterator[Document]:
    """Yield the documents of files in line order, without credentials.

    Raises:
        UserError: a file is unreadable, or its broker is unknown.
        DisorderedError: lines were skipped that cannot be skipped.
    """
    seen = Seen()
    prefilter = Prefilter(reading.needed) if reading.needed is not None else None
    for path, name in zip(paths, names_of(paths), strict=True):
        with spooled(path) as file:
            log = LogFile(file, name, reading, len(paths) > 1)

            def cut(name: str = name) -> None:
                reading.warn(f"{name}: {CUT}")

            lines = reading.ahead(lines_of(file, name, on_bytes, cut))
            if prefilter is not None:
                lines = prefilter.lines(lines, log.reader, summary.skipped)
            for document in log.documents(lines, summary, seen):
                if prefilter is not None:
                    prefilter.take(document)
                yield document
            log.warn()


class LogFile:
    """Reads the lines of one file, and finds the brokers of its documents.

    Args:
        path: the file.
        name: its name in the lines.
        reading: how logs are read.
        is_qualified: whether connections of captures get the file's name as a prefix.
    """

    def __init__(self, path: Path, name: str, reading: FileReading, is_qualified: bool) -> None:
        self._path = path
        self._name = name
        self._reading = reading
        self._origin = Origin(
            name, reading.zone, is_qualified, reading.texts, cache(self._date_order)
        )
        self.reader = FormatReader(self._origin)
        self._brokers = Brokers(path, name, self._again)

    def documents(
        self, lines: Iterator[SourceLine], summary: Summary, seen: Seen, is_whole: bool = True
    ) -> Iterator[Document]:
        """Yield the documents of lines, without copies.

        Args:
            lines: the lines after those read before.
            summary: counts them.
            seen: knows the documents before.
            is_whole: whether no line follows.

        Raises:
            UserError: the broker is unknown.
        """
        broker, brokers = self._reading.broker, self._brokers
        for document in read_with(self.reader, lines, summary, seen, is_whole):
            if document.broker is None and broker is not None:
                document.broker = broker
                brokers.note(document)
            elif document.broker is None and document.is_from_log:
                document.broker = brokers.of(document)
            yield document

    def warn(self) -> None:
        reading, name = self._reading, self._name
        if reading.broker is not None and self._brokers.is_of_several():
            reading.warn(
                f"{name} seems to have lines of several brokers. All are read as those of broker"
                f" {reading.broker}: leave out --broker to tell them apart."
            )
        for zone in sorted(self.reader.unknown_zones):
            reading.warn(
                f"{name}: the time zone {zone} is not known. Its times are read as {reading.zone};"
                " pass --time-zone if that is wrong."
            )

    def _again(self) -> Iterator[Document]:
        return read_with(FormatReader(self._origin), lines_of(self._path, self._name), Summary())

    def _date_order(self) -> DateOrder:
        name, warn = self._name, self._reading.warn
        order = order_of_dates(line.text for line in lines_of(self._path, name))
        if not order.is_shown:
            warn(
                f"{name}: dates such as {order.example} are read with the {order.order}."
                " Nothing in the file shows the order."
            )
        elif order.is_in_future:
            warn(
                f"{name}: dates such as {order.example} are read with the {order.order}, although"
                " they are in the future then. In no other order they are in the past."
            )
        return order.order


def read_lines(
    lines: Iterable[SourceLine], name: str, reading: FileReading, summary: Summary
) -> Iterator[Document]:
    """Yield the documents of topic rows, without credentials."""
    for document in read_with(FormatReader(Origin(name, reading.zone)), iter(lines), summary):
        if document.broker is None:
            document.broker = reading.broker
        yield document


def read_with(
    reader: FormatReader,
    lines: Iterator[SourceLine],
    summary: Summary,
    seen: Seen | None = None,
    is_whole: bool = True,
) -> Iterator[Document]:
    """Yield the documents of lines; `seen` removes copies. Further lines follow if not whole."""
    for found in reader.read(summary.counted(lines), is_whole):
        if isinstance(found, Document):
            if seen is not None and found.is_from_log and not seen.is_new(found):
                summary.leave(UnpairedDocuments(_line_of(found), REPEATED, is_dead=False))
                continue
            try:
                if found.decoded is None:
                    shapes.check(found)
                document = redacted(found)
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
                summary.leave(dead_letter(_line_of(found), error))
            else:
                summary.made(document)
                yield document
        else:
            summary.leave(found)


def _line_of(document: Document) -> SourceLine:
    number = document.place.rpartition(":")[2]
    return SourceLine(document.source, int(number) if number.isdigit() else 0, b"")


def sort(documents: Iterable[Document], sorter: Sorter, summary: Summary) -> Needs:
    """Add documents to a sorter; returns the data needed to complete them."""
    arrivals = ArrivalOrder()
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
        turn = OrderTurn(hash(connection), number)
        sorter.add(time, document.encoded(), key == PRODUCE.key, turn)
    needs.close()
    ids = {topic_id.encode() for topic_id in needs.names}
    summary.nameless_topic_ids = len(topic_ids - ids)
    return needs


class _Exchange(msgspec.Struct):
    time: int
    request: msgspec.Raw
    response: msgspec.Raw = NO_RESPONSE


_exchange_decoder = msgspec.json.Decoder(_Exchange)
_fields_decoder = msgspec.json.Decoder(Fields)
_encoder = msgspec.json.Encoder()


def in_order(sorter: Sorter, completion: Completion) -> Iterator[bytes]:
    """Yield documents in arrival order, with known batch headers."""
    for entry in sorter:
        if not entry.mark:
            yield entry.document
            continue
        produce = _exchange_decoder.decode(entry.document)
        request = completion.complete(produce.request, produce.response, produce.time)
        if request is produce.request:
            yield entry.document
        else:
            yield _encoder.encode(_fields_decoder.decode(entry.document) | {"request": request})
