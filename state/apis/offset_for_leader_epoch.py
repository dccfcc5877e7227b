"""OffsetForLeaderEpoch (key 23, versions 2 to 4): end of an epoch.

Source: `ReplicaManager.lastOffsetForLeaderEpoch`, `LeaderEpochFileCache.endOffsetFor` (seed 004,
KIP-101, KIP-320). The leader's epoch ends at the log end offset, an earlier epoch at the start of
the next one. For a future epoch, or none (-1), epoch and offset are both -1.

    no CLUSTER_ACTION on the cluster and no DESCRIBE on the topic    29 TOPIC_AUTHORIZATION_FAILED
    current leader epoch below the leader's                          74 FENCED_LEADER_EPOCH
    current leader epoch above the leader's                          75 UNKNOWN_LEADER_EPOCH
"""

from collections.abc import Set

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.logs.log import end_of_epoch


def handle(broker: Broker, request: Request) -> Decision:
    """Return each partition's end offset; unauthorized topics come last."""
    body: OffsetForLeaderEpochRequest = request.body
    denied: Set[str] = frozenset()
    if not broker.allows_cluster(request, Operation.CLUSTER_ACTION):
        names = (wanted.topic for wanted in body.topics)
        denied = broker.denied_topics(request, Operation.DESCRIBE, names)
    results = [
        OffsetForLeaderTopicResult(
            topic=wanted.topic,
            partitions=[_partition(broker, wanted.topic, each) for each in wanted.partitions],
        )
        for wanted in body.topics
        if wanted.topic not in denied
    ]
    results += [_denied(wanted) for wanted in body.topics if wanted.topic in denied]
    return Decision(response=OffsetForLeaderEpochResponse(topics=results))


def _partition(
    broker: Broker, name: str, wanted: OffsetForLeaderPartition
) -> OffsetForLeaderEpochResponseEpochEndOffset:
    topic = broker.topic_by_name(name)
    if topic is None or not 0 <= wanted.partition < len(topic.partitions):
        return _refused(wanted, Error.UNKNOWN_TOPIC_OR_PARTITION)
    if broker.has_lost(topic.topic_id, wanted.partition):
        return _refused(wanted, Error.KAFKA_STORAGE_ERROR)
    error = broker.leader_error(topic.partitions[wanted.partition], wanted.current_leader_epoch)
    if error is not Error.NONE:
        return _refused(wanted, error)
    log = broker.log(topic.topic_id, wanted.partition)
    if log is None:
        return _refused(wanted, Error.NOT_LEADER_OR_FOLLOWER)
    end = end_of_epoch(log, wanted.leader_epoch)
    return OffsetForLeaderEpochResponseEpochEndOffset(
        partition=wanted.partition, leader_epoch=end.epoch, end_offset=end.end_offset
    )


def _denied(wanted: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult:
    error = Error.TOPIC_AUTHORIZATION_FAILED
    partitions = [_refused(each, error) for each in wanted.partitions]
    return OffsetForLeaderTopicResult(topic=wanted.topic, partitions=partitions)


def _refused(
    wanted: OffsetForLeaderPartition, error: Error
) -> OffsetForLeaderEpochResponseEpochEndOffset:
    return OffsetForLeaderEpochResponseEpochEndOffset(
        error_code=int(error), partition=wanted.partition
    )


API = Api(kafka_apis.OFFSET_FOR_LEADER_EPOCH, handle)
