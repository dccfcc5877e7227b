"""The coordinator of a streams group: heartbeats, leaves, assignment.

Source: `GroupMetadataManager.streamsGroupHeartbeat`, `streamsGroupLeave`,
`computeDelayedTargetAssignment`, `TargetAssignmentBuilder`, `EndpointToPartitionsManager` in Kafka;
KIP-1071. A heartbeat has these steps:

    1  update the member's metadata; the first member sends the topology
    2  validate the topology against the existing topics (`topology_topics.py`)
    3  a changed member, changed topics or another number of standby tasks bump the group epoch
    4  if the group epoch is above the assignment epoch, compute a new target assignment, but not
       within streams.initial.rebalance.delay.ms of the first member, and at most once in
       streams.assignment.interval.ms
    5  reconcile the member towards its target (`task_assignment.py`)
    6  restart its session timeout, and a rebalance timeout while it must revoke tasks
"""

from typing import NamedTuple

import msgspec

from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.group_rows import GroupMetadataKey
from brokertwin.protocol.generated.streams_group_rows import Endpoint, StreamsGroupTopologyValue
from brokertwin.state.cluster import group_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Refused
from brokertwin.state.core.group_records import GroupRecord
from brokertwin.state.core.java_hashes import JavaMap, java_hash
from brokertwin.state.groups import (
    groups,
    sticky_assignor,
    streams_live,
    target_assignment,
    task_assignment,
    topology_topics,
)
from brokertwin.state.groups import streams_group_records as rows
from brokertwin.state.groups.classic_group import ClassicGroup, ClassicGroupState
from brokertwin.state.groups.consumer_group import JOIN_EPOCH, NO_TIME, STATIC_LEAVE_EPOCH
from brokertwin.state.groups.modern_coordinator import (
    ModernGroupCoordinator,
    epoch_message,
    fenced_instance,
    not_found,
    other_kind,
    size_error,
    unknown_instance,
    unreleased_instance,
)
from brokertwin.state.groups.sticky_assignor import TaskMember, TaskSpec
from brokertwin.state.groups.streams_endpoints import EndpointPartitions, endpoints
from brokertwin.state.groups.streams_group import (
    NO_TOPOLOGY,
    STREAMS,
    MemberTasks,
    StreamsGroup,
    StreamsMember,
    StreamsMemberState,
    TargetTasks,
    Tasks,
    required_topics,
)
from brokertwin.state.groups.streams_live import LiveStreams
from brokertwin.state.groups.topology_topics import (
    ConfiguredTopology,
    StreamsInternalTopic,
    TopologyStatus,
)

STANDBY_REPLICAS = "num.standby.replicas"
"""Name of the assignment setting in the group's record."""

_INITIAL_DELAY = "Assignment delayed due to the configured initial rebalance delay."
_INTERVAL_DELAY = "Assignment delayed due to the configured assignment interval."

StatusDetail = tuple[TopologyStatus, str]


class StreamsHeartbeat(NamedTuple):
    """The content of a heartbeat; unchanged fields are None or negative."""

    member_id: str
    instance_id: str | None
    member_epoch: int
    endpoint_epoch: int
    rack_id: str | None
    rebalance_timeout_ms: int
    topology: StreamsGroupTopologyValue | None
    owned: TargetTasks | None
    process_id: str | None
    user_endpoint: Endpoint | None
    client_tags: dict[str, str] | Refused | None
    is_shutdown: bool
    client_id: str
    client_host: str


class StreamsHeartbeatResult(NamedTuple):
    """The result of a heartbeat.

    Attributes:
        sends_tasks: whether the response has the member's tasks.
        statuses: status codes of the group with details.
        endpoint_epoch: version of `endpoints`.
        endpoints: partitions by instance; None if the member has the current version.
        missing: internal topics to create.
    """

    after: StreamsMember
    sends_tasks: bool
    statuses: list[StatusDetail]
    endpoint_epoch: int
    endpoints: list[EndpointPartitions] | None
    missing: list[StreamsInternalTopic]


