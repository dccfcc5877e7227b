"""Decode rows of a real `__consumer_offsets`: groups, their members and assignments.

Source: `GroupMetadataValue`, `ConsumerGroup…Value`, `ShareGroup…Value`, `StreamsGroup…Value` in
Kafka's group-coordinator; `ConsumerProtocolAssignment` in its clients. A null value is a tombstone.
Other kinds of rows are target assignments, regular expressions and share states.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import astuple

from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.generated.consumer_group_rows import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
)
from brokertwin.protocol.generated.group_rows import GroupMetadataKey, GroupMetadataValue
from brokertwin.protocol.generated.offset_rows import OffsetCommitValue
from brokertwin.protocol.generated.share_group_rows import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
)
from brokertwin.protocol.generated.streams_group_rows import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupCurrentMemberAssignmentValue,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
)
from brokertwin.protocol.primitives import MalformedError
from brokertwin.protocol.rows import Row as Value
from brokertwin.protocol.rows import RowKey, kind_of
from brokertwin.state.groups import offset_records
from brokertwin.state.groups.classic_group import CONSUMER
from brokertwin.state.groups.consumer_protocol import assignment_of
from brokertwin.state.groups.offset_records import OffsetKey

T = TypeVar("T", bound=Value)

Partition = tuple[str, int]
"""A topic, by name or by id, and a partition of it."""

Names = tuple[Any, ...]
"""The strings of a key: the group, and the member if it has one."""


EPOCH_BEGIN, EPOCH_END = 2, 6
"""Place of the epoch in the value of a group, after the version."""


class OffsetRow(NamedTuple):
    """A committed offset; None if it was deleted."""

    key: OffsetKey
    value: OffsetCommitValue | None


class GroupRowMember(NamedTuple):
    """A member; `owned` is None if its assignment does not have topics and partitions."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    owned: frozenset[Partition] | None


class ClassicRow(NamedTuple):
    """The generation and members of a classic group; None if the group was deleted."""

    group: str
    generation: int | None
    members: tuple[GroupRowMember, ...]


class EpochRow(NamedTuple):
    """The epoch of a group of the other kinds; None if the group was deleted."""

    group: str
    epoch: int | None


class MemberRow(NamedTuple):
    """A member of such a group, without its assignment; None if it has left."""

    group: str
    member_id: str
    member: GroupRowMember | None


class AssignmentRow(NamedTuple):
    """The epoch and partitions of a member; None if it has left."""

    group: str
    member_id: str
    epoch: int
    owned: frozenset[tuple[Uuid, int]] | None


class TasksRow(NamedTuple):
    """The active tasks of a streams member (subtopology, partition); None if it has left."""

    group: str
    member_id: str
    epoch: int
    tasks: frozenset[tuple[str, int]] | None


class TopologyRow(NamedTuple):
    """The topics that each subtopology reads; None if the group was deleted."""

    group: str
    topics: dict[str, frozenset[str]] | None


class OtherRow(NamedTuple):
    kind: int


GroupRow = ClassicRow | EpochRow | MemberRow | AssignmentRow | TasksRow | TopologyRow
Row = OffsetRow | GroupRow | OtherRow


def decode(key: bytes, value: bytes | None) -> Row:
    """Return the content of a row.

    Raises ValueError for missing or extra bytes, or an unknown version.
    """
    kind = kind_of(key)
    if kind in offset_records.KINDS:
        offset_key = offset_records.decode_key(key)
        assert offset_key is not None
        found = offset_records.decode_value(value) if value is not None else None
        return OffsetRow(offset_key, found)
    if kind not in _DECODERS:
        return OtherRow(kind)
    key_type, read = _DECODERS[kind]
    return read(astuple(key_type.decoded(key)), value)


def _read(kind: type[T], value: bytes | None) -> T | None:
    return None if value is None else kind.decoded(value)


def _classic(names: Names, value: bytes | None) -> ClassicRow:
    (group,) = names
    metadata = _read(GroupMetadataValue, value)
    if metadata is None:
        return ClassicRow(group, None, ())
    is_consumer = metadata.protocol_type == CONSUMER
    members = [
        GroupRowMember(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            _owned(each.assignment) if is_consumer else None,
        )
        for each in metadata.members
    ]
    return ClassicRow(group, metadata.generation, tuple(members))


