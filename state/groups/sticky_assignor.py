"""Kafka's `sticky` assignor of tasks in a streams group.

Source: `StickyTaskAssignor`, `ProcessState` in Kafka's group coordinator; KIP-1071. A task stays
with its former owner, or goes to a member that had a standby of it, as long as that member is below
its quota. The remaining tasks go to the least loaded member of the least loaded process. Standby
tasks are assigned in the same way, never to a process that has the task. The load is the number of
tasks per member of a process. Kafka 4.3.1 assigns no warm-up tasks.

Ties are broken in the order of Java's maps and queues, as in Kafka.
"""

from collections.abc import Iterable
from typing import NamedTuple

from brokertwin.state.core.java_hashes import JavaMap, java_hash
from brokertwin.state.core.java_queues import JavaPriorityQueue
from brokertwin.state.groups.streams_group import TargetTasks, Tasks

NAME = "sticky"


class StreamsTaskId(NamedTuple):
    subtopology_id: str
    partition: int


class TaskMember(NamedTuple):
    """A member's process and its former target."""

    process_id: str
    target: TargetTasks


class TaskSpec(NamedTuple):
    """A group as the assignor sees it.

    Attributes:
        members: by id, in the order of a `HashMap`.
        task_counts: number of tasks by subtopology id, sorted.
        stateful: subtopologies with state, which have standby tasks.
        standby_replicas: number of standby tasks for each stateful task.
    """

    members: JavaMap[str, TaskMember]
    task_counts: dict[str, int]
    stateful: set[str]
    standby_replicas: int


class _TaskOwner(NamedTuple):
    process_id: str
    member_id: str


class _Process:
    """The tasks of a process during the assignment."""

    def __init__(self) -> None:
        self.counts: JavaMap[str, int] = JavaMap(java_hash)
        self.active: dict[str, set[StreamsTaskId]] = {}
        self.standby: dict[str, set[StreamsTaskId]] = {}
        self.tasks: set[StreamsTaskId] = set()
        self._task_count = 0
        self._queue: JavaPriorityQueue[list[str | int]] | None = None

    @property
    def load(self) -> float:
        return self._task_count / len(self.counts)

    def add(self, member_id: str, task: StreamsTaskId, *, is_active: bool) -> int:
        self._queue = None
        return self._add(member_id, task, is_active)

    def _add(self, member_id: str, task: StreamsTaskId, is_active: bool) -> int:
        self._task_count += 1
        self.tasks.add(task)
        (self.active if is_active else self.standby).setdefault(member_id, set()).add(task)
        count = self.counts[member_id] + 1
        self.counts[member_id] = count
        return count

    def add_to_least_loaded(self, task: StreamsTaskId, *, is_active: bool) -> int:
        """Like `add`, for the member with the fewest tasks."""
        if len(self.counts) == 1:
            return self._add(next(iter(self.counts)), task, is_active)
        if self._queue is None:
            self._queue = JavaPriorityQueue(lambda entry: int(entry[1]))
            for member_id in self.counts:
                self._queue.add([member_id, self.counts[member_id]])
        entry = self._queue.poll()
        assert entry is not None
        entry[1] = self._add(str(entry[0]), task, is_active)
        self._queue.add(entry)
        return int(entry[1])


class _TaskQuota:
    """The number of tasks that a member may get in the sticky steps."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.each = _share(tasks, members)

    def count_member(self, count: int) -> None:
        """Note a member's task count; a member at its quota is no longer counted."""
        if count == self.each:
            self._members -= 1
            self._tasks -= count
            self.each = _share(self._tasks, self._members)


