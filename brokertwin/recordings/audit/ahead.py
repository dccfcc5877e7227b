"""Decodes lines of files in other processes, ahead of the one that reads the files.

They decode frequent requests in Kafka's default layout. All that depends on other lines stays with
the reading process: brokers, copies, arrivals, and facts. It reads all other lines itself.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from datetime import tzinfo
from functools import partial
from typing import Self

import msgspec

from brokertwin.processes import Forked
from brokertwin.recordings.audit.frequent import Frequent, frequent
from brokertwin.recordings.formats import shapes
from brokertwin.recordings.formats.documents import (
    DecodedLine,
    Details,
    Document,
    is_controllers,
)
from brokertwin.recordings.formats.lines import SourceLine
from brokertwin.recordings.formats.order import digest_of
from brokertwin.recordings.formats.readers import FormatReader, Origin
from brokertwin.state.core.events import RequestHeader

CHUNK_BYTES = 500_000
"""Bytes of lines that a process decodes at a time."""


class Decoded(msgspec.Struct, array_like=True):
    """A line without what other lines show.

    Attributes:
        sent: its time, in ms since 1970.
        time: arrival of the request, in ms since 1970.
        digest: of the exchange, to recognize copies.
        header: API key, API version, correlation id, client id.
        request, response: the bodies, JSON.
        connection, host, listener, is_forwarded: fields of the line.
        frequent: what else is known of the exchange.
    """

    sent: int
    time: int
    digest: int
    header: tuple[int, int, int, str | None]
    request: bytes
    response: bytes
    connection: str
    host: str
    listener: str
    is_forwarded: bool
    frequent: Frequent

    def document(self, line: SourceLine) -> Document:
        """The document of a line."""
        return Document(
            line.place,
            line.file,
            self.time,
            None,
            True,
            self.connection,
            RequestHeader(*self.header),
            msgspec.Raw(self.request),
            msgspec.Raw(self.response),
            {},
            read=Details(host=self.host, listener=self.listener, is_forwarded=self.is_forwarded),
            digest=self.digest,
            decoded=self.frequent,
        )


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Decoded | None])


class DecodersAhead:
    """Processes that decode lines.

    Use it in a `with` statement, which ends the processes.

    Args:
        jobs: number of processes.
        zone: zone of the JVMs that wrote the logs.
    """

    def __init__(self, jobs: int, zone: tzinfo) -> None:
        self._jobs = jobs
        self._pool = Forked(jobs, partial(decoded, zone))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.__exit__()

    def lines(self, lines: Iterable[SourceLine]) -> Iterator[SourceLine]:
        """Yield lines, decoded where that is possible. Raises UserError: a process was killed."""
        running: deque[tuple[list[SourceLine], Future[bytes]]] = deque()
        for part in _parts(lines):
            running.append((part, self._pool.do([each.text for each in part])))
            if len(running) > 2 * self._jobs:
                yield from _joined(*running.popleft())
        while running:
            yield from _joined(*running.popleft())


def decoded(zone: tzinfo, texts: Sequence[bytes]) -> bytes:
    """Decode lines; return encoded what `Decoded` has of each, or None."""
    reader = FormatReader(Origin("", zone))
    return _encoder.encode([_decoded(reader, text) for text in texts])


def _parts(lines: Iterable[SourceLine]) -> Iterator[list[SourceLine]]:
    part: list[SourceLine] = []
    size = 0
    for line in lines:
        part.append(line)
        size += len(line.text)
        if size >= CHUNK_BYTES:
            yield part
            part, size = [], 0
    yield part


def _joined(part: list[SourceLine], future: Future[bytes]) -> Iterator[SourceLine]:
    for line, found in zip(part, _decoder.decode(future.result()), strict=True):
        if found is None:
            yield line
        else:
            made = DecodedLine(*line)
            made.sent, made.document = found.sent, found.document(line)
            yield made


def _decoded(reader: FormatReader, text: bytes) -> Decoded | None:
    document = reader.usual(SourceLine("", 0, text))
    if not isinstance(document, Document) or document.read is None:
        return None
    header, details = document.header, document.read
    if is_controllers(header, bytes(document.request)):
        return None
    try:
        shapes.check(document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    found = frequent(document)
    if found is None:
        return None
    return Decoded(
        document.time + math.ceil(details.response_time),
        document.time,
        digest_of(document),
        (
            *(header.request_api_key, header.request_api_version, header.correlation_id),
            header.client_id,
        ),
        bytes(document.request),
        bytes(document.response),
        document.connection,
        details.host,
        details.listener,
        details.is_forwarded,
        found,
    )
