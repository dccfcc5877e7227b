"""What brokers say to a share coordinator, and what it answers.

Source: the schemas of InitializeShareGroupState and DeleteShareGroupState in Kafka; KIP-932.
"""

from brokerstream.state.core.schema import Body, Int16, Int32, Int64, Uuid

INITIALIZE, DELETE = 83, 86
"""The keys of the APIs."""


class InitializedPartition(Body):
    """A partition whose state begins at an offset; -1 where its leader is to settle that."""

    partition: Int32
    state_epoch: Int32
    start_offset: Int64


class InitializedTopic(Body):
    """Partitions of a topic."""

    topic_id: Uuid
    partitions: list[InitializedPartition]


class InitializeShareGroupStateRequest(Body):
    """InitializeShareGroupState, version 0."""

    group_id: str
    topics: list[InitializedTopic]


class DeletedPartition(Body):
    """A partition whose state goes."""

    partition: Int32


class DeletedTopic(Body):
    """Partitions of a topic."""

    topic_id: Uuid
    partitions: list[DeletedPartition]


class DeleteShareGroupStateRequest(Body):
    """DeleteShareGroupState, version 0."""

    group_id: str
    topics: list[DeletedTopic]


class PartitionResult(Body):
    """What became of a partition."""

    partition: Int32
    error_code: Int16 = 0
    error_message: str | None = None


class TopicResult(Body):
    """The partitions of a topic."""

    topic_id: Uuid
    partitions: list[PartitionResult]


class ShareGroupStateResponse(Body):
    """The answer to an initialization, and to a deletion; version 0 of both."""

    results: list[TopicResult]
