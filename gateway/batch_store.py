"""Where the local engine keeps the bytes of record batches: in memory or in files.

A locator names a place: in memory a number, in files the file, the first byte and the size. Files
only grow; one whose batches have all gone below their logs' starts is deleted.
"""

from collections import Counter
from pathlib import Path
from typing import BinaryIO, Protocol

FILE_BYTES = 64 * 1024 * 1024
"""A file that has reached this size is followed by the next one."""

_SUFFIX = ".batches"


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

    def close(self) -> None:
        """Close files."""


class MemoryStore:
    """Batches in memory."""

    def __init__(self) -> None:
        self._batches: dict[str, bytes] = {}
        self._kept: Counter[str] = Counter()
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
        self._kept[locator] += 1

    def drop(self, locator: str, was_kept: bool) -> None:
        """Forget bytes that no other log has."""
        if was_kept:
            self._kept[locator] -= 1
        if self._kept[locator] <= 0:
            del self._kept[locator]
            self._batches.pop(locator, None)

    def close(self) -> None:
        """Nothing is to be done."""


class FileStore:
    """Batches in the files of a directory.

    Args:
        directory: made where it is not there.
        file_bytes: a file that has reached this size is followed by the next one.
    """

    def __init__(self, directory: Path, file_bytes: int = FILE_BYTES) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._file_bytes = file_bytes
        self._kept: Counter[int] = Counter()
        numbers = [int(file.stem) for file in directory.glob(f"*{_SUFFIX}")]
        self._number = max(numbers, default=0)
        self._writer = self._open_next()
        self._readers: dict[int, BinaryIO] = {}

    def put(self, data: bytes) -> str:
        """Append bytes; gives back their locator. Raises OSError."""
        if self._writer.tell() >= self._file_bytes:
            self._writer.close()
            self._writer = self._open_next()
        position = self._writer.tell()
        write_all(self._writer, data)
        return f"{self._number}:{position}:{len(data)}"

    def get(self, locator: str) -> bytes | None:
        """The bytes, None where they are lost."""
        number, position, size = (int(part) for part in locator.split(":"))
        try:
            reader = self._readers.get(number) or self._file(number).open("rb")
        except FileNotFoundError:
            return None
        self._readers[number] = reader
        reader.seek(position)
        data = reader.read(size)
        return data if len(data) == size else None

    def keep(self, locator: str) -> None:
        """Note that a log has these bytes."""
        self._kept[_number_of(locator)] += 1

    def drop(self, locator: str, was_kept: bool) -> None:
        """Forget bytes; the last ones of a file that is full take it with them."""
        if not was_kept:
            return
        number = _number_of(locator)
        self._kept[number] -= 1
        if self._kept[number] == 0 and number != self._number:
            reader = self._readers.pop(number, None)
            if reader is not None:
                reader.close()
            self._file(number).unlink(missing_ok=True)

    def close(self) -> None:
        """Close files."""
        for file in (self._writer, *self._readers.values()):
            file.close()

    def _open_next(self) -> BinaryIO:
        """A new file, also after a restart: the end of an old one may be torn."""
        self._number += 1
        return self._file(self._number).open("xb", buffering=0)

    def _file(self, number: int) -> Path:
        return self._directory / f"{number:08d}{_SUFFIX}"


def write_all(file: BinaryIO, data: bytes) -> None:
    """Write to an unbuffered file until all is written. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _number_of(locator: str) -> int:
    return int(locator.partition(":")[0])
