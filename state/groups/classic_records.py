"""The record of a classic group, and a group restored from it.

Source: `GroupMetadataValue`, `GroupCoordinatorRecordHelpers.newGroupMetadataRecord`,
`GroupMetadataManager.replay` in Kafka. The record is written when the leader's assignment arrives,
when the last member has left, and when a static member has rejoined under another id.
"""

from brokertwin.state.core.group_records import (
    GroupMember,
    GroupMetadata,
)
from brokertwin.state.groups.classic_group import ClassicGroup, ClassicGroupState, ClassicMember


def metadata_of(group: ClassicGroup) -> GroupMetadata:
    return GroupMetadata(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=group.state_timestamp,
        members=[
            _member_of(member, group.protocol_name or "") for member in group.members.values()
        ],
    )


def _member_of(member: ClassicMember, protocol_name: str) -> GroupMember:
    return GroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.session_timeout_ms,
        subscription=member.metadata(protocol_name),
        assignment=member.assignment,
    )


def restored(group_id: str, metadata: GroupMetadata | None) -> ClassicGroup:
    """Return the group of a record: Stable with members, else Empty.

    Args:
        group_id: the group's id.
        metadata: None for a simple group.
    """
    if metadata is None:
        return ClassicGroup(group_id, subscribed=None)
    group = ClassicGroup(
        group_id,
        state=ClassicGroupState.STABLE if metadata.members else ClassicGroupState.EMPTY,
        state_timestamp=metadata.current_state_timestamp,
        generation_id=metadata.generation,
        protocol_type=metadata.protocol_type or None,
        protocol_name=metadata.protocol,
    )
    for written in metadata.members:
        group.add(_restored_member(written, metadata.protocol or ""), metadata.protocol_type)
    group.leader_id = metadata.leader
    group.subscribed = group.subscriptions()
    return group


def _restored_member(written: GroupMember, protocol_name: str) -> ClassicMember:
    return ClassicMember(
        member_id=written.member_id,
        group_instance_id=written.group_instance_id,
        client_id=written.client_id,
        client_host=written.client_host,
        rebalance_timeout_ms=written.rebalance_timeout_ms,
        session_timeout_ms=written.session_timeout_ms,
        protocols=[(protocol_name, written.subscription)],
        assignment=written.assignment,
    )
