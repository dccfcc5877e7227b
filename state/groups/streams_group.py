"""A streams group of KIP-1071: members, their epochs, the topology that they run, and their tasks.

Source: `StreamsGroup`, `StreamsGroupMember`, `MemberState`, `TasksTuple` in Kafka. All of it is
durable: records change it (`streams_group_records.py`), nothing else does. What lives beside it are
the timers of its members (`groups.py`), and what a broker forgets (`streams_live.py`).

A member's `state` says how far it is on its way to the target assignment, as in a consumer group.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum, StrEnum

import msgspec

from brokertwin.state.core.errors import Error
from brokertwin.state.core.java_hashes import hash_order, timeline_order
from brokertwin.state.core.streams_records import (
    Endpoint,
    MemberTasks,
    StreamsTopology,
    TargetTasks,
)
from brokertwin.state.groups.consumer_group import FIRST_EPOCH

STREAMS = "streams"
"""The protocol type, and the name of the kind."""

NO_TOPOLOGY = -1
"""The validated topology epoch while topics are missing or do not fit together."""

FIRST_VALIDATED_EPOCH = 0
"""The same of a group in which nobody has been: a `TimelineInteger` begins so."""


class StreamsGroupState(StrEnum):
    """The states of a streams group, under Kafka's names."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"

    def lower(self) -> str:
        """As a filter of ListGroups names it, which is not always in lower case only."""
        return "not_ready" if self is StreamsGroupState.NOT_READY else str(self).lower()


class StreamsMemberState(IntEnum):
    """The states of a member, by Kafka's codes."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3


class StreamsMember(msgspec.Struct, frozen=True):
    """A member; the time-out is ms.

    `assigned` is what it may run, `pending_revocation` what it is to give back.
    """

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
        """Whether the member has what the assignment of this epoch gives it."""
        is_stable = self.state is StreamsMemberState.STABLE
        return is_stable and self.member_epoch == assignment_epoch


Copy = tuple[str, int, str]
"""A copy of a task: subtopology, partition, and the process that has it."""


class StreamsGroup(msgspec.Struct, tag_field="type", tag="streams"):
    """A group. Times are ms since 1970.

    `target` is by member id. `most_members` sizes the order in which Kafka goes through the
    members. `overlooked` are copies of tasks that a member has and Kafka takes for gone: it notes
    the processes that have a copy, and forgets one when a member of it lets go, though another
    member may have the same copy since it said another process.
    """

    group_id: str
    group_epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    validated_topology_epoch: int = FIRST_VALIDATED_EPOCH
    last_assignment_configs: dict[str, str] = {}
    topology: StreamsTopology | None = None
    assignment_epoch: int = FIRST_EPOCH
    assignment_timestamp: int = 0
    members: dict[str, StreamsMember] = {}
    target: dict[str, TargetTasks] = {}
    most_members: int = 0
    overlooked: set[Copy] = set()

    @property
    def protocol_type(self) -> str:
        """The protocol type, as ListGroups shows it."""
        return STREAMS

    @property
    def state(self) -> StreamsGroupState:
        """The group's state; it follows from what the group has."""
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
        """A streams group has no members of other protocols."""
        return Error.UNKNOWN_MEMBER_ID

    def in_order(self) -> list[StreamsMember]:
        """The members in the order in which Kafka goes through them."""
        return [self.members[each] for each in timeline_order(self.members, self.most_members)]

    def put(self, member: StreamsMember) -> None:
        """Takes a member in, or what is new of it."""
        former, has = self.members.get(member.member_id), copies(member)
        self.members[member.member_id] = member
        self.most_members = max(self.most_members, len(self.members))
        let_go = copies(former) - has if former is not None else set()
        if let_go or self.overlooked:
            held = {each for known in self.members.values() for each in copies(known)}
            self.overlooked = ((self.overlooked | let_go) - has) & held

    def source_topics(self) -> dict[str, str]:
        """Topic to the subtopology that reads it, repartition topics included."""
        parts = self.topology.subtopologies if self.topology is not None else []
        return {
            name: part.subtopology_id
            for part in parts
            for name in (*part.source_topics, *(t.name for t in part.repartition_source_topics))
        }


def required_topics(topology: StreamsTopology) -> list[str]:
    """The topics that a topology reads, and those that keep its state, as Kafka goes through them.

    Repeats are left out.
    """
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
    """The copies of tasks that a member has, those that it is to give back included."""
    return {
        (part, number, member.process_id)
        for tasks in (member.assigned, member.pending_revocation)
        for role in (tasks.standby, tasks.warmup)
        for part, numbers in role.items()
        for number in numbers
    }


def is_in(tasks: Mapping[str, Iterable[int]], subtopology_id: str, partition: int) -> bool:
    """Whether a task is among tasks."""
    return partition in tasks.get(subtopology_id, ())


def have_any(tasks: TargetTasks, others: MemberTasks) -> bool:
    """Whether some of these tasks are among others, each role for itself."""
    pairs: list[tuple[Mapping[str, Iterable[int]], Mapping[str, Iterable[int]]]] = [
        (tasks.active, others.active),
        (tasks.standby, others.standby),
        (tasks.warmup, others.warmup),
    ]
    return any(
        is_in(theirs, each, partition)
        for ours, theirs in pairs
        for each, partitions in ours.items()
        for partition in partitions
    )
