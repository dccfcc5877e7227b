"""The journal of the local engine: its events, one on a line, replayed at the next start.

A line is the CRC-32 of a JSON document in eight hexadecimal digits, a space, and the document.
Other lines have the settings of the following events. A compacted journal begins with the lines of
a snapshot (`journal_snapshot.py`). An incomplete last line is dropped; a damaged earlier line is an
error. A line is written before its response is sent, so it survives the process. When it is synced,
and so survives a power failure, is the engine's policy (`unsynced`). Requests that only read
(`KafkaApi.only_reads`) are omitted: what they change in memory, such as fetch sessions, ends with a
broker process.

A compaction writes a new file beside the journal and renames it:

    snapshot written to FILE.compacting, synced       in a thread; events are appended to FILE
    later events copied after it, synced              in the event loop, as the next step
    FILE.compacting renamed to FILE, directory synced

At every moment FILE is a complete journal with the same state.
"""

import errno
import fcntl
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from brokertwin.errors import UserError
from brokertwin.gateway.engine.disk import DISK, Disk

COMPACTED_FROM_BYTES = 16 * 1024 * 1024
"""Smaller journals are not compacted: they are replayed within seconds."""

_CRC_DIGITS = 8
_NEW = ".compacting"


def cluster_of(path: Path) -> str | None:
    """Return the name of the cluster in a journal; None without settings or a file."""
    try:
        with path.open("rb") as lines:
            for line in lines:
                document = _document(line)
                if document is not None and document.startswith(b'{"settings"'):
                    return str(msgspec.json.decode(document)["settings"]["cluster"])
    except OSError:
        pass  # opening it gives the error
    return None


class Journal:
    """A journal file, locked by one process at a time.

    Args:
        path: the file; created if missing.
        compacted_from: minimum size in bytes of a compaction.

    Attributes:
        size: size of the file in bytes, after `replay`.
        dropped_bytes: size of a dropped torn tail, after `replay`.
        is_broken: whether the file's content is unknown; it accepts no more writes.

    Raises:
        UserError: it cannot be opened, or another process has locked it.
    """

    def __init__(
        self, path: Path, disk: Disk = DISK, compacted_from: int = COMPACTED_FROM_BYTES
    ) -> None:
        self.path = path
        self.size = 0
        self.dropped_bytes = 0
        self.is_broken = False
        self._disk = disk
        self._compacted_from = compacted_from
        self._snapshot_size = 0
        self._has_unsynced = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._held()
            disk.remove(self._new_path)  # left over from an interrupted compaction
            disk.sync_directory(path.parent)
        except OSError as error:
            raise UserError(f"Cannot open the journal {path}: {error.strerror}.") from None

    @property
    def _new_path(self) -> Path:
        return self.path.with_name(self.path.name + _NEW)

    def _held(self) -> BinaryIO:
        """Open and lock the file; retry if it was replaced before the lock."""
        while True:
            file = self._disk.open(self.path, "a+b")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                raise UserError(
                    f"Another gateway uses the journal {self.path}.",
                    "Stop it, or pass another --journal.",
                ) from None
            if os.path.samestat(os.fstat(file.fileno()), self.path.stat()):
                return file
            file.close()

    def replay(self) -> Iterator[bytes]:
        """Yield the documents in order, then truncate a torn tail.

        Raises:
            UserError: a line before the last one is damaged.
        """
        bad_line = 0
        with self.path.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                document = _document(line)
                if document is None:
                    bad_line = bad_line or number
                    continue
                if bad_line:
                    raise UserError(
                        f"The journal {self.path} is damaged at line {bad_line}.",
                        "Restore it from a backup, or pass another --journal.",
                    )
                self.size += len(line)
                yield document
        self.dropped_bytes = self.path.stat().st_size - self.size
        if self.dropped_bytes:
            self._disk.truncate(self._file, self.size)

    def snapshot_read(self) -> None:
        """Note that the documents replayed so far are the snapshot."""
        self._snapshot_size = self.size

    def write(self, document: bytes) -> None:
        """Append a document completely or not at all. Raises OSError."""
        if self.is_broken:
            raise OSError(errno.EIO, "an earlier write failed; restart the gateway")
        line = _line(document)
        try:
            self._disk.write(self._file, line)
        except OSError:
            self._cut_back()
            raise
        self.size += len(line)
        self._has_unsynced = True

    def _cut_back(self) -> None:
        try:
            self._disk.truncate(self._file, self.size)
            self._file.seek(self.size)  # a compaction's file is not in append mode
        except OSError:
            self.is_broken = True

    def write_settings(self, settings: dict[str, Any]) -> None:
        self.write(msgspec.json.encode({"settings": settings}))

    def unsynced(self) -> list[int]:
        """Return a descriptor for `sync_all` if there are writes since the last call."""
        if not self._has_unsynced:
            return []
        self._has_unsynced = False
        return [os.dup(self._file.fileno())]

    @property
    def is_compaction_due(self) -> bool:
        """True if the journal is twice the size of its snapshot, and above the minimum."""
        return self.size >= max(self._compacted_from, 2 * self._snapshot_size)

    def compaction(self) -> "Compaction":
        return Compaction(self, self._disk, self._new_path)

    def taken_over(self, file: BinaryIO, size: int, snapshot_size: int) -> None:
        """Switch to the new file of a compaction."""
        self._file.close()
        self._file, self.size, self._snapshot_size = file, size, snapshot_size
        self._has_unsynced = False

    def put_off(self) -> None:
        """Postpone the next compaction after a failure."""
        self._snapshot_size = max(self.size, self._compacted_from)

    def since(self, size: int) -> bytes:
        return os.pread(self._file.fileno(), self.size - size, size)

    def close(self) -> None:
        self._file.close()


