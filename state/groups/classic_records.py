"""The record of a classic group, and a group restored from it.

Source: `GroupMetadataValue`, `GroupCoordinatorRecordHelpers.newGroupMetadataRecord`,
`GroupMetadataManager.replay` in Kafka. The record is written when the leader's assignment arrives,
when the last member has left, and when a static member has rejoined under another id.
"""

from base64 import b64decode, b64encode

from brokertwin.protocol.generated.group_rows import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from brokertwin.state.core.group_records import GroupRecord
from brokertwin.state.groups.classic_group import ClassicGroup, ClassicGroupState, ClassicMember


def group_metadata(group: ClassicGroup) -> GroupRecord:
    value = GroupMetadataValue(
        group.protocol_type or "",
        group.generation_id,
        group.protocol_name,
        group.leader_id,
        group.state_timestamp,
        [
            MemberMetadata(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                b64decode(member.metadata(group.protocol_name or ""), validate=True),
                b64decode(member.assignment, validate=True),
            )
            for member in group.members.values()
        ],
    )
    return GroupRecord(GroupMetadataKey(group.group_id), value)


def restored(group_id: str, metadata: GroupMetadataValue | None) -> ClassicGroup:
    """Return the group of a record: Stable with members, else Empty.

    `metadata`: None for a simple group.
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
        member = ClassicMember(
            written.member_id,
            written.group_instance_id,
            written.client_id,
            written.client_host,
            written.rebalance_timeout,
            written.session_timeout,
            [(metadata.protocol or "", b64encode(written.subscription).decode())],
            assignment=b64encode(written.assignment).decode(),
        )
        group.add(member, metadata.protocol_type)
    group.leader_id = metadata.leader
    group.subscribed = group.subscriptions()
    return group
