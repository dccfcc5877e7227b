"""Sorts documents by the arrival of their requests.

A log is in order of completion, so a long-pending request can be far after later ones. Documents
are therefore sorted externally: runs of at most `RUN_BYTES` are sorted, written to one temporary
file, and merged. Ties are ordered by input position. Requests of a connection keep their order,
because Kafka handles them in sequence.
"""

import heapq
import os
import struct
import tempfile
import zlib
from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import partial
from itertools import groupby
from typing import IO, NamedTuple, Self, TypeVar

import msgspec

from brokertwin.recordings.formats.documents import Document, compact
from brokertwin.state.core.events import RequestHeader

RUN_BYTES = 64 * 1024 * 1024
"""Maximum bytes of documents in memory."""

READ_BYTES = 256 * 1024
"""Bytes read from each run at a time when merging."""

WRAPPED = 2**30
"""A correlation id that drops this much has wrapped."""

LAST = 2**31
"""Correlation id of the end of a connection."""

_LOW = 2**32 - 1
_HEAD = struct.Struct(">qQBqqI")


def digest_of(
    header: RequestHeader, request: msgspec.Raw, response: msgspec.Raw, is_compact: bool
) -> int:
    """A checksum of correlation id, API and bodies.

    `is_compact`: whether the bodies are certainly on one line without extra spaces.
    """
    digest = header.correlation_id << 8 ^ header.request_api_key
    for body in (request, response):
        shown = body if is_compact else compact(bytes(body))
        digest = zlib.crc32(shown, digest & _LOW)
    return digest


class Seen:
    """Exchanges seen so far, to skip copies: rotated files, overlapping exports.

    The exchanges of a connection are sorted numbers of 8 bytes.
    """

    def __init__(self) -> None:
        self._held: dict[str, array[int]] = {}

    def is_new(self, document: Document) -> bool:
        """Whether connection, correlation id, time and bodies are new; adds them."""
        digest = document.digest
        if digest is None:
            digest = digest_of(
                document.header, document.request, document.response, document.is_compact
            )
        number = (document.time & _LOW) << 32 | digest
        held = self._held.get(document.connection)
        if held is None:
            held = self._held[document.connection] = array("Q")
        at = bisect_left(held, number) if held and number <= held[-1] else len(held)
        if at < len(held) and held[at] == number:
            return False
        held.insert(at, number)
        return True


class ArrivalOrder:
    """Adjusts times to keep the order of each connection.

    Clients number their requests. A lower correlation id in a later line is an earlier request of
    an unordered log, such as an export.
    """

    def __init__(self) -> None:
        self._latest: dict[Hashable, tuple[int, int]] = {}

    def time(self, connection: Hashable, time: int, correlation_id: int = LAST) -> int:
        """Return the time, or that of the connection's last request if later."""
        latest, last_id = self._latest.get(connection, (time, correlation_id))
        if 0 < last_id - correlation_id < WRAPPED:
            return time
        kept = max(time, latest)
        self._latest[connection] = kept, correlation_id
        return kept


class OrderTurn(NamedTuple):
    """A request's position on its connection."""

    connection: int
    correlation_id: int


class OrderedLine(NamedTuple):
    """A document to sort.

    Attributes:
        place: input position.
        mark: a number of the caller, 0 to 255.
        connection, correlation_id: position on its connection.
        document: JSON.
    """

    time: int
    place: int
    mark: int
    connection: int
    correlation_id: int
    document: bytes


_entry = partial(tuple.__new__, OrderedLine)
"""Makes an `OrderedLine` in a third of the time."""

FIRST = OrderTurn(0, 0)
T = TypeVar("T")


def in_turn(
    entries: Iterable[T], time: Callable[[T], int], turn: Callable[[T], tuple[Hashable, int]]
) -> Iterator[T]:
    """Yield entries by time; within a ms and connection by correlation id.

    Args:
        entries: sorted by time.
        time: returns the time of an entry.
        turn: returns connection and correlation id of an entry.
    """
    for _, group in groupby(entries, time):
        same = list(group)
        if len(same) == 1:
            yield same[0]
            continue
        by_connection: dict[Hashable, deque[T]] = {}
        for each in same:
            by_connection.setdefault(turn(each)[0], deque()).append(each)
        for connection, own in by_connection.items():
            ids = [turn(each)[1] for each in own]
            if max(ids) - min(ids) < WRAPPED:
                by_connection[connection] = deque(sorted(own, key=lambda each: turn(each)[1]))
        for each in same:
            yield by_connection[turn(each)[0]].popleft()


class Sorter:
    """Sorts documents by time.

    Use it in a `with` statement, which removes the temporary file.

    Args:
        run_bytes: maximum bytes in memory.
    """

    def __init__(self, run_bytes: int = RUN_BYTES) -> None:
        self._run_bytes = run_bytes
        self._held: list[OrderedLine] = []
        self._held_bytes = 0
        self._count = 0
        self._spans: list[tuple[int, int]] = []
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the temporary file."""
        if self._file is not None:
            self._file.close()

    def add(self, time: int, document: bytes, mark: int = 0, turn: OrderTurn = FIRST) -> None:
        self._held.append(_entry((time, self._count, mark, *turn, document)))
        self._held_bytes += len(document)
        self._count += 1
        if self._held_bytes >= self._run_bytes:
            self._write_run()

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[OrderedLine]:
        """Yield all documents in order."""
        return in_turn(self.by_time(), lambda each: each.time, lambda each: each[3:5])

    def by_time(self) -> Iterator[OrderedLine]:
        """Yield all documents by time and input position."""
        self._held.sort()
        if self._file is None:
            return iter(self._held)
        self._file.flush()
        runs = [_run(self._file.fileno(), start, end) for start, end in self._spans]
        return heapq.merge(*runs, self._held)

    def flush(self) -> None:
        """Write the documents in memory to the temporary file."""
        if self._held:
            self._write_run()

    def _write_run(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="brokertwin-ingest-")  # noqa: SIM115
        self._held.sort()
        start = self._file.tell()
        for entry in self._held:
            head = _HEAD.pack(*entry[:-1], len(entry.document))
            self._file.write(head + entry.document)
        self._spans.append((start, self._file.tell()))
        self._held, self._held_bytes = [], 0


def _run(descriptor: int, start: int, end: int) -> Iterator[OrderedLine]:
    """Yield the entries of a run, read in pieces."""
    held, at = b"", 0
    while start < end or at < len(held):
        need = _HEAD.size
        if len(held) - at >= need:
            time, place, mark, connection, number, size = _HEAD.unpack_from(held, at)
            need += size
            if len(held) - at >= need:
                document = held[at + _HEAD.size : at + need]
                yield _entry((time, place, mark, connection, number, document))
                at += need
                continue
        piece = os.pread(descriptor, min(max(READ_BYTES, need), end - start), start)
        start += len(piece)
        held, at = held[at:] + piece, 0
