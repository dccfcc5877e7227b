"""Record batch bytes of the local engine, in memory or in files.

A locator is a number in memory, or file, first byte and size. Files are append-only, and each start
begins a new one. Garbage collection deletes a file without live batches, and replaces a file with
less than half of its bytes live by a sparse copy. Holes use no space, and all locators stay valid.
"""

import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from brokertwin.gateway.engine.disk import DISK, Disk
from brokertwin.state.core.records import (
    BatchAppended,
    LogCleaned,
    LogStartMoved,
    LogTaken,
    PartitionChanged,
    TopicRemoved,
)
from brokertwin.state.logs.cleaner import in_runs

OF_LOGS = BatchAppended | LogCleaned | LogStartMoved | LogTaken | PartitionChanged | TopicRemoved
"""Records that change the batches of a log, or its machine."""


FILE_BYTES = 64 * 1024 * 1024
"""A file of this size is full; the next one is opened."""

BLOCK_BYTES = 4096
"""File systems free whole blocks."""

_SUFFIX = ".batches"
_NEW = ".thinning"


class BatchStore(Protocol):
    def put(self, data: bytes) -> str:
        """Store bytes and return their locator."""

    def get(self, locator: str) -> bytes | None:
        """Return the bytes, or None if they are lost."""

    def keep(self, locator: str) -> None:
        """Add a reference: a log has these bytes."""

    def drop(self, locator: str, was_kept: bool) -> None:
        """Remove a reference, or drop bytes that no log ever had."""

    def unsynced(self) -> list[int]:
        """Return file descriptors for `sync_all` of writes since the last call."""

    def is_garbage_due(self) -> bool:
        """True if `collect` has something to do."""

    def collect(self, kept: Callable[[], Iterable[str]]) -> int:
        """Free the space of bytes that are not `kept`; return its size. Raises OSError."""

    def close(self) -> None:
        """Close all files."""


class MemoryStore:
    def __init__(self) -> None:
        self._batches: dict[str, bytes] = {}
        self._kept: dict[str, int] = {}
        """Reference count of each locator."""
        self._count = 0

    def __len__(self) -> int:
        return len(self._batches)

    def put(self, data: bytes) -> str:
        self._count += 1
        locator = str(self._count)
        self._batches[locator] = data
        return locator

    def get(self, locator: str) -> bytes | None:
        """Return the bytes, or None if they are lost."""
        return self._batches.get(locator)

    def keep(self, locator: str) -> None:
        self._kept[locator] = self._kept.get(locator, 0) + 1

    def drop(self, locator: str, was_kept: bool) -> None:
        """Remove a reference; delete the bytes after the last one."""
        left = self._kept.pop(locator, 0) - was_kept
        if left > 0:
            self._kept[locator] = left
        else:
            self._batches.pop(locator, None)

    def unsynced(self) -> list[int]:
        return []

    def is_garbage_due(self) -> bool:
        """Return False: `drop` frees memory at once."""
        return False

    def collect(self, _kept: Callable[[], Iterable[str]]) -> int:
        return 0

    def close(self) -> None:
        """Do nothing."""


class _StoredBatch(NamedTuple):
    """A parsed locator."""

    number: int
    position: int
    size: int