def _share(tasks: int, members: int) -> int:
    return -(-tasks // members) if members > 0 else 0


class _Assignment:
    def __init__(self, spec: TaskSpec) -> None:
        self._spec = spec
        active = sum(spec.task_counts.values())
        standby = sum(spec.task_counts[each] for each in spec.stateful) * spec.standby_replicas
        self._active_quota = _TaskQuota(active, len(spec.members))
        self._total_quota = _TaskQuota(active + standby, len(spec.members))
        self.processes: JavaMap[str, _Process] = JavaMap(java_hash, len(spec.members))
        self._former_active: dict[StreamsTaskId, _TaskOwner] = {}
        self._former_standbys: dict[StreamsTaskId, list[_TaskOwner]] = {}
        for member_id in spec.members:
            member = spec.members[member_id]
            if member.process_id not in self.processes:
                self.processes[member.process_id] = _Process()
            self.processes[member.process_id].counts[member_id] = 0
            owner = _TaskOwner(member.process_id, member_id)
            for task in _tasks(member.target.active):
                self._former_active[task] = owner
            for task in _tasks(member.target.standby):
                self._former_standbys.setdefault(task, []).append(owner)

    def assign_active(self) -> None:
        remaining = [
            StreamsTaskId(each, n)
            for each, count in self._spec.task_counts.items()
            for n in range(count)
        ]
        remaining.sort(key=lambda task: (task.partition, task.subtopology_id))
        remaining = [
            task
            for task in remaining
            if not self._assign_to_former(task, self._former_active.get(task))
        ]
        remaining = [
            task
            for task in remaining
            if not self._assign_to_former(task, self._former_standby(task))
        ]
        queue = self._by_load()
        for task in sorted(remaining):
            process = queue.poll()
            assert process is not None, "a group without members has no assignment"
            self._count_active(process.add_to_least_loaded(task, is_active=True))
            queue.add(process)

    def _assign_to_former(self, task: StreamsTaskId, owner: _TaskOwner | None) -> bool:
        """Assign a task to its former owner, unless that is at its quota."""
        if owner is None or self._count(owner) >= self._active_quota.each:
            return False
        process = self.processes[owner.process_id]
        self._count_active(process.add(owner.member_id, task, is_active=True))
        return True

    def _count_active(self, count: int) -> None:
        self._active_quota.count_member(count)
        self._total_quota.count_member(count)

    def _count(self, owner: _TaskOwner) -> int:
        return self.processes[owner.process_id].counts[owner.member_id]

    def _by_load(self) -> JavaPriorityQueue[_Process]:
        queue: JavaPriorityQueue[_Process] = JavaPriorityQueue(lambda process: process.load)
        for process_id in self.processes:
            queue.add(self.processes[process_id])
        return queue

    def _former_standby(
        self, task: StreamsTaskId, *, is_standby: bool = False
    ) -> _TaskOwner | None:
        """Return the former standby owner with the least load.

        An owner is preferred if both its process's load and its own task count are lower. For
        standby tasks, processes that have the task are skipped. As in Kafka, the final check looks
        only at the first process of the list.
        """
        owners = self._former_standbys.get(task, [])
        if not owners:
            return None
        found, first = owners[0], self.processes[owners[0].process_id]
        load, count = first.load, self._count(found)
        for owner in owners[1:]:
            process = self.processes[owner.process_id]
            is_free = not is_standby or task not in process.tasks
            if process.load < load and is_free and self._count(owner) < count:
                found, load, count = owner, process.load, self._count(owner)
        return None if is_standby and task in first.tasks else found

    def assign_standby(self) -> None:
        """Assign standby tasks, as far as there are processes for them."""
        spec = self._spec
        tasks = [
            StreamsTaskId(each, n) for each in spec.stateful for n in range(spec.task_counts[each])
        ]
        tasks.sort(key=lambda task: (task.partition, task.subtopology_id), reverse=True)
        remaining = [(task, missing) for task in tasks if (missing := self._missing_standbys(task))]
        queue = self._by_load()
        for task, missing in sorted(remaining, reverse=True):
            for _ in range(missing):
                if not self._assign_to_least_loaded(queue, task):
                    break

    def _missing_standbys(self, task: StreamsTaskId) -> int:
        """Return the missing standbys after former owners have got theirs."""
        replicas = self._spec.standby_replicas
        for done in range(replicas):
            if not (
                self._assign_standby(task, self._former_owner(task))
                or self._assign_to_former_standby(task)
            ):
                return replicas - done
        return 0

    def _former_owner(self, task: StreamsTaskId) -> _TaskOwner | None:
        owner = self._former_active.get(task)
        has_task = owner is not None and task in self.processes[owner.process_id].tasks
        return None if has_task else owner

    def _assign_to_former_standby(self, task: StreamsTaskId) -> bool:
        return self._assign_standby(task, self._former_standby(task, is_standby=True))

    def _assign_standby(self, task: StreamsTaskId, owner: _TaskOwner | None) -> bool:
        if owner is None or self._count(owner) >= self._total_quota.each:
            return False
        process = self.processes[owner.process_id]
        self._total_quota.count_member(process.add(owner.member_id, task, is_active=False))
        return True

    def _assign_to_least_loaded(
        self, queue: JavaPriorityQueue[_Process], task: StreamsTaskId
    ) -> bool:
        process = queue.poll()
        if process is None:
            return False
        if task not in process.tasks:
            self._total_quota.count_member(process.add_to_least_loaded(task, is_active=False))
            is_done = True
        else:
            is_done = len(queue) > 0 and self._assign_to_least_loaded(queue, task)
        queue.add(process)
        return is_done


def assign(spec: TaskSpec) -> dict[str, TargetTasks]:
    """Return each member's tasks, in the order of the spec's members."""
    assignment = _Assignment(spec)
    assignment.assign_active()
    if spec.standby_replicas > 0:
        assignment.assign_standby()
    targets = {}
    for member_id in spec.members:
        process = assignment.processes[spec.members[member_id].process_id]
        active, standby = process.active.get(member_id, ()), process.standby.get(member_id, ())
        targets[member_id] = TargetTasks(_by_subtopology(active), _by_subtopology(standby))
    return targets


def _tasks(tasks: Tasks) -> list[StreamsTaskId]:
    return [StreamsTaskId(each, number) for each, numbers in tasks.items() for number in numbers]


def _by_subtopology(tasks: Iterable[StreamsTaskId]) -> Tasks:
    result: Tasks = {}
    for task in sorted(tasks):
        result.setdefault(task.subtopology_id, []).append(task.partition)
    return result
