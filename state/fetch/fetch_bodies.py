"""Reads Fetch requests and makes parts of responses.

Bodies have no record bytes: a response has batch headers, or the sealed part of a log.
"""

from msgspec import UNSET, UnsetType

from brokertwin.protocol.bodies import ZERO_UUID, Body, Int16, Int32, Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchResponsePartitionData,
)
from brokertwin.protocol.generated.shared import NodeEndpoint
from brokertwin.state.fetch.fetch_session import TOPIC_ID_VERSION
from brokertwin.state.fetch.session_items import FetchPartition, topic_identity


class FetchResponseTopicById(Body, kw_only=False, gc=False):
    """A `FetchableTopicResponse` since version 13."""

    topic_id: Uuid
    partitions: list[FetchResponsePartitionData]


class FetchResponseById(Body):
    """A `FetchResponse` since version 13, encoded without removing fields."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    session_id: Int32 = 0
    responses: list[FetchResponseTopicById] = []
    node_endpoints: list[NodeEndpoint] | UnsetType = UNSET


def follower_of(body: FetchRequest) -> int:
    """Id of the follower that sends the request; below 0 for consumers and tools."""
    one, other = body.replica_id, body.replica_state.replica_id  # `max` is slower
    return one if one > other else other


def topic_of(
    one: FetchPartition, partitions: list[FetchResponsePartitionData]
) -> FetchableTopicResponse:
    return FetchableTopicResponse(topic=one.topic, topic_id=one.topic_id, partitions=partitions)


def forgotten(body: FetchRequest) -> list[str]:
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
        FetchableTopicResponse(
            topic=topic.topic,
            partitions=[
                FetchResponsePartitionData(
                    partition_index=each.partition, error_code=error, aborted_transactions=[]
                )
                for each in topic.partitions
            ],
        )
        for topic in topics
    ]
    return FetchResponse(error_code=error, session_id=body.session_id, responses=responses)