class FileBatchStore:
    """Batches in the files of a directory.

    Args:
        directory: created if missing.
        file_bytes: size of a full file.

    Raises:
        OSError: the directory or a file in it cannot be created.
    """

    def __init__(self, directory: Path, file_bytes: int = FILE_BYTES, disk: Disk = DISK) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._file_bytes = file_bytes
        self._disk = disk
        self._kept: Counter[int] = Counter()
        self._pending: set[str] = set()
        """Stored, but not yet referenced or dropped: the request is in flight."""
        self._dropped_bytes = 0
        for left in directory.glob(f"*{_NEW}"):
            disk.remove(left)
        self._full = {int(file.stem) for file in directory.glob(f"*{_SUFFIX}")}
        self._number = max(self._full, default=0)
        self._readers: dict[int, BinaryIO] = {}
        self._unsynced: list[int] = []
        self._writer = self._open_next()
        self._end = 0
        self._has_unsynced = False

    def put(self, data: bytes) -> str:
        """Append bytes and return their locator. Raises OSError."""
        if self._end >= self._file_bytes:
            self._begin_next()
        position = self._end
        try:
            self._disk.write(self._writer, data)
        finally:
            self._end = self._writer.tell()
        self._has_unsynced = True
        locator = f"{self._number}:{position}:{len(data)}"
        self._pending.add(locator)
        return locator

    def _begin_next(self) -> None:
        former, number = self._writer, self._number
        self._writer = self._open_next()
        self._end = 0
        self._full.add(number)
        if self._has_unsynced:
            self._unsynced.append(os.dup(former.fileno()))
        self._has_unsynced = False
        former.close()

    def get(self, locator: str) -> bytes | None:
        """Return the bytes, or None if they are lost."""
        number, position, size = _place(locator)
        try:
            reader = self._readers.get(number) or self._disk.open(self._file(number), "rb")
        except FileNotFoundError:
            return None
        self._readers[number] = reader
        data = os.pread(reader.fileno(), size, position)
        return data if len(data) == size else None

    def keep(self, locator: str) -> None:
        self._pending.discard(locator)
        self._kept[_place(locator).number] += 1

    def drop(self, locator: str, was_kept: bool) -> None:
        """Remove a reference; `collect` frees the space."""
        self._pending.discard(locator)
        place = _place(locator)
        self._dropped_bytes += place.size
        if was_kept:
            self._kept[place.number] -= 1

    def unsynced(self) -> list[int]:
        """Return file descriptors for `sync_all` of writes since the last call."""
        handles, self._unsynced = self._unsynced, []
        if self._has_unsynced:
            handles.append(os.dup(self._writer.fileno()))
        self._has_unsynced = False
        return handles

    def is_garbage_due(self) -> bool:
        """True if a file has no live batch, or dropped bytes exceed a file's size."""
        return self._dropped_bytes >= self._file_bytes or any(True for _ in self._empty())

    def _empty(self) -> Iterable[int]:
        pending = {_place(locator).number for locator in self._pending}
        return (n for n in self._full if self._kept[n] <= 0 and n not in pending)

    def collect(self, kept: Callable[[], Iterable[str]]) -> int:
        """Free the space of bytes that are not `kept`; return its size. Raises OSError.

        The records that dropped the bytes must be synced before.
        """
        freed = 0
        for number in list(self._empty()):
            freed += self._room(number)
            self._forget_reader(number)
            self._disk.remove(self._file(number))
            self._full.discard(number)
            del self._kept[number]
        if self._dropped_bytes >= self._file_bytes:
            self._dropped_bytes = 0
            freed += self._thin_out({*kept(), *self._pending})
        return freed

    def _thin_out(self, kept: Iterable[str]) -> int:
        """Replace full files with less than half of their space live."""
        left: dict[int, list[_StoredBatch]] = defaultdict(list)
        for locator in kept:
            place = _place(locator)
            if place.number in self._full:
                left[place.number].append(place)
        freed = 0
        for number, places in left.items():
            room = self._room(number)
            if 2 * _room_of(places) < room:
                self._copy(number, sorted(places))
                freed += room - self._room(number)
        return freed

    def _copy(self, number: int, places: list[_StoredBatch]) -> None:
        """Replace a file by a sparse copy with these batches."""
        path, new = self._file(number), self._file(number).with_suffix(_NEW)
        try:
            with self._disk.open(path, "rb") as source, self._disk.open(new, "xb") as target:
                for place in places:
                    target.seek(place.position)
                    data = os.pread(source.fileno(), place.size, place.position)
                    self._disk.write(target, data)
                self._disk.sync(target.fileno())
            self._disk.replace(new, path)
        except OSError:
            with suppress(OSError):
                self._disk.remove(new)
            raise
        self._forget_reader(number)

    def _room(self, number: int) -> int:
        with suppress(FileNotFoundError):
            return self._file(number).stat().st_blocks * 512
        return 0

    def _forget_reader(self, number: int) -> None:
        reader = self._readers.pop(number, None)
        if reader is not None:
            reader.close()

    def close(self) -> None:
        for handle in self._unsynced:
            os.close(handle)
        for file in (self._writer, *self._readers.values()):
            file.close()

    def _open_next(self) -> BinaryIO:
        """Open a new file, also after a restart: the last one may be torn."""
        file = self._disk.open(self._file(self._number + 1), "xb")
        self._number += 1
        self._disk.sync_directory(self._directory)
        return file

    def _file(self, number: int) -> Path:
        return self._directory / f"{number:08d}{_SUFFIX}"


def _place(locator: str) -> _StoredBatch:
    return _StoredBatch(*map(int, locator.split(":")))


