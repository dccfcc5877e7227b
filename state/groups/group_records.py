"""What the rows of a real `__consumer_offsets` say of groups and their members.

Source: `GroupMetadataValue`, `ConsumerGroup…Key` and `…Value` in Kafka's group-coordinator;
`ConsumerProtocolAssignment` in its clients. A key begins with its version, which is its kind:

    0, 1   an offset                 `offset_records`
    2      a classic group           all its members, as the leader's assignment came
    3      a KIP-848 group           its epoch; that of a share group is 11, of a streams group 17
    5      a member of one           whose it is; 10 and 19
    8      what that member has      topic ids and partitions; of a share group 14
    22     of a streams group        tasks: a subtopology and a partition
    23     what its members run      which topics each subtopology reads
    other  a row of another kind     what assignors have decided, regular expressions, share states

A null value takes back what the key names.
"""

from collections.abc import Callable
from typing import NamedTuple

from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.wire.primitives import MalformedError, Reader
from brokertwin.state.groups import offset_records
from brokertwin.state.groups.consumer_protocol import assignment_of
from brokertwin.state.groups.offset_records import OffsetKey, OffsetValue

CLASSIC, EPOCH, MEMBER, ASSIGNMENT = 2, 3, 5, 8
SHARE_MEMBER, SHARE_EPOCH, SHARE_ASSIGNMENT = 10, 11, 14
STREAMS_EPOCH, STREAMS_MEMBER, STREAMS_TASKS, STREAMS_TOPOLOGY = 17, 19, 22, 23
OFFSETS = frozenset({0, 1})
CLASSIC_VERSION_MAX = 4
CONSUMER = "consumer"
"""The protocol type whose assignments are topics and partitions."""

Partition = tuple[str, int]
"""A topic, by name or by id, and a partition of it."""


class OffsetRow(NamedTuple):
    """An offset was committed; None: it is gone."""

    key: OffsetKey
    value: OffsetValue | None


class Member(NamedTuple):
    """A member. `owned` is None where the assignment is not one of topics and partitions."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    owned: frozenset[Partition] | None


class ClassicRow(NamedTuple):
    """A classic group has a generation and members; None: the group is gone."""

    group: str
    generation: int | None
    members: tuple[Member, ...]


class EpochRow(NamedTuple):
    """A group of one of the new protocols has an epoch; None: the group is gone."""

    group: str
    epoch: int | None


class MemberRow(NamedTuple):
    """Whose a member of such a group is, what it owns being unknown; None: it has left."""

    group: str
    member_id: str
    member: Member | None


class AssignmentRow(NamedTuple):
    """What a member has, by topic id, and since which epoch; None: nothing any more."""

    group: str
    member_id: str
    epoch: int
    owned: frozenset[tuple[Uuid, int]] | None


class TasksRow(NamedTuple):
    """The active tasks of a streams group's member, as subtopology and partition; None: none."""

    group: str
    member_id: str
    epoch: int
    tasks: frozenset[tuple[str, int]] | None


class TopologyRow(NamedTuple):
    """Which topics each subtopology of a streams group reads; None: the group is gone."""

    group: str
    topics: dict[str, frozenset[str]] | None


class OtherRow(NamedTuple):
    """A row of a kind that says nothing of offsets."""

    kind: int


OfGroup = ClassicRow | EpochRow | MemberRow | AssignmentRow | TasksRow | TopologyRow
Row = OffsetRow | OfGroup | OtherRow


def decode(key: bytes, value: bytes | None) -> Row:
    """What a row says.

    Raises ValueError where its bytes are cut, too many, or of a version that is not known.
    """
    reader = Reader(key)
    kind = reader.int16()
    if kind in OFFSETS:
        offset_key = offset_records.decode_key(key)
        assert offset_key is not None
        found = offset_records.decode_value(value) if value is not None else None
        return OffsetRow(offset_key, found)
    if kind not in _DECODERS:
        return OtherRow(kind)
    count, read = _DECODERS[kind]
    names = [reader.string() for _ in range(count)]
    reader.end()
    return read(names, value)


def _classic(names: list[str], value: bytes | None) -> ClassicRow:
    (group,) = names
    if value is None:
        return ClassicRow(group, None, ())
    reader = Reader(value)
    version = _version(reader, CLASSIC_VERSION_MAX)
    reader.is_flexible = version == CLASSIC_VERSION_MAX
    protocol_type, generation = reader.string(), reader.int32()
    _protocol, _leader = reader.nullable_string(), reader.nullable_string()
    if version >= 2:
        reader.int64()  # since when it is in its state
    members = reader.array(lambda: _classic_member(reader, version, protocol_type))
    reader.tags()
    reader.end()
    return ClassicRow(group, generation, tuple(members))


def _classic_member(reader: Reader, version: int, protocol_type: str) -> Member:
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    for _ in range(2 if version >= 1 else 1):
        reader.int32()  # the rebalance's and the session's time-out
    reader.bytes_()  # what it subscribes to
    assignment = reader.bytes_()
    reader.tags()
    owned = _owned(assignment) if protocol_type == CONSUMER else None
    return Member(member_id, instance_id, client_id, client_host, owned)


