"""Responses of JoinGroup and SyncGroup.

A join is completed when the last member has joined or a timer expires, a sync when the leader's
assignment arrives. So handlers of other requests build these responses, too.
"""

from typing import Annotated

from brokertwin.state.core.errors import Error
from brokertwin.state.core.schema import Body, Int16, Int32, since
from brokertwin.state.groups.classic_group import ClassicGroup, ClassicMember

NULL_PROTOCOL_SINCE = 7
"""Version of JoinGroup from which a missing protocol is null.

Earlier versions use "".
"""


class JoinedMember(Body):
    """A member in the leader's response; `metadata` is base64."""

    member_id: str
    group_instance_id: Annotated[str | None, since(5)] = None
    metadata: str = ""


class JoinGroupResponse(Body):
    """Versions 0 to 9. After an error, the generation is -1."""

    throttle_time_ms: Annotated[Int32, since(2)] = 0
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: Annotated[str | None, since(7)] = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: Annotated[bool, since(9)] = False
    member_id: str = ""
    members: list[JoinedMember] = []


class SyncGroupResponse(Body):
    """Versions 0 to 5. `assignment` is base64."""

    throttle_time_ms: Annotated[Int32, since(1)] = 0
    error_code: Int16 = 0
    protocol_type: Annotated[str | None, since(5)] = None
    protocol_name: Annotated[str | None, since(5)] = None
    assignment: str = ""


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


def joined_members(group: ClassicGroup) -> list[JoinedMember]:
    """Return all members with their metadata, in Kafka's order."""
    return [
        JoinedMember(
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