def _owned(assignment: bytes) -> frozenset[Partition] | None:
    """Return the partitions of an assignment; None if it is malformed."""
    if not assignment:
        return frozenset()
    try:
        topics = assignment_of(assignment).partitions
    except MalformedError:
        return None
    return frozenset((topic, number) for topic, numbers in topics.items() for number in numbers)


def _epoch(names: Names, value: bytes | None) -> EpochRow:
    """Only the epoch is read, because brokers of different versions write other fields after it."""
    (group,) = names
    if value is None:
        return EpochRow(group, None)
    if version := kind_of(value):
        raise ValueError(f"a value of version {version}; the known version is 0")
    if len(value) < EPOCH_END:
        raise MalformedError("a value that ends before its epoch")
    return EpochRow(group, int.from_bytes(value[EPOCH_BEGIN:EPOCH_END], signed=True))


def _member(
    kind: type[
        ConsumerGroupMemberMetadataValue
        | ShareGroupMemberMetadataValue
        | StreamsGroupMemberMetadataValue
    ],
    names: Names,
    value: bytes | None,
) -> MemberRow:
    group, member_id = names
    found = _read(kind, value)
    if found is None:
        return MemberRow(group, member_id, None)
    instance_id = None if isinstance(found, ShareGroupMemberMetadataValue) else found.instance_id
    member = GroupRowMember(member_id, instance_id, found.client_id, found.client_host, frozenset())
    return MemberRow(group, member_id, member)


def _assignment(
    kind: type[ConsumerGroupCurrentMemberAssignmentValue | ShareGroupCurrentMemberAssignmentValue],
    names: Names,
    value: bytes | None,
) -> AssignmentRow:
    group, member_id = names
    assignment = _read(kind, value)
    if assignment is None:
        return AssignmentRow(group, member_id, -1, None)
    owned = (
        (each.topic_id, at) for each in assignment.assigned_partitions for at in each.partitions
    )
    return AssignmentRow(group, member_id, assignment.member_epoch, frozenset(owned))


def _tasks(names: Names, value: bytes | None) -> TasksRow:
    group, member_id = names
    found = _read(StreamsGroupCurrentMemberAssignmentValue, value)
    if found is None:
        return TasksRow(group, member_id, -1, None)
    tasks = ((each.subtopology_id, at) for each in found.active_tasks for at in each.partitions)
    return TasksRow(group, member_id, found.member_epoch, frozenset(tasks))


def _topology(names: Names, value: bytes | None) -> TopologyRow:
    """The topics that each subtopology reads: from outside, and from other subtopologies."""
    (group,) = names
    topology = _read(StreamsGroupTopologyValue, value)
    if topology is None:
        return TopologyRow(group, None)
    topics = {
        part.subtopology_id: frozenset(
            (*part.source_topics, *(each.name for each in part.repartition_source_topics))
        )
        for part in topology.subtopologies
    }
    return TopologyRow(group, topics)


_DECODERS: dict[int, tuple[type[RowKey], Callable[[Names, bytes | None], Row]]] = {
    each.KIND: (each, read)
    for each, read in (
        (GroupMetadataKey, _classic),
        (ConsumerGroupMetadataKey, _epoch),
        (ConsumerGroupMemberMetadataKey, partial(_member, ConsumerGroupMemberMetadataValue)),
        (
            ConsumerGroupCurrentMemberAssignmentKey,
            partial(_assignment, ConsumerGroupCurrentMemberAssignmentValue),
        ),
        (ShareGroupMetadataKey, _epoch),
        (ShareGroupMemberMetadataKey, partial(_member, ShareGroupMemberMetadataValue)),
        (
            ShareGroupCurrentMemberAssignmentKey,
            partial(_assignment, ShareGroupCurrentMemberAssignmentValue),
        ),
        (StreamsGroupMetadataKey, _epoch),
        (StreamsGroupMemberMetadataKey, partial(_member, StreamsGroupMemberMetadataValue)),
        (StreamsGroupCurrentMemberAssignmentKey, _tasks),
        (StreamsGroupTopologyKey, _topology),
    )
}
"""The keys of rows, and the function that reads the value; it gets the strings of the key."""
