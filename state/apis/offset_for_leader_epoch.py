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
        names = (topic.topic for topic in body.topics)
        denied = broker.denied_topics(request, Operation.DESCRIBE, names)
    results = [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[_partition(broker, topic.topic, each) for each in topic.partitions],
        )
        for topic in body.topics
        if topic.topic not in denied
    ]
    results += [_denied(topic) for topic in body.topics if topic.topic in denied]
    return Decision(response=OffsetForLeaderEpochResponse(topics=results))


def _partition(
    broker: Broker, name: str, partition: OffsetForLeaderPartition
) -> OffsetForLeaderEpochResponseEpochEndOffset:
    topic = broker.topic_by_name(name)
    if topic is None or not 0 <= partition.partition < len(topic.partitions):
        return _refused(partition, Error.UNKNOWN_TOPIC_OR_PARTITION)
    if broker.has_lost(topic.topic_id, partition.partition):
        return _refused(partition, Error.KAFKA_STORAGE_ERROR)
    error = broker.leader_error(
        topic.partitions[partition.partition], partition.current_leader_epoch
    )
    if error is not Error.NONE:
        return _refused(partition, error)
    log = broker.log(topic.topic_id, partition.partition)
    if log is None:
        return _refused(partition, Error.NOT_LEADER_OR_FOLLOWER)
    end = end_of_epoch(log, partition.leader_epoch)
    return OffsetForLeaderEpochResponseEpochEndOffset(
        partition=partition.partition, leader_epoch=end.epoch, end_offset=end.end_offset
    )


def _denied(topic: OffsetForLeaderTopic) -> OffsetForLeaderTopicResult:
    error = Error.TOPIC_AUTHORIZATION_FAILED
    partitions = [_refused(each, error) for each in topic.partitions]
    return OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions)


def _refused(
    partition: OffsetForLeaderPartition, error: Error
) -> OffsetForLeaderEpochResponseEpochEndOffset:
    return OffsetForLeaderEpochResponseEpochEndOffset(
        error_code=int(error), partition=partition.partition
    )


API = Api(kafka_apis.OFFSET_FOR_LEADER_EPOCH, handle)
