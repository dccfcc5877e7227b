"""The answers of JoinGroup and SyncGroup: others than the API's own handler give them, too.

A join is answered when the last member has joined, or when a timer has run out; a sync when the
leader has brought the assignment.
"""

from brokertwin.state.core.errors import Error
from brokertwin.state.core.wire.generated.join_group import (
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from brokertwin.state.core.wire.generated.sync_group import SyncGroupResponse
from brokertwin.state.groups.classic_group import ClassicGroup, Member

NULL_PROTOCOL_SINCE = 7
"""From this version of JoinGroup on no protocol is null, before it is "". """


def join_refused(error: Error, member_id: str, version: int) -> JoinGroupResponse:
    """An answer with an error."""
    name = None if version >= NULL_PROTOCOL_SINCE else ""
    return JoinGroupResponse(error_code=error, member_id=member_id, protocol_name=name)


def joined(group: ClassicGroup, member: Member, with_members: bool) -> JoinGroupResponse:
    """The present generation as a member learns it; the leader gets to know all members."""
    return JoinGroupResponse(
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader_id or "",
        member_id=member.member_id,
        members=members_of(group) if with_members else [],
    )


def members_of(group: ClassicGroup) -> list[JoinGroupResponseMember]:
    """All members with what they say under the chosen protocol, in Kafka's order."""
    return [
        JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            metadata=member.metadata(group.protocol_name or ""),
        )
        for member in group.in_hash_order()
    ]


def synced(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """A member's assignment."""
    return SyncGroupResponse(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        assignment=member.assignment,
    )
