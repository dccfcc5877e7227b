"""A streams group of KIP-1071: members, epochs, topology, tasks.

Source: `StreamsGroup`, `StreamsGroupMember`, `MemberState`, `TasksTuple` in Kafka. The whole state
is durable and changed by records only (`streams_group_records.py`). The timers of the members are
in `groups.py`, volatile state is in `streams_live.py`.

The state of a member is relative to the target assignment, as in a consumer group.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum, StrEnum

import msgspec

from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.streams_group_rows import Endpoint, StreamsGroupTopologyValue
from brokertwin.state.core.java_hashes import hash_order, timeline_order
from brokertwin.state.groups.consumer_group import FIRST_EPOCH

STREAMS = "streams"
"""Protocol type and name of the kind."""

NO_TOPOLOGY = -1
"""The validated topology epoch while topics are missing or do not match."""

FIRST_VALIDATED_EPOCH = 0
"""The validated topology epoch of a new group (a `TimelineInteger`)."""


Tasks = dict[str, list[int]]
"""Partitions by subtopology id, sorted."""

TasksWithEpochs = dict[str, dict[int, int]]
"""Subtopology id to partition to the epoch in which the member got it."""


class MemberTasks(msgspec.Struct, frozen=True):
    """The tasks of a member, owned or to be revoked."""

    active: TasksWithEpochs = {}
    standby: Tasks = {}
    warmup: Tasks = {}


class TargetTasks(msgspec.Struct, frozen=True):
    """The tasks that a member has after its reconciliation."""

    active: Tasks = {}
    standby: Tasks = {}
    warmup: Tasks = {}


class StreamsGroupState(StrEnum):
    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"

    def lower(self) -> str:
        """Return the state as a ListGroups filter names it."""
        return "not_ready" if self is StreamsGroupState.NOT_READY else str(self).lower()


class StreamsMemberState(IntEnum):
    """Kafka's `MemberState`, by code."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3


class StreamsMember(msgspec.Struct, frozen=True):
    """A member, with assigned and revoked tasks. The timeout is in ms."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: StreamsMemberState = StreamsMemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: dict[str, str] = {}
    assigned: MemberTasks = MemberTasks()
    pending_revocation: MemberTasks = MemberTasks()

    def is_reconciled_to(self, assignment_epoch: int) -> bool:
        is_stable = self.state is StreamsMemberState.STABLE
        return is_stable and self.member_epoch == assignment_epoch


Copy = tuple[str, int, str]
"""A copy of a task: subtopology, partition, and its process."""


class StreamsGroup(msgspec.Struct, tag_field="type", tag="streams"):
    """A group. Times are in ms since 1970.

    Attributes:
        target: target assignment by member id.
        most_members: highest member count so far; it determines Kafka's iteration order.
        overlooked: copies of tasks that a member has but Kafka considers released. Kafka notes the
            processes with a copy, and removes a process when one of its members releases the copy.
            Another member may still have it if it changed its process.
    """

    group_id: str
    group_epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    validated_topology_epoch: int = FIRST_VALIDATED_EPOCH
    last_assignment_configs: dict[str, str] = {}
    topology: StreamsGroupTopologyValue | None = None
    assignment_epoch: int = FIRST_EPOCH
    assignment_timestamp: int = 0
    members: dict[str, StreamsMember] = {}
    target: dict[str, TargetTasks] = {}
    most_members: int = 0
    overlooked: set[Copy] = set()

    @property
    def protocol_type(self) -> str:
        return STREAMS

    @property
    def state(self) -> StreamsGroupState:
        if not self.members:
            return StreamsGroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return StreamsGroupState.NOT_READY
        if self.group_epoch > self.assignment_epoch:
            return StreamsGroupState.ASSIGNING
        members = self.members.values()
        is_stable = all(each.is_reconciled_to(self.assignment_epoch) for each in members)
        return StreamsGroupState.STABLE if is_stable else StreamsGroupState.RECONCILING

    def member_error(self, _member_id: str, _instance_id: str | None) -> Error:
        """Return 25 UNKNOWN_MEMBER_ID: there are no classic members."""
        return Error.UNKNOWN_MEMBER_ID

    def static_member(self, instance_id: str | None) -> StreamsMember | None:
        if instance_id is None:
            return None
        members = self.members.values()
        return next((each for each in members if each.instance_id == instance_id), None)

    def in_order(self) -> list[StreamsMember]:
        """Return the members in Kafka's iteration order."""
        return [self.members[each] for each in timeline_order(self.members, self.most_members)]

    def put(self, member: StreamsMember) -> None:
        """Add or update a member."""
        former, owned = self.members.get(member.member_id), copies(member)
        self.members[member.member_id] = member
        self.most_members = max(self.most_members, len(self.members))
        released = copies(former) - owned if former is not None else set()
        if released or self.overlooked:
            held = {each for other in self.members.values() for each in copies(other)}
            self.overlooked = ((self.overlooked | released) - owned) & held

    def source_topics(self) -> dict[str, str]:
        """Return subtopology id by source topic, including repartition topics."""
        parts = self.topology.subtopologies if self.topology is not None else []
        return {
            name: part.subtopology_id
            for part in parts
            for name in (*part.source_topics, *(t.name for t in part.repartition_source_topics))
        }


def required_topics(topology: StreamsGroupTopologyValue) -> list[str]:
    """Return source and changelog topics of a topology in Kafka's order."""
    by_id = {part.subtopology_id: part for part in topology.subtopologies}
    names = dict.fromkeys(
        name
        for each in hash_order(by_id, len(by_id))
        for name in (
            *by_id[each].source_topics,
            *(topic.name for topic in by_id[each].repartition_source_topics),
            *(topic.name for topic in by_id[each].state_changelog_topics),
        )
    )
    return hash_order(names, len(names))


def copies(member: StreamsMember) -> set[Copy]:
    """Return a member's copies of tasks, including those it must revoke."""
    return {
        (part, number, member.process_id)
        for tasks in (member.assigned, member.pending_revocation)
        for role in (tasks.standby, tasks.warmup)
        for part, numbers in role.items()
        for number in numbers
    }


def is_in(tasks: Mapping[str, Iterable[int]], subtopology_id: str, partition: int) -> bool:
    return partition in tasks.get(subtopology_id, ())


def have_any(tasks: TargetTasks, others: MemberTasks) -> bool:
    """True if tasks and others overlap in a role."""
    pairs: list[tuple[Mapping[str, Iterable[int]], Mapping[str, Iterable[int]]]] = [
        (tasks.active, others.active),
        (tasks.standby, others.standby),
        (tasks.warmup, others.warmup),
    ]
    return any(
        is_in(other, each, partition)
        for own, other in pairs
        for each, partitions in own.items()
        for partition in partitions
    )