def find(broker: Broker, group_id: str, member_epoch: int) -> "StreamsGroupCoordinator":
    """Return the coordinator for a heartbeat's group. Raises Refused.

    A join creates the group and replaces an empty classic group.
    """
    group = groups.find(broker, group_id)
    if isinstance(group, StreamsGroup):
        return StreamsGroupCoordinator(broker, group)
    is_join = member_epoch == JOIN_EPOCH
    if group is None and not is_join:
        raise not_found(STREAMS, group_id, member_epoch)
    is_empty = isinstance(group, ClassicGroup) and group.state is ClassicGroupState.EMPTY
    if group is None or (is_join and is_empty):
        return StreamsGroupCoordinator(broker, StreamsGroup(group_id))
    raise other_kind(STREAMS, group_id)


class StreamsGroupCoordinator(ModernGroupCoordinator[StreamsGroup]):
    def __init__(self, broker: Broker, group: StreamsGroup) -> None:
        super().__init__(broker, group)
        current = groups.find(broker, group.group_id)
        self._exists = current is not None
        self._is_streams_group = isinstance(current, StreamsGroup)
        if isinstance(current, ClassicGroup):
            self.records.append(GroupRecord(GroupMetadataKey(group.group_id)))
        live = streams_live.get(broker, group.group_id)
        self._shown = live.configured if live is not None else None
        self._live = msgspec.structs.replace(live) if live is not None else LiveStreams()
        if self._live.unseen is not None:
            self._live.configured, self._live.unseen = self._live.unseen, None
        self._timers: dict[str, int | None] = {}

    # Heartbeats

    def heartbeat(self, heartbeat: StreamsHeartbeat) -> StreamsHeartbeatResult:
        before = self._member(heartbeat)
        if isinstance(heartbeat.client_tags, Refused):
            raise heartbeat.client_tags
        after = _updated(before, heartbeat, heartbeat.client_tags)
        if after != before:
            self.records.append(rows.member_metadata(self.group.group_id, after))
        topology = self._topology(heartbeat)
        statuses = self._stale(after)
        topics_hash = target_assignment.metadata_hash(self._broker, required_topics(topology))
        configured = self._configured(topology, topics_hash)
        rejection = _invalid_tasks(configured, heartbeat.owned)
        if rejection is not None:
            self._store_after_failure()
            raise rejection
        validated = topology.epoch if configured.is_ready else NO_TOPOLOGY
        has_changed = _has_changed(before, after, is_static=heartbeat.instance_id is not None)
        group_epoch = self._update_group_epoch(topics_hash, validated, has_changed)
        epoch, target, delayed = self._update_target(after, group_epoch, configured)
        statuses += [(TopologyStatus.ASSIGNMENT_DELAYED, delayed)] if delayed else []
        after = self._reconcile(after, epoch, target, heartbeat.owned)
        return self._result(heartbeat, before, after, statuses)

    def _member(self, heartbeat: StreamsHeartbeat) -> StreamsMember:
        """Return the member; a new one has epoch 0 and no tasks."""
        group, is_join = self.group, heartbeat.member_epoch == JOIN_EPOCH
        member = group.members.get(heartbeat.member_id)
        static = group.static_member(heartbeat.instance_id)
        is_known = self._broker.settings.is_4_4 and (member or static) is not None
        full = size_error(STREAMS, group.members, group_configs.streams_max_size(self._broker))
        if is_join and full is not None and not is_known:
            raise full
        if heartbeat.instance_id is not None:
            if static is not None:
                return self._static_member(static, heartbeat)
            if not is_join:
                raise unknown_instance(heartbeat.instance_id)
            return member or StreamsMember(heartbeat.member_id)
        if member is None and not is_join:
            raise self._unknown(heartbeat.member_id)
        if member is None:
            return StreamsMember(heartbeat.member_id)
        _check_epoch(member, heartbeat)
        return member

    def _static_member(self, static: StreamsMember, heartbeat: StreamsHeartbeat) -> StreamsMember:
        """Return a static member, or its new incarnation if it has left temporarily."""
        if heartbeat.member_epoch != JOIN_EPOCH:
            if static.member_id != heartbeat.member_id:
                raise fenced_instance(static.member_id, heartbeat.member_id, heartbeat.instance_id)
            _check_epoch(static, heartbeat)
            return static
        if static.member_epoch != STATIC_LEAVE_EPOCH:
            raise unreleased_instance(static.member_id, heartbeat.member_id, heartbeat.instance_id)
        group, member_id = self.group, heartbeat.member_id
        member = msgspec.structs.replace(
            static, member_id=member_id, member_epoch=0, previous_member_epoch=0
        )
        members, targets = dict(group.members), dict(group.target)
        del members[static.member_id]
        members[member_id] = member
        targets[member_id] = targets.pop(static.member_id, TargetTasks())
        self.group = msgspec.structs.replace(group, members=members, target=targets)
        for timer in (groups.session, groups.rebalance):
            self._timers[timer(static.member_id)] = None
        self.records += rows.member_tombstones(group.group_id, static.member_id)
        self.records += [
            rows.member_metadata(group.group_id, member),
            rows.member_target(group.group_id, member_id, targets[member_id]),
            rows.current_assignment(group.group_id, member),
        ]
        return member

    def _topology(self, heartbeat: StreamsHeartbeat) -> StreamsGroupTopologyValue:
        """Return the group's topology: that of its first member."""
        group, sent = self.group, heartbeat.topology
        current = group.topology
        if sent is None:
            if current is None:
                raise Refused(Error.UNKNOWN_SERVER_ERROR)
            return current
        ids = {part.subtopology_id for part in sent.subtopologies}
        if sent.epoch < 0 or len(ids) < len(sent.subtopologies):
            raise Refused(Error.UNKNOWN_SERVER_ERROR)
        if current is None:
            self.records.append(rows.topology(group.group_id, sent))
            return sent
        if current.epoch <= sent.epoch and _by_id(current) != _by_id(sent):
            raise Refused(Error.INVALID_REQUEST, "Topology updates are not supported yet.")
        return current

    def _stale(self, member: StreamsMember) -> list[StatusDetail]:
        current = self.group.topology
        if current is None or member.topology_epoch >= current.epoch:
            return []
        text = (
            f"The member's topology epoch {member.topology_epoch} is behind the group's topology "
            f"epoch {current.epoch}."
        )
        return [(TopologyStatus.STALE_TOPOLOGY, text)]

    def _configured(
        self, topology: StreamsGroupTopologyValue, topics_hash: int
    ) -> ConfiguredTopology:
        """Return the configured topology; configure again if topics have changed."""
        current = self._live.configured
        if current is not None and self._metadata_hash(topics_hash) == self.group.metadata_hash:
            return current
        configured = topology_topics.configure(topology, self._partition_count)
        self._live.configured, self._live.published_members = configured, set()
        return configured

    def _metadata_hash(self, topics_hash: int) -> int:
        """Return the group's metadata hash.

        It is the new one if topics must be configured again.
        """
        live, group = self._live, self.group
        is_current = live.seen_hash == topics_hash and group.group_epoch >= live.seen_epoch
        return group.metadata_hash if is_current else topics_hash

    def _partition_count(self, name: str) -> int | None:
        topic = self._broker.topic_by_name(name)
        return None if topic is None else len(topic.partitions)

    def _update_group_epoch(self, topics_hash: int, validated: int, has_changed: bool) -> int:
        """Return the group epoch, bumped if the assignment must change."""
        group, configs = self.group, self._assignment_configs()
        metadata_hash = self._metadata_hash(topics_hash)
        last = (group.metadata_hash, group.validated_topology_epoch, group.last_assignment_configs)
        if not has_changed and last == (metadata_hash, validated, configs):
            return group.group_epoch
        epoch = group.group_epoch + 1
        self.records.append(
            rows.group_epoch(group.group_id, epoch, metadata_hash, validated, configs)
        )
        self._live.seen_hash, self._live.seen_epoch = topics_hash, epoch
        return epoch

    def _assignment_configs(self) -> dict[str, str]:
        replicas = group_configs.streams_standby_replicas(self._broker, self.group.group_id)
        return {STANDBY_REPLICAS: str(replicas)}

    # The target assignment

    def _update_target(
        self, after: StreamsMember, group_epoch: int, configured: ConfiguredTopology
    ) -> tuple[int, TargetTasks, str]:
        """Return assignment epoch, the member's target and the delay's reason."""
        group = self.group
        if self._is_delayed():
            return group.assignment_epoch, TargetTasks(), _INITIAL_DELAY
        current = group.target.get(after.member_id, TargetTasks())
        if group.assignment_epoch >= group_epoch:
            return group.assignment_epoch, current, ""
        if self._is_early(self._interval_ms()):
            return group.assignment_epoch, current, _INTERVAL_DELAY
        targets = self._assign(group_epoch, configured, self._assignment_configs(), after)
        return group_epoch, targets[after.member_id], ""

    def _is_delayed(self) -> bool:
        """True during the initial rebalance delay. It starts with the first member."""
        broker, group_id = self._broker, self.group.group_id
        if groups.has_timer(broker, group_id, groups.INITIAL):
            return True
        delay = group_configs.streams_initial_rebalance_delay_ms(broker, group_id)
        if self.group.members or delay <= 0:
            return False
        self._timers[groups.INITIAL] = broker.now + delay
        return True

    def _interval_ms(self) -> int:
        return group_configs.streams_assignment_interval_ms(self._broker, self.group.group_id)

    def _assign(
        self,
        epoch: int,
        configured: ConfiguredTopology,
        configs: dict[str, str],
        after: StreamsMember | None = None,
    ) -> dict[str, TargetTasks]:
        """Compute all targets, with the updated member."""
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
                self.records.append(rows.member_target(group.group_id, member_id, tasks))
        self.records.append(rows.target_epoch(group.group_id, epoch, self._broker.now))
        return targets

    def assign_after_initial_delay(self) -> None:
        group, configured = self.group, self._live.configured
        is_due = group.members and group.group_epoch > group.assignment_epoch
        if is_due and configured is not None and not self._is_early(self._interval_ms()):
            self._assign(group.group_epoch, configured, group.last_assignment_configs)

    # Reconciliation and response

    def _reconcile(
        self, member: StreamsMember, epoch: int, target: TargetTasks, owned: TargetTasks | None
    ) -> StreamsMember:
        if member.is_reconciled_to(epoch):
            return member
        owners = task_assignment.TaskOwners(self.group)
        reconciled = task_assignment.next_step(
            member, task_assignment.TaskReconcileInput(epoch, target, owned, owners)
        )
        if reconciled != member:
            self.records.append(rows.current_assignment(self.group.group_id, reconciled))
            is_revoking = reconciled.state is StreamsMemberState.UNREVOKED_TASKS
            deadline = self._broker.now + reconciled.rebalance_timeout_ms if is_revoking else None
            self._timers[groups.rebalance(reconciled.member_id)] = deadline
        return reconciled

    def _result(
        self,
        heartbeat: StreamsHeartbeat,
        before: StreamsMember,
        after: StreamsMember,
        statuses: list[StatusDetail],
    ) -> StreamsHeartbeatResult:
        """Return the result; start timeouts and store volatile state."""
        live, configured = self._live, self._live.configured
        assert configured is not None, self.group.group_id
        if heartbeat.is_shutdown and not live.shutdown_member_id:
            live.shutdown_member_id = heartbeat.member_id
        sends_tasks = heartbeat.member_epoch == JOIN_EPOCH or before.assigned != after.assigned
        if sends_tasks and after.user_endpoint is not None:
            live.endpoint_epoch += 1
        try:
            partitions = self._endpoints(heartbeat, before, after, sends_tasks=sends_tasks)
        except Refused:
            self._store_after_failure()
            if after.member_id in self.group.members:
                self._restart_session(after.member_id)
            raise
        if configured.fault is not None:
            code, text = configured.fault
            statuses.append((TopologyStatus(code), text))
        if live.shutdown_member_id:
            statuses.append(
                (TopologyStatus.SHUTDOWN_APPLICATION, _shutdown(live.shutdown_member_id))
            )
        self._restart_session(after.member_id)
        for timer, deadline in self._timers.items():
            self._set_timer(timer, deadline)
        self._store_live()
        endpoint_epoch = live.endpoint_epoch if self._exists else 0
        return StreamsHeartbeatResult(
            after, sends_tasks, statuses, endpoint_epoch, partitions, configured.missing
        )

    def _endpoints(
        self,
        heartbeat: StreamsHeartbeat,
        before: StreamsMember,
        after: StreamsMember,
        *,
        sends_tasks: bool,
    ) -> list[EndpointPartitions] | None:
        """Return partitions by instance; None if the member is up to date."""
        live, group = self._live, self.group
        if sends_tasks:
            live.published_members = live.published_members - {after.member_id}
        endpoint_partitions = None
        if live.endpoint_epoch != heartbeat.endpoint_epoch:
            others = [each for each in group.in_order() if each.member_id != after.member_id]
            own = before if after.member_id in live.published_members else after
            assert live.configured is not None, group.group_id
            endpoint_partitions = endpoints([*others, own], live.configured, self._partition_count)
        if endpoint_partitions is not None:
            published = {
                each.member_id for each in (*others, own) if each.user_endpoint is not None
            }
            live.published_members = live.published_members | published
        if after != before:
            live.published_members = live.published_members - {after.member_id}
        return endpoint_partitions

    def _store_live(self) -> None:
        """Store volatile state, except for a group that does not exist yet."""
        if self._is_streams_group:
            broker, group_id = self._broker, self.group.group_id
            streams_live.put(broker, group_id, self._live)

    def _store_after_failure(self) -> None:
        """Store what Kafka has changed before a request fails: it is not undone."""
        live = self._live
        if live.configured is not self._shown:
            live.configured, live.unseen = self._shown, live.configured
        self._store_live()

    # Leaving

    def leave(
        self, member_id: str, instance_id: str | None, epoch: int, *, is_shutdown: bool
    ) -> None:
        """Remove a member, which may request a shutdown of all others.

        A static member may leave temporarily (epoch -2).
        """
        if is_shutdown and not self._live.shutdown_member_id:
            self._live.shutdown_member_id = member_id
        member = self.group.members.get(member_id)
        if instance_id is not None:
            member = self.group.static_member(instance_id)
        if member is None:
            self._store_after_failure()
            raise self._unknown(member_id) if instance_id is None else unknown_instance(instance_id)
        if member.member_id != member_id:
            self._store_after_failure()
            raise fenced_instance(member.member_id, member_id, instance_id)
        if epoch == STATIC_LEAVE_EPOCH:
            self._leave_temporarily(member)
        else:
            self.fence([member])

    def _leave_temporarily(self, member: StreamsMember) -> None:
        """Keep a static member's tasks and session until it joins again."""
        active = {part: dict.fromkeys(each, 0) for part, each in member.assigned.active.items()}
        away = msgspec.structs.replace(
            member,
            member_epoch=STATIC_LEAVE_EPOCH,
            state=StreamsMemberState.STABLE,
            assigned=msgspec.structs.replace(member.assigned, active=active),
            pending_revocation=MemberTasks(),
        )
        self.records.append(rows.current_assignment(self.group.group_id, away))
        self._set_timer(groups.rebalance(member.member_id), None)
        self._store_live()

    def fence(self, members: list[StreamsMember]) -> None:
        """Remove members and bump the group epoch for each."""
        group = self.group
        self._live.published_members = self._live.published_members - {
            each.member_id for each in members
        }
        for at, member in enumerate(members, 1):
            self.records += rows.member_tombstones(group.group_id, member.member_id)
            self.records.append(
                rows.group_epoch(
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
            if members and self._broker.settings.is_4_4:
                epoch = group.group_epoch + len(members)
                self.records.append(rows.target_epoch(group.group_id, epoch, NO_TIME))
        self._store_live()

    # Timers

    def load(self) -> None:
        for member in self.group.members.values():
            self._restart_session(member.member_id)
            if member.state is StreamsMemberState.UNREVOKED_TASKS:
                deadline = self._broker.now + member.rebalance_timeout_ms
                self._set_timer(groups.rebalance(member.member_id), deadline)

    def _restart_session(self, member_id: str) -> None:
        within = group_configs.streams_session_timeout_ms(self._broker, self.group.group_id)
        self._set_timer(groups.session(member_id), self._broker.now + within)


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
    member: StreamsMember, heartbeat: StreamsHeartbeat, tags: dict[str, str] | None
) -> StreamsMember:
    timeout = heartbeat.rebalance_timeout_ms
    return msgspec.structs.replace(
        member,
        instance_id=heartbeat.instance_id or member.instance_id,
        rack_id=member.rack_id if heartbeat.rack_id is None else heartbeat.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout == -1 else timeout,
        topology_epoch=heartbeat.topology.epoch
        if heartbeat.topology is not None
        else member.topology_epoch,
        process_id=member.process_id if heartbeat.process_id is None else heartbeat.process_id,
        user_endpoint=heartbeat.user_endpoint or member.user_endpoint,
        client_tags=member.client_tags if tags is None else tags,
        client_id=heartbeat.client_id,
        client_host=heartbeat.client_host,
    )


def _has_changed(before: StreamsMember, after: StreamsMember, *, is_static: bool) -> bool:
    """True if a member's new metadata require another assignment.

    Those of a static member do so only if they influence the assignor.
    """
    if not is_static:
        return after != before
    return _assignor_input(before) != _assignor_input(after)


def _assignor_input(member: StreamsMember) -> tuple[object, ...]:
    return member.topology_epoch, member.rack_id, member.client_tags, member.process_id


def _check_epoch(member: StreamsMember, heartbeat: StreamsHeartbeat) -> None:
    """Refuse a heartbeat with 110 FENCED_MEMBER_EPOCH if its epoch is invalid.

    The previous epoch is valid if a response was lost: the member then owns only tasks that are
    assigned to it.
    """
    epoch, current = heartbeat.member_epoch, member.member_epoch
    is_lost_response = epoch == member.previous_member_epoch and _is_assigned(
        member, heartbeat.owned
    )
    if epoch in (JOIN_EPOCH, current) or (epoch < current and is_lost_response):
        return
    raise Refused(Error.FENCED_MEMBER_EPOCH, epoch_message(STREAMS, epoch, current))


def _is_assigned(member: StreamsMember, owned: TargetTasks | None) -> bool:
    if owned is None:
        return False
    assigned = member.assigned
    pairs: list[tuple[Tasks, dict[str, list[int]]]] = [
        (owned.active, {part: list(numbers) for part, numbers in assigned.active.items()}),
        (owned.standby, assigned.standby),
        (owned.warmup, assigned.warmup),
    ]
    return all(
        part in current and set(numbers) <= set(current[part])
        for reported, current in pairs
        for part, numbers in reported.items()
    )


def _by_id(topology: StreamsGroupTopologyValue) -> tuple[int, dict[str, object]]:
    return topology.epoch, {part.subtopology_id: part for part in topology.subtopologies}


def _invalid_tasks(configured: ConfiguredTopology, owned: TargetTasks | None) -> Refused | None:
    """Return an error if owned tasks do not exist in the topology."""
    parts = configured.subtopologies
    if not configured.is_ready or parts is None or owned is None:
        return None
    for tasks in (owned.active, owned.standby, owned.warmup):
        for each, numbers in tasks.items():
            if each not in parts:
                text = f"Subtopology {each} does not exist in the topology."
                return Refused(Error.INVALID_REQUEST, text)
            count = parts[each].task_count
            for number in numbers:
                if not 0 <= number < count:
                    text = (
                        f"Task {number} for subtopology {each} is invalid. Number of tasks for "
                        f"this subtopology: {count}"
                    )
                    return Refused(Error.INVALID_REQUEST, text)
    return None


def _shutdown(member_id: str) -> str:
    return (
        f"Streams group member {member_id} encountered a fatal error and requested a shutdown for "
        "the entire application."
    )
