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
from brokertwin.recordings.audit.frequent import KEYS, Frequent, frequent_of
from brokertwin.recordings.formats import shapes
from brokertwin.recordings.formats.documents import (
    NO_RESPONSE,
    DecodedLine,
    Details,
    Document,
    has_spaces,
    is_controllers,
)
from brokertwin.recordings.formats.lines import SourceLine
from brokertwin.recordings.formats.order import digest_of
from brokertwin.recordings.formats.readers import FormatReader, Origin
from brokertwin.recordings.formats.request_log import host_of, usual_of
from brokertwin.state.core.events import RequestHeader

CHUNK_BYTES = 500_000
"""Bytes of lines that a process decodes at a time."""


class Decoded(msgspec.Struct, array_like=True, gc=False):
    """A line without what other lines show.

    Attributes:
        sent: its time, in ms since 1970.
        time: arrival of the request, in ms since 1970.
        digest: of the exchange, to recognize copies.
        key, correlation_id, connection, listener, is_forwarded: fields of the line.
        frequent: what else is known of the exchange.
    """

    sent: int
    time: int
    digest: int
    key: int
    correlation_id: int
    connection: str
    listener: str
    is_forwarded: bool
    frequent: Frequent

    def document(self, line: SourceLine) -> Document:
        """The document of a line, without the bodies that `frequent` has."""
        return Document(
            line.place,
            line.file,
            self.time,
            None,
            True,
            self.connection,
            RequestHeader(self.key, 0, self.correlation_id),
            NO_RESPONSE,
            NO_RESPONSE,
            {},
            read=Details(listener=self.listener, is_forwarded=self.is_forwarded),
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
    entry = reader.usual_entry(text)
    usual = usual_of(entry[1]) if entry is not None else None
    if entry is None or usual is None:
        return None
    header, request, response = usual.request_header, usual.request, usual.response
    if header.request_api_key not in KEYS or is_controllers(header, bytes(request)):
        return None
    try:
        shapes.check_bodies(header, request, response)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    sent, duration, connection = entry[0], usual.total_time_ms, usual.connection
    time = sent - math.ceil(duration)
    stages = time, duration, host_of(connection), usual
    found = frequent_of(header, request, response, *stages)
    if found is None:
        return None
    digest = digest_of(header, request, response, not has_spaces(entry[1]))
    key, number = header.request_api_key, header.correlation_id
    more = connection, usual.listener, usual.is_forwarded
    return Decoded(sent, time, digest, key, number, *more, found)
