"""ListOffsets (key 2, versions 1 to 11): find offsets by timestamp.

Source: seed 004; KIP-79, KIP-207, KIP-320, KIP-734, KIP-405, KIP-1005, KIP-1023, KIP-1075;
`ReplicaManager.fetchOffset`, `Partition.fetchOffsetForTimestamp`,
`UnifiedLog.fetchOffsetByTimestamp` in Kafka. Values of `timestamp`, with their first version:

    -1  1   latest: the high watermark; the last stable offset for read_committed; the log end
            offset for a replica
    -2  1   earliest: the log start offset and the leader epoch of its record; epoch -1 on a
            follower that never had a record
    -3  7   the record with the greatest timestamp
    -4  8   earliest local: the log start offset, because no segment is in remote storage
    -5  9   latest tiered: -1 in leader epoch -1, because no segment is in remote storage
    -6 11   earliest pending upload: the same result as -5
    >= 0    the first record with that timestamp or a later one

Errors:

    isolation level neither 0 nor 1           -1 UNKNOWN_SERVER_ERROR for all partitions, unless
                                              the client may DESCRIBE none of them
    no DESCRIBE permission on the topic       29 TOPIC_AUTHORIZATION_FAILED
    a partition named twice                   42 INVALID_REQUEST
    any other negative timestamp              35 UNSUPPORTED_VERSION
    no such partition                         3 UNKNOWN_TOPIC_OR_PARTITION
    leader epoch below the log's              74 FENCED_LEADER_EPOCH
    leader epoch above the log's              75 UNKNOWN_LEADER_EPOCH
    this broker does not lead the partition   6 NOT_LEADER_OR_FOLLOWER

The response omits topics without partitions. Without a matching record that the client may read,
offset and timestamp are both -1, without an error.

The batch header gives a record's timestamp in these cases:

- The batch has one record, or the topic has message.timestamp.type=LogAppendTime.
- The requested timestamp is not above the first record's.
- The greatest timestamp is the first record's, or the gateway has reported which record has it.
  This includes deleted records in a segment that still exists.

Otherwise the response has the tagged field `within`: the batch, or the sealed segment, in which the
gateway looks for the record. `offset` and `timestamp` are then lower bounds. If the first records
of a batch are deleted, the match may be one of them; `within.orElse` is the next place to search.

Not implemented: magic 0 and magic 1; remote storage, and so waiting for it (`timeoutMs`).
"""

from collections import Counter

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.additions import Within
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster.image import NO_EPOCH, Topic
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.configs.topic_configs import value_of
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.logs import timestamp_index
from brokertwin.state.logs.log import ISOLATION_LEVELS, Log
from brokertwin.state.logs.timestamp_index import TimestampedPart, TimestampMatch

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

KNOWN_SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
CONSUMER = -1
DEBUGGING_CONSUMER = -2
APPEND_TIME = "LogAppendTime"


def handle(broker: Broker, request: Request) -> Decision:
    """Respond without writing records."""
    body: ListOffsetsRequest = request.body
    named = Counter((t.name, p.partition_index) for t in body.topics for p in t.partitions)
    denied = broker.denied_topics(request, Operation.DESCRIBE, (t.name for t in body.topics))
    responses: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    allowed = [topic for topic in body.topics if topic.name not in denied]
    if allowed and body.isolation_level not in ISOLATION_LEVELS:
        refused = [_refused(topic, Error.UNKNOWN_SERVER_ERROR) for topic in body.topics]
        return Decision(response=ListOffsetsResponse(topics=refused))
    for topic in allowed:
        listed = responses.setdefault(topic.name, {})
        for partition in topic.partitions:
            if named[topic.name, partition.partition_index] > 1:
                response = _failed(partition, Error.INVALID_REQUEST)
            else:
                response = _list(broker, request, topic.name, partition)
            listed[partition.partition_index] = response
    topics = [
        ListOffsetsTopicResponse(name=name, partitions=list(listed.values()))
        for name, listed in responses.items()
        if listed
    ]
    denial = Error.TOPIC_AUTHORIZATION_FAILED
    topics += [_refused(topic, denial) for topic in body.topics if topic.name in denied]
    return Decision(response=ListOffsetsResponse(topics=topics))


