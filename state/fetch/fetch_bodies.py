"""Reads Fetch requests and makes parts of responses.

Record bytes are not in the bodies: a response names batches, or the sealed part of a log.
"""

from brokertwin.state.core.errors import Error
from brokertwin.state.core.schema import (
    ZERO_UUID,
    Body,
    Int16,
    Int32,
    Uuid,
)
from brokertwin.state.core.wire.generated.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    FetchResponsePartitionData,
)
from brokertwin.state.fetch.fetch_session import TOPIC_ID_VERSION
from brokertwin.state.fetch.session_items import FetchPartition, called


class AnsweredTopicById(Body, kw_only=False, gc=False):
    """A `FetchableTopicResponse` in versions from 13 on."""

    topic_id: Uuid
    partitions: list[FetchResponsePartitionData]


class FetchResponseById(Body):
    """A `FetchResponse` in versions from 13 on: rendering removes nothing from it."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    session_id: Int32 = 0
    responses: list[AnsweredTopicById] = []


def follower_of(body: FetchRequest) -> int:
    """The id of the follower that sent the request; below 0 for consumers and tools."""
    one, other = body.replica_id, body.replica_state.replica_id  # `max` takes longer
    return one if one > other else other


def topic_of(
    one: FetchPartition, partitions: list[FetchResponsePartitionData]
) -> FetchableTopicResponse:
    """The topic of a partition in a response."""
    return FetchableTopicResponse(topic=one.topic, topic_id=one.topic_id, partitions=partitions)


def forgotten(body: FetchRequest) -> list[str]:
    """The identities of the partitions that the request takes out of its session."""
    return [
        f"{called(topic.topic_id, topic.topic)}/{partition}"
        for topic in body.forgotten_topics_data
        for partition in topic.partitions
    ]


def requested(body: FetchRequest) -> dict[str, FetchPartition]:
    """The partitions that the request names; the last one counts where it names one twice."""
    named = {}
    for topic in body.topics:
        topic_id, name = topic.topic_id, topic.topic
        identity = topic_id if topic_id != ZERO_UUID else called(topic_id, name)
        for asked in topic.partitions:
            partition = asked.partition
            named[f"{identity}/{partition}"] = FetchPartition(
                topic_id,
                name,
                partition,
                asked.fetch_offset,
                asked.partition_max_bytes,
                asked.log_start_offset,
                asked.current_leader_epoch,
                asked.last_fetched_epoch,
            )
    return named


def refused(body: FetchRequest, version: int, error: Error) -> FetchResponse:
    """The answer to a request that is refused as a whole (`FetchRequest.getErrorResponse`).

    Up to version 12 each partition has the error, too: once there was no other place for it.
    """
    topics = [] if version >= TOPIC_ID_VERSION else body.topics
    responses = [
        FetchableTopicResponse(
            topic=topic.topic,
            partitions=[
                FetchResponsePartitionData(
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
