"""DeleteRecords (key 21, versions 0 to 2): raise log start offsets.

Source: seed 004; KIP-107; `ReplicaManager.deleteRecords`, `Partition.deleteRecordsOnLeader` in
Kafka. The errors, in this order:

    no DELETE on the topic                               29 TOPIC_AUTHORIZATION_FAILED
    missing topic or partition                           3 UNKNOWN_TOPIC_OR_PARTITION
    an internal topic                                    17 INVALID_TOPIC_EXCEPTION
    the log's directory has failed                       56 KAFKA_STORAGE_ERROR
    this broker does not lead the partition              6 NOT_LEADER_OR_FOLLOWER
    the topic's cleanup.policy lacks `delete`            44 POLICY_VIOLATION
    offset below -1, or above the high watermark         1 OFFSET_OUT_OF_RANGE

Offset -1 means the high watermark. If a partition is repeated, the last offset applies. A topic
without partitions has an empty result. The log start offset never decreases.

The low watermark in the response is the smallest log start offset of the live replicas. The
response waits until each of them has reached the offset (`DelayedDeleteRecords`). Followers raise
their log start offset with the leader's next Fetch response, and report it in their next Fetch
request. While the request waits:

    the request's timeout expires            7 REQUEST_TIMED_OUT, with the initial low watermark
    the topic is deleted                     3 UNKNOWN_TOPIC_OR_PARTITION, low watermark -1
    another broker leads the partition       6 NOT_LEADER_OR_FOLLOWER, low watermark -1
"""

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster.image import INTERNAL_TOPICS, Topic
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.configs.topic_configs import value_of
from brokertwin.state.core import pending
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Condition, Decision, PendingRequest, Request
from brokertwin.state.core.records import LogStartMoved, Record
from brokertwin.state.core.tables import decode_item
from brokertwin.state.logs import producer_expiry
from brokertwin.state.replication import copying

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1

_GONE = int(Error.UNKNOWN_TOPIC_OR_PARTITION)
_LOST = int(Error.KAFKA_STORAGE_ERROR)
_LED_ELSEWHERE = int(Error.NOT_LEADER_OR_FOLLOWER)


class Deleted(msgspec.Struct, array_like=True):
    """A pending deletion; `response_place` locates its result."""

    response_place: tuple[int, int]
    topic_id: Uuid
    partition: int
    offset: int


class DelayedDeleteRecords(msgspec.Struct, array_like=True):
    """A request that waits for replicas: results and pending deletions."""

    topics: list[DeleteRecordsTopicResult]
    deleted: list[Deleted]


def handle(broker: Broker, request: Request) -> Decision:
    """Raise the log start offsets, then wait for replicas that lag."""
    body: DeleteRecordsRequest = request.body
    wanted: dict[str, dict[int, int]] = {}
    for named in body.topics:
        for each in named.partitions:
            wanted.setdefault(named.name, {})[each.partition_index] = each.offset
    denied = broker.denied_topics(request, Operation.DELETE, wanted)
    records: list[Record] = []
    state = DelayedDeleteRecords([], [])
    for name, offsets in wanted.items():
        results: list[DeleteRecordsPartitionResult] = []
        state.topics.append(DeleteRecordsTopicResult(name=name, partitions=results))
        topic = broker.topic_by_name(name)
        for index, offset in offsets.items():
            if name in denied:
                results.append(_refused(index, Error.TOPIC_AUTHORIZATION_FAILED))
                continue
            outcome = _delete(broker, topic, index, offset, records)
            if isinstance(outcome, DeleteRecordsPartitionResult):
                results.append(outcome)
                continue
            assert topic is not None, name
            response_place = (len(state.topics) - 1, len(results))
            state.deleted.append(Deleted(response_place, topic.topic_id, index, outcome))
            results.append(DeleteRecordsPartitionResult(partition_index=index))
    return _wait_or_respond(broker, state, records, broker.now + max(body.timeout_ms, 0))


def ready(broker: Broker, waiting: PendingRequest) -> bool:
    """Return whether no deletion is pending; store the final results."""
    state = decode_item(waiting.state, DelayedDeleteRecords)
    if _note(broker, state):
        pending.keep_state(broker.tables.pending, waiting.event_id, msgspec.msgpack.encode(state))
    return not state.deleted


def complete(_broker: Broker, waiting: PendingRequest) -> Decision:
    """Respond; deletions that are still pending have timed out."""
    state = decode_item(waiting.state, DelayedDeleteRecords)
    return Decision(response=DeleteRecordsResponse(topics=state.topics))


def _wait_or_respond(
    broker: Broker, state: DelayedDeleteRecords, records: list[Record], deadline: int
) -> Decision:
    """Wait for lagging replicas; the leader reaches the offset at once."""
    pending = []
    for each in state.deleted:
        place, result = (each.topic_id, each.partition), _result_of(state, each)
        log = broker.log(*place)
        assert log is not None, place
        start = max(log.log_start_offset, each.offset)
        result.low_watermark = copying.low_watermark(broker, place, start)
        if result.low_watermark < each.offset:
            result.error_code = int(Error.REQUEST_TIMED_OUT)
            pending.append(each)
    state.deleted = pending
    if not pending:
        return Decision(records=records, response=DeleteRecordsResponse(topics=state.topics))
    keys = [broker.log_key(each.topic_id, each.partition) for each in pending]
    return Decision(
        records=records, condition=Condition(deadline, keys, msgspec.msgpack.encode(state))
    )


def _note(broker: Broker, state: DelayedDeleteRecords) -> bool:
    """Store the results that are final by now; return whether there are any."""
    pending = []
    for each in state.deleted:
        place, result = (each.topic_id, each.partition), _result_of(state, each)
        partition, log = copying.partition_of(broker, place), broker.log(*place)
        if partition is None:
            result.error_code, result.low_watermark = _GONE, NO_LOW_WATERMARK
        elif broker.has_lost(*place):
            result.error_code, result.low_watermark = _LOST, NO_LOW_WATERMARK
        elif log is None or partition.leader != broker.id:
            result.error_code, result.low_watermark = _LED_ELSEWHERE, NO_LOW_WATERMARK
        else:
            low_watermark = copying.low_watermark(broker, place, log.log_start_offset)
            if low_watermark < each.offset:
                pending.append(each)
                continue
            result.error_code, result.low_watermark = 0, low_watermark
    is_any_decided = len(pending) < len(state.deleted)
    state.deleted = pending
    return is_any_decided


def _result_of(state: DelayedDeleteRecords, deleted: Deleted) -> DeleteRecordsPartitionResult:
    topic_at, partition_at = deleted.response_place
    return state.topics[topic_at].partitions[partition_at]


def _delete(
    broker: Broker, topic: Topic | None, index: int, wanted: int, records: list[Record]
) -> DeleteRecordsPartitionResult | int:
    """Return the offset that replicas must reach, or an error result.

    Appends a record if the offset changes.
    """
    if topic is None or not 0 <= index < len(topic.partitions):
        return _refused(index, Error.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.name in INTERNAL_TOPICS:
        return _refused(index, Error.INVALID_TOPIC_EXCEPTION)
    log = broker.log(topic.topic_id, index)
    if log is None and broker.has_lost(topic.topic_id, index):
        return _refused(index, Error.KAFKA_STORAGE_ERROR)
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
        if broker.settings.brokertwin_reject_unknown_producer:
            records += producer_expiry.without_records(broker, topic.topic_id, index, offset)
    return offset


def _refused(partition: int, error: Error) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=partition, error_code=error)


API = Api(kafka_apis.DELETE_RECORDS, handle, ready=ready, complete=complete)
