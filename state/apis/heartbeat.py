"""Heartbeat (key 12, versions 0 to 4): extend a member's session.

The response also notifies the member of a rebalance.
Source: KIP-345; `GroupMetadataManager.classicGroupHeartbeat` in Kafka. In this order:

    no READ on the group                          30 GROUP_AUTHORIZATION_FAILED
    group id ""                                   24 INVALID_GROUP_ID
    this broker does not coordinate the group     16 NOT_COORDINATOR
    missing group                                 25 UNKNOWN_MEMBER_ID
    unknown member or instance id                 25 UNKNOWN_MEMBER_ID
    another member owns the instance id           82 FENCED_INSTANCE_ID
    a member that uses the consumer protocol      25 UNKNOWN_MEMBER_ID
    another generation                            22 ILLEGAL_GENERATION
    a rebalance is in progress                    27 REBALANCE_IN_PROGRESS; the session is extended

Members of the classic protocol may be in a consumer group (`state/groups/classic_members.py`).
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import NONE, Error
from brokertwin.protocol.generated.heartbeat import HeartbeatRequest, HeartbeatResponse
from brokertwin.state.apis import earlier_writes, uncommitted
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.groups import classic_members, classic_rules, groups
from brokertwin.state.groups.classic_coordinator import expect_heartbeat
from brokertwin.state.groups.classic_group import ClassicGroup, ClassicGroupState
from brokertwin.state.groups.consumer_group import ConsumerGroup


def handle(broker: Broker, request: Request) -> Decision:
    """Extend the member's session."""
    return Decision(response=HeartbeatResponse(error_code=_heartbeat(broker, request)))


def _heartbeat(broker: Broker, request: Request) -> Error:
    body: HeartbeatRequest = request.body
    error = classic_rules.access_error(broker, request, body.group_id)
    if error is not NONE:
        return error
    group = groups.find(broker, body.group_id)
    if not isinstance(group, ClassicGroup):
        if not isinstance(group, ConsumerGroup):
            return Error.UNKNOWN_MEMBER_ID
        member_id, instance_id = body.member_id, body.group_instance_id
        return classic_members.heartbeat(broker, group, member_id, instance_id, body.generation_id)
    error = group.member_error(body.member_id, body.group_instance_id)
    if error is not NONE:
        return error
    if body.generation_id != group.generation_id:
        return Error.ILLEGAL_GENERATION
    expect_heartbeat(broker, body.group_id, group.members[body.member_id])
    is_rebalancing = group.state is ClassicGroupState.PREPARING_REBALANCE
    return Error.REBALANCE_IN_PROGRESS if is_rebalancing else NONE


API = Api(
    kafka_apis.HEARTBEAT,
    handle,
    earlier_writes=earlier_writes.of_heartbeat,
    results=uncommitted.ACCEPTED | {Error.REBALANCE_IN_PROGRESS},
)
