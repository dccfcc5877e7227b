"""Responses of JoinGroup and SyncGroup.

A join is completed when the last member has joined or a timer expires, a sync when the leader's
assignment arrives. So handlers of other requests build these responses, too.
"""

from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.join_group import JoinGroupResponse, JoinGroupResponseMember
from brokertwin.protocol.generated.sync_group import SyncGroupResponse
from brokertwin.state.groups.classic_group import ClassicGroup, ClassicMember

NULL_PROTOCOL_SINCE = 7
"""Version of JoinGroup from which a missing protocol is null.

Earlier versions use "".
"""


def join_error(error: Error, member_id: str, version: int) -> JoinGroupResponse:
    name = None if version >= NULL_PROTOCOL_SINCE else ""
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=name)


def join_response(
    group: ClassicGroup, member: ClassicMember, with_members: bool
) -> JoinGroupResponse:
    """Return a member's response for the current generation."""
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=joined_members(group) if with_members else [],
    )


def joined_members(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    """Return all members with their metadata, in Kafka's order."""
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(group.protocol_name or ""),
        )
        for member in group.in_hash_order()
    ]


def sync_response(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
