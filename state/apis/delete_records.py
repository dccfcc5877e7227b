"""DeleteRecords (key 21, versions 0 to 2): raises a partition's log start offset.

Source: seed 004; KIP-107; `ReplicaManager.deleteRecords`, `Partition.deleteRecordsOnLeader` in
Kafka. The errors, in this order:

    the client may not DELETE the topic                  29 TOPIC_AUTHORIZATION_FAILED
    no such topic or partition                           3 UNKNOWN_TOPIC_OR_PARTITION
    an internal topic                                    17 INVALID_TOPIC_EXCEPTION
    this broker does not lead the partition              6 NOT_LEADER_OR_FOLLOWER
    the topic's cleanup.policy has no `delete`           44 POLICY_VIOLATION
    offset below -1, or above the high watermark         1 OFFSET_OUT_OF_RANGE

-1 stands for the high watermark; of a partition named twice the last offset counts, and a topic
without partitions has no answer. The log start
offset never goes back. The low watermark in the answer is the smallest log start offset among the
replicas that are alive. The answer waits until each is at the offset (`DelayedDeleteRecords`):
followers raise their start with their leader's next answer, and say so with their next fetch.

    the time-out of the request has passed               7 REQUEST_TIMED_OUT, with the low watermark
                                                         of the beginning
    the topic is gone, or led by another broker          3, 6, with -1
"""

import msgspec

from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster.image import INTERNAL_TOPICS, Topic
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.configs.topic_configs import value_of
from brokertwin.state.core import kafka_apis, pending
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Condition, Decision, PendingRequest, Request
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import LogStartMoved, Record
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.tables import decode_item
from brokertwin.state.core.wire.generated.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from brokertwin.state.logs import producer_expiry
from brokertwin.state.replication import copying

HIGH_WATERMARK = -1
NO_LOW_WATERMARK = -1

_GONE = int(Error.UNKNOWN_TOPIC_OR_PARTITION)
_LOST = int(Error.KAFKA_STORAGE_ERROR)
_LED_ELSEWHERE = int(Error.NOT_LEADER_OR_FOLLOWER)


class Deleted(msgspec.Struct, array_like=True):
    """A deletion that replicas have to follow: its answer's place, where it is, and up to where."""

    response_place: tuple[int, int]
    topic_id: Uuid
    partition: int
    offset: int


class DeleteState(msgspec.Struct, array_like=True):
    """A request that waits for replicas: its answers, and what is not decided yet."""

    topics: list[DeleteRecordsTopicResult]
    deleted: list[Deleted]


def handle(broker: Broker, request: Request) -> Decision:
    """Moves the log start offsets that may be moved; waits where replicas are behind."""
    body: DeleteRecordsRequest = request.body
    wanted: dict[str, dict[int, int]] = {}
    for named in body.topics:
        for each in named.partitions:
            wanted.setdefault(named.name, {})[each.partition_index] = each.offset
    denied = broker.denied_topics(request, Operation.DELETE, wanted)
    records: list[Record] = []
    state = DeleteState([], [])
    for name, offsets in wanted.items():
        answers: list[DeleteRecordsPartitionResult] = []
        state.topics.append(DeleteRecordsTopicResult(name=name, partitions=answers))
        topic = broker.topic_by_name(name)
        for index, offset in offsets.items():
            if name in denied:
                answers.append(_refused(index, Error.TOPIC_AUTHORIZATION_FAILED))
                continue
            answer = _delete(broker, topic, index, offset, records)
            if isinstance(answer, DeleteRecordsPartitionResult):
                answers.append(answer)
                continue
            assert topic is not None, name
            answer_place = (len(state.topics) - 1, len(answers))
            state.deleted.append(Deleted(answer_place, topic.topic_id, index, answer))
            answers.append(DeleteRecordsPartitionResult(partition_index=index))
    return _wait_or_answer(broker, state, records, broker.now + max(body.timeout_ms, 0))


def ready(broker: Broker, waiting: PendingRequest) -> bool:
    """Whether a request that waits for replicas may be answered; what is decided stays so."""
    state = decode_item(waiting.state, DeleteState)
    if _note(broker, state):
        pending.keep_state(broker.tables.pending, waiting.event_id, msgspec.msgpack.encode(state))
    return not state.deleted


def complete(_broker: Broker, waiting: PendingRequest) -> Decision:
    """Answers; where replicas are behind by now, the time is over."""
    state = decode_item(waiting.state, DeleteState)
    return Decision(response=DeleteRecordsResponse(topics=state.topics))


def _wait_or_answer(
    broker: Broker, state: DeleteState, records: list[Record], deadline: int
) -> Decision:
    """Waits for the replicas that are behind; the leader itself will be at the offset."""
    pending = []
    for each in state.deleted:
        place, answer = (each.topic_id, each.partition), _answer_of(state, each)
        log = broker.log(*place)
        assert log is not None, place
        start = max(log.log_start_offset, each.offset)
        answer.low_watermark = copying.low_watermark(broker, place, start)
        if answer.low_watermark < each.offset:
            answer.error_code = int(Error.REQUEST_TIMED_OUT)
            pending.append(each)
    state.deleted = pending
    if not pending:
        return Decision(records=records, response=DeleteRecordsResponse(topics=state.topics))
    keys = [broker.log_key(each.topic_id, each.partition) for each in pending]
    return Decision(
        records=records, condition=Condition(deadline, keys, msgspec.msgpack.encode(state))
    )


def _note(broker: Broker, state: DeleteState) -> bool:
    """Writes down what is decided by now; says whether anything is."""
    pending = []
    for each in state.deleted:
        place, answer = (each.topic_id, each.partition), _answer_of(state, each)
        partition, log = copying.partition_of(broker, place), broker.log(*place)
        if partition is None:
            answer.error_code, answer.low_watermark = _GONE, NO_LOW_WATERMARK
        elif broker.has_lost(*place):
            answer.error_code, answer.low_watermark = _LOST, NO_LOW_WATERMARK
        elif log is None or partition.leader != broker.id:
            answer.error_code, answer.low_watermark = _LED_ELSEWHERE, NO_LOW_WATERMARK
        else:
            low_watermark = copying.low_watermark(broker, place, log.log_start_offset)
            if low_watermark < each.offset:
                pending.append(each)
                continue
            answer.error_code, answer.low_watermark = 0, low_watermark
    is_any_decided = len(pending) < len(state.deleted)
    state.deleted = pending
    return is_any_decided


def _answer_of(state: DeleteState, deleted: Deleted) -> DeleteRecordsPartitionResult:
    topic_at, partition_at = deleted.response_place
    return state.topics[topic_at].partitions[partition_at]


def _delete(
    broker: Broker, topic: Topic | None, index: int, wanted: int, records: list[Record]
) -> DeleteRecordsPartitionResult | int:
    """The log start offset that replicas have to reach; where it moves `records` get the record.

    Or the answer, where nothing is deleted.
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
            records += producer_expiry.without_records(
                broker.tables.producers, broker.id, topic.topic_id, index, offset
            )
    return offset


def _refused(partition: int, error: Error) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=partition, error_code=error)


API = Api(kafka_apis.DELETE_RECORDS, DeleteRecordsRequest, handle, ready=ready, complete=complete)
