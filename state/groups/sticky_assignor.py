"""Kafka's assignor of tasks to the members of a streams group: `sticky`.

Source: `StickyTaskAssignor`, `ProcessState` in Kafka's group coordinator; KIP-1071. A task stays
with who had it, or goes to who had a copy of it, as far as that member has not more than its part;
what is left goes to the member with the least load of the process with the least load. Standby
tasks follow in the same way, never to a process that has the task already. Load is a process's
tasks by its members. There are no warm-up tasks in 4.3.1.

What weighs the same is taken in the order of Java's maps and queues, as Kafka takes it.
"""

from collections.abc import Iterable
from typing import NamedTuple

from brokertwin.state.core.java_hashes import JavaMap, java_hash
from brokertwin.state.core.java_queues import JavaPriorityQueue
from brokertwin.state.core.streams_records import TargetTasks, Tasks

NAME = "sticky"


class TaskId(NamedTuple):
    """A task: a partition of a subtopology."""

    subtopology_id: str
    partition: int


class TaskMember(NamedTuple):
    """A member as the assignor sees it: its process, and what it was assigned before."""

    process_id: str
    target: TargetTasks


class TaskSpec(NamedTuple):
    """A group as the assignor sees it.

    Attributes:
        members: by id, in the order of a `HashMap`.
        task_counts: how many tasks each subtopology has, by id, sorted.
        stateful: the subtopologies whose tasks have state, so standby tasks are of use.
        standby_replicas: how many copies of such a task there are to be.
    """

    members: JavaMap[str, TaskMember]
    task_counts: dict[str, int]
    stateful: set[str]
    standby_replicas: int


class _TaskOwner(NamedTuple):
    """A member and its process."""

    process_id: str
    member_id: str


