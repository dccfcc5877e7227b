"""What a consumer tells its application, beside records: of its membership, and of its logs."""

from typing import NamedTuple

from brokertwin.clients.partitions import TopicPartition
from brokertwin.state.core.errors import Error


class PartitionsAssigned(NamedTuple):
    """Partitions that the consumer did not have before (`onPartitionsAssigned`)."""

    partitions: list[TopicPartition]


class PartitionsRevoked(NamedTuple):
    """Partitions that it has given back (`onPartitionsRevoked`)."""

    partitions: list[TopicPartition]


class PartitionsLost(NamedTuple):
    """Partitions that it has no more, and others may have already (`onPartitionsLost`)."""

    partitions: list[TopicPartition]


class OffsetsCommitted(NamedTuple):
    """Offsets that the group has stored."""

    commit_id: int
    offsets: dict[TopicPartition, int]


class CommitFailed(NamedTuple):
    """Offsets that it has not, as far as is known."""

    commit_id: int
    error: Error


class Truncated(NamedTuple):
    """A log has lost what was read of it: `position` was next, reading goes on at `end`."""

    partition: TopicPartition
    position: int
    end: int


class ShareAcknowledged(NamedTuple):
    """What a member of a share group has said of records is told; with an `error` it is not."""

    partition: TopicPartition
    offsets: list[int]
    error: Error


class ConsumerFailed(NamedTuple):
    """The consumer can not go on."""

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
