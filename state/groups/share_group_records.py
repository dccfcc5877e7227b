"""The records of a share group and their application.

Source: `GroupCoordinatorRecordHelpers.newShareGroup…`, `GroupMetadataManager.replay` in Kafka.
"""

import msgspec

from brokertwin.state.core.applying import applies
from brokertwin.state.core.group_records import (
    ShareGroupCurrentMemberAssignmentWritten,
    ShareGroupMemberMetadataWritten,
    ShareGroupMetadataWritten,
    ShareGroupStatePartitionMetadataWritten,
    ShareGroupTargetAssignmentMemberWritten,
    ShareGroupTargetAssignmentMetadataWritten,
    ShareMemberAssignment,
    ShareMemberMetadata,
)
from brokertwin.state.core.records import Record
from brokertwin.state.core.tables import CellTables
from brokertwin.state.groups import groups
from brokertwin.state.groups.assignments import in_hash_order
from brokertwin.state.groups.consumer_group import LEAVE_EPOCH, ConsumerMemberState
from brokertwin.state.groups.consumer_group_records import NO_ASSIGNMENT
from brokertwin.state.groups.share_group import ShareGroup, ShareGroupMember


def member_metadata(group_id: str, member: ShareGroupMember) -> ShareGroupMemberMetadataWritten:
    metadata = ShareMemberMetadata(
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names,
    )
    return ShareGroupMemberMetadataWritten(group_id, member.member_id, metadata)


def current_assignment(
    group_id: str, member: ShareGroupMember
) -> ShareGroupCurrentMemberAssignmentWritten:
    assignment = ShareMemberAssignment(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=ConsumerMemberState.STABLE.value,
        assigned_partitions=member.assigned,
    )
    return ShareGroupCurrentMemberAssignmentWritten(group_id, member.member_id, assignment)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    return [
        ShareGroupCurrentMemberAssignmentWritten(group_id, member_id, None),
        ShareGroupTargetAssignmentMemberWritten(group_id, member_id, None),
        ShareGroupMemberMetadataWritten(group_id, member_id, None),
    ]


def tombstones(group: ShareGroup) -> list[Record]:
    """Return the records that delete a group without members."""
    group_id = group.group_id
    return [
        ShareGroupTargetAssignmentMetadataWritten(group_id, None),
        ShareGroupStatePartitionMetadataWritten(group_id, None),
        ShareGroupMetadataWritten(group_id, None),
    ]


@applies(ShareGroupMetadataWritten)
def apply_metadata(tables: CellTables, broker: int, record: ShareGroupMetadataWritten) -> None:
    """Store a group epoch, or delete the group."""
    if record.epoch is None:
        groups.drop_stored(tables.groups, broker, record.group_id)
        return
    group = _group(tables, broker, record.group_id)
    group.group_epoch, group.metadata_hash = record.epoch, record.metadata_hash


@applies(ShareGroupMemberMetadataWritten)
def apply_member(tables: CellTables, broker: int, record: ShareGroupMemberMetadataWritten) -> None:
    """Store a member's metadata, or delete the member."""
    group = _group(tables, broker, record.group_id)
    if record.metadata is None:
        group.remove(record.member_id)
        return
    member = group.members.get(record.member_id) or ShareGroupMember(record.member_id)
    group.put(msgspec.structs.replace(member, **msgspec.structs.asdict(record.metadata)))


@applies(ShareGroupTargetAssignmentMetadataWritten)
def apply_target_metadata(
    tables: CellTables, broker: int, record: ShareGroupTargetAssignmentMetadataWritten
) -> None:
    group = _group(tables, broker, record.group_id)
    epoch = record.assignment_epoch
    group.assignment_epoch = NO_ASSIGNMENT if epoch is None else epoch
    group.assignment_timestamp = record.assignment_timestamp


@applies(ShareGroupTargetAssignmentMemberWritten)
def apply_target(
    tables: CellTables, broker: int, record: ShareGroupTargetAssignmentMemberWritten
) -> None:
    group = _group(tables, broker, record.group_id)
    if record.topic_partitions is None:
        group.target.pop(record.member_id, None)
    else:
        group.target[record.member_id] = in_hash_order(record.topic_partitions)


@applies(ShareGroupCurrentMemberAssignmentWritten)
def apply_current(
    tables: CellTables, broker: int, record: ShareGroupCurrentMemberAssignmentWritten
) -> None:
    """Store a member's assignment; a tombstone means that it has left."""
    group = _group(tables, broker, record.group_id)
    assignment = record.assignment or ShareMemberAssignment(LEAVE_EPOCH, LEAVE_EPOCH, 0, {})
    member = group.members.get(record.member_id) or ShareGroupMember(record.member_id)
    group.put(
        msgspec.structs.replace(
            member,
            member_epoch=assignment.member_epoch,
            previous_member_epoch=assignment.previous_member_epoch,
            assigned=in_hash_order(assignment.assigned_partitions),
        )
    )


@applies(ShareGroupStatePartitionMetadataWritten)
def apply_state_partitions(
    tables: CellTables, broker: int, record: ShareGroupStatePartitionMetadataWritten
) -> None:
    """Store which partitions have share state."""
    group = _group(tables, broker, record.group_id)
    metadata = record.metadata
    group.initializing = metadata.initializing if metadata is not None else {}
    group.initialized = metadata.initialized if metadata is not None else {}
    group.deleting = metadata.deleting if metadata is not None else {}


def _group(tables: CellTables, broker: int, group_id: str) -> ShareGroup:
    return groups.change_stored(tables.groups, broker, group_id, ShareGroup)
