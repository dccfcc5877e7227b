"""DeleteRecords (key 21, versions 0 to 2): raises a partition's log start offset.

Source: seed 004; KIP-107; `ReplicaManager.deleteRecords`, `Partition.deleteRecordsOnLeader` in
Kafka. The errors, in this order:

    the client may not DELETE the topic                  29 TOPIC_AUTHORIZATION_FAILED
    no such topic or partition                           3 UNKNOWN_TOPIC_OR_PARTITION
    an internal topic                                    17 INVALID_TOPIC_EXCEPTION
    this broker does not lead the partition              6 NOT_LEADER_OR_FOLLOWER
    the topic's cleanup.policy has no `delete`           44 POLICY_VIOLATION
    offset below -1, or above the high watermark         1 OFFSET_OUT_OF_RANGE

-1 stands for the high watermark; of a partition named twice the last offset counts. The log start
offset never goes back. The low watermark in the answer is the smallest log start offset among the
replicas; with a single replica it is reached at once, so nothing waits.

Not done: replicas other than the leader (the wait for them, 7 REQUEST_TIMED_OUT).
"""

from brokerstream.state.access.authorizer import Operation
from brokerstream.state.cluster.image import INTERNAL_TOPICS, Topic
from brokerstream.state.cluster.machines import Broker
from brokerstream.state.configs.topic_configs import value_of
from brokerstream.state.core.api import Api
from brokerstream.state.core.decision import Decision, Request
from brokerstream.state.core.errors import Error
from brokerstream.state.core.records import LogStartMoved, Record
from brokerstream.state.core.schema import Body, Int16, Int32, Int64
from brokerstream.state.logs import producer_expiry

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1


class DeletePartition(Body):
    """The first offset that is to stay; -1 for the high watermark."""

    partition_index: Int32
    offset: Int64


class DeleteTopic(Body):
    """Partitions of one topic."""

    name: str
    partitions: list[DeletePartition]


class DeleteRecordsRequest(Body):
    """What to delete, and how long in ms to wait for the replicas."""

    topics: list[DeleteTopic]
    timeout_ms: Int32 = 0


class DeletedPartition(Body):
    """The low watermark, -1 with an error."""

    partition_index: Int32
    low_watermark: Int64 = NO_LOW_WATERMARK
    error_code: Int16 = 0


class DeletedTopic(Body):
    """The answers of one topic."""

    name: str
    partitions: list[DeletedPartition]


class DeleteRecordsResponse(Body, kw_only=True):
    """The answers in the order of the request."""

    throttle_time_ms: Int32 = 0
    topics: list[DeletedTopic]


def handle(broker: Broker, request: Request) -> Decision:
    """Moves the log start offsets that may be moved."""
    body: DeleteRecordsRequest = request.body
    wanted: dict[str, dict[int, int]] = {}
    for named in body.topics:
        offsets = wanted.setdefault(named.name, {})
        offsets.update((p.partition_index, p.offset) for p in named.partitions)
    denied = broker.denied_topics(request, Operation.DELETE, wanted)
    records: list[Record] = []
    topics = []
    for name, offsets in wanted.items():
        if name in denied:
            refused = [_refused(index, Error.TOPIC_AUTHORIZATION_FAILED) for index in offsets]
            topics.append(DeletedTopic(name=name, partitions=refused))
            continue
        topic = broker.topic_by_name(name)
        partitions = [_delete(broker, topic, *place, records) for place in offsets.items()]
        topics.append(DeletedTopic(name=name, partitions=partitions))
    return Decision(records=records, response=DeleteRecordsResponse(topics=topics))


def _delete(
    broker: Broker, topic: Topic | None, index: int, wanted: int, records: list[Record]
) -> DeletedPartition:
    """Answers one partition; where its start moves, `records` gets the record."""
    if topic is None or not 0 <= index < len(topic.partitions):
        return _refused(index, Error.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.name in INTERNAL_TOPICS:
        return _refused(index, Error.INVALID_TOPIC_EXCEPTION)
    log = broker.log(topic.topic_id, index)
    if log is None or topic.partitions[index].leader != broker.id:
        return _refused(index, Error.NOT_LEADER_OR_FOLLOWER)
    policy = value_of("cleanup.policy", topic.configs, broker.settings)
    if not isinstance(policy, list) or "delete" not in policy:
        return _refused(index, Error.POLICY_VIOLATION)
    offset = log.high_watermark if wanted == HIGH_WATERMARK else wanted
    if not 0 <= offset <= log.high_watermark:
        return _refused(index, Error.OFFSET_OUT_OF_RANGE)
    if offset > log.log_start_offset:
        records.append(LogStartMoved(topic.topic_id, index, offset))
        if broker.settings.brokerstream_reject_unknown_producer:
            records += producer_expiry.without_records(
                broker.tables.producers, broker.id, topic.topic_id, index, offset
            )
    low_watermark = max(log.log_start_offset, offset)
    return DeletedPartition(partition_index=index, low_watermark=low_watermark)


def _refused(partition: int, error: Error) -> DeletedPartition:
    return DeletedPartition(partition_index=partition, error_code=error)


API = Api(
    key=21,
    name="DELETE_RECORDS",
    versions=(0, 2),
    request_type=DeleteRecordsRequest,
    handle=handle,
)
