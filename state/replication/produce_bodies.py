"""The bodies of Produce (key 0): batches come as their headers, as the edge has read them.

Source: `ProduceRequest.json`, `ProduceResponse.json` in Kafka.
"""

from typing import Annotated

from msgspec import UNSET, UnsetType

from brokertwin.state.cluster.image import LeaderIdAndEpoch
from brokertwin.state.core.records import Batch
from brokertwin.state.core.schema import (
    ZERO_UUID,
    Body,
    Int16,
    Int32,
    Int64,
    Uuid,
    given,
    since,
    tagged,
)
from brokertwin.state.logs.record_validation import RecordsSummary, RefusedRecords

TOPIC_IDS_SINCE = 13
"""The version from which topics go by their ids."""


class PartitionProduceData(Body):
    """What is produced to one partition."""

    index: Int32 = 0
    records_size_in_bytes: Int32 = 0
    batches: list[Batch] = []
    records_error: Int16 = 0
    """What the edge found in the record bytes: an error code, 0 where nothing is wrong.

    Where no batch at all was legible there is the error and no batch.
    """
    records_seen: RecordsSummary | None = None
    """What else the edge has seen in them, where there is anything to tell."""


class TopicProduceData(Body):
    """Partitions of one topic; from v13 on it goes by its id."""

    name: str = ""
    topic_id: Uuid = ZERO_UUID
    partition_data: list[PartitionProduceData] = []


class ProduceRequest(Body):
    """Batches for some partitions, and who has to have them before the answer."""

    transactional_id: str | None = None
    acks: Int16 = -1
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = []
    request_size_in_bytes: Int32 = 0
    """Of the whole request, header and records, as the edge has seen it; 0 where nobody says."""


class RecordError(Body):
    """Why a record was refused."""

    batch_index: Int32
    batch_index_error_message: str | None = None


class PartitionProduceResponse(Body, gc=False):
    """Where the batch was appended, or why not."""

    index: Int32
    error_code: Int16 = 0
    base_offset: Int64 = -1
    log_append_time_ms: Int64 = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    record_errors: Annotated[list[RecordError], since(8)] = []
    error_message: Annotated[str | None, since(8)] = None
    current_leader: Annotated[LeaderIdAndEpoch | UnsetType, tagged(10)] = UNSET
    refused_records: Annotated[RefusedRecords | UnsetType | None, tagged(8)] = UNSET
    """For the edge, which puts `record_errors` in its place; None in checkpoints of old alone."""


class TopicProduceResponse(Body):
    """The answers of one topic, which goes by its name or its id as in the request."""

    name: Annotated[str | UnsetType, given(0, TOPIC_IDS_SINCE - 1)] = UNSET
    topic_id: Annotated[Uuid | UnsetType, given(TOPIC_IDS_SINCE)] = UNSET
    partition_responses: list[PartitionProduceResponse] = []

    @classmethod
    def of(
        cls, produced: TopicProduceData, version: int, partitions: list[PartitionProduceResponse]
    ) -> "TopicProduceResponse":
        """That of a topic in a request of this version."""
        if version >= TOPIC_IDS_SINCE:
            return cls(topic_id=produced.topic_id, partition_responses=partitions)
        return cls(name=produced.name, partition_responses=partitions)


class ProduceResponse(Body):
    """The answers in the order of the request."""

    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32 = 0
