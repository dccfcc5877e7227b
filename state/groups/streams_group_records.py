"""The records of a streams group and their application.

Source: `StreamsCoordinatorRecordHelpers`, `GroupMetadataManager.replay` in Kafka.
"""

import msgspec

from brokertwin.state.core.applying import applies
from brokertwin.state.core.records import Record
from brokertwin.state.core.streams_records import (
    MemberTasks,
    StreamsGroupCurrentMemberAssignmentWritten,
    StreamsGroupMemberMetadataWritten,
    StreamsGroupMetadataWritten,
    StreamsGroupTargetAssignmentMemberWritten,
    StreamsGroupTargetAssignmentMetadataWritten,
    StreamsGroupTopologyWritten,
    StreamsMemberAssignment,
    StreamsMemberMetadata,
)
from brokertwin.state.core.tables import CellTables
from brokertwin.state.groups import groups, streams_live
from brokertwin.state.groups.consumer_group import LEAVE_EPOCH
from brokertwin.state.groups.consumer_group_records import NO_ASSIGNMENT
from brokertwin.state.groups.streams_group import (
    StreamsGroup,
    StreamsMember,
    StreamsMemberState,
)


def member_metadata(group_id: str, member: StreamsMember) -> StreamsGroupMemberMetadataWritten:
    metadata = StreamsMemberMetadata(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=member.user_endpoint,
        client_tags=member.client_tags,
    )
    return StreamsGroupMemberMetadataWritten(group_id, member.member_id, metadata)


def current_assignment(
    group_id: str, member: StreamsMember
) -> StreamsGroupCurrentMemberAssignmentWritten:
    assignment = StreamsMemberAssignment(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state.value,
        assigned=member.assigned,
        pending_revocation=member.pending_revocation,
    )
    return StreamsGroupCurrentMemberAssignmentWritten(group_id, member.member_id, assignment)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    return [
        StreamsGroupCurrentMemberAssignmentWritten(group_id, member_id, None),
        StreamsGroupTargetAssignmentMemberWritten(group_id, member_id, None),
        StreamsGroupMemberMetadataWritten(group_id, member_id, None),
    ]


def tombstones(group: StreamsGroup) -> list[Record]:
    """Return the records that delete a group without members."""
    return [
        StreamsGroupTargetAssignmentMetadataWritten(group.group_id, None),
        StreamsGroupMetadataWritten(group.group_id, None),
        StreamsGroupTopologyWritten(group.group_id, None),
    ]


@applies(StreamsGroupMetadataWritten)
def apply_metadata(tables: CellTables, broker: int, record: StreamsGroupMetadataWritten) -> None:
    """Store a group epoch, or delete the group."""
    if record.epoch is None:
        groups.set_timer(tables, broker, record.group_id, groups.INITIAL, None)
        streams_live.drop(tables, broker, record.group_id)
        groups.drop_stored(tables.groups, broker, record.group_id)
        return
    group = _group(tables, broker, record.group_id)
    group.group_epoch, group.metadata_hash = record.epoch, record.metadata_hash
    group.validated_topology_epoch = record.validated_topology_epoch
    group.last_assignment_configs = record.last_assignment_configs


@applies(StreamsGroupMemberMetadataWritten)
def apply_member(
    tables: CellTables, broker: int, record: StreamsGroupMemberMetadataWritten
) -> None:
    """Store a member's metadata, or delete the member."""
    group = _group(tables, broker, record.group_id)
    if record.metadata is None:
        group.members.pop(record.member_id, None)
        return
    member = group.members.get(record.member_id) or StreamsMember(record.member_id)
    group.put(msgspec.structs.replace(member, **msgspec.structs.asdict(record.metadata)))


@applies(StreamsGroupTopologyWritten)
def apply_topology(tables: CellTables, broker: int, record: StreamsGroupTopologyWritten) -> None:
    """Store the topology; its tombstone follows that of the group."""
    if record.topology is not None:
        _group(tables, broker, record.group_id).topology = record.topology


@applies(StreamsGroupTargetAssignmentMetadataWritten)
def apply_target_metadata(
    tables: CellTables, broker: int, record: StreamsGroupTargetAssignmentMetadataWritten
) -> None:
    group = _group(tables, broker, record.group_id)
    epoch = record.assignment_epoch
    group.assignment_epoch = NO_ASSIGNMENT if epoch is None else epoch
    group.assignment_timestamp = record.assignment_timestamp


@applies(StreamsGroupTargetAssignmentMemberWritten)
def apply_target(
    tables: CellTables, broker: int, record: StreamsGroupTargetAssignmentMemberWritten
) -> None:
    group = _group(tables, broker, record.group_id)
    if record.tasks is None:
        group.target.pop(record.member_id, None)
    else:
        group.target[record.member_id] = record.tasks


@applies(StreamsGroupCurrentMemberAssignmentWritten)
def apply_current(
    tables: CellTables, broker: int, record: StreamsGroupCurrentMemberAssignmentWritten
) -> None:
    """Store a member's assignment; a tombstone means that it has left."""
    group = _group(tables, broker, record.group_id)
    assignment = record.assignment or StreamsMemberAssignment(
        LEAVE_EPOCH, LEAVE_EPOCH, StreamsMemberState.STABLE, MemberTasks(), MemberTasks()
    )
    member = group.members.get(record.member_id) or StreamsMember(record.member_id)
    group.put(
        msgspec.structs.replace(
            member,
            member_epoch=assignment.member_epoch,
            previous_member_epoch=assignment.previous_member_epoch,
            state=StreamsMemberState(assignment.state),
            assigned=assignment.assigned,
            pending_revocation=assignment.pending_revocation,
        )
    )


def _group(tables: CellTables, broker: int, group_id: str) -> StreamsGroup:
    return groups.change_stored(tables.groups, broker, group_id, StreamsGroup)
