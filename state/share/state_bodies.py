"""Requests to share coordinators and their responses.

Source: the schemas of Initialize-, Read-, Write- and DeleteShareGroupState and of
ReadShareGroupStateSummary in Kafka; KIP-932.
"""

from typing import Annotated

from brokertwin.state.core.schema import Body, Int8, Int16, Int32, Int64, Uuid, since


class InitializedPartition(Body):
    """A partition to initialize; start offset -1 is for the leader to set."""

    partition: Int32
    state_epoch: Int32
    start_offset: Int64


class InitializedTopic(Body):
    topic_id: Uuid
    partitions: list[InitializedPartition]


class InitializeShareGroupStateRequest(Body):
    """Version 0."""

    group_id: str
    topics: list[InitializedTopic]


class DeletedPartition(Body):
    partition: Int32


class DeletedTopic(Body):
    topic_id: Uuid
    partitions: list[DeletedPartition]


class DeleteShareGroupStateRequest(Body):
    """Version 0."""

    group_id: str
    topics: list[DeletedTopic]


class PartitionResult(Body):
    partition: Int32
    error_code: Int16 = 0
    error_message: str | None = None


class TopicResult(Body):
    topic_id: Uuid
    partitions: list[PartitionResult]


class ShareGroupStateResponse(Body):
    """Response to initialization, write and deletion, all versions."""

    results: list[TopicResult]


class ReadPartition(Body):
    """A partition and its leader epoch; -1 if the sender is not the leader."""

    partition: Int32
    leader_epoch: Int32 = 0


class ReadTopic(Body):
    topic_id: Uuid
    partitions: list[ReadPartition]


class ReadShareGroupStateRequest(Body):
    """ReadShareGroupState 0, ReadShareGroupStateSummary 0 and 1."""

    group_id: str
    topics: list[ReadTopic]


class StateBatch(Body):
    """Records with one state (offsets inclusive)."""

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


class ReadPartitionResult(Body, kw_only=True):
    partition: Int32
    error_code: Int16 = 0
    error_message: str | None = None
    state_epoch: Int32 = 0
    start_offset: Int64 = 0
    state_batches: list[StateBatch] = []


class ReadTopicResult(Body):
    topic_id: Uuid
    partitions: list[ReadPartitionResult]


class ReadShareGroupStateResponse(Body):
    """Version 0."""

    results: list[ReadTopicResult]


class SummarizedPartition(Body, kw_only=True):
    """A partition's start offset; a count of -1 is unknown."""

    partition: Int32
    error_code: Int16 = 0
    error_message: str | None = None
    state_epoch: Int32 = 0
    leader_epoch: Int32 = 0
    start_offset: Int64 = 0
    delivery_complete_count: Annotated[Int32, since(1)] = -1


class SummarizedTopic(Body):
    topic_id: Uuid
    partitions: list[SummarizedPartition]


class ReadShareGroupStateSummaryResponse(Body):
    """Versions 0 and 1."""

    results: list[SummarizedTopic]


class WrittenPartition(Body, kw_only=True):
    """State changes of a partition; start offset -1 is unchanged."""

    partition: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Annotated[Int32, since(1)] = -1
    state_batches: list[StateBatch] = []


class WrittenTopic(Body):
    topic_id: Uuid
    partitions: list[WrittenPartition]


class WriteShareGroupStateRequest(Body):
    """Versions 0 and 1."""

    group_id: str
    topics: list[WrittenTopic]
