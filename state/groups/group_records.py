"""Decoder of group records in a real `__consumer_offsets`.

Source: `GroupMetadataValue`, `ConsumerGroup…Key` and `…Value` in Kafka's group-coordinator;
`ConsumerProtocolAssignment` in its clients. A key begins with its version, which is the record
type:

    0, 1   committed offset                `offset_records`
    2      classic group                   with all members
    3      consumer group: epoch           11 of a share group, 17 of a streams group
    5      member metadata                 10 of a share group, 19 of a streams group
    8      current assignment              14 of a share group
    22     tasks of a streams member       subtopology and partition
    23     topology of a streams group     topics by subtopology
    other  target assignments, regular expressions, share state: ignored

A null value is a tombstone.
"""

from collections.abc import Callable
from typing import NamedTuple

from brokertwin.state.core.kafka_bytes import MalformedError, Reader
from brokertwin.state.core.schema import Uuid
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
"""Topic name or id, and partition number."""


class OffsetRow(NamedTuple):
    """A committed offset; None is a tombstone."""

    key: OffsetKey
    value: OffsetValue | None


class GroupRowMember(NamedTuple):
    """A member; `owned` is None if the assignment is not of partitions."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    owned: frozenset[Partition] | None


class ClassicRow(NamedTuple):
    """A classic group's generation and members; None is a tombstone."""

    group: str
    generation: int | None
    members: tuple[GroupRowMember, ...]


class EpochRow(NamedTuple):
    """Epoch of a group of the newer protocols; None is a tombstone."""

    group: str
    epoch: int | None


class MemberRow(NamedTuple):
    """A member of such a group, without assignment; None is a tombstone."""

    group: str
    member_id: str
    member: GroupRowMember | None


class AssignmentRow(NamedTuple):
    """A member's partitions by topic id, and its epoch; None is a tombstone."""

    group: str
    member_id: str
    epoch: int
    owned: frozenset[tuple[Uuid, int]] | None


class TasksRow(NamedTuple):
    """Active tasks of a streams member, as subtopology and partition.

    None is a tombstone.
    """

    group: str
    member_id: str
    epoch: int
    tasks: frozenset[tuple[str, int]] | None


class TopologyRow(NamedTuple):
    """Source topics by subtopology; None is a tombstone."""

    group: str
    topics: dict[str, frozenset[str]] | None


class OtherRow(NamedTuple):
    """A record of another type."""

    kind: int


GroupRow = ClassicRow | EpochRow | MemberRow | AssignmentRow | TasksRow | TopologyRow
Row = OffsetRow | GroupRow | OtherRow


def decode(key: bytes, value: bytes | None) -> Row:
    """Decode a record.

    Raises ValueError for an unknown version, and for truncated or trailing bytes.
    """
    reader = Reader(key)
    kind = reader.number("h")
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
    protocol_type, generation = reader.string(), reader.number("i")
    _protocol, _leader = reader.nullable_string(), reader.nullable_string()
    if version >= 2:
        reader.number("q")  # currentStateTimestamp
    members = reader.array(lambda: _classic_member(reader, version, protocol_type))
    reader.tags()
    reader.end()
    return ClassicRow(group, generation, tuple(members))


def _classic_member(reader: Reader, version: int, protocol_type: str) -> GroupRowMember:
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    for _ in range(2 if version >= 1 else 1):
        reader.number("i")  # rebalance and session timeout
    reader.bytes_()  # subscription
    assignment = reader.bytes_()
    reader.tags()
    owned = _owned(assignment) if protocol_type == CONSUMER else None
    return GroupRowMember(member_id, instance_id, client_id, client_host, owned)


def _owned(assignment: bytes) -> frozenset[Partition] | None:
    """Return the partitions of an assignment; None if it is malformed."""
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
    return EpochRow(group, reader.number("i"))  # tagged fields of newer brokers are ignored


def _member(names: list[str], value: bytes | None) -> MemberRow:
    group, member_id = names
    if value is None:
        return MemberRow(group, member_id, None)
    reader = _flexible(value)
    instance_id, _rack = reader.nullable_string(), reader.nullable_string()
    client_id, client_host = reader.string(), reader.string()
    return MemberRow(
        group,
        member_id,
        GroupRowMember(member_id, instance_id, client_id, client_host, frozenset()),
    )


def _share_member(names: list[str], value: bytes | None) -> MemberRow:
    group, member_id = names
    if value is None:
        return MemberRow(group, member_id, None)
    reader = _flexible(value)
    reader.nullable_string()  # rack
    client_id, client_host = reader.string(), reader.string()
    member = GroupRowMember(member_id, None, client_id, client_host, frozenset())
    return MemberRow(group, member_id, member)


def _assignment(names: list[str], value: bytes | None) -> AssignmentRow:
    group, member_id = names
    if value is None:
        return AssignmentRow(group, member_id, -1, None)
    reader = _flexible(value)
    epoch, _previous, _state = reader.number("i"), reader.number("i"), reader.number("b")
    assigned = reader.array(lambda: _of_topic(reader))
    return AssignmentRow(group, member_id, epoch, frozenset().union(*assigned))


def _of_topic(reader: Reader) -> frozenset[tuple[Uuid, int]]:
    topic_id = reader.uuid()
    numbers = reader.array(lambda: reader.number("i"))
    reader.tags()
    return frozenset((topic_id, number) for number in numbers)


def _tasks(names: list[str], value: bytes | None) -> TasksRow:
    group, member_id = names
    if value is None:
        return TasksRow(group, member_id, -1, None)
    reader = _flexible(value)
    epoch, _previous, _state = reader.number("i"), reader.number("i"), reader.number("b")
    active = reader.array(lambda: _of_subtopology(reader))
    return TasksRow(group, member_id, epoch, frozenset().union(*active))


def _of_subtopology(reader: Reader) -> frozenset[tuple[str, int]]:
    subtopology = reader.string()
    numbers = reader.array(lambda: reader.number("i"))
    reader.tags()  # assignment epochs
    return frozenset((subtopology, number) for number in numbers)


def _topology(names: list[str], value: bytes | None) -> TopologyRow:
    (group,) = names
    if value is None:
        return TopologyRow(group, None)
    reader = _flexible(value)
    reader.number("i")  # epoch
    return TopologyRow(group, dict(reader.array(lambda: _subtopology(reader))))


def _subtopology(reader: Reader) -> tuple[str, frozenset[str]]:
    """Return a subtopology's source topics, including repartition topics."""
    name = reader.string()
    sources, _regexes = reader.array(reader.string), reader.array(reader.string)
    reader.array(lambda: _topic_info(reader))  # changelogs
    reader.array(reader.string)  # repartition sink topics
    repartitioned = reader.array(lambda: _topic_info(reader))
    reader.array(lambda: _copartitioned(reader))
    reader.tags()
    return name, frozenset((*sources, *repartitioned))


def _topic_info(reader: Reader) -> str:
    name, _partitions, _replicas = reader.string(), reader.number("i"), reader.number("h")
    reader.array(lambda: (reader.string(), reader.string(), reader.tags()))  # configs
    reader.tags()
    return name


def _copartitioned(reader: Reader) -> None:
    for _ in range(3):
        reader.array(lambda: reader.number("h"))
    reader.tags()


def _flexible(value: bytes) -> Reader:
    reader = Reader(value, is_flexible=True)
    _version(reader, 0)
    return reader


def _version(reader: Reader, newest: int) -> int:
    version = reader.number("h")
    if not 0 <= version <= newest:
        raise ValueError(f"Unsupported value version {version}: expected 0 to {newest}.")
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
"""Number of names in a key, and decoder of the value, by record type."""
