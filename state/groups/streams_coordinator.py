"""The coordinator of a streams group: heartbeats, leaves, and the assignment of tasks.

Source: `GroupMetadataManager.streamsGroupHeartbeat`, `streamsGroupLeave`,
`computeDelayedTargetAssignment`, `TargetAssignmentBuilder`, `EndpointToPartitionsManager` in Kafka;
KIP-1071. A heartbeat does these things, in this order:

    1  what the member says of itself is noted; the first member brings the topology
    2  the topology is held against the topics that there are (`topology_topics.py`)
    3  another member, other topics, another number of standby tasks: a new group epoch
    4  a group epoch above that of the assignment asks for a new target assignment, but not within
       streams.initial.rebalance.delay.ms of the first member, nor within
       streams.assignment.interval.ms of the one before
    5  the member goes a step towards its target (`task_assignment.py`)
    6  it has its session time-out from now on, and a rebalance time-out while it gives tasks back
"""

from typing import NamedTuple

import msgspec

from brokertwin.state.cluster import group_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.errors import Error
from brokertwin.state.core.group_records import GroupRemoved
from brokertwin.state.core.java_hashes import JavaMap, java_hash
from brokertwin.state.core.records import Record
from brokertwin.state.core.streams_records import (
    Endpoint,
    StreamsGroupMetadataWritten,
    StreamsGroupTargetAssignmentMemberWritten,
    StreamsGroupTargetAssignmentMetadataWritten,
    StreamsGroupTopologyWritten,
    StreamsTopology,
    TargetTasks,
    Tasks,
)
from brokertwin.state.groups import (
    groups,
    sticky_assignor,
    streams_live,
    target_assignment,
    task_assignment,
    topology_topics,
)
from brokertwin.state.groups.classic_group import ClassicGroup, ClassicGroupState
from brokertwin.state.groups.consumer_group import JOIN_EPOCH, Rejection
from brokertwin.state.groups.sticky_assignor import TaskMember, TaskSpec
from brokertwin.state.groups.streams_endpoints import EndpointPartitions, endpoints
from brokertwin.state.groups.streams_group import (
    NO_TOPOLOGY,
    StreamsGroup,
    StreamsMember,
    StreamsMemberState,
    required_topics,
)
from brokertwin.state.groups.streams_group_records import (
    current_assignment,
    member_metadata,
    member_tombstones,
)
from brokertwin.state.groups.streams_live import LiveStreams
from brokertwin.state.groups.topology_topics import (
    ConfiguredTopology,
    StreamsInternalTopic,
    TopologyStatus,
)

STANDBY_REPLICAS = "num.standby.replicas"
"""The setting of an assignment, by the name under which a group remembers it."""

_BY_REBALANCE = "Assignment delayed due to the configured initial rebalance delay."
_BY_INTERVAL = "Assignment delayed due to the configured assignment interval."

StatusDetail = tuple[TopologyStatus, str]


class StreamsHeartbeat(NamedTuple):
    """What a heartbeat says; None, and -1 for the time-out, where it says nothing new."""

    member_id: str
    member_epoch: int
    endpoint_epoch: int
    rack_id: str | None
    rebalance_timeout_ms: int
    topology: StreamsTopology | None
    owned: TargetTasks | None
    process_id: str | None
    user_endpoint: Endpoint | None
    client_tags: dict[str, str] | Rejection | None
    is_shutdown: bool
    client_id: str
    client_host: str


class StreamsHeartbeatResult(NamedTuple):
    """What a heartbeat came to.

    Attributes:
        after: the member.
        is_told: whether it is told its tasks.
        statuses: what it is told of the group, with words.
        endpoint_epoch: of `endpoints`.
        endpoints: which instance has what; None where the member knows.
        missing: internal topics that are to be created.
    """

    after: StreamsMember
    is_told: bool
    statuses: list[StatusDetail]
    endpoint_epoch: int
    endpoints: list[EndpointPartitions] | None
    missing: list[StreamsInternalTopic]