def _list(
    broker: Broker, request: Request, topic_name: str, partition: ListOffsetsPartition
) -> ListOffsetsPartitionResponse:
    if partition.timestamp < 0:
        known_since = KNOWN_SINCE.get(partition.timestamp)
        if known_since is None or request.version < known_since:
            return _failed(partition, Error.UNSUPPORTED_VERSION)
    topic = broker.topic_by_name(topic_name)
    log = _readable_log(broker, request.body.replica_id, topic, partition)
    if isinstance(log, Error):
        return _failed(partition, log)
    if partition.timestamp < 0 and partition.timestamp != MAX_TIMESTAMP:
        assert topic is not None
        return _place(broker, topic, log, partition, _last_fetchable(log, request.body))
    assert topic is not None
    timestamp_match = _look_up(broker, topic, log, partition.timestamp)
    if timestamp_match is None or timestamp_match.offset >= _last_fetchable(log, request.body):
        return ListOffsetsPartitionResponse(partition_index=partition.partition_index)
    return _found(log, partition.partition_index, timestamp_match)


def _readable_log(
    broker: Broker, replica_id: int, topic: Topic | None, partition: ListOffsetsPartition
) -> Log | Error:
    """Return the partition's log, or the error that prevents a read."""
    index = partition.partition_index
    if topic is None or not 0 <= index < len(topic.partitions):
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    log = broker.log(topic.topic_id, index)
    if log is None:
        return broker.storage_error(topic.topic_id, index)
    error = broker.leader_error(topic.partitions[index], partition.current_leader_epoch)
    may_be_any_replica = replica_id == DEBUGGING_CONSUMER and error is Error.NOT_LEADER_OR_FOLLOWER
    if error is not Error.NONE and not may_be_any_replica:
        return error
    return log


def _last_fetchable(log: Log, body: ListOffsetsRequest) -> int:
    """Return the first offset that the requester cannot read."""
    if body.replica_id != CONSUMER:
        return log.log_end_offset
    return log.readable_end(body.isolation_level)


def _place(
    broker: Broker, topic: Topic, log: Log, wanted: ListOffsetsPartition, end: int
) -> ListOffsetsPartitionResponse:
    """Return the latest or earliest offset; none for remote storage."""
    partition = topic.partitions[wanted.partition_index]
    response = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    if wanted.timestamp in (LATEST, EARLIEST, EARLIEST_LOCAL):
        is_latest = wanted.timestamp == LATEST
        response.offset = end if is_latest else log.log_start_offset
        is_led = partition.leader == broker.id
        response.leader_epoch = partition.leader_epoch if is_latest else _first_epoch(log, is_led)
    return response


def _first_epoch(log: Log, is_led: bool) -> int:
    """Return the leader epoch of the oldest record.

    An empty log has the current epoch; a follower that never had a record has none.
    """
    if not is_led and not log.log_end_offset:
        return NO_EPOCH
    return log.former_epochs[0].epoch if log.former_epochs else log.leader_epoch


def _look_up(broker: Broker, topic: Topic, log: Log, timestamp: int) -> TimestampMatch | None:
    timestamp_type = value_of("message.timestamp.type", topic.configs, broker.settings)
    has_append_time = timestamp_type == APPEND_TIME
    if timestamp == MAX_TIMESTAMP:
        return timestamp_index.greatest(broker, log, has_append_time)
    return timestamp_index.first_at_or_after(broker, log, timestamp, has_append_time)


def _found(log: Log, partition: int, match: TimestampMatch) -> ListOffsetsPartitionResponse:
    epoch = match.part.leader_epoch
    return ListOffsetsPartitionResponse(
        partition_index=partition,
        timestamp=match.timestamp,
        offset=match.offset,
        leader_epoch=epoch if epoch >= 0 else log.leader_epoch,
        within=None if match.is_exact else _within(log, match.part, match.offset, match.or_else),
    )


def _within(
    log: Log, part: TimestampedPart, first_offset: int, or_else: TimestampedPart | None
) -> Within:
    return Within(
        base_offset=first_offset,
        last_offset=part.last_offset,
        base_timestamp=part.base_timestamp,
        max_timestamp=part.max_timestamp,
        locator=part.locator,
        is_sealed=part.is_sealed,
        segment_offset=part.base_offset if part.is_sealed else -1,
        topic_id=log.topic_id if part.is_sealed else ZERO_UUID,
        or_else=None if or_else is None else _within(log, or_else, or_else.base_offset, None),
    )


def _refused(topic: ListOffsetsTopic, error: Error) -> ListOffsetsTopicResponse:
    return ListOffsetsTopicResponse(
        name=topic.name, partitions=[_failed(each, error) for each in topic.partitions]
    )


def _failed(partition: ListOffsetsPartition, error: Error) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=partition.partition_index, error_code=error)


API = Api(kafka_apis.LIST_OFFSETS, handle)
