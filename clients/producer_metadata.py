"""What a producer needs to know of a cluster: its nodes, and who leads which partition."""

from typing import NamedTuple

import msgspec

from brokerstream.clients.partitions import TopicPartition
from brokerstream.state.schema import ZERO_UUID, Uuid


class Leader(NamedTuple):
    """The broker that leads a partition, and since which leader epoch."""

    node: int
    epoch: int


class ProducerMetadata(msgspec.Struct):
    """Nodes by broker id, leaders by partition, and the ids of topics, where they are known."""

    nodes: list[int] = []
    leaders: dict[TopicPartition, Leader] = {}
    topic_ids: dict[str, Uuid] = {}

    def partitions_of(self, node: int) -> list[TopicPartition]:
        """The partitions that a node leads, in order."""
        return sorted(p for p, leader in self.leaders.items() if leader.node == node)

    def topic_id(self, topic: str) -> Uuid:
        """A topic's id; the zero id where it is not known."""
        return self.topic_ids.get(topic, ZERO_UUID)

    def topic_name(self, topic_id: Uuid) -> str:
        """The name of the topic with this id; empty where it is not known."""
        return next((name for name, known in self.topic_ids.items() if known == topic_id), "")

    def move_leader(self, partition: TopicPartition, leader: Leader) -> None:
        """Takes over a leader that is newer than the known one."""
        known = self.leaders.get(partition)
        if known is None or known.epoch < leader.epoch:
            self.leaders[partition] = leader
