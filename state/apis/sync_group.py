"""SyncGroup (key 14, versions 0 to 5): distribute the assignment.

Source: seed 001; KIP-345, KIP-559; `GroupMetadataManager.classicGroupSync` in Kafka. Errors, in
this order:

    no READ permission on the group               30 GROUP_AUTHORIZATION_FAILED
    protocol missing from version 5 on            23 INCONSISTENT_GROUP_PROTOCOL
    group id ""                                   24 INVALID_GROUP_ID
    this broker does not coordinate the group     16 NOT_COORDINATOR
    no such group, or one without members         25 UNKNOWN_MEMBER_ID
    unknown member or instance id                 25 UNKNOWN_MEMBER_ID
    the instance id has another member            82 FENCED_INSTANCE_ID
    a consumer group's member of the new protocol 25 UNKNOWN_MEMBER_ID
    another generation                            22 ILLEGAL_GENERATION
    another protocol type or name                 23 INCONSISTENT_GROUP_PROTOCOL
    a rebalance is running                        27 REBALANCE_IN_PROGRESS

The leader sends the assignment and the members fetch theirs. While the group completes its
rebalance, members wait for the leader's request. In a consumer group no request waits
(`state/groups/classic_members.py`).
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.sync_group import SyncGroupRequest
from brokertwin.state.apis import earlier_writes
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.groups import classic_members, classic_rules, groups
from brokertwin.state.groups.classic_coordinator import ClassicGroupCoordinator
from brokertwin.state.groups.classic_group import ClassicGroup, ClassicGroupState
from brokertwin.state.groups.classic_responses import sync_response
from brokertwin.state.groups.consumer_group import ConsumerGroup

PROTOCOL_SINCE = 5


def handle(broker: Broker, request: Request) -> Decision:
    """Respond at once, or keep the request pending until the leader's."""
    body: SyncGroupRequest = request.body
    error = _early_error(broker, request)
    if error is not Error.NONE:
        raise Refused(error)
    known = groups.find(broker, body.group_id)
    if isinstance(known, ConsumerGroup):
        sync = classic_members.Sync(
            body.member_id,
            body.group_instance_id,
            body.generation_id,
            body.protocol_type,
            body.protocol_name,
        )
        return Decision(response=classic_members.sync(broker, known, sync))
    coordinator = ClassicGroupCoordinator(broker, body.group_id)
    group = coordinator.group
    error = _error(group, body)
    if error is not Error.NONE:
        raise Refused(error)
    member = group.members[body.member_id]
    coordinator.note_sync(body.member_id)
    if group.state is ClassicGroupState.STABLE:
        return coordinator.decision(sync_response(group, member))
    coordinator.drop_pending(member.sync_id)
    member.sync_id = request.event_id
    if group.leader_id == body.member_id:
        coordinator.assign({each.member_id: each.assignment for each in body.assignments})
    return coordinator.decision(None)


def _early_error(broker: Broker, request: Request) -> Error:
    body: SyncGroupRequest = request.body
    has_protocol = body.protocol_type is not None and body.protocol_name is not None
    if request.version >= PROTOCOL_SINCE and not has_protocol:
        return Error.INCONSISTENT_GROUP_PROTOCOL
    return classic_rules.access_error(broker, request, body.group_id)


def _error(group: ClassicGroup, body: SyncGroupRequest) -> Error:
    if group.state is ClassicGroupState.EMPTY:
        return Error.UNKNOWN_MEMBER_ID
    error = group.member_error(body.member_id, body.group_instance_id)
    if error is not Error.NONE:
        return error
    if body.generation_id != group.generation_id:
        return Error.ILLEGAL_GENERATION
    if body.protocol_type not in (None, group.protocol_type):
        return Error.INCONSISTENT_GROUP_PROTOCOL
    if body.protocol_name not in (None, group.protocol_name):
        return Error.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return Error.REBALANCE_IN_PROGRESS
    return Error.NONE


API = Api(
    kafka_apis.SYNC_GROUP, handle, earlier_writes=earlier_writes.of_member, completes_syncs=True
)