def _owned(assignment: bytes) -> frozenset[Partition] | None:
    """The partitions of a ConsumerProtocolAssignment; None where the bytes are something else."""
    if not assignment:
        return frozenset()
    try:
        topics = assignment_of(assignment).partitions
    except MalformedError:
        return None
    return frozenset((topic, number) for topic, numbers in topics.items() for number in numbers)


def _epoch(names: list[str], value: bytes | None) -> EpochRow:
    (group,) = names
    if value is None:
        return EpochRow(group, None)
    reader = _flexible(value)
    return EpochRow(group, reader.int32())  # newer brokers add tagged fields


def _member(names: list[str], value: bytes | None) -> MemberRow:
    group, member_id = names
    if value is None:
        return MemberRow(group, member_id, None)
    reader = _flexible(value)
    instance_id, _rack = reader.nullable_string(), reader.nullable_string()
    client_id, client_host = reader.string(), reader.string()
    return MemberRow(
        group, member_id, Member(member_id, instance_id, client_id, client_host, frozenset())
    )


def _share_member(names: list[str], value: bytes | None) -> MemberRow:
    group, member_id = names
    if value is None:
        return MemberRow(group, member_id, None)
    reader = _flexible(value)
    reader.nullable_string()  # its rack
    client_id, client_host = reader.string(), reader.string()
    member = Member(member_id, None, client_id, client_host, frozenset())
    return MemberRow(group, member_id, member)


def _assignment(names: list[str], value: bytes | None) -> AssignmentRow:
    group, member_id = names
    if value is None:
        return AssignmentRow(group, member_id, -1, None)
    reader = _flexible(value)
    epoch, _previous, _state = reader.int32(), reader.int32(), reader.int8()
    assigned = reader.array(lambda: _of_topic(reader))
    return AssignmentRow(group, member_id, epoch, frozenset().union(*assigned))


def _of_topic(reader: Reader) -> frozenset[tuple[Uuid, int]]:
    topic_id = reader.uuid()
    numbers = reader.array(lambda: reader.int32())
    reader.tags()
    return frozenset((topic_id, number) for number in numbers)


def _tasks(names: list[str], value: bytes | None) -> TasksRow:
    group, member_id = names
    if value is None:
        return TasksRow(group, member_id, -1, None)
    reader = _flexible(value)
    epoch, _previous, _state = reader.int32(), reader.int32(), reader.int8()
    active = reader.array(lambda: _of_subtopology(reader))
    return TasksRow(group, member_id, epoch, frozenset().union(*active))


def _of_subtopology(reader: Reader) -> frozenset[tuple[str, int]]:
    subtopology = reader.string()
    numbers = reader.array(lambda: reader.int32())
    reader.tags()  # since which epochs
    return frozenset((subtopology, number) for number in numbers)


def _topology(names: list[str], value: bytes | None) -> TopologyRow:
    (group,) = names
    if value is None:
        return TopologyRow(group, None)
    reader = _flexible(value)
    reader.int32()  # its epoch
    return TopologyRow(group, dict(reader.array(lambda: _subtopology(reader))))


def _subtopology(reader: Reader) -> tuple[str, frozenset[str]]:
    """What a subtopology reads: topics from outside, and those that another one writes."""
    name = reader.string()
    sources, _regexes = reader.array(reader.string), reader.array(reader.string)
    reader.array(lambda: _topic_info(reader))  # changelogs
    reader.array(reader.string)  # what it writes
    repartitioned = reader.array(lambda: _topic_info(reader))
    reader.array(lambda: _copartitioned(reader))
    reader.tags()
    return name, frozenset((*sources, *repartitioned))


def _topic_info(reader: Reader) -> str:
    name, _partitions, _replicas = reader.string(), reader.int32(), reader.int16()
    reader.array(lambda: (reader.string(), reader.string(), reader.tags()))  # its settings
    reader.tags()
    return name


def _copartitioned(reader: Reader) -> None:
    for _ in range(3):
        reader.array(lambda: reader.int16())
    reader.tags()


def _flexible(value: bytes) -> Reader:
    reader = Reader(value, is_flexible=True)
    _version(reader, 0)
    return reader


def _version(reader: Reader, newest: int) -> int:
    version = reader.int16()
    if not 0 <= version <= newest:
        raise ValueError(f"a value of version {version}; known are 0 to {newest}")
    return version


_DECODERS: dict[int, tuple[int, Callable[[list[str], bytes | None], Row]]] = {
    CLASSIC: (1, _classic),
    EPOCH: (1, _epoch),
    MEMBER: (2, _member),
    ASSIGNMENT: (2, _assignment),
    SHARE_EPOCH: (1, _epoch),
    SHARE_MEMBER: (2, _share_member),
    SHARE_ASSIGNMENT: (2, _assignment),
    STREAMS_EPOCH: (1, _epoch),
    STREAMS_MEMBER: (2, _member),
    STREAMS_TASKS: (2, _tasks),
    STREAMS_TOPOLOGY: (1, _topology),
}
"""How many strings a key of each kind has, the group and the member, and what reads its value."""
