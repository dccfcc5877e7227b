"""The records of groups as rows of `__consumer_offsets`, in Kafka's own bytes.

Source: `GroupCoordinatorRecordHelpers`, `GroupMetadataValue`, `ConsumerGroup…Key` and `…Value` in
Kafka 4.3's group-coordinator. A key begins with its kind, a value with its version, and a null
value takes back what the key names:

    1       an offset, value version 4 or 1                     `offset_records`
    2       a classic group, value version 3
    3, 5    a KIP-848 group's epoch; what a member says of itself
    4       nothing but tombstones, before that of a group's epoch
    6, 7    the epoch of the target assignment; a member's part of it
    8       what a member has, and since which epochs
    10..15  a share group                                       `share_rows`
    16      what a regular expression has found
    17..23  a streams group                                     `streams_rows`

All values of KIP-848 have version 0, which is flexible. `group_records` reads rows of real brokers.
"""

import base64
from collections.abc import Callable
from typing import Any, cast

from brokertwin.state.core.group_records import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentWritten,
    ConsumerGroupMemberMetadataWritten,
    ConsumerGroupMetadataWritten,
    ConsumerGroupPartitionMetadataRemoved,
    ConsumerGroupRegularExpressionWritten,
    ConsumerGroupTargetAssignmentMemberWritten,
    ConsumerGroupTargetAssignmentMetadataWritten,
    GroupMember,
    GroupMetadata,
    GroupMetadataWritten,
    GroupRemoved,
)
from brokertwin.state.core.records import OffsetCommitted, OffsetDeleted, Record
from brokertwin.state.core.wire.primitives import Writer
from brokertwin.state.groups import offset_records, share_rows, streams_rows
from brokertwin.state.groups.row_bytes import (
    Row,
    by_topic,
    current,
    ended,
    flexible_value,
    int64,
    row_key,
    target,
    target_epoch,
)

CLASSIC_VERSION = 3

NO_STRUCTURE = b"\0"
"""A tagged structure that is null. Left out it would be one whose fields have their defaults: a
member of the classic protocol, to Kafka."""


def encode(record: Record) -> Row | None:
    """The row of a record; None where it is none of groups and offsets.

    Raises ValueError for an id of more than 32767 bytes, which Kafka's protocol has no room for.
    """
    found = _ENCODERS.get(type(record))
    return found(record) if found is not None else None


def _classic(record: GroupMetadataWritten) -> Row:
    return row_key(2, record.group_id), _classic_value(record.metadata)


def _classic_value(metadata: GroupMetadata) -> bytes:
    writer = Writer()
    writer.int16(CLASSIC_VERSION)
    writer.string(metadata.protocol_type)
    writer.int32(metadata.generation)
    writer.nullable_string(metadata.protocol)
    writer.nullable_string(metadata.leader)
    writer.int64(metadata.current_state_timestamp)

    def write(member: GroupMember) -> None:
        writer.string(member.member_id)
        writer.nullable_string(member.group_instance_id)
        writer.string(member.client_id)
        writer.string(member.client_host)
        writer.int32(member.rebalance_timeout_ms)
        writer.int32(member.session_timeout_ms)
        writer.bytes_(base64.b64decode(member.subscription))
        writer.bytes_(base64.b64decode(member.assignment))

    writer.array(metadata.members, write)
    return writer.encoded()


def _classic_gone(record: GroupRemoved) -> Row:
    return row_key(2, record.group_id), None


def _epoch(record: ConsumerGroupMetadataWritten) -> Row:
    key = row_key(3, record.group_id)
    if record.epoch is None:
        return key, None
    writer = flexible_value()
    writer.int32(record.epoch)
    return key, ended(writer, int64(record.metadata_hash))


def _member(record: ConsumerGroupMemberMetadataWritten) -> Row:
    key, said = row_key(5, record.group_id, record.member_id), record.metadata
    if said is None:
        return key, None
    writer = flexible_value()
    writer.nullable_string(said.instance_id)
    writer.nullable_string(said.rack_id)
    writer.string(said.client_id)
    writer.string(said.client_host)
    writer.array(said.subscribed_topic_names, writer.string)
    writer.nullable_string(said.subscribed_topic_regex)
    writer.int32(said.rebalance_timeout_ms)
    writer.nullable_string(said.server_assignor)
    classic = said.classic_member_metadata
    return key, ended(writer, _of_classic(classic) if classic is not None else NO_STRUCTURE)


def _of_classic(said: ClassicMemberMetadata) -> bytes:
    """What a member of the classic protocol has said beside; a nullable structure."""
    writer = Writer(is_flexible=True)
    writer.int8(1)
    writer.int32(said.session_timeout_ms)

    def write(protocol: tuple[str, str]) -> None:
        writer.string(protocol[0])
        writer.bytes_(base64.b64decode(protocol[1]))
        writer.tags({})

    writer.array(said.supported_protocols, write)
    return ended(writer)


def _target_epoch(record: ConsumerGroupTargetAssignmentMetadataWritten) -> Row:
    return target_epoch(6, record.group_id, record.assignment_epoch, record.assignment_timestamp)


def _target(record: ConsumerGroupTargetAssignmentMemberWritten) -> Row:
    return target(7, record.group_id, record.member_id, record.topic_partitions)


def _current(record: ConsumerGroupCurrentMemberAssignmentWritten) -> Row:
    key, has = row_key(8, record.group_id, record.member_id), record.assignment
    if has is None:
        return key, None
    writer = current(has.member_epoch, has.previous_member_epoch, has.state)
    by_topic(writer, has.assigned_partitions)
    by_topic(writer, has.partitions_pending_revocation)
    return key, ended(writer)


def _regex(record: ConsumerGroupRegularExpressionWritten) -> Row:
    key = row_key(16, record.group_id, record.regular_expression)
    if record.resolved is None:
        return key, None
    writer = flexible_value()
    writer.array(record.resolved.topics, writer.string)
    writer.int64(record.resolved.version)
    writer.int64(record.resolved.timestamp)
    return key, ended(writer)


def _partition_metadata_removed(record: ConsumerGroupPartitionMetadataRemoved) -> Row:
    return row_key(4, record.group_id), None


_ENCODERS = cast(
    "dict[type, Callable[[Any], Row]]",
    {
        OffsetCommitted: offset_records.committed,
        OffsetDeleted: offset_records.deleted,
        GroupMetadataWritten: _classic,
        GroupRemoved: _classic_gone,
        ConsumerGroupMetadataWritten: _epoch,
        ConsumerGroupMemberMetadataWritten: _member,
        ConsumerGroupTargetAssignmentMetadataWritten: _target_epoch,
        ConsumerGroupTargetAssignmentMemberWritten: _target,
        ConsumerGroupCurrentMemberAssignmentWritten: _current,
        ConsumerGroupRegularExpressionWritten: _regex,
        ConsumerGroupPartitionMetadataRemoved: _partition_metadata_removed,
        **share_rows.ENCODERS,
        **streams_rows.ENCODERS,
    },
)

OF_ROWS = frozenset(_ENCODERS)
"""The records that have a row."""
