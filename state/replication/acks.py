"""When a Produce with acks -1 is answered: all in-sync replicas have what it has appended.

Source: seed 004; `DelayedProduce`, `Partition.checkEnoughReplicasReachOffset` in Kafka. For each
partition that was appended to:

    the topic is gone                             3 UNKNOWN_TOPIC_OR_PARTITION
    its log directory has failed                  56 KAFKA_STORAGE_ERROR
    the broker does not lead it any more          6 NOT_LEADER_OR_FOLLOWER
    high watermark below what was appended        goes on waiting; 7 REQUEST_TIMED_OUT at the end
    enough replicas in the maximal in-sync set    NONE
    too few by now                                20 NOT_ENOUGH_REPLICAS_AFTER_APPEND; it is written
"""

import msgspec
from msgspec import UNSET

from brokertwin.state.cluster.image import LeaderIdAndEpoch
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import pending
from brokertwin.state.core.decision import Condition, Decision, PendingRequest
from brokertwin.state.core.errors import Error
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.tables import decode_item
from brokertwin.state.replication import copying
from brokertwin.state.replication.copying import Place
from brokertwin.state.replication.produce_bodies import (
    TOPIC_IDS_SINCE,
    AnsweredPartition,
    AnsweredTopic,
    ProduceResponse,
)


class Acked(msgspec.Struct, array_like=True):
    """An append that followers have to copy: which answer it has, where it is and ends."""

    answer_place: tuple[int, int]
    topic_id: Uuid
    partition: int
    required_offset: int


class AcksState(msgspec.Struct, array_like=True):
    """A request with acks -1 that waits for followers: its answers, and what is not decided yet."""

    responses: list[AnsweredTopic]
    appended: list[Acked]
    throttle_ms: int = 0

    def response(self) -> ProduceResponse:
        """The answer, when everything is decided."""
        return ProduceResponse(responses=self.responses, throttle_time_ms=self.throttle_ms)


def wait_or_answer(broker: Broker, state: AcksState, deadline: int) -> Decision:
    """Waits for the followers; a repeat may be about what they have already."""
    _note(broker, state)
    if not state.appended:
        return Decision(response=state.response())
    keys = [broker.log_key(each.topic_id, each.partition) for each in state.appended]
    return Decision(condition=Condition(deadline, keys, msgspec.msgpack.encode(state)))


def ready(broker: Broker, waiting: PendingRequest) -> bool:
    """Whether a request that waits for followers may be answered; what is decided stays so."""
    state = _state_of(waiting)
    if _note(broker, state):
        pending.keep_state(broker.tables.pending, waiting.event_id, msgspec.msgpack.encode(state))
    return not state.appended


def complete(broker: Broker, waiting: PendingRequest) -> Decision:
    """Answers; what has not been copied by now is timed out."""
    state = _state_of(waiting)
    _note(broker, state)
    for each in state.appended:
        answer = _answer_of(state, each)
        answer.error_code = answer.error_code or int(Error.REQUEST_TIMED_OUT)
    return Decision(response=state.response())


def _state_of(waiting: PendingRequest) -> AcksState:
    """What a request waits with; checkpoints of old have all fields in it, of whatever version."""
    state = decode_item(waiting.state, AcksState)
    by_id = waiting.header.request_api_version >= TOPIC_IDS_SINCE
    for topic in state.responses:
        if by_id:
            topic.name = UNSET
        else:
            topic.topic_id = UNSET
        for each in topic.partition_responses:
            each.refused_records = each.refused_records or UNSET
            if each.current_leader == LeaderIdAndEpoch():
                each.current_leader = UNSET
    return state


def outcome(broker: Broker, place: Place, required_offset: int) -> Error | None:
    """What becomes of an append that ends before `required_offset`; None while it has to wait."""
    topic = broker.topic_by_id(place[0])
    if topic is None:
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    partition, log = topic.partitions[place[1]], broker.log(*place)
    if log is None and broker.has_lost(*place):
        return Error.KAFKA_STORAGE_ERROR
    if partition.leader != broker.id or log is None:
        return Error.NOT_LEADER_OR_FOLLOWER
    if log.high_watermark < required_offset:
        return None
    known = copying.known(broker, place)
    in_sync = known.maximal_isr if known is not None else partition.isr
    if len(in_sync) < broker.min_in_sync(topic, place[1]):
        return Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    return Error.NONE


def _note(broker: Broker, state: AcksState) -> bool:
    """Writes down what is decided by now; says whether anything is."""
    pending = []
    for each in state.appended:
        error = outcome(broker, (each.topic_id, each.partition), each.required_offset)
        if error is None:
            pending.append(each)
            continue
        answer = _answer_of(state, each)
        if answer.error_code:  # the partition is named again, without a record set
            continue
        answer.error_code = int(error)
        topic = broker.topic_by_id(each.topic_id)
        if error is Error.NOT_LEADER_OR_FOLLOWER and topic is not None:
            answer.current_leader = LeaderIdAndEpoch.of(topic.partitions[each.partition])
    is_any_decided = len(pending) < len(state.appended)
    state.appended = pending
    return is_any_decided


def _answer_of(state: AcksState, appended: Acked) -> AnsweredPartition:
    topic_at, partition_at = appended.answer_place
    return state.responses[topic_at].partition_responses[partition_at]
