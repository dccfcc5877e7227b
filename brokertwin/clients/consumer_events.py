"""Events of a consumer besides records: membership, commits, truncation."""

from typing import NamedTuple

from brokertwin.clients.partitions import TopicPartition
from brokertwin.protocol.errors import Error


class PartitionsAssigned(NamedTuple):
    """Newly assigned partitions (`onPartitionsAssigned`)."""

    partitions: list[TopicPartition]


class PartitionsRevoked(NamedTuple):
    """Revoked partitions (`onPartitionsRevoked`)."""

    partitions: list[TopicPartition]


class PartitionsLost(NamedTuple):
    """Partitions that others may own already (`onPartitionsLost`)."""

    partitions: list[TopicPartition]


class OffsetsCommitted(NamedTuple):
    commit_id: int
    offsets: dict[TopicPartition, int]


class CommitFailed(NamedTuple):
    """A commit that failed, as far as is known."""

    commit_id: int
    error: Error


class Truncated(NamedTuple):
    """A truncated log: reading continues at `end` instead of `position`."""

    partition: TopicPartition
    position: int
    end: int


class ShareAcknowledged(NamedTuple):
    """The result of acknowledging share records."""

    partition: TopicPartition
    offsets: list[int]
    error: Error


class ConsumerFailed(NamedTuple):
    error: Error


Event = (
    PartitionsAssigned
    | PartitionsRevoked
    | PartitionsLost
    | OffsetsCommitted
    | CommitFailed
    | Truncated
    | ShareAcknowledged
    | ConsumerFailed
)
