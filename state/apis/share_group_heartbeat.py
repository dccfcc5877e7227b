"""ShareGroupHeartbeat (key 76, version 1): join, stay in, or leave.

Source: KIP-932; `KafkaApis.handleShareGroupHeartbeat`,
`GroupCoordinatorService.shareGroupHeartbeat` in Kafka. Errors, in the order of the checks:

    the feature share.version is at level 0         35 UNSUPPORTED_VERSION
    no READ permission on the group                 30 GROUP_AUTHORIZATION_FAILED
    a member id "", or of more than 36 characters   42 INVALID_REQUEST
    no DESCRIBE permission on a named topic         29 TOPIC_AUTHORIZATION_FAILED
    a blank member, group or rack id; a join        42 INVALID_REQUEST, with an error message
    without topics; an epoch below -1
    this broker does not coordinate the group       16 NOT_COORDINATOR
    no such group and no join, or another type      69 GROUP_ID_NOT_FOUND
    the group is full                               81 GROUP_MAX_SIZE_REACHED
    an unknown member                               25 UNKNOWN_MEMBER_ID
    another epoch                                   110 FENCED_MEMBER_EPOCH

Member epoch 0 joins, epoch -1 leaves (`state/groups/share_group_coordinator.py`). The response has
the assignment if it has changed, or if the member joins or names topics.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupHeartbeatResponseAssignment,
    ShareGroupHeartbeatResponseTopicPartitions,
)
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.apis import earlier_writes
from brokertwin.state.apis.share_requests import MEMBER_ID_CHARACTERS_MAX
from brokertwin.state.cluster import coordinators, features, group_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.groups import modern_coordinator, share_group_coordinator
from brokertwin.state.groups.assignments import Target, as_sets
from brokertwin.state.groups.consumer_group import JOIN_EPOCH, LEAVE_EPOCH
from brokertwin.state.groups.share_group_coordinator import (
    ShareGroupCoordinator,
    ShareHeartbeatResult,
)


def handle(broker: Broker, request: Request) -> Decision:
    """Check the heartbeat and pass it to the group's coordinator."""
    _check(broker, request)
    body: ShareGroupHeartbeatRequest = request.body
    coordinator = share_group_coordinator.find(broker, body.group_id, body.member_epoch)
    if body.member_epoch == LEAVE_EPOCH:
        return _leave(body, coordinator)
    beat = coordinator.heartbeat(request)
    response = ShareGroupHeartbeatResponse(
        member_id=beat.after.member_id,
        member_epoch=beat.after.member_epoch,
        heartbeat_interval_ms=group_configs.share_heartbeat_interval_ms(broker, body.group_id),
        assignment=_assignment(beat.after.assigned) if _has_assignment(body, beat) else None,
    )
    records, messages = coordinator.records, coordinator.messages
    return Decision(records=records, response=response, messages=messages)


def _check(broker: Broker, request: Request) -> None:
    """Refuse a heartbeat that never reaches its group."""
    body: ShareGroupHeartbeatRequest = request.body
    if not broker.has_feature(features.SHARE):
        raise Refused(Error.UNSUPPORTED_VERSION)
    if not broker.allows(request, Operation.READ, ResourceType.GROUP, body.group_id):
        raise Refused(Error.GROUP_AUTHORIZATION_FAILED)
    if not 0 < len(body.member_id) <= MEMBER_ID_CHARACTERS_MAX:
        raise Refused(Error.INVALID_REQUEST)
    if broker.denied_topics(request, Operation.DESCRIBE, body.subscribed_topic_names or []):
        raise Refused(Error.TOPIC_AUTHORIZATION_FAILED)
    why = _invalid(body)
    if why is not None:
        raise Refused(Error.INVALID_REQUEST, why)
    error = coordinators.group_error(broker, body.group_id)
    if error is not Error.NONE:
        raise Refused(error)


def _invalid(body: ShareGroupHeartbeatRequest) -> str | None:
    """Return Kafka's error message for a request invalid in any group."""
    blank = modern_coordinator.blank_field(
        ("MemberId", body.member_id), ("GroupId", body.group_id), ("RackId", body.rack_id)
    )
    if blank is not None:
        return blank
    if body.member_epoch == JOIN_EPOCH and not body.subscribed_topic_names:
        return "SubscribedTopicNames must be set in first request."
    return "MemberEpoch is invalid." if body.member_epoch < LEAVE_EPOCH else None


def _leave(body: ShareGroupHeartbeatRequest, coordinator: ShareGroupCoordinator) -> Decision:
    coordinator.leave(body.member_id)
    response = ShareGroupHeartbeatResponse(member_id=body.member_id, member_epoch=body.member_epoch)
    return Decision(records=coordinator.records, response=response)


def _has_assignment(body: ShareGroupHeartbeatRequest, beat: ShareHeartbeatResult) -> bool:
    is_full = body.member_epoch == JOIN_EPOCH or body.subscribed_topic_names is not None
    return is_full or as_sets(beat.before.assigned) != as_sets(beat.after.assigned)


def _assignment(assigned: Target) -> ShareGroupHeartbeatResponseAssignment:
    return ShareGroupHeartbeatResponseAssignment(
        topic_partitions=[
            ShareGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in assigned.items()
        ]
    )


API = Api(kafka_apis.SHARE_GROUP_HEARTBEAT, handle, earlier_writes=earlier_writes.of_heartbeat)
