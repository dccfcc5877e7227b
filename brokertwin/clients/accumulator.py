"""Batches waiting to be sent, in a queue for each partition.

Source: seed 002; KIP-91, KIP-480; `RecordAccumulator` in Kafka. The head of a queue is sent when
its batch is full or has lingered. A batch that was put back waits for its backoff, unless the
leader has changed. A drain takes at most one batch of each partition that the node leads.

If a partition waits for its sequences, Kafka's client stops draining the node. Here only that
partition is skipped.

Not done: compression. Sizes are uncompressed.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from brokertwin.clients.backoff import retry_backoff
from brokertwin.clients.metadata_snapshot import MetadataSnapshot, PartitionInfo
from brokertwin.clients.network import Draw
from brokertwin.clients.partition_sequences import is_later
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_batch import PendingRecord, ProducerBatch
from brokertwin.clients.producer_config import ProducerConfig

NO_EPOCH = -1


class Ready(NamedTuple):
    """Nodes with batches to send, and topics with an unknown leader."""

    nodes: list[int]
    leaderless: list[str]


class Accumulator:
    """The queues. `is_flushing` and `is_committing` disable lingering."""

    def __init__(self, config: ProducerConfig, draw: Draw) -> None:
        self.is_flushing = self.is_committing = False
        self._config = config
        self._draw = draw
        self._backoff = retry_backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        self._muted: set[TopicPartition] = set()
        self._first: dict[int, TopicPartition] = {}

    def append(self, now: int, partition: TopicPartition, record: PendingRecord) -> ProducerBatch:
        """Add a record to the last batch of its partition, or to a new one."""
        queue = self._queues.setdefault(partition, deque())
        if self.has_open(partition, record.size_in_bytes):
            queue[-1].records.append(record)
            return queue[-1]
        batch = ProducerBatch(topic_partition=partition, created=now, records=[record])
        queue.append(batch)
        return batch

    def has_open(self, partition: TopicPartition, size_in_bytes: int) -> bool:
        """Whether the last batch of a partition has room for the record."""
        queue = self._queues.get(partition)
        if not queue or queue[-1].is_closed:
            return False
        return queue[-1].size_in_bytes + size_in_bytes <= self._config.batch_size

    def queued(self, partition: TopicPartition) -> list[ProducerBatch]:
        return list(self._queues.get(partition, ()))

    def ready(self, now: int, cluster: MetadataSnapshot) -> Ready:
        """Return the nodes that can receive a batch, and the leaderless topics.

        The leader's node can be unknown: metadata for another topic may have removed it.
        """
        nodes: dict[int, None] = {}
        leaderless: dict[str, None] = {}
        for head in self.heads():
            leader = cluster.leader(head.topic_partition)
            if leader is None:
                leaderless[head.topic_partition.topic] = None
                continue
            info = cluster.partitions[head.topic_partition]
            if not _backs_off(head, info, now) and self._is_sendable(head, now):
                nodes[leader.id] = None
        return Ready(sorted(nodes), sorted(leaderless))

    def heads(self) -> Iterator[ProducerBatch]:
        for partition, queue in self._queues.items():
            if queue and partition not in self._muted:
                yield queue[0]

    def _is_sendable(self, head: ProducerBatch, now: int) -> bool:
        is_full = (
            head.is_closed
            or len(self._queues[head.topic_partition]) > 1
            or head.size_in_bytes >= self._config.batch_size
        )
        is_hurried = self.is_flushing or self.is_committing
        return is_full or is_hurried or now >= head.created + self._config.linger_ms

    def drain(
        self,
        now: int,
        node: int,
        cluster: MetadataSnapshot,
        may_drain: Callable[[ProducerBatch], bool],
    ) -> list[ProducerBatch]:
        """Take the batches for one request to `node`, one of each partition.

        Takes at most `max.request.size` bytes, but at least one batch. The next call starts with
        the first partition that had no room.
        """
        taken: list[ProducerBatch] = []
        size = 0
        for info in self._in_turn(node, cluster.by_node.get(node, [])):
            partition = info.partition
            queue = self._queues.get(partition)
            if not queue or partition in self._muted or _backs_off(queue[0], info, now):
                continue
            head = queue[0]
            if taken and size + head.size_in_bytes > self._config.max_request_size:
                self._first[node] = partition
                break
            if may_drain(head):
                queue.popleft()
                head.leader_epoch = _epoch(info)
                size += head.size_in_bytes
                taken.append(head)
        if self._config.max_in_flight_requests_per_connection == 1:
            self._muted.update(batch.topic_partition for batch in taken)
        return taken

    def _in_turn(self, node: int, led: list[PartitionInfo]) -> list[PartitionInfo]:
        first = self._first.pop(node, None)
        start = next((at for at, info in enumerate(led) if info.partition == first), 0)
        return led[start:] + led[:start]

    def unmute(self, partition: TopicPartition) -> None:
        """Drain the partition again; used with one request in flight."""
        self._muted.discard(partition)

    def put_back(self, now: int, batch: ProducerBatch) -> None:
        batch.retry_at = now + self._backoff.backoff(batch.attempts, self._draw())
        batch.attempts += 1
        self.insert(batch)

    def insert(self, batch: ProducerBatch) -> None:
        """Queue a batch in sequence order, before batches without a sequence.

        A batch without a sequence becomes the first.
        """
        queue = self._queues.setdefault(batch.topic_partition, deque())
        at = 0
        while at < len(queue) and _is_before(queue[at], batch):
            at += 1
        queue.insert(at, batch)

    def remove(self, batch: ProducerBatch) -> None:
        queue = self._queues.get(batch.topic_partition, deque())
        if batch in queue:
            queue.remove(batch)

    def deadlines(self) -> list[int]:
        """The times at which queue heads become sendable."""
        return [max(head.retry_at, head.created + self._config.linger_ms) for head in self.heads()]


def _epoch(info: PartitionInfo) -> int:
    return info.leader_epoch if info.leader_epoch is not None else NO_EPOCH


def _backs_off(head: ProducerBatch, info: PartitionInfo, now: int) -> bool:
    """Whether a retry is in backoff; a newer leader ends the backoff."""
    return now < head.retry_at and _epoch(info) <= head.leader_epoch


def _is_before(queued: ProducerBatch, batch: ProducerBatch) -> bool:
    """Whether a queued batch stays ahead of a batch that is put back."""
    if not batch.has_sequence or not queued.has_sequence:
        return False
    return is_later(batch.base_sequence, queued.base_sequence)
