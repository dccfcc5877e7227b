"""An immutable view of a cluster: nodes, topics, partitions, leaders.

Source: seed 001; `Cluster`, `MetadataSnapshot`, `MetadataResponse.PartitionMetadata` in Kafka. An
update creates a new snapshot.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec

from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.protocol.bodies import Uuid


class PartitionInfo(msgspec.Struct, frozen=True):
    """A partition in the metadata; leader or epoch may be unknown (None)."""

    partition: TopicPartition
    leader_id: int | None
    leader_epoch: int | None
    replica_ids: tuple[int, ...] = ()
    isr_ids: tuple[int, ...] = ()
    offline_ids: tuple[int, ...] = ()


class LeaderAndEpoch(msgspec.Struct, frozen=True):
    """The current leader of a partition, as far as known."""

    leader: Node | None
    epoch: int | None


NO_LEADER = LeaderAndEpoch(None, None)


@dataclass(frozen=True)
class MetadataSnapshot:
    """The cluster of the latest responses."""

    cluster_id: str | None = None
    nodes: dict[int, Node] = field(default_factory=dict)
    partitions: dict[TopicPartition, PartitionInfo] = field(default_factory=dict)
    topic_ids: dict[str, Uuid] = field(default_factory=dict)
    unauthorized_topics: frozenset[str] = frozenset()
    invalid_topics: frozenset[str] = frozenset()
    internal_topics: frozenset[str] = frozenset()

    @cached_property
    def by_topic(self) -> dict[str, list[PartitionInfo]]:
        """The partitions of each topic, by number."""
        result: dict[str, list[PartitionInfo]] = {}
        for partition in sorted(self.partitions):
            result.setdefault(partition.topic, []).append(self.partitions[partition])
        return result

    @cached_property
    def by_node(self) -> dict[int, list[PartitionInfo]]:
        """The partitions that each node leads, by topic and number."""
        result: dict[int, list[PartitionInfo]] = {node: [] for node in self.nodes}
        for partition in sorted(self.partitions):
            info = self.partitions[partition]
            if info.leader_id in result:
                result[info.leader_id].append(info)
        return result

    def available_partitions(self, topic: str) -> list[PartitionInfo]:
        return [info for info in self.by_topic.get(topic, []) if info.leader_id in self.nodes]

    def partition_count(self, topic: str) -> int | None:
        """The number of partitions; None if the topic is unknown."""
        return len(self.by_topic[topic]) if topic in self.by_topic else None

    def leader(self, partition: TopicPartition) -> Node | None:
        info = self.partitions.get(partition)
        if info is None or info.leader_id is None:
            return None
        return self.nodes.get(info.leader_id)

    def with_leaders(
        self, moved: dict[TopicPartition, PartitionInfo], nodes: dict[int, Node]
    ) -> "MetadataSnapshot":
        return replace(self, partitions=self.partitions | moved, nodes=nodes)

    def merged_with(
        self, newer: "MetadataSnapshot", keeps: Callable[[str], bool]
    ) -> "MetadataSnapshot":
        """Return `newer`, with the known topics that `keeps` accepts.

        A topic in `newer` without an id there loses its id.
        """
        kept = {tp: info for tp, info in self.partitions.items() if keeps(tp.topic)}
        named = {partition.topic for partition in newer.partitions}
        ids = {
            topic: topic_id
            for topic, topic_id in self.topic_ids.items()
            if keeps(topic) and topic not in named
        }
        ids |= {topic: newer.topic_ids[topic] for topic in named & newer.topic_ids.keys()}
        return MetadataSnapshot(
            cluster_id=newer.cluster_id,
            nodes=newer.nodes,
            partitions=kept | newer.partitions,
            topic_ids=ids,
            unauthorized_topics=_merged(self.unauthorized_topics, newer.unauthorized_topics, keeps),
            invalid_topics=_merged(self.invalid_topics, newer.invalid_topics, keeps),
            internal_topics=_merged(self.internal_topics, newer.internal_topics, keeps),
        )


def _merged(
    topic_names: Iterable[str], newer: frozenset[str], keeps: Callable[[str], bool]
) -> frozenset[str]:
    return newer | {topic for topic in topic_names if keeps(topic)}


def bootstrap_snapshot(addresses: Iterable[tuple[str, int]]) -> MetadataSnapshot:
    """The configured addresses as nodes -1, -2 and so on, without partitions."""
    nodes = {-number: Node(-number, host, port) for number, (host, port) in enumerate(addresses, 1)}
    return MetadataSnapshot(nodes=nodes)
