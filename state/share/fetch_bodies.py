"""Bodies of ShareFetch and ShareAcknowledge, versions 1 and 2.

KIP-932, KIP-1206, KIP-1222. Responses name batches instead of record bytes, as in Fetch.
"""

from typing import Annotated

import msgspec

from brokertwin.state.core.records import Batch
from brokertwin.state.core.schema import Body, Int8, Int16, Int32, Int64, Uuid, since, tagged


class AcknowledgementBatch(Body):
    """Offsets inclusive; one type for all records, or one for each."""

    first_offset: Int64
    last_offset: Int64
    acknowledge_types: list[Int8]


class FetchedPartition(Body):
    """A partition to fetch or acknowledge."""

    partition_index: Int32
    acknowledgement_batches: list[AcknowledgementBatch] = []


class FetchedTopic(Body):
    topic_id: Uuid
    partitions: list[FetchedPartition] = []


class ForgottenTopic(Body):
    """Partitions to remove from the session."""

    topic_id: Uuid
    partitions: list[Int32] = []


class ShareFetchRequest(Body, kw_only=True):
    """Times in ms, sizes in bytes."""

    group_id: str | None = None
    member_id: str | None
    share_session_epoch: Int32
    max_wait_ms: Int32
    min_bytes: Int32
    max_bytes: Int32 = 2**31 - 1
    max_records: Int32
    batch_size: Int32
    share_acquire_mode: Int8 = 0
    is_renew_ack: bool = False
    topics: list[FetchedTopic]
    forgotten_topics_data: list[ForgottenTopic]


class ShareAcknowledgeRequest(Body, kw_only=True):
    group_id: str | None = None
    member_id: str | None
    share_session_epoch: Int32
    is_renew_ack: bool = False
    topics: list[FetchedTopic]


class Leader(Body):
    """The leader, if this broker is not; else zeros."""

    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class AcquiredRecords(Body):
    """Acquired records (offsets inclusive) and their delivery count."""

    first_offset: Int64
    last_offset: Int64
    delivery_count: Int16


class SealedBatches(Body):
    """Position of batches in the topic `segments`, and the part to return."""

    topic_id: Uuid
    base_offset: Int64
    fetch_offset: Int64
    end_offset: Int64
    max_bytes: Int32


class AnsweredPartition(Body, kw_only=True):
    """Fetched data and acknowledgement result."""

    partition_index: Int32
    error_code: Int16 = 0
    error_message: str | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: str | None = None
    current_leader: Leader = msgspec.field(default_factory=Leader)
    records: None = None
    acquired_records: list[AcquiredRecords] = []
    records_size_in_bytes: Int32 = 0
    batches: list[Batch] = []
    sealed: Annotated[SealedBatches | None, tagged(0)] = None


class AnsweredTopic(Body):
    topic_id: Uuid
    partitions: list[AnsweredPartition]


class NodeEndpoint(Body):
    """Address of a broker, added by the edge."""

    node_id: Int32
    host: str
    port: Int32
    rack: str | None = None


class ShareFetchResponse(Body, kw_only=True):
    """The lock time is in ms."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: list[AnsweredTopic] = []
    node_endpoints: list[NodeEndpoint] = []


class AcknowledgedPartition(Body, kw_only=True):
    partition_index: Int32
    error_code: Int16 = 0
    error_message: str | None = None
    current_leader: Leader = msgspec.field(default_factory=Leader)


class AcknowledgedTopic(Body):
    topic_id: Uuid
    partitions: list[AcknowledgedPartition]


class ShareAcknowledgeResponse(Body, kw_only=True):
    """The lock time is in ms."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Annotated[Int32, since(2)] = 0
    responses: list[AcknowledgedTopic] = []
    node_endpoints: list[NodeEndpoint] = []
