"""OffsetForLeaderEpoch (key 23), versions 2 to 4: where the records of a leader epoch end.

Behaviour: `ReplicaManager.lastOffsetForLeaderEpoch`, `LeaderEpochFileCache.endOffsetFor` (seed 004,
KIP-101, KIP-320). The epoch of the leader ends at the log end offset, an earlier one where the next
one begins; of an epoch that is still to come, or of none (-1), nothing is known: -1, -1. A current
leader epoch below the leader's is 74, above it 75.

Needs CLUSTER_ACTION on the cluster, or DESCRIBE on each topic (29).
"""

from collections.abc import Set
from typing import Annotated

from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster.image import NO_EPOCH
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.errors import Error
from brokertwin.state.core.schema import Body, Int16, Int32, Int64, since
from brokertwin.state.logs.log import end_of_epoch


class WantedPartition(Body):
    partition: Int32 = 0
    current_leader_epoch: Int32 = NO_EPOCH
    leader_epoch: Int32 = NO_EPOCH


class WantedTopic(Body):
    topic: str = ""
    partitions: list[WantedPartition] = []


class OffsetForLeaderEpochRequest(Body):
    replica_id: Int32 = -2
    topics: list[WantedTopic] = []


class EpochEndOffset(Body):
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Annotated[Int32, since(1)] = NO_EPOCH
    end_offset: Int64 = -1


class TopicEndOffsets(Body):
    topic: str
    partitions: list[EpochEndOffset]


class OffsetForLeaderEpochResponse(Body):
    throttle_time_ms: Annotated[Int32, since(2)] = 0
    topics: list[TopicEndOffsets] = []


def handle(broker: Broker, request: Request) -> Decision:
    """Each partition that is asked for, in the order of the request."""
    body: OffsetForLeaderEpochRequest = request.body
    denied: Set[str] = frozenset()
    if not broker.allows_cluster(request, Operation.CLUSTER_ACTION):
        names = (wanted.topic for wanted in body.topics)
        denied = broker.denied_topics(request, Operation.DESCRIBE, names)
    answered = [
        TopicEndOffsets(
            topic=wanted.topic,
            partitions=[_partition(broker, wanted.topic, each) for each in wanted.partitions],
        )
        for wanted in body.topics
        if wanted.topic not in denied
    ]
    answered += [_denied(wanted) for wanted in body.topics if wanted.topic in denied]
    return Decision(response=OffsetForLeaderEpochResponse(topics=answered))


def _partition(broker: Broker, name: str, wanted: WantedPartition) -> EpochEndOffset:
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
    return EpochEndOffset(
        partition=wanted.partition, leader_epoch=end.epoch, end_offset=end.end_offset
    )


def _denied(wanted: WantedTopic) -> TopicEndOffsets:
    error = Error.TOPIC_AUTHORIZATION_FAILED
    partitions = [_refused(each, error) for each in wanted.partitions]
    return TopicEndOffsets(topic=wanted.topic, partitions=partitions)


def _refused(wanted: WantedPartition, error: Error) -> EpochEndOffset:
    return EpochEndOffset(error_code=int(error), partition=wanted.partition)


API = Api(kafka_apis.OFFSET_FOR_LEADER_EPOCH, OffsetForLeaderEpochRequest, handle)
