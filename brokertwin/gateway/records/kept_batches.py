"""Bytes referenced by the logs of the local engine, according to their records.

Replicas of a log share bytes, which are deleted after the last of them has dropped them.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from brokertwin.gateway.engine.local_rows import OF_LOGS
from brokertwin.gateway.records.batch_store import BatchStore
from brokertwin.state.core.records import (
    BatchAppended,
    LogCleaned,
    LogStartMoved,
    LogTaken,
    TopicRemoved,
)
from brokertwin.state.logs.cleaner import in_runs


class KeptBatch(NamedTuple):
    """A batch of a log."""

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
                self._add(key, KeptBatch(batch.last_offset, batch.locator))
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
        """Return the batches of each log, the oldest first."""
        return [(key, list(kept)) for key, kept in self._kept.items()]

    def restore(self, key: LogKey, kept: Iterable[KeptBatch]) -> None:
        """Restore the batches of a log, as returned by `all`."""
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
