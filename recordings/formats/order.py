"""Documents in the order in which their requests arrived.

A log is in order of completion: a request that waited long stands far behind those that came after
it, and there is no bound to that. So documents are sorted outside of memory: runs of at most
`RUN_BYTES` are sorted and written to one temporary file, and then merged. Ties go by the place in
the input. A connection's requests keep their order whatever their times say, because Kafka answers
them one after the other.
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
from itertools import groupby
from types import TracebackType
from typing import IO, NamedTuple, Self, TypeVar

from brokertwin.recordings.formats.documents import Document, compact

RUN_BYTES = 64 * 1024 * 1024
"""Documents of so many bytes are held in memory at a time."""

READ_BYTES = 256 * 1024
"""What is read of each run at once when runs are merged."""

WRAPPED = 2**30
"""A correlation id so much lower than the one before has begun again."""

LAST = 2**31
"""Stands for the correlation id of the end of a connection."""

_LOW = 2**32 - 1
_HEAD = struct.Struct(">qQ?qqI")


class Seen:
    """The exchanges of logs so far, to leave out copies: rotated files, overlapping exports.

    A connection's exchanges are kept as sorted numbers, 8 bytes each.
    """

    def __init__(self) -> None:
        self._held: dict[str, array[int]] = {}

    def is_new(self, document: Document) -> bool:
        """Whether no line had this connection, correlation id, time and bodies; keeps it."""
        header = document.header
        what = zlib.crc32(b"%d %d" % (header.correlation_id, header.request_api_key))
        for body in (document.request, document.response):
            what = zlib.crc32(compact(bytes(body)), what)
        number = (document.time & _LOW) << 32 | what
        held = self._held.setdefault(document.connection, array("Q"))
        at = bisect_left(held, number) if held and number <= held[-1] else len(held)
        if at < len(held) and held[at] == number:
            return False
        held.insert(at, number)
        return True


class Arrivals:
    """Gives times that keep the order of each connection.

    A client numbers its requests: a lower correlation id in a later line is an earlier request of
    a log whose lines are not in order, as those of an export.
    """

    def __init__(self) -> None:
        self._latest: dict[Hashable, tuple[int, int]] = {}

    def time(self, connection: Hashable, time: int, correlation_id: int = LAST) -> int:
        """The time, or that of the connection's request before if that is later."""
        latest, last_id = self._latest.get(connection, (time, correlation_id))
        if 0 < last_id - correlation_id < WRAPPED:
            return time
        kept = max(time, latest)
        self._latest[connection] = kept, correlation_id
        return kept


class Turn(NamedTuple):
    """A request's place among those of its connection."""

    connection: int
    correlation_id: int


class Entry(NamedTuple):
    """A document to be sorted.

    Attributes:
        time: of its arrival.
        place: in the input.
        is_marked: a mark of the caller's.
        connection, correlation_id: its turn.
        document: JSON.
    """

    time: int
    place: int
    is_marked: bool
    connection: int
    correlation_id: int
    document: bytes


FIRST = Turn(0, 0)
T = TypeVar("T")


def in_turn(
    entries: Iterable[T], time: Callable[[T], int], turn: Callable[[T], tuple[Hashable, int]]
) -> Iterator[T]:
    """Entries in order of time, those of one ms and one connection by correlation id.

    Args:
        entries: by time.
        time: of an entry.
        turn: connection and correlation id of an entry.
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

    Use it in a `with`: the temporary file goes at its end.

    Args:
        run_bytes: how much is held in memory.
    """

    def __init__(self, run_bytes: int = RUN_BYTES) -> None:
        self._run_bytes = run_bytes
        self._held: list[Entry] = []
        self._held_bytes = 0
        self._count = 0
        self._spans: list[tuple[int, int]] = []
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove the temporary file."""
        if self._file is not None:
            self._file.close()

    def add(self, time: int, document: bytes, is_marked: bool = False, turn: Turn = FIRST) -> None:
        """Take one more document."""
        self._held.append(Entry(time, self._count, is_marked, *turn, document))
        self._held_bytes += len(document)
        self._count += 1
        if self._held_bytes >= self._run_bytes:
            self._write_run()

    def __len__(self) -> int:
        """How many documents there are."""
        return self._count

    def __iter__(self) -> Iterator[Entry]:
        """All documents, in order."""
        return in_turn(self._sorted(), lambda each: each.time, lambda each: each[3:5])

    def _sorted(self) -> Iterator[Entry]:
        """All documents by time and place."""
        self._held.sort()
        if self._file is None:
            return iter(self._held)
        self._file.flush()
        runs = [_run(self._file.fileno(), start, end) for start, end in self._spans]
        return heapq.merge(*runs, self._held)

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


def _run(descriptor: int, start: int, end: int) -> Iterator[Entry]:
    """The entries of one run, read piece by piece."""
    held = b""
    while start < end or held:
        need = _HEAD.size
        if len(held) >= need:
            time, place, is_marked, connection, number, size = _HEAD.unpack_from(held)
            need += size
            if len(held) >= need:
                document = held[_HEAD.size : need]
                yield Entry(time, place, is_marked, connection, number, document)
                held = held[need:]
                continue
        piece = os.pread(descriptor, min(max(READ_BYTES, need), end - start), start)
        start += len(piece)
        held += piece
