"""What brokers say to a share coordinator, and what it answers.

Source: the schemas of Initialize-, Read-, Write- and DeleteShareGroupState and of
ReadShareGroupStateSummary in Kafka; KIP-932.
"""

from typing import Annotated

from brokertwin.state.core.schema import Body, Int8, Int16, Int32, Int64, Uuid, since


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
    """The answer to an initialization, a write and a deletion, in each of their versions."""

    results: list[TopicResult]


class ReadPartition(Body):
    """A partition that its leader asks for, in its leader epoch; -1 where somebody else asks."""

    partition: Int32
    leader_epoch: Int32 = 0


class ReadTopic(Body):
    """Partitions of a topic."""

    topic_id: Uuid
    partitions: list[ReadPartition]


class ReadShareGroupStateRequest(Body):
    """ReadShareGroupState, version 0, and ReadShareGroupStateSummary, versions 0 and 1."""

    group_id: str
    topics: list[ReadTopic]


class StateBatch(Body):
    """Records of one state, both offsets inclusive."""

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


class ReadPartitionResult(Body, kw_only=True):
    """What is known of a partition, or its error."""

    partition: Int32
    error_code: Int16 = 0
    error_message: str | None = None
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: list[StateBatch] = []


class ReadTopicResult(Body):
    """The partitions of a topic."""

    topic_id: Uuid
    partitions: list[ReadPartitionResult]


class ReadShareGroupStateResponse(Body):
    """The answer to a read, version 0."""

    results: list[ReadTopicResult]


class SummarizedPartition(Body, kw_only=True):
    """Where a partition's state begins, or its error; a count -1 is one that nobody knows."""

    partition: Int32
    error_code: Int16 = 0
    error_message: str | None = None
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, since(1)] = -1


class SummarizedTopic(Body):
    """The partitions of a topic."""

    topic_id: Uuid
    partitions: list[SummarizedPartition]


class ReadShareGroupStateSummaryResponse(Body):
    """The answer to a request for summaries, versions 0 and 1."""

    results: list[SummarizedTopic]


class WrittenPartition(Body, kw_only=True):
    """What has become of a partition's records; a start offset -1 leaves it where it is."""

    partition: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[Int32, since(1)] = -1
    state_batches: list[StateBatch] = []


class WrittenTopic(Body):
    """Partitions of a topic."""

    topic_id: Uuid
    partitions: list[WrittenPartition]


class WriteShareGroupStateRequest(Body):
    """WriteShareGroupState, versions 0 and 1."""

    group_id: str
    topics: list[WrittenTopic]
