"""Encoder of group records to rows of `__consumer_offsets`.

Source: `GroupCoordinatorRecordHelpers`, `GroupMetadataValue`, `ConsumerGroup…Key` and `…Value` in
Kafka 4.3's group-coordinator. A key begins with the record type, a value with its version. A null
value is a tombstone.

    1       committed offset, value versions 1 and 4          `offset_records`
    2       classic group, value version 3
    3, 5    consumer group: epoch, member metadata
    4       tombstone only, before the tombstone of the group's epoch
    6, 7    target assignment: epoch, members
    8       current assignment with epochs
    10..15  share group                                       `share_rows`
    16      resolved regular expression
    17..23  streams group                                     `streams_rows`

Values of types 3 to 23 have version 0, which is flexible. `group_records` decodes rows of real
brokers.
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
from brokertwin.state.core.kafka_bytes import Writer
from brokertwin.state.core.records import OffsetCommitted, OffsetDeleted, Record
from brokertwin.state.groups import offset_records, share_rows, streams_rows
from brokertwin.state.groups.row_bytes import (
    Row,
    by_topic,
    current,
    finish_value,
    flexible_value,
    int64,
    row_key,
    target,
    target_epoch,
)

CLASSIC_VERSION = 3

NO_STRUCTURE = b"\0"
"""A null tagged structure.

If it is missing, Kafka reads a structure of defaults, which would be a classic member.
"""


def encode(record: Record) -> Row | None:
    """Return the row of a record; None if it is not of a group or offset.

    Raises ValueError for an id longer than 32767 bytes, the limit of Kafka's protocol.
    """
    found = _ENCODERS.get(type(record))
    return found(record) if found is not None else None


def _classic(record: GroupMetadataWritten) -> Row:
    return row_key(2, record.group_id), _classic_value(record.metadata)


def _classic_value(metadata: GroupMetadata) -> bytes:
    writer = Writer()
    writer.number("h", CLASSIC_VERSION)
    writer.string(metadata.protocol_type)
    writer.number("i", metadata.generation)
    writer.nullable_string(metadata.protocol)
    writer.nullable_string(metadata.leader)
    writer.number("q", metadata.current_state_timestamp)

    def write(member: GroupMember) -> None:
        writer.string(member.member_id)
        writer.nullable_string(member.group_instance_id)
        writer.string(member.client_id)
        writer.string(member.client_host)
        writer.number("i", member.rebalance_timeout_ms)
        writer.number("i", member.session_timeout_ms)
        writer.bytes_(base64.b64decode(member.subscription))
        writer.bytes_(base64.b64decode(member.assignment))

    writer.array(metadata.members, write)
    return writer.encoded()


def _classic_tombstone(record: GroupRemoved) -> Row:
    return row_key(2, record.group_id), None


def _epoch(record: ConsumerGroupMetadataWritten) -> Row:
    key = row_key(3, record.group_id)
    if record.epoch is None:
        return key, None
    writer = flexible_value()
    writer.number("i", record.epoch)
    return key, finish_value(writer, int64(record.metadata_hash))


def _member(record: ConsumerGroupMemberMetadataWritten) -> Row:
    key, metadata = row_key(5, record.group_id, record.member_id), record.metadata
    if metadata is None:
        return key, None
    writer = flexible_value()
    writer.nullable_string(metadata.instance_id)
    writer.nullable_string(metadata.rack_id)
    writer.string(metadata.client_id)
    writer.string(metadata.client_host)
    writer.array(metadata.subscribed_topic_names, writer.string)
    writer.nullable_string(metadata.subscribed_topic_regex)
    writer.number("i", metadata.rebalance_timeout_ms)
    writer.nullable_string(metadata.server_assignor)
    classic = metadata.classic_member_metadata
    return key, finish_value(
        writer, _classic_metadata(classic) if classic is not None else NO_STRUCTURE
    )


def _classic_metadata(metadata: ClassicMemberMetadata) -> bytes:
    """Encode a classic member's protocols, a nullable structure."""
    writer = Writer(is_flexible=True)
    writer.number("b", 1)
    writer.number("i", metadata.session_timeout_ms)

    def write(protocol: tuple[str, str]) -> None:
        writer.string(protocol[0])
        writer.bytes_(base64.b64decode(protocol[1]))
        writer.tags({})

    writer.array(metadata.supported_protocols, write)
    return finish_value(writer)


def _target_epoch(record: ConsumerGroupTargetAssignmentMetadataWritten) -> Row:
    return target_epoch(6, record.group_id, record.assignment_epoch, record.assignment_timestamp)


def _target(record: ConsumerGroupTargetAssignmentMemberWritten) -> Row:
    return target(7, record.group_id, record.member_id, record.topic_partitions)


def _current(record: ConsumerGroupCurrentMemberAssignmentWritten) -> Row:
    key, assignment = row_key(8, record.group_id, record.member_id), record.assignment
    if assignment is None:
        return key, None
    writer = current(assignment.member_epoch, assignment.previous_member_epoch, assignment.state)
    by_topic(writer, assignment.assigned_partitions)
    by_topic(writer, assignment.partitions_pending_revocation)
    return key, finish_value(writer)


def _regex(record: ConsumerGroupRegularExpressionWritten) -> Row:
    key = row_key(16, record.group_id, record.regular_expression)
    if record.resolved is None:
        return key, None
    writer = flexible_value()
    writer.array(record.resolved.topics, writer.string)
    writer.number("q", record.resolved.version)
    writer.number("q", record.resolved.timestamp)
    return key, finish_value(writer)


def _partition_metadata_removed(record: ConsumerGroupPartitionMetadataRemoved) -> Row:
    return row_key(4, record.group_id), None


_ENCODERS = cast(
    "dict[type, Callable[[Any], Row]]",
    {
        OffsetCommitted: offset_records.committed,
        OffsetDeleted: offset_records.deleted,
        GroupMetadataWritten: _classic,
        GroupRemoved: _classic_tombstone,
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

GROUP_RECORD_TYPES = frozenset(_ENCODERS)
"""Record types with a row."""
