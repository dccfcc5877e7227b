"""What of the local engine outlives its process, and when it is on the device.

Events go to the journal, bytes to the files of batches. Which of them a power failure can take is
the policy `fsync_ms`:

    0       both are on the device before an answer goes out, the bytes before their event
    N       every N ms, where something was written: the last N ms can be lost
    None    when the operating system likes

A write that fails leaves nothing behind, and its request is refused; the next one may succeed. A
sync that fails says nothing about what the device has: from then on every request is refused that
would have to be kept. A restart reads what is there.
"""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import structlog

from brokertwin.gateway.engine import journal_snapshot
from brokertwin.gateway.engine.disk import DISK, Disk, sync_all
from brokertwin.gateway.engine.journal import COMPACTED_FROM_BYTES, Compaction, Journal
from brokertwin.gateway.engine.journal_snapshot import Snapshot
from brokertwin.gateway.records.batch_store import BatchStore, FileStore

AT_ONCE = 0
FSYNC_MS = 1000
"""The policy where none is given."""

_log = structlog.get_logger("brokertwin.gateway")


class JournalOptions(NamedTuple):
    """Where the state is kept, and how: the policy in ms, the least size of a compaction."""

    path: Path
    fsync_ms: int | None = FSYNC_MS
    compacted_from: int = COMPACTED_FROM_BYTES
    disk: Disk = DISK


class Persistence:
    """A journal and the files of batches beside it.

    Args:
        options: where and how.

    Attributes:
        journal: the journal, to be replayed before anything is written.
        store: the files of batches.

    Raises:
        UserError: as `Journal`.
        OSError: the directory of batches cannot be made.
    """

    def __init__(self, options: JournalOptions) -> None:
        path = options.path
        self._fsync_ms = options.fsync_ms
        self._disk = options.disk
        self.journal = Journal(path, options.disk, options.compacted_from)
        directory = path.with_name(path.name + ".batches")
        self.store: BatchStore = FileStore(directory, disk=options.disk)
        self._snapshot: Callable[[], Snapshot] | None = None
        self._syncing: asyncio.Task[None] | None = None
        self._compacting: asyncio.Task[None] | None = None

    def begin(self, snapshot: Callable[[], Snapshot]) -> None:
        """Sync and compact from now on, in the running event loop.

        Args:
            snapshot: gives what the engine is at the moment of the call.
        """
        self._snapshot = snapshot
        self._look_after()

    def write(self, document: bytes) -> None:
        """Put an event into the journal, by the policy on the device. Raises OSError."""
        if self._fsync_ms == AT_ONCE and not self.journal.is_broken:
            self._sync_now(self.store.unsynced())
        self.journal.write(document)
        if self._fsync_ms == AT_ONCE:
            self._sync_now(self.journal.unsynced())
        self._look_after()

    def _look_after(self) -> None:
        """Begin what is due."""
        if self._snapshot is None:
            return
        if self._fsync_ms and self._syncing is None:
            self._syncing = asyncio.create_task(self._sync_later(self._fsync_ms / 1000))
        if self._compacting is None and self.journal.is_compaction_due:
            self._compacting = asyncio.create_task(self.compact())

    def _sync_now(self, handles: list[int]) -> None:
        try:
            sync_all(self._disk, handles)
        except OSError as error:
            self._broke(error)
            raise

    def _broke(self, error: OSError) -> None:
        self.journal.is_broken = True
        _log.error(
            "cannot sync the journal; changes are refused until a restart",
            journal=str(self.journal.path),
            error=str(error),
        )

    async def _sync_later(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        handles = [*self.store.unsynced(), *self.journal.unsynced()]
        try:
            await asyncio.to_thread(sync_all, self._disk, handles)
        except OSError as error:
            self._broke(error)
        finally:
            self._syncing = None

    async def compact(self) -> None:
        """Put a snapshot in the place of the journal's events; one at a time."""
        assert self._snapshot is not None, "begin() comes first"
        before = self.journal.size
        compaction = self.journal.compaction()
        try:
            await asyncio.to_thread(_write, compaction, self._snapshot())
            compaction.finish()
        except OSError as error:
            _log.error("cannot compact the journal", error=str(error))
            compaction.abandon()
        else:
            _log.info("journal compacted", before=before, after=self.journal.size)
        finally:
            self._compacting = None

    def collect(self, kept: Callable[[], Iterable[str]]) -> None:
        """Free the room of bytes that no log has; what freed them is on the device before."""
        if self.journal.is_broken or not self.store.is_garbage_due():
            return
        try:
            if self._fsync_ms is not None:
                self._sync_now([*self.store.unsynced(), *self.journal.unsynced()])
            freed = self.store.collect(kept)
        except OSError as error:
            _log.error("cannot free the space of deleted batches", error=str(error))
        else:
            _log.info("space of deleted batches freed", bytes=freed)

    async def close(self) -> None:
        """End what is under way, and close the files."""
        if self._compacting is not None:
            await self._compacting
        if self._syncing is not None:
            self._syncing.cancel()
            await asyncio.wait([self._syncing])
        if self._fsync_ms is not None and not self.journal.is_broken:
            handles = [*self.store.unsynced(), *self.journal.unsynced()]
            try:
                sync_all(self._disk, handles)
            except OSError as error:
                self._broke(error)
        self.store.close()
        self.journal.close()


def _write(compaction: Compaction, snapshot: Snapshot) -> None:
    compaction.write(journal_snapshot.documents(snapshot))
