"""Batches that wait to be sent: a queue for each partition.

Source: seed 002; KIP-91, KIP-480; `RecordAccumulator` in Kafka. The head of a queue is sent when
the batch is full or has lingered; one that was put back waits for its backoff, unless the leader
has changed since. Of the nodes with such a partition each gets at most one batch of every
partition that it leads.

Where a partition has to wait for its sequences, Kafka's client leaves the node's loop and with it
the partitions behind; here only that partition is passed over.

Not done: compression (sizes are those before it).
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from brokertwin.clients.backoff import retry_backoff
from brokertwin.clients.in_flight_requests import Jitter
from brokertwin.clients.metadata_snapshot import MetadataSnapshot, PartitionInfo
from brokertwin.clients.partition_sequences import is_later
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_batch import PendingRecord, ProducerBatch
from brokertwin.clients.producer_config import ProducerConfig

NO_EPOCH = -1


class Ready(NamedTuple):
    """Nodes with something to send, and topics whose leader is not known."""

    nodes: list[int]
    leaderless: list[str]


class Accumulator:
    """The queues. `is_flushing` and `is_committing` send every batch without lingering."""

    def __init__(self, config: ProducerConfig, jitter: Jitter) -> None:
        self.is_flushing = self.is_committing = False
        self._config = config
        self._jitter = jitter
        self._backoff = retry_backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        self._muted: set[TopicPartition] = set()
        self._first: dict[int, TopicPartition] = {}

    def append(self, now: int, partition: TopicPartition, record: PendingRecord) -> ProducerBatch:
        """Adds a record to the last batch of its partition, or to a new one."""
        queue = self._queues.setdefault(partition, deque())
        if self.has_open(partition, record.size_in_bytes):
            queue[-1].records.append(record)
            return queue[-1]
        batch = ProducerBatch(topic_partition=partition, created=now, records=[record])
        queue.append(batch)
        return batch

    def has_open(self, partition: TopicPartition, size_in_bytes: int) -> bool:
        """Whether the last batch of a partition takes a record of this size."""
        queue = self._queues.get(partition)
        if not queue or queue[-1].is_closed:
            return False
        return queue[-1].size_in_bytes + size_in_bytes <= self._config.batch_size

    def queued(self, partition: TopicPartition) -> list[ProducerBatch]:
        """The batches that wait for a partition, in order."""
        return list(self._queues.get(partition, ()))

    def ready(self, now: int, cluster: MetadataSnapshot) -> Ready:
        """The nodes that a batch can go to now, and topics of those that have nobody to go to.

        An answer about another topic may have taken the leader's node away.
        """
        nodes: dict[int, None] = {}
        leaderless: dict[str, None] = {}
        for head in self._heads():
            leader = cluster.leader(head.topic_partition)
            if leader is None:
                leaderless[head.topic_partition.topic] = None
                continue
            known = cluster.partitions[head.topic_partition]
            if not _backs_off(head, known, now) and self._is_sendable(head, now):
                nodes[leader.id] = None
        return Ready(sorted(nodes), sorted(leaderless))

    def _heads(self) -> Iterator[ProducerBatch]:
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
        """Takes what goes to `node` in one request: at most one batch of a partition.

        At most `max.request.size` bytes, but one batch at least; the next call begins with the
        partition that this one had no room for.
        """
        taken: list[ProducerBatch] = []
        size = 0
        for known in self._in_turn(node, cluster.by_node.get(node, [])):
            partition = known.partition
            queue = self._queues.get(partition)
            if not queue or partition in self._muted or _backs_off(queue[0], known, now):
                continue
            head = queue[0]
            if taken and size + head.size_in_bytes > self._config.max_request_size:
                self._first[node] = partition
                break
            if may_drain(head):
                queue.popleft()
                head.leader_epoch = _epoch(known)
                size += head.size_in_bytes
                taken.append(head)
        if self._config.max_in_flight_requests_per_connection == 1:
            self._muted.update(batch.topic_partition for batch in taken)
        return taken

    def _in_turn(self, node: int, led: list[PartitionInfo]) -> list[PartitionInfo]:
        first = self._first.pop(node, None)
        start = next((at for at, known in enumerate(led) if known.partition == first), 0)
        return led[start:] + led[:start]

    def unmute(self, partition: TopicPartition) -> None:
        """The partition's request was answered; only with one request in flight at a time."""
        self._muted.discard(partition)

    def put_back(self, now: int, batch: ProducerBatch) -> None:
        """Queues a batch for another attempt after a backoff."""
        batch.retry_at = now + self._backoff.backoff(batch.attempts, self._jitter())
        batch.attempts += 1
        self.insert(batch)

    def insert(self, batch: ProducerBatch) -> None:
        """Queues a batch in sequence order, before those without a sequence; else as the first."""
        queue = self._queues.setdefault(batch.topic_partition, deque())
        at = 0
        while at < len(queue) and _is_before(queue[at], batch):
            at += 1
        queue.insert(at, batch)

    def remove(self, batch: ProducerBatch) -> None:
        """Takes a batch out of its queue, if it is there."""
        queue = self._queues.get(batch.topic_partition, deque())
        if batch in queue:
            queue.remove(batch)

    def deadlines(self) -> list[int]:
        """When heads of queues may be sent."""
        return [max(head.retry_at, head.created + self._config.linger_ms) for head in self._heads()]


def _epoch(known: PartitionInfo) -> int:
    return known.leader_epoch if known.leader_epoch is not None else NO_EPOCH


def _backs_off(head: ProducerBatch, known: PartitionInfo, now: int) -> bool:
    """Whether a retry waits still; one whose partition has a newer leader does not."""
    return now < head.retry_at and _epoch(known) <= head.leader_epoch


def _is_before(queued: ProducerBatch, batch: ProducerBatch) -> bool:
    """Whether a queued batch stays before one that is put back."""
    if not batch.has_sequence or not queued.has_sequence:
        return False
    return is_later(batch.base_sequence, queued.base_sequence)
