"""Bodies of Produce (key 0), with batch headers in place of records.

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
"""First version with topic ids."""


class PartitionProduceData(Body):
    """Batches for one partition."""

    index: Int32 = 0
    records_size_in_bytes: Int32 = 0
    batches: list[Batch] = []
    records_error: Int16 = 0
    """Error code of the edge for the record bytes, 0 for none.

    If no batch was readable, there is the error and no batch.
    """
    records_seen: RecordsSummary | None = None
    """Facts about the records that are not in the headers, if any."""


class TopicProduceData(Body):
    """Partitions of one topic; from v13 on with its id."""

    name: str = ""
    topic_id: Uuid = ZERO_UUID
    partition_data: list[PartitionProduceData] = []


class ProduceRequest(Body):
    """Batches for some partitions."""

    transactional_id: str | None = None
    acks: Int16 = -1
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = []
    request_size_in_bytes: Int32 = 0
    """Size of the request with header and records, as seen by the edge; 0 if unknown."""


class RecordError(Body):
    """Why a record was rejected."""

    batch_index: Int32
    batch_index_error_message: str | None = None


class PartitionProduceResponse(Body, gc=False):
    """Offset of the appended batch, or an error."""

    index: Int32
    error_code: Int16 = 0
    base_offset: Int64 = -1
    log_append_time_ms: Int64 = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    record_errors: Annotated[list[RecordError], since(8)] = []
    error_message: Annotated[str | None, since(8)] = None
    current_leader: Annotated[LeaderIdAndEpoch | UnsetType, tagged(10)] = UNSET
    refused_records: Annotated[RefusedRecords | UnsetType | None, tagged(8)] = UNSET
    """For the edge, which replaces it by `record_errors`; None in old checkpoints only."""


class TopicProduceResponse(Body):
    """Results of one topic, which has its name or its id, like the request."""

    name: Annotated[str | UnsetType, given(0, TOPIC_IDS_SINCE - 1)] = UNSET
    topic_id: Annotated[Uuid | UnsetType, given(TOPIC_IDS_SINCE)] = UNSET
    partition_responses: list[PartitionProduceResponse] = []

    @classmethod
    def of(
        cls, produced: TopicProduceData, version: int, partitions: list[PartitionProduceResponse]
    ) -> "TopicProduceResponse":
        """Results of a topic in a request of this version."""
        if version >= TOPIC_IDS_SINCE:
            return cls(topic_id=produced.topic_id, partition_responses=partitions)
        return cls(name=produced.name, partition_responses=partitions)


class ProduceResponse(Body):
    """Results in the order of the request."""

    responses: list[TopicProduceResponse]
    throttle_time_ms: Int32 = 0