def _room_of(places: Iterable[_StoredBatch]) -> int:
    """Return the maximum disk space of batches."""
    blocks: set[int] = set()
    for place in places:
        end = place.position + place.size
        blocks.update(range(place.position // BLOCK_BYTES, -(-end // BLOCK_BYTES)))
    return len(blocks) * BLOCK_BYTES


class KeptBatch(NamedTuple):
    last_offset: int
    locator: str


LogKey = tuple[int, str, int]
"""Broker, topic id, partition: one for each replica."""


class KeptBatches:
    """The batches of all logs.

    Attributes:
        appended: locators appended since the caller last cleared it.
        dropped: number of batches that logs have dropped.
    """

    def __init__(self, store: BatchStore) -> None:
        self.appended: set[str] = set()
        self.dropped = 0
        self._store = store
        self._kept: dict[LogKey, deque[KeptBatch]] = {}

    def follow(self, machine: int, record: OF_LOGS) -> None:
        """Apply a record: add new batches, drop those below the log start or without a log."""
        if isinstance(record, BatchAppended):  # most records
            batch = record.batch
            if batch.locator is not None:
                key = (machine, record.topic_id, record.partition)
                last_offset = batch.base_offset + batch.last_offset_delta
                self._kept.setdefault(key, deque()).append(KeptBatch(last_offset, batch.locator))
                self._store.keep(batch.locator)
                self.appended.add(batch.locator)
            return
        if isinstance(record, TopicRemoved):
            self._forget_topic(machine, record.topic_id)
            return
        place = (record.topic_id, record.partition)
        if isinstance(record, LogStartMoved):
            self._drop_below((machine, *place), record.log_start_offset)
        elif isinstance(record, LogCleaned):
            self._keep_cleaned((machine, *place), record)
        elif isinstance(record, LogTaken):
            self._take_over(machine, place)
        elif machine == record.leader and (record.former_leader, *place) in self._kept:
            self._kept[machine, *place] = self._kept.pop((record.former_leader, *place))

    def locators(self) -> Iterator[str]:
        """Yield all referenced locators, with repeats."""
        for kept in self._kept.values():
            for each in kept:
                yield each.locator

    def all(self) -> list[tuple[LogKey, list[KeptBatch]]]:
        return [(key, list(kept)) for key, kept in self._kept.items()]

    def restore(self, key: LogKey, kept: Iterable[KeptBatch]) -> None:
        for each in kept:
            self._add(key, each)

    def _add(self, key: LogKey, kept: KeptBatch) -> None:
        self._kept.setdefault(key, deque()).append(kept)
        self._store.keep(kept.locator)

    def _take_over(self, machine: int, place: tuple[str, int]) -> None:
        """A follower took its leader's log: reference the bytes of all replicas.

        Each replica may have cleaned its own.
        """
        replicas = [kept for key, kept in self._kept.items() if key[1:] == place]
        taken = sorted(set().union(*replicas))
        for kept in taken:
            self._store.keep(kept.locator)
        for kept in self._kept.pop((machine, *place), deque()):
            self._drop(kept)
        if taken:
            self._kept[machine, *place] = deque(taken)

    def _keep_cleaned(self, key: LogKey, record: LogCleaned) -> None:
        """Drop the bytes below the end of a pass, except for those it kept."""
        before = self._kept.get(key, deque())
        left = [
            KeptBatch(batch.last_offset, batch.locator)
            for batch in record.batches
            if batch.locator is not None
        ]
        unchanged = set(in_runs(before, record.unchanged))
        later = [kept for kept in before if kept.last_offset >= record.end_offset]
        self._kept[key] = deque([*sorted([*left, *unchanged]), *later])
        for kept in left:
            self._store.keep(kept.locator)
        for kept in before:
            if kept.last_offset < record.end_offset and kept not in unchanged:
                self._drop(kept)

    def _forget_topic(self, machine: int, topic_id: str) -> None:
        for key in [key for key in self._kept if key[:2] == (machine, topic_id)]:
            for kept in self._kept.pop(key):
                self._drop(kept)

    def _drop_below(self, key: LogKey, start: int) -> None:
        kept = self._kept.get(key, deque())
        while kept and kept[0].last_offset < start:
            self._drop(kept.popleft())

    def _drop(self, kept: KeptBatch) -> None:
        self.dropped += 1
        self._store.drop(kept.locator, True)