def find(broker: Broker, group_id: str, member_epoch: int) -> "StreamsGroupCoordinator | Rejection":
    """The coordinator of a heartbeat's group: a new one for who joins.

    That takes the place of a classic one without members.
    """
    group = groups.find(broker, group_id)
    if isinstance(group, StreamsGroup):
        return StreamsGroupCoordinator(broker, group)
    is_join = member_epoch == JOIN_EPOCH
    if group is None and not is_join:
        what = "Group" if member_epoch < JOIN_EPOCH else "Streams group"
        return Rejection(Error.GROUP_ID_NOT_FOUND, f"{what} {group_id} not found.")
    is_empty = isinstance(group, ClassicGroup) and group.state is ClassicGroupState.EMPTY
    if group is None or (is_join and is_empty):
        return StreamsGroupCoordinator(broker, StreamsGroup(group_id))
    return Rejection(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group.")


class StreamsGroupCoordinator:
    """One streams group at its coordinator, for the time of one request or timer.

    Attributes:
        group: the group as its records know it; it is not written to.
        records: what is to be written.
    """

    def __init__(self, broker: Broker, group: StreamsGroup) -> None:
        self._broker = broker
        self.group = group
        self.records: list[Record] = []
        known = groups.find(broker, group.group_id)
        self._is_known = known is not None
        self._lives = isinstance(known, StreamsGroup)
        if isinstance(known, ClassicGroup):
            self.records.append(GroupRemoved(group.group_id))
        live = streams_live.get(broker.tables, broker.id, group.group_id)
        self._shown = live.configured if live is not None else None
        self._live = msgspec.structs.replace(live) if live is not None else LiveStreams()
        if self._live.unseen is not None:
            self._live.configured, self._live.unseen = self._live.unseen, None
        self._timers: dict[str, int | None] = {}

    # Heartbeats

    def heartbeat(self, said: StreamsHeartbeat) -> StreamsHeartbeatResult | Rejection:
        """A member joins, or is still there."""
        before = self._member(said)
        if isinstance(before, Rejection):
            return before
        if isinstance(said.client_tags, Rejection):
            return said.client_tags
        after = _updated(before, said, said.client_tags)
        if after != before:
            self.records.append(member_metadata(self.group.group_id, after))
        topology = self._topology(said)
        if isinstance(topology, Rejection):
            return topology
        statuses = self._stale(after)
        topics_hash = target_assignment.metadata_hash(self._broker, required_topics(topology))
        configured = self._configured(topology, topics_hash)
        if isinstance(configured, Rejection):
            return configured
        refused = _invalid_tasks(configured, said.owned)
        if refused is not None:
            self._note_refused()
            return refused
        validated = topology.epoch if configured.is_ready else NO_TOPOLOGY
        group_epoch = self._update_group_epoch(topics_hash, validated, after != before)
        epoch, target, delayed = self._update_target(after, group_epoch, configured)
        statuses += [(TopologyStatus.ASSIGNMENT_DELAYED, delayed)] if delayed else []
        after = self._reconcile(after, epoch, target, said.owned)
        return self._answered(said, before, after, statuses)

    def _member(self, said: StreamsHeartbeat) -> StreamsMember | Rejection:
        """Who sends a heartbeat; somebody new has the epoch 0 and no tasks."""
        group, is_join = self.group, said.member_epoch == JOIN_EPOCH
        max_size = group_configs.streams_max_size(self._broker)
        if is_join and len(group.members) >= max_size:
            limit = f"The streams group has reached its maximum capacity of {max_size} members."
            return Rejection(Error.GROUP_MAX_SIZE_REACHED, limit)
        member = group.members.get(said.member_id)
        if member is None:
            return StreamsMember(said.member_id) if is_join else self._unknown(said.member_id)
        return _fenced(member, said) or member

    def _unknown(self, member_id: str) -> Rejection:
        unknown = f"Member {member_id} is not a member of group {self.group.group_id}."
        return Rejection(Error.UNKNOWN_MEMBER_ID, unknown)

    def _topology(self, said: StreamsHeartbeat) -> StreamsTopology | Rejection:
        """What the group runs: what its first member brings. Another one is refused."""
        group, brought = self.group, said.topology
        known = group.topology
        if brought is None:
            return known or Rejection(Error.UNKNOWN_SERVER_ERROR, None)
        ids = {part.subtopology_id for part in brought.subtopologies}
        if brought.epoch < 0 or len(ids) < len(brought.subtopologies):
            return Rejection(Error.UNKNOWN_SERVER_ERROR, None)
        if known is None:
            self.records.append(StreamsGroupTopologyWritten(group.group_id, brought))
            return brought
        if known.epoch <= brought.epoch and _by_id(known) != _by_id(brought):
            return Rejection(Error.INVALID_REQUEST, "Topology updates are not supported yet.")
        return known

    def _stale(self, member: StreamsMember) -> list[StatusDetail]:
        known = self.group.topology
        if known is None or member.topology_epoch >= known.epoch:
            return []
        text = (
            f"The member's topology epoch {member.topology_epoch} is behind the group's topology "
            f"epoch {known.epoch}."
        )
        return [(TopologyStatus.STALE_TOPOLOGY, text)]

    def _configured(
        self, topology: StreamsTopology, topics_hash: int
    ) -> ConfiguredTopology | Rejection:
        """The topology with the topics that there are; anew where those have changed."""
        known = self._live.configured
        if known is not None and self._metadata_hash(topics_hash) == self.group.metadata_hash:
            return known
        found = topology_topics.configure(topology, self._partition_count)
        if isinstance(found, ConfiguredTopology):
            self._live.configured, self._live.told_of = found, set()
        return found

    def _metadata_hash(self, topics_hash: int) -> int:
        """The hash of the topics for the group: the one it has, unless they are looked at again."""
        live, group = self._live, self.group
        is_current = live.seen_hash == topics_hash and group.group_epoch >= live.seen_epoch
        return group.metadata_hash if is_current else topics_hash

    def _partition_count(self, name: str) -> int | None:
        topic = self._broker.topic_by_name(name)
        return None if topic is None else len(topic.partitions)

    def _update_group_epoch(self, topics_hash: int, validated: int, has_changed: bool) -> int:
        """The group's epoch, a new one where there is something to assign anew."""
        group, configs = self.group, self._assignment_configs()
        metadata_hash = self._metadata_hash(topics_hash)
        known = (group.metadata_hash, group.validated_topology_epoch, group.last_assignment_configs)
        if not has_changed and known == (metadata_hash, validated, configs):
            return group.group_epoch
        epoch = group.group_epoch + 1
        written = StreamsGroupMetadataWritten(
            group.group_id, epoch, metadata_hash, validated, configs
        )
        self.records.append(written)
        self._live.seen_hash, self._live.seen_epoch = topics_hash, epoch
        return epoch

    def _assignment_configs(self) -> dict[str, str]:
        replicas = group_configs.streams_standby_replicas(self._broker, self.group.group_id)
        return {STANDBY_REPLICAS: str(replicas)}

    # The target assignment

    def _update_target(
        self, after: StreamsMember, group_epoch: int, configured: ConfiguredTopology
    ) -> tuple[int, TargetTasks, str]:
        """The epoch of the target assignment, what it gives the member, and why it is late."""
        group = self.group
        if self._is_delayed():
            return group.assignment_epoch, TargetTasks(), _BY_REBALANCE
        known = group.target.get(after.member_id, TargetTasks())
        if group.assignment_epoch >= group_epoch:
            return group.assignment_epoch, known, ""
        if self._is_early():
            return group.assignment_epoch, known, _BY_INTERVAL
        targets = self._assign(group_epoch, configured, self._assignment_configs(), after)
        return group_epoch, targets[after.member_id], ""

    def _is_delayed(self) -> bool:
        """Whether the group waits for more members; the delay begins with the first one."""
        broker, group_id = self._broker, self.group.group_id
        if groups.has_timer(broker.tables, broker.id, group_id, groups.INITIAL):
            return True
        delay = group_configs.streams_initial_rebalance_delay_ms(broker, group_id)
        if self.group.members or delay <= 0:
            return False
        self._timers[groups.INITIAL] = broker.now + delay
        return True

    def _is_early(self) -> bool:
        computed = self.group.assignment_timestamp
        interval = group_configs.streams_assignment_interval_ms(self._broker, self.group.group_id)
        return bool(computed) and self._broker.now - computed < interval

    def _assign(
        self,
        epoch: int,
        configured: ConfiguredTopology,
        configs: dict[str, str],
        after: StreamsMember | None = None,
    ) -> dict[str, TargetTasks]:
        """What each member is to have, with the one that asks as it is now."""
        group = self.group
        members: JavaMap[str, TaskMember] = JavaMap(java_hash)
        for member in [*group.in_order(), *([after] if after is not None else [])]:
            target = group.target.get(member.member_id, TargetTasks())
            members[member.member_id] = TaskMember(member.process_id, target)
        targets = {each: TargetTasks() for each in members}
        if configured.is_ready:
            targets = sticky_assignor.assign(
                _spec(members, configured, int(configs[STANDBY_REPLICAS]))
            )
        for member_id, tasks in targets.items():
            if group.target.get(member_id) != tasks:
                self.records.append(
                    StreamsGroupTargetAssignmentMemberWritten(group.group_id, member_id, tasks)
                )
        self.records.append(
            StreamsGroupTargetAssignmentMetadataWritten(group.group_id, epoch, self._broker.now)
        )
        return targets

    def assign_late(self) -> None:
        """The initial delay is over: the members that have come get their tasks."""
        group, configured = self.group, self._live.configured
        is_due = group.members and group.group_epoch > group.assignment_epoch
        if is_due and configured is not None and not self._is_early():
            self._assign(group.group_epoch, configured, group.last_assignment_configs)

    # The member's step, and what it is told

    def _reconcile(
        self, member: StreamsMember, epoch: int, target: TargetTasks, owned: TargetTasks | None
    ) -> StreamsMember:
        if member.is_reconciled_to(epoch):
            return member
        owners = task_assignment.TaskOwners(self.group)
        stepped = task_assignment.next_step(
            member, task_assignment.TaskReconcileInput(epoch, target, owned, owners)
        )
        if stepped != member:
            self.records.append(current_assignment(self.group.group_id, stepped))
            is_revoking = stepped.state is StreamsMemberState.UNREVOKED_TASKS
            deadline = self._broker.now + stepped.rebalance_timeout_ms if is_revoking else None
            self._timers[groups.rebalance(stepped.member_id)] = deadline
        return stepped

    def _answered(
        self,
        said: StreamsHeartbeat,
        before: StreamsMember,
        after: StreamsMember,
        statuses: list[StatusDetail],
    ) -> StreamsHeartbeatResult | Rejection:
        """What the member is told; its time-outs begin, and what is forgotten is noted."""
        live, configured = self._live, self._live.configured
        assert configured is not None, self.group.group_id
        if said.is_shutdown and not live.shutdown_member_id:
            live.shutdown_member_id = said.member_id
        is_told = said.member_epoch == JOIN_EPOCH or before.assigned != after.assigned
        if is_told and after.user_endpoint is not None:
            live.endpoint_epoch += 1
        known = self._endpoints(said, before, after, is_told=is_told)
        if isinstance(known, Rejection):
            self._note_refused()
            if after.member_id in self.group.members:
                self._expect(after.member_id)
            return known
        if configured.fault is not None:
            code, text = configured.fault
            statuses.append((TopologyStatus(code), text))
        if live.shutdown_member_id:
            statuses.append(
                (TopologyStatus.SHUTDOWN_APPLICATION, _shutdown(live.shutdown_member_id))
            )
        self._expect(after.member_id)
        for timer, deadline in self._timers.items():
            self._set_timer(timer, deadline)
        self._note()
        endpoint_epoch = live.endpoint_epoch if self._is_known else 0
        return StreamsHeartbeatResult(
            after, is_told, statuses, endpoint_epoch, known, configured.missing
        )

    def _endpoints(
        self, said: StreamsHeartbeat, before: StreamsMember, after: StreamsMember, *, is_told: bool
    ) -> list[EndpointPartitions] | Rejection | None:
        """Which instance has what; None where the member knows."""
        live, group = self._live, self.group
        if is_told:
            live.told_of = live.told_of - {after.member_id}
        found: list[EndpointPartitions] | Rejection | None = None
        if live.endpoint_epoch != said.endpoint_epoch:
            others = [each for each in group.in_order() if each.member_id != after.member_id]
            own = before if after.member_id in live.told_of else after
            assert live.configured is not None, group.group_id
            found = endpoints([*others, own], live.configured, self._partition_count)
        if isinstance(found, Rejection):
            return found
        if found is not None:
            told = {each.member_id for each in (*others, own) if each.user_endpoint is not None}
            live.told_of = live.told_of | told
        if after != before:
            live.told_of = live.told_of - {after.member_id}
        return found

    def _note(self) -> None:
        """Notes what a restart forgets; of a group that is new, what comes next."""
        if self._lives:
            broker, group_id = self._broker, self.group.group_id
            streams_live.put(broker.tables, broker.id, group_id, self._live)

    def _note_refused(self) -> None:
        """Notes what Kafka knows by the time it fails: it takes nothing of it back."""
        live = self._live
        if live.configured is not self._shown:
            live.configured, live.unseen = self._shown, live.configured
        self._note()

    # Leaving

    def leave(self, member_id: str, *, is_shutdown: bool) -> Rejection | None:
        """A member leaves; it may ask all others to shut down."""
        if is_shutdown and not self._live.shutdown_member_id:
            self._live.shutdown_member_id = member_id
        member = self.group.members.get(member_id)
        if member is None:
            self._note_refused()
            return self._unknown(member_id)
        self.fence([member])
        return None

    def fence(self, members: list[StreamsMember]) -> None:
        """Forgets members, each with a new group epoch; others get what they had."""
        group = self.group
        self._live.told_of = self._live.told_of - {each.member_id for each in members}
        for at, member in enumerate(members, 1):
            self.records += member_tombstones(group.group_id, member.member_id)
            self.records.append(
                StreamsGroupMetadataWritten(
                    group.group_id,
                    group.group_epoch + at,
                    group.metadata_hash,
                    group.validated_topology_epoch,
                    group.last_assignment_configs,
                )
            )
            self._set_timer(groups.session(member.member_id), None)
            self._set_timer(groups.rebalance(member.member_id), None)
        if len(members) == len(group.members):
            self._live.shutdown_member_id = ""
        self._note()

    # Timers

    def load(self) -> None:
        """Takes the group over: its members have their time-outs from now on."""
        for member in self.group.members.values():
            self._expect(member.member_id)
            if member.state is StreamsMemberState.UNREVOKED_TASKS:
                deadline = self._broker.now + member.rebalance_timeout_ms
                self._set_timer(groups.rebalance(member.member_id), deadline)

    def _expect(self, member_id: str) -> None:
        within = group_configs.streams_session_timeout_ms(self._broker, self.group.group_id)
        self._set_timer(groups.session(member_id), self._broker.now + within)

    def _set_timer(self, timer: str, deadline: int | None) -> None:
        tables, broker = self._broker.tables, self._broker.id
        groups.set_timer(tables, broker, self.group.group_id, timer, deadline)


def _spec(
    members: JavaMap[str, TaskMember], configured: ConfiguredTopology, standby_replicas: int
) -> TaskSpec:
    parts = configured.subtopologies or {}
    return TaskSpec(
        members=members,
        task_counts={each: part.task_count for each, part in parts.items()},
        stateful={each for each, part in parts.items() if part.state_changelog_topics},
        standby_replicas=standby_replicas,
    )


def _updated(
    member: StreamsMember, said: StreamsHeartbeat, tags: dict[str, str] | None
) -> StreamsMember:
    """The member with what it says of itself."""
    timeout = said.rebalance_timeout_ms
    return msgspec.structs.replace(
        member,
        rack_id=member.rack_id if said.rack_id is None else said.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout == -1 else timeout,
        topology_epoch=said.topology.epoch if said.topology is not None else member.topology_epoch,
        process_id=member.process_id if said.process_id is None else said.process_id,
        user_endpoint=said.user_endpoint or member.user_endpoint,
        client_tags=member.client_tags if tags is None else tags,
        client_id=said.client_id,
        client_host=said.client_host,
    )


def _fenced(member: StreamsMember, said: StreamsHeartbeat) -> Rejection | None:
    """Why a member's epoch is not the one that the group knows.

    It may be the one before where the answer that told the new one was lost: then the member has
    nothing that it was not given.
    """
    epoch, known = said.member_epoch, member.member_epoch
    is_lost_answer = epoch == member.previous_member_epoch and _has_given(member, said.owned)
    if epoch in (JOIN_EPOCH, known) or (epoch < known and is_lost_answer):
        return None
    size = "greater" if epoch > known else "smaller"
    return Rejection(
        Error.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {size} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({known}). The member must abandon all its partitions and rejoin.",
    )


def _has_given(member: StreamsMember, owned: TargetTasks | None) -> bool:
    if owned is None:
        return False
    has = member.assigned
    pairs: list[tuple[Tasks, dict[str, list[int]]]] = [
        (owned.active, {part: list(numbers) for part, numbers in has.active.items()}),
        (owned.standby, has.standby),
        (owned.warmup, has.warmup),
    ]
    return all(
        part in known and set(numbers) <= set(known[part])
        for said, known in pairs
        for part, numbers in said.items()
    )


def _by_id(topology: StreamsTopology) -> tuple[int, dict[str, object]]:
    return topology.epoch, {part.subtopology_id: part for part in topology.subtopologies}


def _invalid_tasks(configured: ConfiguredTopology, owned: TargetTasks | None) -> Rejection | None:
    """Why tasks that a member says it has are none of the topology's."""
    parts = configured.subtopologies
    if not configured.is_ready or parts is None or owned is None:
        return None
    for tasks in (owned.active, owned.standby, owned.warmup):
        for each, numbers in tasks.items():
            if each not in parts:
                text = f"Subtopology {each} does not exist in the topology."
                return Rejection(Error.INVALID_REQUEST, text)
            count = parts[each].task_count
            for number in numbers:
                if not 0 <= number < count:
                    text = (
                        f"Task {number} for subtopology {each} is invalid. Number of tasks for "
                        f"this subtopology: {count}"
                    )
                    return Rejection(Error.INVALID_REQUEST, text)
    return None


def _shutdown(member_id: str) -> str:
    return (
        f"Streams group member {member_id} encountered a fatal error and requested a shutdown for "
        "the entire application."
    )
