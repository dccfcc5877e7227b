"""A thread's part in assignment: user data, leader's assignment, result.

Source: `StreamsPartitionAssignor` in Kafka; KIP-429. The group is cooperative: a task moves to its
new thread only after the old one has revoked its partitions, in the following rebalance.
"""

from collections.abc import Callable, Mapping
from enum import IntEnum

from brokertwin.clients.assignors.group import Subscription, group_of
from brokertwin.clients.assignors.member import MembersAssignor
from brokertwin.clients.assignors.owned import OwnedPartitions, weigh
from brokertwin.clients.consumer_protocol import (
    assignment_user_data,
    decode_assignment,
    encode_assignment,
)
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.streams.layout import Layout, TaskId, layout
from brokertwin.clients.streams.streams_protocol import (
    ACTIVE,
    AssignmentInfo,
    HostInfo,
    SubscriptionInfo,
    decode_assignment_info,
    decode_subscription_info,
    encode_assignment_info,
    encode_subscription_info,
)
from brokertwin.clients.streams.task_assignor import AssignableThread, assign_tasks
from brokertwin.clients.streams.topology import Topology, TopologyError
from brokertwin.protocol.bodies import Uuid

PROTOCOL = "stream"
UNIQUE_MAX = 127


class AssignorError(IntEnum):
    """Why a leader assigns nothing, by Kafka's numbers."""

    NONE = 0
    INCOMPLETE_SOURCE_TOPIC_METADATA = 1


class StreamsAssignor(MembersAssignor):
    """The assignor of one thread.

    Attributes:
        info: its last assignment; None before the first.
        tasks: the partitions of each assigned task.
        error: the problem with the topics, if this thread leads and found one.
    """

    names = (PROTOCOL,)
    is_cooperative = True

    def __init__(
        self,
        application_id: str,
        topology: Topology,
        process_id: Uuid,
        *,
        user_end_point: HostInfo | None = None,
        num_standby_replicas: int = 0,
        offset_sums: Callable[[], dict[TaskId, int]] = dict,
    ) -> None:
        """`offset_sums` returns the tasks for `SubscriptionInfo`."""
        self._application_id = application_id
        self._topology = topology
        self._process_id = process_id
        self._user_end_point = user_end_point
        self._num_standby_replicas = num_standby_replicas
        self._offset_sums = offset_sums
        self._unique = 0
        self.info: AssignmentInfo | None = None
        self.tasks: dict[TaskId, list[TopicPartition]] = {}
        self.error: str | None = None

    def user_data(self, name: str) -> bytes:
        """Return the encoded process, tasks and progress of copies."""
        self._unique = (self._unique + 1) % UNIQUE_MAX
        return encode_subscription_info(
            SubscriptionInfo(
                process_id=self._process_id,
                user_end_point=self._user_end_point,
                offset_sums=self._offset_sums(),
                unique=self._unique,
            )
        )

    def assigned(self, name: str, generation: int, data: bytes) -> None:
        """Take over the assignment; without data there are no tasks."""
        data_of = assignment_user_data(data)
        self.info = decode_assignment_info(data_of) if data_of else AssignmentInfo()
        self.tasks = {}
        for task, at in zip(self.info.active, sorted(decode_assignment(data)), strict=True):
            self.tasks.setdefault(task, []).append(at)

    def assign(
        self,
        name: str,
        partition_counts: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
    ) -> dict[str, bytes]:
        """Assign tasks and standby copies; sends an error if topics are wrong."""
        try:
            made = layout(self._application_id, self._topology, partition_counts)
        except TopologyError as error:
            self.error = str(error)
            code = AssignorError.INCOMPLETE_SOURCE_TOPIC_METADATA
            nothing = encode_assignment([], encode_assignment_info(AssignmentInfo(error_code=code)))
            return dict.fromkeys(subscriptions, nothing)
        self.error = None
        ready = {
            task: at
            for task, at in made.tasks.items()
            if all(each.partition < partition_counts.get(each.topic, 0) for each in at)
        }
        return _Leader(made, ready, partition_counts, subscriptions).assign(
            self._num_standby_replicas
        )


class _Leader:
    def __init__(
        self,
        made: Layout,
        tasks: Mapping[TaskId, list[TopicPartition]],
        counts: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
    ) -> None:
        self._made = made
        self._tasks = tasks
        self._subscriptions = subscriptions
        self._infos = {
            member: decode_subscription_info(subscription.user_data or b"")
            for member, subscription in subscriptions.items()
        }
        group = group_of(counts, subscriptions)
        owned = {
            m: OwnedPartitions(list(s.owned), s.generation_id) for m, s in group.members.items()
        }
        claims = weigh(group, owned)
        self._owned = {
            member: set(partitions) - claims.doubly_claimed
            for member, partitions in claims.owned.items()
        }

    def assign(self, replicas: int) -> dict[str, bytes]:
        """Return the encoded assignment of each member."""
        threads = {member: self._thread(member) for member in self._subscriptions}
        stateful = self._made.stateful() & self._tasks.keys()
        assignment = assign_tasks(self._tasks, stateful, threads, replicas)
        hosts, standby_hosts = self._by_host(assignment.active), self._by_host(assignment.standby)
        assignments = {}
        for member in self._subscriptions:
            active = [task for task in assignment.active[member] if self._is_free(task, member)]
            pairs = sorted((at, task) for task in active for at in self._tasks[task])
            info = AssignmentInfo(
                active=[task for _, task in pairs],
                standby={task: self._tasks[task] for task in assignment.standby[member]},
                hosts=hosts,
                standby_hosts=standby_hosts,
            )
            partitions = [at for at, _ in pairs]
            assignments[member] = encode_assignment(partitions, encode_assignment_info(info))
        return assignments

    def _thread(self, member: str) -> AssignableThread:
        info = self._infos[member]
        owned = self._owned[member]
        active = {task for task, at in self._tasks.items() if owned.intersection(at)}
        standby = {task: sum_ for task, sum_ in info.offset_sums.items() if sum_ != ACTIVE}
        return AssignableThread(process=info.process_id, active=frozenset(active), standby=standby)

    def _is_free(self, task: TaskId, member: str) -> bool:
        """Whether no other member owns partitions of the task."""
        partitions = set(self._tasks[task])
        others = (
            subscription.owned
            for other, subscription in self._subscriptions.items()
            if other != member
        )
        return not any(partitions.intersection(owned) for owned in others)

    def _by_host(
        self, task_ids: Mapping[str, list[TaskId]]
    ) -> dict[HostInfo, list[TopicPartition]]:
        hosts: dict[HostInfo, list[TopicPartition]] = {}
        for member, tasks in task_ids.items():
            host = self._infos[member].user_end_point
            if host is not None:
                hosts.setdefault(host, []).extend(at for t in tasks for at in self._tasks[t])
        return {host: sorted(partitions) for host, partitions in sorted(hosts.items())}
