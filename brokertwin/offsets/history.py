"""The rows of `__consumer_offsets` as a history of committed offsets.

The row of an offset does not have the member that committed it. The rows of the group, in the same
partition and so in one order with it, have the members and their partitions at that time.
"""

import struct
from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple, TypeVar

from brokertwin.protocol.bodies import ZERO_UUID, Uuid
from brokertwin.protocol.generated.offset_rows import OffsetCommitValue
from brokertwin.state.groups import group_records
from brokertwin.state.groups.group_records import (
    AssignmentRow,
    ClassicRow,
    EpochRow,
    GroupRowMember,
    MemberRow,
    OffsetRow,
    OtherRow,
    TasksRow,
)
from brokertwin.state.groups.offset_records import NO_TIMESTAMP, OffsetKey

T = TypeVar("T")

OUTSIDER = "an administrator, or a client that joins no group"
"""Possible sources of other commits."""


class CoordinatorRow(NamedTuple):
    """A row of the topic. `timestamp` is the append time in ms since 1970, -1 if unknown."""

    partition: int
    offset: int
    timestamp: int
    key: bytes
    value: bytes | None


def is_of(key: bytes, groups: Collection[str]) -> bool:
    """True if the key is of one of these groups; without groups, always."""
    return not groups or any(key[2:].startswith(key_prefix(group)) for group in groups)


def key_prefix(group: str) -> bytes:
    """Return the bytes after the kind of a key, which begin every key of a group in Kafka 4.3."""
    name = group.encode()
    return struct.pack(">H", len(name)) + name


class Direction(StrEnum):
    FIRST = "first"
    FORTH = "forth"
    BACK = "back"
    STAYED = "stayed"
    GONE = "gone"


class OffsetMove(NamedTuple):
    """A change of a committed offset.

    Attributes:
        row: the row of the change.
        before: the former offset, if any.
        after: the new offset, if any.
        by: the member that made the change, as far as known.
    """

    row: CoordinatorRow
    key: OffsetKey
    before: OffsetCommitValue | None
    after: OffsetCommitValue | None
    by: str

    @property
    def direction(self) -> Direction:
        if self.after is None:
            return Direction.GONE
        if self.before is None:
            return Direction.FIRST
        if self.after.offset == self.before.offset:
            return Direction.STAYED
        return Direction.FORTH if self.after.offset > self.before.offset else Direction.BACK

    def note_in(self, offsets: dict[OffsetKey, int]) -> None:
        """Apply the change to committed offsets."""
        offsets.pop(self.key, None)
        if self.after is not None:
            offsets[self.key] = self.after.offset

    @property
    def distance(self) -> int | None:
        """Number of offsets; None if there was none before or after."""
        if self.before is None or self.after is None:
            return None
        return self.after.offset - self.before.offset

    @property
    def since_ms(self) -> int | None:
        """Time since the former commit; None without one, or if a time is unknown."""
        if self.before is None or NO_TIMESTAMP in (
            self.row.timestamp,
            self.before.commit_timestamp,
        ):
            return None
        return self.row.timestamp - self.before.commit_timestamp


class _Group:
    """A group as known from its rows; `members` is None before the first."""

    def __init__(self) -> None:
        self.generation = -1
        self.members: dict[str, GroupRowMember] | None = None
        self.owned_ids: dict[str, frozenset[tuple[Uuid, int]]] = {}
        self.tasks: dict[str, frozenset[tuple[str, int]]] = {}
        self.topology: dict[str, frozenset[str]] = {}

    def runs(self, member_id: str, topic: str, partition: int) -> bool:
        """True if a member of a streams group has a task that reads the partition."""
        return any(
            number == partition and topic in self.topology.get(subtopology, ())
            for subtopology, number in self.tasks.get(member_id, ())
        )


class OffsetHistory:
    """Reads rows in order and tracks the committed offsets.

    Attributes:
        offsets: committed offsets after the rows read so far.
        unread: errors of unreadable rows, by partition and offset.
    """

    def __init__(self) -> None:
        self.offsets: dict[OffsetKey, OffsetCommitValue] = {}
        self.unread: dict[tuple[int, int], str] = {}
        self._groups: dict[str, _Group] = {}

    def read(self, rows: Iterable[CoordinatorRow]) -> Iterator[OffsetMove]:
        for row in rows:
            try:
                record = group_records.decode(row.key, row.value)
            except ValueError as error:
                self.unread[row.partition, row.offset] = str(error)
                continue
            if isinstance(record, OffsetRow):
                yield self._moved(row, record)
            elif not isinstance(record, OtherRow):
                self._update(self._groups.setdefault(record.group, _Group()), record)

    def _moved(self, row: CoordinatorRow, found: OffsetRow) -> OffsetMove:
        before = self.offsets.pop(found.key, None)
        if found.value is not None:
            self.offsets[found.key] = found.value
        value = found.value or before
        by = self._by(found.key, value.topic_id if value else ZERO_UUID, found.value is None)
        return OffsetMove(row, found.key, before, found.value, by)

    def _by(self, key: OffsetKey, topic_id: Uuid, is_gone: bool) -> str:
        """Description of the change's author."""
        if is_gone:
            return "the broker: expired, deleted on request, or with its topic"
        group = self._groups.get(key.group)
        if group is None or group.members is None:
            return f"no member is known: {OUTSIDER}"
        for member in group.members.values():
            ids = group.owned_ids.get(member.member_id, frozenset())
            has_it = (topic_id, key.partition) in ids
            has_it = has_it or group.runs(member.member_id, key.topic, key.partition)
            if has_it or (key.topic, key.partition) in (member.owned or ()):
                return f"{_named(member)}, generation {group.generation}"
        if not group.members:
            return f"the group was empty: {OUTSIDER}"
        names = ", ".join(_named(each) for each in group.members.values())
        return f"generation {group.generation}, no member has the partition: {names}"

    def _update(self, group: _Group, row: group_records.GroupRow) -> None:
        if isinstance(row, ClassicRow):
            group.generation = -1 if row.generation is None else row.generation
            group.members = {member.member_id: member for member in row.members}
        elif isinstance(row, EpochRow):
            group.generation = -1 if row.epoch is None else row.epoch
            group.members = group.members or {}
        elif isinstance(row, MemberRow):
            members = group.members = group.members or {}
            if row.member is None:
                members.pop(row.member_id, None)
            else:
                members[row.member_id] = row.member
        elif isinstance(row, AssignmentRow):
            _note(group.owned_ids, row.member_id, row.owned)
        elif isinstance(row, TasksRow):
            _note(group.tasks, row.member_id, row.tasks)
        else:
            group.topology = row.topics or {}


def _note(owned: dict[str, T], member_id: str, what: T | None) -> None:
    """Set what a member owns; None removes it."""
    owned.pop(member_id, None)
    if what is not None:
        owned[member_id] = what


def _named(member: GroupRowMember) -> str:
    name = member.instance_id or member.member_id
    return f"{name} (client {member.client_id} at {member.client_host.removeprefix('/')})"
