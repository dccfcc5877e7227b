"""Deletes committed records of the application's repartition topics.

Source: KIP-811, KIP-204; `TaskManager.maybePurgeCommittedRecords` in Kafka.

    committed(offsets)    records below these offsets can be deleted
    work(now)             DeleteRecords, at most every `repartition.purge.interval.ms` and one at
                          a time
    errors                are ignored: the next call deletes more
"""

from collections.abc import Iterable, Mapping

from brokertwin.clients.admin_client import AdminClient, PendingDeletion
from brokertwin.clients.network import Draw
from brokertwin.clients.partitions import TopicPartition


class Purger:
    """The purger of one thread; times in ms."""

    def __init__(self, topics: Iterable[str], interval_ms: int, draw: Draw) -> None:
        self.client = AdminClient(draw)
        self._topics = frozenset(topics)
        self._interval_ms = interval_ms
        self._not_before = 0
        self._read: dict[TopicPartition, int] = {}
        self._deletion: PendingDeletion | None = None

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Mark records below committed offsets as deletable."""
        self._read |= {at: offset for at, offset in offsets.items() if at.topic in self._topics}

    def work(self, now: int) -> None:
        is_in_flight = self._deletion is not None and not self._deletion.is_done
        if self._read and now >= self._not_before and not is_in_flight:
            self._not_before = now + self._interval_ms
            self._deletion = self.client.delete_records(self._read, now)
            self._read = {}