class Compaction:
    """New file of a journal. The caller ends it with `finish` or `abandon`.

    Args:
        journal: the journal at the moment of the snapshot.
    """

    def __init__(self, journal: Journal, disk: Disk, path: Path) -> None:
        self._journal = journal
        self._disk = disk
        self._path = path
        self._mark = journal.size
        self._size = 0
        self._file: BinaryIO | None = None

    def write(self, documents: Iterable[bytes]) -> None:
        """Write the snapshot's documents; may run in a thread. Raises OSError."""
        self._file = self._disk.open(self._path, "x+b")
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for document in documents:
            line = _line(document)
            self._disk.write(self._file, line)
            self._size += len(line)
        self._disk.sync(self._file.fileno())

    def finish(self) -> None:
        """Replace the journal by the new file. Raises OSError."""
        file, journal = self._file, self._journal
        assert file is not None, "write() comes first"
        since = journal.since(self._mark)
        if since:
            self._disk.write(file, since)
            self._disk.sync(file.fileno())
        self._disk.replace(self._path, journal.path)
        self._file = None
        journal.taken_over(file, self._size + len(since), self._size)
        try:
            self._disk.sync_directory(journal.path.parent)
        except OSError:
            journal.is_broken = True  # after a power failure the old file may reappear
            raise

    def abandon(self) -> None:
        """Delete the new file and keep the journal."""
        self._journal.put_off()
        if self._file is not None:
            self._file.close()
        with suppress(OSError):
            self._disk.remove(self._path)


def _line(document: bytes) -> bytes:
    return b"%08x %s\n" % (zlib.crc32(document), document)


def _document(line: bytes) -> bytes | None:
    """Return the document of a line, or None if the line is damaged or incomplete."""
    if not line.endswith(b"\n") or len(line) < _CRC_DIGITS + 2:
        return None
    document = line[_CRC_DIGITS + 1 : -1]
    try:
        is_whole = int(line[:_CRC_DIGITS], 16) == zlib.crc32(document)
    except ValueError:
        return None
    return document if is_whole else None
