"""Partition choice for records without a given partition.

Source: KIP-480, KIP-794; `BuiltInPartitioner`, and for Kafka 0.10 and 2.0 `DefaultPartitioner`
in Kafka.

    with a key           murmur2 of the key, over all partitions
    without, current     one partition until batch.size bytes are sent and its batch is full, or
                         twice as many are sent; then a random one, preferring short queues
    without, 0.10, 2.0   round robin from a random one, in the order of the metadata response

Partitions without a leader are only used if no partition has one. With
`partitioner.availability.timeout.ms`, partitions of slow leaders (`node_latencies.py`) are avoided
likewise. Without `partitioner.adaptive.partitioning.enable` neither queues nor slow leaders count.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate

import msgspec

from brokertwin.clients.era import Era
from brokertwin.clients.metadata_snapshot import MetadataSnapshot, PartitionInfo
from brokertwin.clients.network import Draw
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.state.core.murmur2 import partition_of


class _Sticky(msgspec.Struct):
    """The current partition of a topic's records without a key."""

    partition: int
    produced_bytes: int = 0


class Partitioner:
    """The partitioner of one producer.

    `queued` returns the queue length of a partition, `is_slow` whether a broker is slow.
    """

    def __init__(
        self,
        config: ProducerConfig,
        draw: Draw,
        queued: Callable[[TopicPartition], int],
        era: Era | None = None,
        is_slow: Callable[[int | None], bool] = lambda _: False,
    ) -> None:
        self._is_slow = is_slow
        self._config = config
        self._draw = draw
        self._queued = queued
        self._era = era
        self._sticky: dict[str, _Sticky] = {}
        self._turns: dict[str, int] = {}

    def partition(self, topic: str, key: bytes | None, snapshot: MetadataSnapshot) -> int | None:
        """Return the partition; None while the topic is unknown."""
        count = snapshot.partition_count(topic)
        if not count:
            return None
        if key is not None and not self._config.partitioner_ignore_keys:
            return partition_of(key, count)
        led = [info.partition.partition for info in snapshot.available_partitions(topic)]
        able = led or list(range(count))
        if self._era is not None:
            in_order = [at.partition for at in snapshot.partitions if at.topic == topic]
            able = [each for each in in_order if each in able]
            if topic not in self._turns:
                self._turns[topic] = int(self._draw() * len(able))
            self._turns[topic] += 1
            return able[(self._turns[topic] - 1) % len(able)]
        sticky = self._sticky.get(topic)
        if sticky is None or sticky.partition >= count:
            sticky = self._sticky[topic] = _Sticky(self._drawn(topic, able, snapshot))
        return sticky.partition

    def appended(
        self,
        partition: TopicPartition,
        size_in_bytes: int,
        *,
        is_full: bool,
        snapshot: MetadataSnapshot,
    ) -> None:
        """Record an appended record; `is_full`: its batch has no room for another."""
        sticky = self._sticky.get(partition.topic)
        if sticky is None or sticky.partition != partition.partition:
            return
        sticky.produced_bytes += size_in_bytes
        enough = self._config.batch_size if is_full else 2 * self._config.batch_size
        if sticky.produced_bytes >= enough:
            led = snapshot.available_partitions(partition.topic)
            able = [info.partition.partition for info in led] or [partition.partition]
            self._sticky[partition.topic] = _Sticky(self._drawn(partition.topic, able, snapshot))

    def _drawn(self, topic: str, able: Sequence[int], snapshot: MetadataSnapshot) -> int:
        quick: list[int] = []
        if self._config.partitioner_adaptive_partitioning_enable:
            leaders = {at: snapshot.partitions.get(TopicPartition(topic, at)) for at in able}
            quick = [at for at, info in leaders.items() if not self._is_slow(_leader(info))]
        lengths = [self._queued(TopicPartition(topic, each)) for each in quick] or [0] * len(able)
        able = quick or able
        longest = max(lengths)
        sums = list(accumulate(longest + 1 - length for length in lengths))
        drawn = int(self._draw() * sums[-1])
        return next(each for each, upper in zip(able, sums, strict=True) if drawn < upper)


def _leader(info: PartitionInfo | None) -> int | None:
    return None if info is None else info.leader_id
