"""Durable state of the local engine, and when it is synced.

Events are in the journal, bytes in the files of batches. The policy `fsync_ms` defines what a power
failure can lose:

    0       nothing: both are synced before a response is sent, bytes before their event
    N       the last N ms: both are synced every N ms
    None    what the operating system has not written

After a failed write, its request is rejected, and the next one may succeed. After a failed sync the
state of the device is unknown, so all changes are rejected until a restart.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import structlog

from brokertwin.gateway.engine import journal_snapshot
from brokertwin.gateway.engine.disk import DISK, Disk, sync_all
from brokertwin.gateway.engine.journal import COMPACTED_FROM_BYTES, Journal
from brokertwin.gateway.engine.journal_snapshot import EngineSnapshot
from brokertwin.gateway.records.batch_store import BatchStore, FileBatchStore

AT_ONCE = 0
FSYNC_MS = 1000
"""The default policy."""

_log = structlog.get_logger("brokertwin.gateway")


class JournalOptions(NamedTuple):
    """Path of the journal, sync policy in ms, and minimum size of a compaction."""

    path: Path
    fsync_ms: int | None = FSYNC_MS
    compacted_from: int = COMPACTED_FROM_BYTES
    disk: Disk = DISK


class Persistence:
    """A journal and the files of batches beside it.

    Args:
        options: path and policy.

    Attributes:
        journal: the journal; it must be replayed before the first write.
        store: the files of batches.

    Raises:
        UserError: as `Journal`.
        OSError: the directory of batches cannot be created.
    """

    def __init__(self, options: JournalOptions) -> None:
        path = options.path
        self._fsync_ms = options.fsync_ms
        self._disk = options.disk
        self.journal = Journal(path, options.disk, options.compacted_from)
        directory = path.with_name(path.name + ".batches")
        self.store: BatchStore = FileBatchStore(directory, disk=options.disk)
        self._snapshot: Callable[[], EngineSnapshot] | None = None
        self._syncing: asyncio.Task[None] | None = None
        self._compacting: asyncio.Task[None] | None = None

    def begin(self, snapshot: Callable[[], EngineSnapshot]) -> None:
        """Start syncing and compacting in the running event loop."""
        self._snapshot = snapshot
        self._look_after()

    def write(self, document: bytes) -> None:
        """Append an event, synced according to the policy. Raises OSError."""
        if self._fsync_ms == AT_ONCE and not self.journal.is_broken:
            self._sync_now(self.store.unsynced())
        self.journal.write(document)
        if self._fsync_ms == AT_ONCE:
            self._sync_now(self.journal.unsynced())
        self._look_after()

    def _look_after(self) -> None:
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
        """Replace the journal's events by a snapshot; one compaction at a time."""
        assert self._snapshot is not None, "begin() comes first"
        before = self.journal.size
        compaction = self.journal.compaction()
        try:
            documents = journal_snapshot.documents(self._snapshot())
            await asyncio.to_thread(compaction.write, documents)
            compaction.finish()
        except OSError as error:
            _log.error("cannot compact the journal", error=str(error))
            compaction.abandon()
        else:
            _log.info("journal compacted", before=before, after=self.journal.size)
        finally:
            self._compacting = None

    def collect(self, kept: Callable[[], Iterable[str]]) -> None:
        """Free the space of unreferenced bytes, after syncing the records that dropped them."""
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
        """Finish running tasks and close the files."""
        if self._compacting is not None:
            await self._compacting
        if self._syncing is not None:
            self._syncing.cancel()
            await asyncio.wait([self._syncing])
        if self._fsync_ms is not None and not self.journal.is_broken:
            with suppress(OSError):
                self._sync_now([*self.store.unsynced(), *self.journal.unsynced()])
        self.store.close()
        self.journal.close()
