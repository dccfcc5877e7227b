"""What the local engine asks of the file system, all of it, so that a test can break each step.

Every method raises OSError where the system does not do it.
"""

import os
from pathlib import Path
from typing import BinaryIO


class Disk:
    """The file system as it is."""

    def open(self, path: Path, mode: str) -> BinaryIO:
        """A file without a buffer of its own."""
        return path.open(mode, buffering=0)  # type: ignore[return-value]

    def write(self, file: BinaryIO, data: bytes) -> None:
        """Write until all is written; part of it may be written where it raises."""
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]

    def truncate(self, file: BinaryIO, size: int) -> None:
        """Cut a file to so many bytes."""
        file.truncate(size)

    def sync(self, handle: int) -> None:
        """Wait until what an open file has is on the device."""
        os.fsync(handle)

    def sync_directory(self, directory: Path) -> None:
        """Wait until the names in a directory are on the device."""
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def replace(self, source: Path, target: Path) -> None:
        """Give a file the name of another one, which goes: at once or not at all."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Delete a file, if it is there."""
        path.unlink(missing_ok=True)


DISK = Disk()


def sync_all(disk: Disk, handles: list[int]) -> None:
    """Sync open files in their order, and close the handles whatever comes."""
    try:
        for handle in handles:
            disk.sync(handle)
    finally:
        for handle in handles:
            os.close(handle)
