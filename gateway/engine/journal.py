"""The journal of the local engine: its events, one on a line, read again at the next start.

A line is the CRC-32 of a JSON document in eight hexadecimal digits, a space, the document. Besides
events there are lines of settings: those under which the events that follow were decided; and, at
the beginning of a journal that was compacted, the lines of a snapshot (`journal_snapshot.py`). A
last line that was not wholly written is dropped; a damaged line with others behind it is an error.

Every line is handed to the operating system before its answer is sent: it outlives the process.
When it is on the device, too, and so outlives a power failure, is the engine's policy (`unsynced`).
Requests that only read (`KafkaApi.only_reads`) are left out: what they change in memory, such as
fetch sessions and client instances, ends with a broker process.

A compaction writes a new file beside the journal and gives it the journal's name:

    snapshot written to FILE.compacting, synced       a thread; events go on to FILE
    events since then copied behind it, synced        the loop, as what follows
    FILE.compacting becomes FILE, the directory synced

At every moment FILE is a whole journal, the former or the new one, and both say the same.
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
"""A smaller journal is left as it is: it is read again within seconds."""

_CRC_DIGITS = 8
_NEW = ".compacting"


class Journal:
    """A journal file, held by one process at a time.

    Args:
        path: the file; made where it is not there.
        disk: what does it all.
        compacted_from: the least size in bytes at which a compaction is due.

    Attributes:
        size: of the file in bytes, after `replay`.
        dropped_bytes: the size of a torn tail that was dropped, after `replay`.
        is_broken: nobody knows what the file has; it takes no more.

    Raises:
        UserError: it cannot be opened, or another process has it.
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
            disk.remove(self._new_path)  # of a compaction that did not come to its end
            disk.sync_directory(path.parent)
        except OSError as error:
            raise UserError(f"Cannot open the journal {path}: {error.strerror}.") from None

    @property
    def _new_path(self) -> Path:
        return self.path.with_name(self.path.name + _NEW)

    def _held(self) -> BinaryIO:
        """The file, locked; whoever has locked a file that was replaced meanwhile tries again."""
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
        """The documents of before, in their order; cuts a torn tail off.

        Raises:
            UserError: a line that is not the last one is damaged.
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
        """Note that what `replay` has given so far is the snapshot."""
        self._snapshot_size = self.size

    def write(self, document: bytes) -> None:
        """Append a document, or nothing of it. Raises OSError."""
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
            self._file.seek(self.size)  # the file of a compaction does not append by itself
        except OSError:
            self.is_broken = True

    def write_settings(self, settings: dict[str, Any]) -> None:
        """Append the settings that hold from here on."""
        self.write(msgspec.json.encode({"settings": settings}))

    def unsynced(self) -> list[int]:
        """A handle for `sync_all` where something was written since the last one was given."""
        if not self._has_unsynced:
            return []
        self._has_unsynced = False
        return [os.dup(self._file.fileno())]

    @property
    def is_compaction_due(self) -> bool:
        """Whether it is twice as long as what the last compaction has left, and not short."""
        return self.size >= max(self._compacted_from, 2 * self._snapshot_size)

    def compaction(self) -> "Compaction":
        """Begin a compaction: the snapshot is that of this moment."""
        return Compaction(self, self._disk, self._new_path)

    def taken_over(self, file: BinaryIO, size: int, snapshot_size: int) -> None:
        """The new file of a compaction is the journal."""
        self._file.close()
        self._file, self.size, self._snapshot_size = file, size, snapshot_size
        self._has_unsynced = False

    def put_off(self) -> None:
        """A compaction has failed: the next one is due when as much has come again."""
        self._snapshot_size = max(self.size, self._compacted_from)

    def since(self, size: int) -> bytes:
        """What was written since the file had that size."""
        return os.pread(self._file.fileno(), self.size - size, size)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Compaction:
    """A new file for a journal. Who ends none of its steps by `finish` calls `abandon`.

    Args:
        journal: the journal, as it is at the moment of the snapshot.
        disk: what does it all.
        path: where the new file is written.
    """

    def __init__(self, journal: Journal, disk: Disk, path: Path) -> None:
        self._journal = journal
        self._disk = disk
        self._path = path
        self._mark = journal.size
        self._size = 0
        self._file: BinaryIO | None = None

    def write(self, documents: Iterable[bytes]) -> None:
        """Write the snapshot's documents; may be in a thread of its own. Raises OSError."""
        self._file = self._disk.open(self._path, "x+b")
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for document in documents:
            line = _line(document)
            self._disk.write(self._file, line)
            self._size += len(line)
        self._disk.sync(self._file.fileno())

    def finish(self) -> None:
        """Put the new file in the journal's place. Raises OSError."""
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
            journal.is_broken = True  # a power failure may bring the former file back
            raise

    def abandon(self) -> None:
        """The journal stays as it was."""
        self._journal.put_off()
        if self._file is not None:
            self._file.close()
        with suppress(OSError):
            self._disk.remove(self._path)


def _line(document: bytes) -> bytes:
    return b"%08x %s\n" % (zlib.crc32(document), document)


def _document(line: bytes) -> bytes | None:
    """The document of a line, None where the line is damaged or not whole."""
    if not line.endswith(b"\n") or len(line) < _CRC_DIGITS + 2:
        return None
    document = line[_CRC_DIGITS + 1 : -1]
    try:
        is_whole = int(line[:_CRC_DIGITS], 16) == zlib.crc32(document)
    except ValueError:
        return None
    return document if is_whole else None
