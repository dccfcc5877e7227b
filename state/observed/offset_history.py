"""The rows of a `__consumer_offsets` as a history: who moved which offset, when and how far.

A row of an offset says nothing of who committed it. The rows of the group do, which lie in the same
partition and so in one order with it, say who was a member then and had the partition.
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import NamedTuple, TypeVar

from brokertwin.state.core.schema import ZERO_UUID, Uuid
from brokertwin.state.groups import group_records
from brokertwin.state.groups.group_records import (
    AssignmentRow,
    ClassicRow,
    EpochRow,
    Member,
    MemberRow,
    OffsetRow,
    OtherRow,
    TasksRow,
)
from brokertwin.state.groups.offset_records import NO_TIMESTAMP, OffsetKey, OffsetValue

T = TypeVar("T")

OUTSIDER = "an administrator, or a client that joins no group"
"""Who else commits."""


class CoordinatorRow(NamedTuple):
    """A row as it lies in the topic.

    `timestamp`: ms since 1970, when it was appended; -1 if that is not known.
    """

    partition: int
    offset: int
    timestamp: int
    key: bytes
    value: bytes | None


class Direction(StrEnum):
    """What became of an offset."""

    FIRST = "first"
    FORTH = "forth"
    BACK = "back"
    STAYED = "stayed"
    GONE = "gone"


class OffsetMove(NamedTuple):
    """An offset was committed or taken back.

    Attributes:
        row: where that is written.
        before: None where there was none.
        after: None where there is none any more.
        by: whose doing it was, as far as the rows say.
    """

    row: CoordinatorRow
    key: OffsetKey
    before: OffsetValue | None
    after: OffsetValue | None
    by: str

    @property
    def direction(self) -> Direction:
        """Forth or back, or neither."""
        if self.after is None:
            return Direction.GONE
        if self.before is None:
            return Direction.FIRST
        if self.after.offset == self.before.offset:
            return Direction.STAYED
        return Direction.FORTH if self.after.offset > self.before.offset else Direction.BACK

    def note_in(self, offsets: dict[OffsetKey, int]) -> None:
        """Bring up to date what is committed."""
        offsets.pop(self.key, None)
        if self.after is not None:
            offsets[self.key] = self.after.offset

    @property
    def distance(self) -> int | None:
        """By how many offsets; None where there is only one of both."""
        if self.before is None or self.after is None:
            return None
        return self.after.offset - self.before.offset

    @property
    def since_ms(self) -> int | None:
        """How long after the commit before; None if there was none, or the time is not known."""
        if self.before is None or NO_TIMESTAMP in (
            self.row.timestamp,
            self.before.commit_timestamp,
        ):
            return None
        return self.row.timestamp - self.before.commit_timestamp


class _Group:
    """What the rows have said of a group so far; None members: nothing."""

    def __init__(self) -> None:
        self.generation = -1
        self.members: dict[str, Member] | None = None
        self.owned_ids: dict[str, frozenset[tuple[Uuid, int]]] = {}
        self.tasks: dict[str, frozenset[tuple[str, int]]] = {}
        self.topology: dict[str, frozenset[str]] = {}

    def runs(self, member_id: str, topic: str, partition: int) -> bool:
        """Whether a member of a streams group has a task that reads a partition."""
        return any(
            number == partition and topic in self.topology.get(subtopology, ())
            for subtopology, number in self.tasks.get(member_id, ())
        )


class OffsetHistory:
    """Reads rows in their order and remembers the offsets that are there.

    Attributes:
        offsets: what is committed after the rows so far.
        unread: why rows could not be read, by where they lie.
    """

    def __init__(self) -> None:
        self.offsets: dict[OffsetKey, OffsetValue] = {}
        self.unread: dict[tuple[int, int], str] = {}
        self._groups: dict[str, _Group] = {}

    def read(self, rows: Iterable[CoordinatorRow]) -> Iterator[OffsetMove]:
        """What each row of an offset did."""
        for row in rows:
            try:
                said = group_records.decode(row.key, row.value)
            except ValueError as error:
                self.unread[row.partition, row.offset] = str(error)
                continue
            if isinstance(said, OffsetRow):
                yield self._moved(row, said)
            elif not isinstance(said, OtherRow):
                self._heed(self._groups.setdefault(said.group, _Group()), said)

    def _moved(self, row: CoordinatorRow, said: OffsetRow) -> OffsetMove:
        before = self.offsets.pop(said.key, None)
        if said.value is not None:
            self.offsets[said.key] = said.value
        known = said.value or before
        by = self._by(said.key, known.topic_id if known else ZERO_UUID, said.value is None)
        return OffsetMove(row, said.key, before, said.value, by)

    def _by(self, key: OffsetKey, topic_id: Uuid, is_gone: bool) -> str:
        """Whose doing it was."""
        if is_gone:
            return "the broker: expired, or deleted on request"
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
            return f"nobody was a member: {OUTSIDER}"
        names = ", ".join(_named(each) for each in group.members.values())
        return f"one of generation {group.generation}, of whom none has the partition: {names}"

    def _heed(self, group: _Group, said: group_records.OfGroup) -> None:
        """Note who is a member and what he has."""
        if isinstance(said, ClassicRow):
            group.generation = -1 if said.generation is None else said.generation
            group.members = {member.member_id: member for member in said.members}
        elif isinstance(said, EpochRow):
            group.generation = -1 if said.epoch is None else said.epoch
            group.members = group.members or {}
        elif isinstance(said, MemberRow):
            members = group.members = group.members or {}
            if said.member is None:
                members.pop(said.member_id, None)
            else:
                members[said.member_id] = said.member
        elif isinstance(said, AssignmentRow):
            _note(group.owned_ids, said.member_id, said.owned)
        elif isinstance(said, TasksRow):
            _note(group.tasks, said.member_id, said.tasks)
        else:
            group.topology = said.topics or {}


def _note(owned: dict[str, T], member_id: str, what: T | None) -> None:
    """What a member has now; None: nothing."""
    owned.pop(member_id, None)
    if what is not None:
        owned[member_id] = what


def _named(member: Member) -> str:
    name = member.instance_id or member.member_id
    return f"{name} (client {member.client_id} at {member.client_host.removeprefix('/')})"
