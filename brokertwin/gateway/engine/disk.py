"""File system operations of the local engine; tests can make each one fail.

Every method raises OSError.
"""

import os
from pathlib import Path
from typing import BinaryIO, cast

from brokertwin.sinks.files import opened_privately


class Disk:
    """The real file system."""

    def open(self, path: Path, mode: str) -> BinaryIO:
        file = open(path, mode, buffering=0, opener=opened_privately)  # noqa: SIM115
        return cast("BinaryIO", file)

    def write(self, file: BinaryIO, data: bytes) -> None:
        """Write all data; after an error, part of it may be written."""
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]

    def truncate(self, file: BinaryIO, size: int) -> None:
        file.truncate(size)

    def sync(self, handle: int) -> None:
        os.fsync(handle)

    def sync_directory(self, directory: Path) -> None:
        """Sync a directory's names to the device."""
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)


DISK = Disk()


def sync_all(disk: Disk, handles: list[int]) -> None:
    """Sync open files in order, and close their descriptors in any case."""
    try:
        for handle in handles:
            disk.sync(handle)
    finally:
        for handle in handles:
            os.close(handle)
