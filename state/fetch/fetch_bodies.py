"""Bodies of Fetch, versions 4 to 18 (`FetchRequest.json`, `FetchResponse.json` in Kafka).

Without record bytes: a response has batch headers, or the sealed part of a log with the batches.
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from brokertwin.state.cluster.image import NO_EPOCH, LeaderIdAndEpoch
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import EndMarker
from brokertwin.state.core.schema import (
    ZERO_UUID,
    Body,
    Int8,
    Int16,
    Int32,
    Int64,
    Uuid,
    since,
    tagged,
)
from brokertwin.state.fetch.fetch_session import FINAL_EPOCH, TOPIC_ID_VERSION
from brokertwin.state.fetch.session_items import FetchPartition, topic_identity


class FetchRequestPartition(Body):
    """A requested partition; -1 for an epoch or offset that is not set."""

    partition: Int32 = 0
    current_leader_epoch: Int32 = NO_EPOCH
    fetch_offset: Int64 = 0
    last_fetched_epoch: Int32 = NO_EPOCH
    log_start_offset: Int64 = -1
    partition_max_bytes: Int32 = 0


class FetchRequestTopic(Body):
    """Requested partitions of a topic, by name up to version 12, then by id."""

    topic: str = ""
    topic_id: Uuid = ZERO_UUID
    partitions: list[FetchRequestPartition] = []


class FetchForgottenTopic(Body):
    """Partitions to remove from a session."""

    topic: str = ""
    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = []


class FetchReplicaState(Body):
    """The sender from version 15 on: a follower, or -1."""

    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchRequest(Body):
    """A fetch; times are in ms, sizes in bytes."""

    replica_id: Int32 = -1
    replica_state: Annotated[FetchReplicaState, tagged(15)] = msgspec.field(
        default_factory=FetchReplicaState
    )
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2**31 - 1
    isolation_level: Int8 = 0
    session_id: Int32 = 0
    session_epoch: Int32 = FINAL_EPOCH
    topics: list[FetchRequestTopic] = []
    forgotten_topics_data: list[FetchForgottenTopic] = []
    rack_id: str = ""

    @property
    def follower_id(self) -> int:
        """Id of the follower that sends the request; below 0 for consumers and tools."""
        one, other = self.replica_id, self.replica_state.replica_id  # `max` is slower
        return one if one > other else other


class DivergingEpoch(Body):
    """End of a leader epoch in the leader's log; -1 if the reader has not diverged."""

    epoch: Int32 = NO_EPOCH
    end_offset: Int64 = -1


class AbortedTransaction(Body):
    """An aborted transaction in the range of a read."""

    producer_id: Int64
    first_offset: Int64


class SealedRead(Body):
    """The part of the topic `segments` with a partition's batches, and the range to read."""

    topic_id: Uuid
    base_offset: Int64
    fetch_offset: Int64
    end_offset: Int64
    max_bytes: Int32


class FetchedBatch(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """A `Batch` in a response: the fields of a `StoredBatch` in order, without null values."""

    base_offset: Int64
    last_offset_delta: Int32
    producer_id: Int64
    producer_epoch: Int16
    base_sequence: Int32
    partition_leader_epoch: Int32
    base_timestamp: Int64
    max_timestamp: Int64
    size_in_bytes: Int32
    record_count: Int32
    magic: Int8
    compression_type: str
    is_transactional: bool
    is_control: bool
    crc: Int64
    locator: str | None = None
    end_marker: EndMarker | None = None
    written: bytes | None = None
    greatest_delta: int | None = None

    @property
    def last_offset(self) -> int:
        """Offset of the batch's last record."""
        return self.base_offset + self.last_offset_delta


class FetchResponsePartition(Body, gc=False):
    """Response of a partition."""

    partition_index: Int32
    error_code: Int16 = 0
    high_watermark: Int64 = -1
    last_stable_offset: Int64 = -1
    log_start_offset: Annotated[Int64, since(5)] = -1
    diverging_epoch: Annotated[DivergingEpoch | UnsetType, tagged(12)] = UNSET
    current_leader: Annotated[LeaderIdAndEpoch | UnsetType, tagged(16)] = UNSET
    """In the schema since version 12; brokers send it since 16."""
    aborted_transactions: list[AbortedTransaction] | None = None
    preferred_read_replica: Annotated[Int32, since(11)] = -1
    records: None = None
    records_size_in_bytes: Int32 = 0
    batches: list[FetchedBatch] = []
    sealed: Annotated[SealedRead | UnsetType, tagged(0)] = UNSET


class FetchResponseTopic(Body):
    """Responses of a topic's partitions."""

    topic: Annotated[str, since(0, 12)] = ""
    topic_id: Annotated[Uuid, since(13)] = ZERO_UUID
    partitions: list[FetchResponsePartition] = []

    @classmethod
    def of(
        cls, one: FetchPartition, partitions: list[FetchResponsePartition]
    ) -> "FetchResponseTopic":
        """Response for the topic of a partition."""
        return cls(topic=one.topic, topic_id=one.topic_id, partitions=partitions)


class FetchResponseTopicById(Body, kw_only=False, gc=False):
    """A `FetchResponseTopic` since version 13."""

    topic_id: Uuid
    partitions: list[FetchResponsePartition]


class FetchResponse(Body):
    """The response; session id 0 means no session."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(7)] = 0
    session_id: Annotated[Int32, since(7)] = 0
    responses: list[FetchResponseTopic] = []


class FetchResponseById(Body):
    """A `FetchResponse` since version 13, encoded without removing fields."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    session_id: Int32 = 0
    responses: list[FetchResponseTopicById] = []


def forgotten(body: FetchRequest) -> list[str]:
    """Identities of the partitions that the request removes from its session."""
    return [
        f"{topic_identity(topic.topic_id, topic.topic)}/{partition}"
        for topic in body.forgotten_topics_data
        for partition in topic.partitions
    ]


def requested(body: FetchRequest) -> dict[str, FetchPartition]:
    """Partitions of the request; the last one counts if one is repeated."""
    named = {}
    for topic in body.topics:
        topic_id, name = topic.topic_id, topic.topic
        identity = topic_id if topic_id != ZERO_UUID else topic_identity(topic_id, name)
        for requested in topic.partitions:
            partition = requested.partition
            named[f"{identity}/{partition}"] = FetchPartition(
                topic_id,
                name,
                partition,
                requested.fetch_offset,
                requested.partition_max_bytes,
                requested.log_start_offset,
                requested.current_leader_epoch,
                requested.last_fetched_epoch,
            )
    return named


def refused(body: FetchRequest, version: int, error: Error) -> FetchResponse:
    """Response with an error for the whole request (`FetchRequest.getErrorResponse`).

    Up to version 12 each partition has the error, too, because early versions had no other field.
    """
    topics = [] if version >= TOPIC_ID_VERSION else body.topics
    responses = [
        FetchResponseTopic(
            topic=topic.topic,
            partitions=[
                FetchResponsePartition(
                    partition_index=each.partition,
                    error_code=error,
                    aborted_transactions=[],
                )
                for each in topic.partitions
            ],
        )
        for topic in topics
    ]
    return FetchResponse(error_code=error, session_id=body.session_id, responses=responses)