class _Process:
    """The tasks of a process while they are dealt out."""

    def __init__(self) -> None:
        self.counts: JavaMap[str, int] = JavaMap(java_hash)
        self.active: dict[str, set[TaskId]] = {}
        self.standby: dict[str, set[TaskId]] = {}
        self.tasks: set[TaskId] = set()
        self._task_count = 0
        self._queue: JavaPriorityQueue[list[str | int]] | None = None

    @property
    def load(self) -> float:
        return self._task_count / len(self.counts)

    def add(self, member_id: str, task: TaskId, *, is_active: bool) -> int:
        """Gives a task to a member; says how many that has now."""
        self._queue = None
        return self._add(member_id, task, is_active)

    def _add(self, member_id: str, task: TaskId, is_active: bool) -> int:
        self._task_count += 1
        self.tasks.add(task)
        (self.active if is_active else self.standby).setdefault(member_id, set()).add(task)
        count = self.counts[member_id] + 1
        self.counts[member_id] = count
        return count

    def add_to_least_loaded(self, task: TaskId, *, is_active: bool) -> int:
        """The same for the member with the fewest tasks."""
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
    """How many tasks a member may get before those of others are looked at."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.each = _share(tasks, members)

    def note(self, count: int) -> None:
        """A member has so many tasks now; who has its part is not counted any more."""
        if count == self.each:
            self._members -= 1
            self._tasks -= count
            self.each = _share(self._tasks, self._members)


def _share(tasks: int, members: int) -> int:
    return -(-tasks // members) if members > 0 else 0


class _Assignment:
    """Tasks while they are dealt out."""

    def __init__(self, spec: TaskSpec) -> None:
        self._spec = spec
        active = sum(spec.task_counts.values())
        standby = sum(spec.task_counts[each] for each in spec.stateful) * spec.standby_replicas
        self._of_active = _TaskQuota(active, len(spec.members))
        self._of_all = _TaskQuota(active + standby, len(spec.members))
        self.processes: JavaMap[str, _Process] = JavaMap(java_hash, len(spec.members))
        self._had: dict[TaskId, _TaskOwner] = {}
        self._had_copy: dict[TaskId, list[_TaskOwner]] = {}
        for member_id in spec.members:
            member = spec.members[member_id]
            if member.process_id not in self.processes:
                self.processes[member.process_id] = _Process()
            self.processes[member.process_id].counts[member_id] = 0
            place = _TaskOwner(member.process_id, member_id)
            for task in _tasks(member.target.active):
                self._had[task] = place
            for task in _tasks(member.target.standby):
                self._had_copy.setdefault(task, []).append(place)

    def assign_active(self) -> None:
        """Every task to one member."""
        left = [
            TaskId(each, n) for each, count in self._spec.task_counts.items() for n in range(count)
        ]
        left.sort(key=lambda task: (task.partition, task.subtopology_id))
        left = [task for task in left if not self._stays(task, self._had.get(task))]
        left = [task for task in left if not self._stays(task, self._had_a_copy(task))]
        queue = self._by_load()
        for task in sorted(left):
            process = queue.poll()
            assert process is not None, "a group has members when tasks are dealt out"
            self._note_active(process.add_to_least_loaded(task, is_active=True))
            queue.add(process)

    def _stays(self, task: TaskId, place: _TaskOwner | None) -> bool:
        """Gives a task to who had it, unless that member has its part."""
        if place is None or self._count(place) >= self._of_active.each:
            return False
        process = self.processes[place.process_id]
        self._note_active(process.add(place.member_id, task, is_active=True))
        return True

    def _note_active(self, count: int) -> None:
        self._of_active.note(count)
        self._of_all.note(count)

    def _count(self, place: _TaskOwner) -> int:
        return self.processes[place.process_id].counts[place.member_id]

    def _by_load(self) -> JavaPriorityQueue[_Process]:
        queue: JavaPriorityQueue[_Process] = JavaPriorityQueue(lambda process: process.load)
        for process_id in self.processes:
            queue.add(self.processes[process_id])
        return queue

    def _had_a_copy(self, task: TaskId, *, is_standby: bool = False) -> _TaskOwner | None:
        """Who had a copy of a task: the one with the least load, by process and by member.

        For a standby task a process that has the task already is passed over; as in Kafka that of
        the first one in the list is looked at for all of them in the end.
        """
        places = self._had_copy.get(task, [])
        if not places:
            return None
        found, first = places[0], self.processes[places[0].process_id]
        load, count = first.load, self._count(found)
        for place in places[1:]:
            process = self.processes[place.process_id]
            is_free = not is_standby or task not in process.tasks
            if process.load < load and is_free and self._count(place) < count:
                found, load, count = place, process.load, self._count(place)
        return None if is_standby and task in first.tasks else found

    def assign_standby(self) -> None:
        """The copies of tasks with state, as far as there are processes for them."""
        spec = self._spec
        tasks = [TaskId(each, n) for each in spec.stateful for n in range(spec.task_counts[each])]
        tasks.sort(key=lambda task: (task.partition, task.subtopology_id), reverse=True)
        left = [(task, missing) for task in tasks if (missing := self._copies_missing(task))]
        queue = self._by_load()
        for task, missing in sorted(left, reverse=True):
            for _ in range(missing):
                if not self._copy_to_least_loaded(queue, task):
                    break

    def _copies_missing(self, task: TaskId) -> int:
        """How many copies are left once who had the task, or a copy, has got one."""
        replicas = self._spec.standby_replicas
        for done in range(replicas):
            if not (self._copy_to(task, self._former(task)) or self._copy_to_former(task)):
                return replicas - done
        return 0

    def _former(self, task: TaskId) -> _TaskOwner | None:
        place = self._had.get(task)
        is_taken = place is not None and task in self.processes[place.process_id].tasks
        return None if is_taken else place

    def _copy_to_former(self, task: TaskId) -> bool:
        return self._copy_to(task, self._had_a_copy(task, is_standby=True))

    def _copy_to(self, task: TaskId, place: _TaskOwner | None) -> bool:
        if place is None or self._count(place) >= self._of_all.each:
            return False
        process = self.processes[place.process_id]
        self._of_all.note(process.add(place.member_id, task, is_active=False))
        return True

    def _copy_to_least_loaded(self, queue: JavaPriorityQueue[_Process], task: TaskId) -> bool:
        process = queue.poll()
        if process is None:
            return False
        if task not in process.tasks:
            self._of_all.note(process.add_to_least_loaded(task, is_active=False))
            is_done = True
        else:
            is_done = len(queue) > 0 and self._copy_to_least_loaded(queue, task)
        queue.add(process)
        return is_done


def assign(spec: TaskSpec) -> dict[str, TargetTasks]:
    """What each member is to have, by member id in the order of the spec's members."""
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


def _tasks(tasks: Tasks) -> list[TaskId]:
    return [TaskId(each, number) for each, numbers in tasks.items() for number in numbers]


def _by_subtopology(tasks: Iterable[TaskId]) -> Tasks:
    found: Tasks = {}
    for task in sorted(tasks):
        found.setdefault(task.subtopology_id, []).append(task.partition)
    return found
