"""The records of a consumer group and their application.

Source: `GroupCoordinatorRecordHelpers.newConsumerGroup…`, `GroupMetadataManager.replay` in Kafka. A
member has three records: metadata, target assignment and current assignment. Their tombstones are
written in reverse order.
"""

from collections.abc import Iterable

import msgspec

from brokertwin.state.core.applying import applies
from brokertwin.state.core.group_records import (
    ConsumerGroupCurrentMemberAssignmentWritten,
    ConsumerGroupMemberMetadataWritten,
    ConsumerGroupMetadataWritten,
    ConsumerGroupPartitionMetadataRemoved,
    ConsumerGroupRegularExpressionWritten,
    ConsumerGroupTargetAssignmentMemberWritten,
    ConsumerGroupTargetAssignmentMetadataWritten,
    ConsumerMemberAssignment,
    ConsumerMemberMetadata,
)
from brokertwin.state.core.records import (
    Record,
)
from brokertwin.state.core.tables import CellTables
from brokertwin.state.groups import groups
from brokertwin.state.groups.consumer_group import (
    LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    ConsumerMemberState,
)

NO_ASSIGNMENT = -1
"""The assignment epoch after the tombstone of the target assignment."""


def member_metadata(group_id: str, member: ConsumerMember) -> ConsumerGroupMemberMetadataWritten:
    metadata = ConsumerMemberMetadata(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=member.subscribed_topic_names,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=member.classic_member_metadata,
        subscribed_topic_regex=member.subscribed_topic_regex,
    )
    return ConsumerGroupMemberMetadataWritten(group_id, member.member_id, metadata)


def current_assignment(
    group_id: str, member: ConsumerMember
) -> ConsumerGroupCurrentMemberAssignmentWritten:
    assignment = ConsumerMemberAssignment(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state.value,
        assigned_partitions=member.assigned,
        partitions_pending_revocation=member.pending_revocation,
    )
    return ConsumerGroupCurrentMemberAssignmentWritten(group_id, member.member_id, assignment)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    return [
        ConsumerGroupCurrentMemberAssignmentWritten(group_id, member_id, None),
        ConsumerGroupTargetAssignmentMemberWritten(group_id, member_id, None),
        ConsumerGroupMemberMetadataWritten(group_id, member_id, None),
    ]


def group_records(group: ConsumerGroup) -> list[Record]:
    """Return the records of a whole group with its members."""
    group_id, members = group.group_id, group.in_order()
    epoch, timestamp = group.assignment_epoch, group.assignment_timestamp
    return [
        *(member_metadata(group_id, each) for each in members),
        ConsumerGroupMetadataWritten(group_id, group.group_epoch, group.metadata_hash),
        *(
            ConsumerGroupTargetAssignmentMemberWritten(
                group_id, each.member_id, group.target.get(each.member_id, {})
            )
            for each in members
        ),
        ConsumerGroupTargetAssignmentMetadataWritten(group_id, epoch, timestamp),
        *(current_assignment(group_id, each) for each in members),
    ]


def regex_tombstones(group_id: str, regexes: Iterable[str]) -> list[Record]:
    """Return tombstones for regular expressions without members."""
    return [ConsumerGroupRegularExpressionWritten(group_id, each, None) for each in regexes]


def group_tombstones(
    group_id: str, member_ids: Iterable[str] = (), regexes: Iterable[str] = ()
) -> list[Record]:
    """Return tombstones for a group, its members and its resolved expressions."""
    members = list(member_ids)
    return [
        *(ConsumerGroupCurrentMemberAssignmentWritten(group_id, each, None) for each in members),
        *(ConsumerGroupTargetAssignmentMemberWritten(group_id, each, None) for each in members),
        ConsumerGroupTargetAssignmentMetadataWritten(group_id, None),
        *(ConsumerGroupMemberMetadataWritten(group_id, each, None) for each in members),
        *regex_tombstones(group_id, regexes),
        ConsumerGroupPartitionMetadataRemoved(group_id),
        ConsumerGroupMetadataWritten(group_id, None),
    ]


@applies(ConsumerGroupMetadataWritten)
def apply_metadata(tables: CellTables, broker: int, record: ConsumerGroupMetadataWritten) -> None:
    """Store a group epoch, or delete the group."""
    if record.epoch is None:
        groups.drop_stored(tables.groups, broker, record.group_id)
        return
    group = _group(tables, broker, record.group_id)
    group.group_epoch, group.metadata_hash = record.epoch, record.metadata_hash


@applies(ConsumerGroupMemberMetadataWritten)
def apply_member(
    tables: CellTables, broker: int, record: ConsumerGroupMemberMetadataWritten
) -> None:
    """Store a member's metadata, or delete the member."""
    group = _group(tables, broker, record.group_id)
    if record.metadata is None:
        group.remove(record.member_id)
        return
    member = group.members.get(record.member_id) or ConsumerMember(record.member_id)
    group.put(msgspec.structs.replace(member, **msgspec.structs.asdict(record.metadata)))


@applies(ConsumerGroupTargetAssignmentMetadataWritten)
def apply_target_metadata(
    tables: CellTables, broker: int, record: ConsumerGroupTargetAssignmentMetadataWritten
) -> None:
    group = _group(tables, broker, record.group_id)
    epoch = record.assignment_epoch
    group.assignment_epoch = NO_ASSIGNMENT if epoch is None else epoch
    group.assignment_timestamp = record.assignment_timestamp


@applies(ConsumerGroupTargetAssignmentMemberWritten)
def apply_target(
    tables: CellTables, broker: int, record: ConsumerGroupTargetAssignmentMemberWritten
) -> None:
    group = _group(tables, broker, record.group_id)
    if record.topic_partitions is None:
        group.target.pop(record.member_id, None)
    else:
        group.target[record.member_id] = record.topic_partitions


@applies(ConsumerGroupCurrentMemberAssignmentWritten)
def apply_current(
    tables: CellTables, broker: int, record: ConsumerGroupCurrentMemberAssignmentWritten
) -> None:
    """Store a member's assignment; a tombstone means that it has left."""
    group = _group(tables, broker, record.group_id)
    assignment = record.assignment
    if assignment is None:
        left = ConsumerMemberAssignment(
            LEAVE_EPOCH, LEAVE_EPOCH, ConsumerMemberState.STABLE, {}, {}
        )
        assignment = left
    member = group.members.get(record.member_id) or ConsumerMember(record.member_id)
    group.put(
        msgspec.structs.replace(
            member,
            member_epoch=assignment.member_epoch,
            previous_member_epoch=assignment.previous_member_epoch,
            state=ConsumerMemberState(assignment.state),
            assigned=assignment.assigned_partitions,
            pending_revocation=assignment.partitions_pending_revocation,
        )
    )


@applies(ConsumerGroupRegularExpressionWritten)
def apply_regex(
    tables: CellTables, broker: int, record: ConsumerGroupRegularExpressionWritten
) -> None:
    """Store or delete the topics of a regular expression."""
    group = _group(tables, broker, record.group_id)
    if record.resolved is None:
        group.resolved.pop(record.regular_expression, None)
    else:
        group.resolved[record.regular_expression] = record.resolved


def _group(tables: CellTables, broker: int, group_id: str) -> ConsumerGroup:
    return groups.change_stored(tables.groups, broker, group_id, ConsumerGroup)
