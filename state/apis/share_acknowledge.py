"""ShareAcknowledge (key 79, versions 1 to 2): acknowledge records.

Source: `KafkaApis.handleShareAcknowledgeRequest`, `SharePartitionManager.acknowledgeSessionUpdate`
in Kafka; KIP-932, KIP-1222. Errors of the whole request, in this order:

    share groups are not enabled                  35 UNSUPPORTED_VERSION
    no group, or an invalid member id             42 INVALID_REQUEST
    no READ permission on the group               30 GROUP_AUTHORIZATION_FAILED
    epoch 0                                       123 INVALID_SHARE_SESSION_EPOCH
    no session of this member                     122 SHARE_SESSION_NOT_FOUND
    another epoch than the session's next         123 INVALID_SHARE_SESSION_EPOCH

`state/share/acknowledgements.py` has the errors of a partition. The response waits for the share
coordinators. Epoch -1 then closes the session, which releases the member's records.
"""

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeResponsePartitionData,
    ShareAcknowledgeTopicResponse,
)
from brokertwin.protocol.generated.shared import ShareGroupStateResponse, ShareLeaderIdAndEpoch
from brokertwin.state.apis import share_fetch
from brokertwin.state.apis.share_requests import denied_names, request_error
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Condition, Decision, Message, PendingRequest, Request
from brokertwin.state.core.tables import decode_item
from brokertwin.state.share import acknowledgements, share_partitions, share_sessions
from brokertwin.state.share.acknowledgements import AcknowledgementResult
from brokertwin.state.share.share_sessions import FINAL_EPOCH, FIRST_EPOCH


class AcknowledgeState(msgspec.Struct, array_like=True):
    """A request that waits for a number of share coordinators."""

    group_id: str
    member_id: str
    epoch: int
    outcomes: list[AcknowledgementResult]
    writes: int


def handle(broker: Broker, request: Request) -> Decision:
    """Acknowledge records and write their state to share coordinators.

    Pending fetches of the partitions are checked again before that (`SharePartitionManager`).
    """
    body: ShareAcknowledgeRequest = request.body
    error = request_error(broker, request)
    if error is Error.NONE and body.share_session_epoch == FIRST_EPOCH:
        error = Error.INVALID_SHARE_SESSION_EPOCH
    if error is not Error.NONE:
        return Decision(response=ShareAcknowledgeResponse(error_code=error))
    assert body.group_id is not None and body.member_id is not None
    group_id, member_id, epoch = body.group_id, body.member_id, body.share_session_epoch
    session = share_sessions.continue_session(broker, group_id, member_id, epoch)
    if isinstance(session, Error):
        return Decision(response=ShareAcknowledgeResponse(error_code=session))
    context = acknowledgements.AcknowledgeContext(
        group_id, member_id, request.version, body.is_renew_ack, denied_names(broker, request)
    )
    taken = acknowledgements.acknowledge(broker, context, body.topics)
    effects = share_fetch.look_again(broker, group_id, taken.places)
    state = AcknowledgeState(group_id, member_id, epoch, taken.outcomes, len(taken.messages))
    decision = _wait(broker, state) if taken.messages else _respond(broker, state)
    decision.messages = [*taken.messages, *decision.messages]
    return share_fetch.joined(effects, decision)


def _wait(broker: Broker, state: AcknowledgeState) -> Decision:
    deadline = broker.now + broker.settings.request_timeout_ms
    return Decision(condition=Condition(deadline, [], msgspec.msgpack.encode(state)))


def _respond(broker: Broker, state: AcknowledgeState) -> Decision:
    lock_ms = share_partitions.limits_of(broker, state.group_id).lock_ms
    topics: dict[str, ShareAcknowledgeTopicResponse] = {}
    for each in state.outcomes:
        topic = topics.setdefault(
            each.topic_id, ShareAcknowledgeTopicResponse(topic_id=each.topic_id, partitions=[])
        )
        result = ShareAcknowledgeResponsePartitionData(
            partition_index=each.partition, error_code=each.error, error_message=each.message
        )
        known = broker.topic_by_id(each.topic_id)
        if each.error == Error.NOT_LEADER_OR_FOLLOWER and known is not None:
            partition = known.partitions[each.partition]
            result.current_leader = ShareLeaderIdAndEpoch(
                leader_id=partition.leader, leader_epoch=partition.leader_epoch
            )
        topic.partitions.append(result)
    response = ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=lock_ms, responses=list(topics.values())
    )
    closing = Decision()
    if state.epoch == FINAL_EPOCH:
        closing = share_fetch.close(broker, state.group_id, state.member_id)
    closing.response = response
    return closing


def resume(
    broker: Broker, waiting: PendingRequest, message: Message, response: ShareGroupStateResponse
) -> Decision:
    """Store a share coordinator's result; respond after the last one."""
    state = decode_item(waiting.state, AcknowledgeState)
    written = share_partitions.on_write_response(broker, message, response)
    acknowledgements.apply_write_error(state.outcomes, message, written.fault)
    state.writes -= 1
    decision = _wait(broker, state) if state.writes else _respond(broker, state)
    decision.copies = [*decision.copies, *written.messages]
    decision.woken += written.woken
    return decision


def complete(broker: Broker, waiting: PendingRequest) -> Decision:
    """Fail pending writes: their result is unknown after the timeout."""
    state = decode_item(waiting.state, AcknowledgeState)
    for each in state.outcomes:
        each.error = each.error or Error.COORDINATOR_NOT_AVAILABLE
        share_partitions.forget(broker, (state.group_id, *each.place))
    return _respond(broker, state)


API = Api(kafka_apis.SHARE_ACKNOWLEDGE, handle, resume=resume, complete=complete)
