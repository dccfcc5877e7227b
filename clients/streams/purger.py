"""Deletes what a thread has read of its application's repartition topics, once it is committed.

Source: KIP-811, KIP-204; `TaskManager.maybePurgeCommittedRecords` in Kafka.

    committed(offsets)    what lies below is to be deleted
    work(now)             at most every `repartition.purge.interval.ms`, and not while records are
                          being deleted still: DeleteRecords
    any error             counts for nothing: the next time asks for more
"""

from collections.abc import Iterable, Mapping

from brokertwin.clients.admin_calls import PendingAdminCall, delete_records
from brokertwin.clients.admin_client import AdminClient
from brokertwin.clients.network import Draw
from brokertwin.clients.partitions import TopicPartition


class Purger:
    """One thread's; `client` asks the leaders. Times in ms."""

    def __init__(self, topics: Iterable[str], interval_ms: int, draw: Draw) -> None:
        self.client = AdminClient(draw)
        self._topics = frozenset(topics)
        self._interval_ms = interval_ms
        self._not_before = 0
        self._read: dict[TopicPartition, int] = {}
        self._call: PendingAdminCall | None = None

    def committed(self, offsets: Mapping[TopicPartition, int]) -> None:
        """A group's offsets have been committed: nobody of the application reads below them."""
        self._read |= {at: offset for at, offset in offsets.items() if at.topic in self._topics}

    def work(self, now: int) -> None:
        """Has what was read deleted, where that is due."""
        is_under_way = self._call is not None and not self._call.is_done
        if self._read and now >= self._not_before and not is_under_way:
            self._not_before = now + self._interval_ms
            self._call = self.client.begin(delete_records(self._read), now)
            self._read = {}
