"""LeaveGroup (key 13, versions 0 to 5): remove members of a group.

Source: KIP-345, KIP-800; `GroupMetadataManager.classicGroupLeave` in Kafka. Errors of the whole
request, in this order:

    no READ permission on the group               30 GROUP_AUTHORIZATION_FAILED
    group id ""                                   24 INVALID_GROUP_ID
    this broker does not coordinate the group     16 NOT_COORDINATOR

Errors of a member:

    unknown member                                25 UNKNOWN_MEMBER_ID
    the instance id has another member            82 FENCED_INSTANCE_ID

An administrator removes a static member by its instance id, with member id "". Up to version 2 a
request names one member and the response has one error.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    MemberResponse,
)
from brokertwin.state.apis import earlier_writes, uncommitted
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.groups import classic_rules, groups
from brokertwin.state.groups.classic_coordinator import ClassicGroupCoordinator
from brokertwin.state.groups.consumer_coordinator import ConsumerGroupCoordinator
from brokertwin.state.groups.consumer_group import ConsumerGroup, ConsumerMember

MEMBERS_SINCE = 3


def handle(broker: Broker, request: Request) -> Decision:
    """Remove the members and rebalance the rest."""
    body: LeaveGroupRequest = request.body
    error = classic_rules.access_error(broker, request, body.group_id)
    if error is not Error.NONE:
        raise Refused(error)
    leaving = body.members
    if request.version < MEMBERS_SINCE:
        leaving = [MemberIdentity(member_id=body.member_id)]
    group = groups.find(broker, body.group_id)
    if isinstance(group, ConsumerGroup):
        return _leave_consumer_group(broker, group, leaving, request.version)
    coordinator = ClassicGroupCoordinator(broker, body.group_id)
    left = [
        MemberResponse(
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            error_code=_leave(coordinator, each),
        )
        for each in leaving
    ]
    response = _response(left, request.version)
    if coordinator.is_new:
        return Decision(response=response)
    coordinator.leave(any(each.error_code == Error.NONE for each in left))
    return coordinator.decision(response)


def _response(left: list[MemberResponse], version: int) -> LeaveGroupResponse:
    response = LeaveGroupResponse(members=left)
    if version < MEMBERS_SINCE:
        response.error_code = left[0].error_code
    return response


def _leave_consumer_group(
    broker: Broker, group: ConsumerGroup, leaving: list[MemberIdentity], version: int
) -> Decision:
    """Remove members (`classicGroupLeaveToConsumerGroup` in Kafka)."""
    left = []
    gone: dict[str, ConsumerMember] = {}
    for each in leaving:
        static = group.static_member(each.group_instance_id)
        error = group.member_error(each.member_id, each.group_instance_id)
        if static is not None and not each.member_id:
            error = Error.NONE
        if error is Error.NONE:
            member = static or group.members[each.member_id]
            gone[member.member_id] = member
        left.append(
            MemberResponse(
                member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=error
            )
        )
    coordinator = ConsumerGroupCoordinator(broker, group)
    coordinator.fence(list(gone.values()))
    return Decision(
        records=coordinator.records,
        response=_response(left, version),
        resumed=coordinator.responses,
    )


def _leave(coordinator: ClassicGroupCoordinator, leaving: MemberIdentity) -> Error:
    group = coordinator.group
    member_id = leaving.member_id
    if not member_id:
        member_id = group.static_members.get(leaving.group_instance_id or "", "")
        if not member_id:
            return Error.UNKNOWN_MEMBER_ID
    elif member_id in group.pending:
        coordinator.remove(member_id)
        return Error.NONE
    else:
        error = group.member_error(member_id, leaving.group_instance_id)
        if error is not Error.NONE:
            return error
    coordinator.remove_member(group.members[member_id])
    return Error.NONE


API = Api(
    kafka_apis.LEAVE_GROUP,
    handle,
    earlier_writes=earlier_writes.of_leave,
    uncommitted=uncommitted.error_alone,
)
