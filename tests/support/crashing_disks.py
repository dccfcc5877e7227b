"""File systems on which a process is killed, a machine loses its power, or no room is left."""

import errno
import os
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from brokertwin.gateway.engine.disk import Disk


class Lost(Enum):
    """What of that which was not synced is lost when a process ends."""

    NOTHING = "nothing"
    BYTES = "bytes"
    BYTES_AND_NAMES = "bytes and names"


class CrashError(Exception):
    """The process has been killed; nothing in it may take notice."""


class CrashingDisk(Disk):
    """Kills the process at its operation `at`, of which a part may have been done; 0: never.

    Attributes:
        done: how many operations there were.
    """

    def __init__(self, at: int = 0) -> None:
        self.at = at
        self.done = 0
        self.steps: list[str] = []
        self._files: dict[int, tuple[int, int]] = {}
        """By inode: a handle of our own, and how many bytes of it are on the device."""
        self._opened: list[BinaryIO] = []
        self._names: dict[Path, dict[str, int]] = {}
        """The names that are on the device, by directory, and their inodes."""

    def _step(self, name: str) -> bool:
        """Whether the process is killed here; from then on at each operation."""
        self.done += 1
        self.steps.append(name)
        return 0 < self.at <= self.done

    def _crash_at(self, name: str) -> None:
        if self._step(name):
            raise CrashError(name)

    def open(self, path: Path, mode: str) -> BinaryIO:
        if mode != "rb":
            self._crash_at("open")
            if path.parent not in self._names:
                self._names[path.parent] = _files_in(path.parent)
        file = super().open(path, mode)
        self._opened.append(file)
        status = os.fstat(file.fileno())
        if status.st_ino not in self._files:
            self._files[status.st_ino] = (os.open(path, os.O_RDWR), status.st_size)
        return file

    def write(self, file: BinaryIO, data: bytes) -> None:
        if self._step("write"):
            file.write(data[: len(data) // 2])
            raise CrashError("write")
        super().write(file, data)

    def truncate(self, file: BinaryIO, size: int) -> None:
        self._crash_at("truncate")
        super().truncate(file, size)

    def sync(self, handle: int) -> None:
        self._crash_at("sync")
        status = os.fstat(handle)
        own, _ = self._files[status.st_ino]
        self._files[status.st_ino] = (own, status.st_size)

    def sync_directory(self, directory: Path) -> None:
        self._crash_at("sync directory")
        self._names[directory] = _files_in(directory)

    def replace(self, source: Path, target: Path) -> None:
        self._crash_at("replace")
        super().replace(source, target)

    def remove(self, path: Path) -> None:
        if path.exists():
            self._crash_at("remove")
        super().remove(path)

    def end(self, lost: Lost) -> None:
        """Act as the system after a crash: close files; after a power loss, drop unsynced data.

        These are unsynced bytes and directory entries changed since the directory's last sync.
        """
        for file in self._opened:
            file.close()
        for directory, names in self._names.items():
            if lost is not Lost.NOTHING:
                self._lose(directory, names if lost is not Lost.BYTES else _files_in(directory))
        for handle, _ in self._files.values():
            os.close(handle)

    def _lose(self, directory: Path, names: dict[str, int]) -> None:
        kept = {}
        for name, inode in names.items():
            if inode in self._files:
                handle, size = self._files[inode]
                kept[name] = os.pread(handle, size, 0)
        for path in directory.iterdir():
            if path.is_file() and path.stat().st_ino in self._files:
                path.unlink()
        for name, data in kept.items():
            (directory / name).write_bytes(data)


def _files_in(directory: Path) -> dict[str, int]:
    return {each.name: each.stat().st_ino for each in directory.iterdir() if each.is_file()}


class FullDisk(Disk):
    """Reject writes while `is_full`; half of a write still fits."""

    def __init__(self) -> None:
        self.is_full = False

    def write(self, file: BinaryIO, data: bytes) -> None:
        if self.is_full:
            file.write(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(file, data)
