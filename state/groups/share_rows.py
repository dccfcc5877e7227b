"""The records of share groups as rows of `__consumer_offsets`, in Kafka's own bytes.

Source: `ShareGroup…Key` and `…Value` in Kafka 4.3's group-coordinator:

    10      what a member says of itself
    11      a group's epoch
    12, 13  the epoch of the target assignment; a member's part of it
    14      what a member has
    15      which partitions have share state, are to get it, and which topics are to lose it

How far a share group has come lies in `__share_group_state` (`state/share/state_rows.py`).
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
    ended,
    flexible_value,
    int32_of,
    row_key,
    target,
    target_epoch,
)


def _member(record: ShareGroupMemberMetadataWritten) -> Row:
    key, said = row_key(10, record.group_id, record.member_id), record.metadata
    if said is None:
        return key, None
    writer = flexible_value()
    writer.nullable_string(said.rack_id)
    writer.string(said.client_id)
    writer.string(said.client_host)
    writer.array(said.subscribed_topic_names, writer.string)
    return key, ended(writer)


def _epoch(record: ShareGroupMetadataWritten) -> Row:
    key = row_key(11, record.group_id)
    if record.epoch is None:
        return key, None
    writer = flexible_value()
    writer.int32(record.epoch)
    writer.int64(record.metadata_hash)
    return key, ended(writer)


def _target_epoch(record: ShareGroupTargetAssignmentMetadataWritten) -> Row:
    return target_epoch(12, record.group_id, record.assignment_epoch, record.assignment_timestamp)


def _target(record: ShareGroupTargetAssignmentMemberWritten) -> Row:
    return target(13, record.group_id, record.member_id, record.topic_partitions)


def _current(record: ShareGroupCurrentMemberAssignmentWritten) -> Row:
    key, has = row_key(14, record.group_id, record.member_id), record.assignment
    if has is None:
        return key, None
    writer = current(has.member_epoch, has.previous_member_epoch, has.state)
    by_topic(writer, has.assigned_partitions)
    return key, ended(writer)


def _state_partitions(record: ShareGroupStatePartitionMetadataWritten) -> Row:
    key, known = row_key(15, record.group_id), record.metadata
    if known is None:
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

    writer.array(known.initializing.items(), partitions)
    writer.array(known.initialized.items(), partitions)
    writer.array(known.deleting.items(), name)
    return key, ended(writer)


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
"""What makes a row of each record."""
