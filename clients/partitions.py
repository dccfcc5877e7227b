"""Topic partitions and nodes, shared by the client machines.

Source: `TopicPartition`, `TopicIdPartition`, `Node` in Kafka.
"""

from typing import NamedTuple

from brokertwin.state.core.schema import Uuid


class TopicPartition(NamedTuple):
    """A partition by topic name."""

    topic: str
    partition: int


class TopicIdPartition(NamedTuple):
    """A partition by topic id (zero if unknown) and name."""

    topic_id: Uuid
    topic: str
    partition: int


class Node(NamedTuple):
    """A broker and its address; bootstrap addresses have negative ids."""

    id: int
    host: str
    port: int
    rack: str | None = None
