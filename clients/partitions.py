"""Names that the client machines share: partitions of topics, and the nodes of a cluster.

Source: `TopicPartition`, `TopicIdPartition`, `Node` in Kafka.
"""

from typing import NamedTuple

from brokertwin.state.core.schema import Uuid


class TopicPartition(NamedTuple):
    """A partition by its topic's name."""

    topic: str
    partition: int


class TopicIdPartition(NamedTuple):
    """A partition by its topic's id (the zero id where none is known) and name."""

    topic_id: Uuid
    topic: str
    partition: int


class Node(NamedTuple):
    """A broker and where it is reached; the id of a bootstrap address is negative."""

    id: int
    host: str
    port: int
    rack: str | None = None
