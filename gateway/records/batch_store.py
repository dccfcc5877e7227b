"""Where the local engine keeps the bytes of record batches: in memory or in files.

A locator names a place: in memory a number, in files the file, the first byte and the size. Files
only grow, and each start begins a new one. What no log has any more is collected: a file of which
nothing is left is deleted, one of which less than half is left is replaced by a copy with holes in
the other places, which takes no room on the device and leaves all locators as they are.
"""

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from brokertwin.gateway.engine.disk import DISK, Disk

FILE_BYTES = 64 * 1024 * 1024
"""A file that has reached this size is followed by the next one."""

BLOCK_BYTES = 4096
"""A file system frees whole blocks."""

_SUFFIX = ".batches"
_NEW = ".thinning"


class BatchStore(Protocol):
    """Bytes by locator."""

    def put(self, data: bytes) -> str:
        """Keep bytes; gives back their locator."""

    def get(self, locator: str) -> bytes | None:
        """The bytes, None where they are lost."""

    def keep(self, locator: str) -> None:
        """Note that a log has these bytes."""

    def drop(self, locator: str, was_kept: bool) -> None:
        """Forget bytes: no log has them (any more)."""

    def unsynced(self) -> list[int]:
        """Handles for `sync_all` of what was put since they were last given."""

    def is_garbage_due(self) -> bool:
        """Whether `collect` has something to do."""

    def collect(self, kept: Callable[[], Iterable[str]]) -> int:
        """Free the room of bytes that are not `kept`; gives back how many. Raises OSError."""

    def close(self) -> None:
        """Close files."""


class MemoryStore:
    """Batches in memory."""

    def __init__(self) -> None:
        self._batches: dict[str, bytes] = {}
        self._kept: dict[str, int] = {}
        """How many logs have what is at a locator."""
        self._count = 0

    def __len__(self) -> int:
        return len(self._batches)

    def put(self, data: bytes) -> str:
        """Keep bytes; gives back their locator."""
        self._count += 1
        locator = str(self._count)
        self._batches[locator] = data
        return locator

    def get(self, locator: str) -> bytes | None:
        """The bytes, None where they are lost."""
        return self._batches.get(locator)

    def keep(self, locator: str) -> None:
        """Note that a log has these bytes."""
        self._kept[locator] = self._kept.get(locator, 0) + 1

    def drop(self, locator: str, was_kept: bool) -> None:
        """Forget bytes that no other log has."""
        left = self._kept.pop(locator, 0) - was_kept
        if left > 0:
            self._kept[locator] = left
        else:
            self._batches.pop(locator, None)

    def unsynced(self) -> list[int]:
        """Memory has no device."""
        return []

    def is_garbage_due(self) -> bool:
        """It never has: what is dropped has gone."""
        return False

    def collect(self, _kept: Callable[[], Iterable[str]]) -> int:
        """Nothing is to be done."""
        return 0

    def close(self) -> None:
        """Nothing is to be done."""


class _Place(NamedTuple):
    """What a locator names."""

    number: int
    position: int
    size: int


class FileStore:
    """Batches in the files of a directory.

    Args:
        directory: made where it is not there.
        file_bytes: a file that has reached this size is followed by the next one.
        disk: what does it all.

    Raises:
        OSError: the directory or a file in it cannot be made.
    """

    def __init__(self, directory: Path, file_bytes: int = FILE_BYTES, disk: Disk = DISK) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._file_bytes = file_bytes
        self._disk = disk
        self._kept: Counter[int] = Counter()
        self._pending: set[str] = set()
        """What was put and is neither kept nor dropped yet: its request is on its way."""
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
        """Append bytes; gives back their locator. Raises OSError."""
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
        """The bytes, None where they are lost."""
        number, position, size = _place(locator)
        try:
            reader = self._readers.get(number) or self._disk.open(self._file(number), "rb")
        except FileNotFoundError:
            return None
        self._readers[number] = reader
        data = os.pread(reader.fileno(), size, position)
        return data if len(data) == size else None

    def keep(self, locator: str) -> None:
        """Note that a log has these bytes."""
        self._pending.discard(locator)
        self._kept[_place(locator).number] += 1

    def drop(self, locator: str, was_kept: bool) -> None:
        """Forget bytes; their room is freed by `collect`."""
        self._pending.discard(locator)
        place = _place(locator)
        self._dropped_bytes += place.size
        if was_kept:
            self._kept[place.number] -= 1

    def unsynced(self) -> list[int]:
        """Handles for `sync_all` of what was put since they were last given."""
        handles, self._unsynced = self._unsynced, []
        if self._has_unsynced:
            handles.append(os.dup(self._writer.fileno()))
        self._has_unsynced = False
        return handles

    def is_garbage_due(self) -> bool:
        """Whether a file is empty, or as much was dropped as goes into one."""
        return self._dropped_bytes >= self._file_bytes or any(True for _ in self._empty())

    def _empty(self) -> Iterable[int]:
        pending = {_place(locator).number for locator in self._pending}
        return (n for n in self._full if self._kept[n] <= 0 and n not in pending)

    def collect(self, kept: Callable[[], Iterable[str]]) -> int:
        """Free the room of bytes that are not `kept`; gives back how many. Raises OSError.

        What freed the bytes has to be on the device before.
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
        """Replace the files of which less than half is left."""
        left: dict[int, list[_Place]] = defaultdict(list)
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

    def _copy(self, number: int, places: list[_Place]) -> None:
        """Put a copy of these places of a file in its place."""
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
        """The bytes that a file takes on the device."""
        with suppress(FileNotFoundError):
            return self._file(number).stat().st_blocks * 512
        return 0

    def _forget_reader(self, number: int) -> None:
        reader = self._readers.pop(number, None)
        if reader is not None:
            reader.close()

    def close(self) -> None:
        """Close files."""
        for handle in self._unsynced:
            os.close(handle)
        for file in (self._writer, *self._readers.values()):
            file.close()

    def _open_next(self) -> BinaryIO:
        """A new file, also after a restart: the end of an old one may be torn."""
        file = self._disk.open(self._file(self._number + 1), "xb")
        self._number += 1
        self._disk.sync_directory(self._directory)
        return file

    def _file(self, number: int) -> Path:
        return self._directory / f"{number:08d}{_SUFFIX}"


def _place(locator: str) -> _Place:
    return _Place(*map(int, locator.split(":")))


def _room_of(places: Iterable[_Place]) -> int:
    """The bytes that places take at most on the device."""
    blocks: set[int] = set()
    for place in places:
        end = place.position + place.size
        blocks.update(range(place.position // BLOCK_BYTES, -(-end // BLOCK_BYTES)))
    return len(blocks) * BLOCK_BYTES
