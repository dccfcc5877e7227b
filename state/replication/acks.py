"""Produce with acks=all: the response waits until all in-sync replicas have the append.

Source: seed 004; `DelayedProduce`, `Partition.checkEnoughReplicasReachOffset` in Kafka. For each
partition of the append:

    the topic was deleted                         3 UNKNOWN_TOPIC_OR_PARTITION
    its log directory has failed                  56 KAFKA_STORAGE_ERROR
    the broker is no longer the leader            6 NOT_LEADER_OR_FOLLOWER
    high watermark below the end of the append    pending; 7 REQUEST_TIMED_OUT at the deadline
    enough replicas in the maximal in-sync set    0 NONE
    too few                                       20 NOT_ENOUGH_REPLICAS_AFTER_APPEND; it is written
"""

import msgspec
from msgspec import UNSET

from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from brokertwin.protocol.generated.shared import LeaderIdAndEpoch
from brokertwin.state.cluster.image import leader_of
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import pending
from brokertwin.state.core.decision import Condition, Decision, PendingRequest
from brokertwin.state.core.tables import decode_item
from brokertwin.state.replication import copying
from brokertwin.state.replication.copying import Place

TOPIC_IDS_SINCE = 13
"""First version of Produce with topic ids."""


class PendingAppend(msgspec.Struct, array_like=True):
    """An append that followers have to copy; `response_place` is the index of its response."""

    response_place: tuple[int, int]
    topic_id: Uuid
    partition: int
    required_offset: int


class AcksState(msgspec.Struct, array_like=True):
    """State of a pending request with acks=all: its responses, and the pending appends."""

    responses: list[TopicProduceResponse]
    appended: list[PendingAppend]
    throttle_ms: int = 0

    def response(self) -> ProduceResponse:
        return ProduceResponse(responses=self.responses, throttle_time_ms=self.throttle_ms)


def wait_or_respond(broker: Broker, state: AcksState, deadline: int) -> Decision:
    """Wait for the followers, unless they have everything, as after a repeated batch."""
    _note(broker, state)
    if not state.appended:
        return Decision(response=state.response())
    keys = [broker.log_key(each.topic_id, each.partition) for each in state.appended]
    return Decision(condition=Condition(deadline, keys, msgspec.msgpack.encode(state)))


def ready(broker: Broker, waiting: PendingRequest) -> bool:
    """True if no append is pending; the result of each append is final."""
    state = _state_of(waiting)
    if _note(broker, state):
        pending.keep_state(broker.tables.pending, waiting.event_id, msgspec.msgpack.encode(state))
    return not state.appended


def complete(broker: Broker, waiting: PendingRequest) -> Decision:
    """Respond; appends that are still pending have timed out."""
    state = _state_of(waiting)
    _note(broker, state)
    for each in state.appended:
        response = _response_of(state, each)
        response.error_code = response.error_code or int(Error.REQUEST_TIMED_OUT)
    return Decision(response=state.response())


def _state_of(waiting: PendingRequest) -> AcksState:
    """Read the state; older checkpoints have the fields of all versions in it."""
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
    """Result of an append that ends before `required_offset`; None while it is pending."""
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
    leadership = copying.view(broker, place)
    in_sync = leadership.maximal_isr if leadership is not None else partition.isr
    if len(in_sync) < broker.min_in_sync(topic, place[1]):
        return Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    return Error.NONE


def _note(broker: Broker, state: AcksState) -> bool:
    """Store the results of completed appends; True if there are any."""
    pending = []
    for each in state.appended:
        error = outcome(broker, (each.topic_id, each.partition), each.required_offset)
        if error is None:
            pending.append(each)
            continue
        response = _response_of(state, each)
        if response.error_code:  # the same partition twice, without records
            continue
        response.error_code = int(error)
        topic = broker.topic_by_id(each.topic_id)
        if error is Error.NOT_LEADER_OR_FOLLOWER and topic is not None:
            response.current_leader = leader_of(topic.partitions[each.partition])
    is_any_decided = len(pending) < len(state.appended)
    state.appended = pending
    return is_any_decided


def _response_of(state: AcksState, appended: PendingAppend) -> PartitionProduceResponse:
    topic_at, partition_at = appended.response_place
    return state.responses[topic_at].partition_responses[partition_at]
