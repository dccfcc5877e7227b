"""Encoder of share group records to rows of `__consumer_offsets`.

Source: `ShareGroup…Key` and `…Value` in Kafka 4.3's group-coordinator:

    10      member metadata
    11      group epoch
    12, 13  target assignment: epoch, members
    14      current assignment
    15      share partitions: initializing, initialized, and topics to delete

The progress of a share group is in `__share_group_state` (`state/share/state_rows.py`).
"""

from collections.abc import Callable
from typing import Any, cast

from brokertwin.state.core.group_records import (
    ShareGroupCurrentMemberAssignmentWritten,
    ShareGroupMemberMetadataWritten,
    ShareGroupMetadataWritten,
    ShareGroupStatePartitionMetadataWritten,
    ShareGroupTargetAssignmentMemberWritten,
    ShareGroupTargetAssignmentMetadataWritten,
    StatePartitions,
)
from brokertwin.state.core.schema import Uuid
from brokertwin.state.groups.row_bytes import (
    Row,
    by_topic,
    current,
    finish_value,
    flexible_value,
    int32_of,
    row_key,
    target,
    target_epoch,
)


def _member(record: ShareGroupMemberMetadataWritten) -> Row:
    key, metadata = row_key(10, record.group_id, record.member_id), record.metadata
    if metadata is None:
        return key, None
    writer = flexible_value()
    writer.nullable_string(metadata.rack_id)
    writer.string(metadata.client_id)
    writer.string(metadata.client_host)
    writer.array(metadata.subscribed_topic_names, writer.string)
    return key, finish_value(writer)


def _epoch(record: ShareGroupMetadataWritten) -> Row:
    key = row_key(11, record.group_id)
    if record.epoch is None:
        return key, None
    writer = flexible_value()
    writer.number("i", record.epoch)
    writer.number("q", record.metadata_hash)
    return key, finish_value(writer)


def _target_epoch(record: ShareGroupTargetAssignmentMetadataWritten) -> Row:
    return target_epoch(12, record.group_id, record.assignment_epoch, record.assignment_timestamp)


def _target(record: ShareGroupTargetAssignmentMemberWritten) -> Row:
    return target(13, record.group_id, record.member_id, record.topic_partitions)


def _current(record: ShareGroupCurrentMemberAssignmentWritten) -> Row:
    key, assignment = row_key(14, record.group_id, record.member_id), record.assignment
    if assignment is None:
        return key, None
    writer = current(assignment.member_epoch, assignment.previous_member_epoch, assignment.state)
    by_topic(writer, assignment.assigned_partitions)
    return key, finish_value(writer)


def _state_partitions(record: ShareGroupStatePartitionMetadataWritten) -> Row:
    key, metadata = row_key(15, record.group_id), record.metadata
    if metadata is None:
        return key, None
    writer = flexible_value()

    def partitions(topic: tuple[Uuid, StatePartitions]) -> None:
        writer.uuid(topic[0])
        writer.string(topic[1].topic_name)
        writer.array(topic[1].partitions, int32_of(writer))
        writer.tags({})

    def name(topic: tuple[Uuid, str]) -> None:
        writer.uuid(topic[0])
        writer.string(topic[1])
        writer.tags({})

    writer.array(metadata.initializing.items(), partitions)
    writer.array(metadata.initialized.items(), partitions)
    writer.array(metadata.deleting.items(), name)
    return key, finish_value(writer)


ENCODERS: dict[type, Callable[[Any], Row]] = cast(
    "dict[type, Callable[[Any], Row]]",
    {
        ShareGroupMemberMetadataWritten: _member,
        ShareGroupMetadataWritten: _epoch,
        ShareGroupTargetAssignmentMetadataWritten: _target_epoch,
        ShareGroupTargetAssignmentMemberWritten: _target,
        ShareGroupCurrentMemberAssignmentWritten: _current,
        ShareGroupStatePartitionMetadataWritten: _state_partitions,
    },
)
