"""Assigns active tasks and standby copies.

Source: seed 001; `StickyTaskAssignor`, `StreamsPartitionAssignor.assignTasksToThreads`,
`HighAvailabilityTaskAssignor` in Kafka. Processes (instances) have tasks in proportion to their
threads, and threads of a process floor(tasks / threads) or one more.

    a task stays in its process, or goes to the process with the most complete copy of its stores,
        or to the process with the fewest tasks for each thread
    within the process it stays in its thread, or goes to the thread with the fewest tasks
    a standby copy is in another process than its task, if possible where one is or the task ran

Unlike in Kafka's default assignor, a task moves at once, even if its stores have to be restored.
There are no warm-up replicas.
"""

import math
from collections.abc import Callable, Container, Iterable, Mapping

import msgspec

from brokertwin.clients.streams.layout import TaskId

Tasks = dict[str, list[TaskId]]
"""Tasks by member id."""


class AssignableThread(msgspec.Struct, frozen=True):
    """A member: its former tasks, and its copies with their progress."""

    process: str
    active: frozenset[TaskId] = frozenset()
    standby: dict[TaskId, int] = {}


Processes = dict[str, dict[str, AssignableThread]]
"""The threads of each process, by member id."""

Had = Callable[[AssignableThread], Container[TaskId]]
"""Former tasks of a thread, active or standby."""


class TaskAssignment(msgspec.Struct, frozen=True):
    """Active and standby tasks of each member, in order."""

    active: Tasks
    standby: Tasks


def assign_tasks(
    tasks: Iterable[TaskId],
    stateful: Iterable[TaskId],
    threads: Mapping[str, AssignableThread],
    num_standby_replicas: int,
) -> TaskAssignment:
    """Assign each task to a member, with copies in other processes."""
    processes = _by_process(threads)
    active = _active(sorted(tasks), processes)
    standby = _standby(sorted(stateful), processes, active, num_standby_replicas)
    return TaskAssignment(
        _to_threads(active, processes, lambda thread: thread.active),
        _to_threads(standby, processes, lambda thread: thread.standby),
    )


def _by_process(threads: Mapping[str, AssignableThread]) -> Processes:
    processes: Processes = {}
    for member, thread in sorted(threads.items()):
        processes.setdefault(thread.process, {})[member] = thread
    return dict(sorted(processes.items()))


class _Quotas:
    """Task quotas of processes: a floor for each thread, and extras."""

    def __init__(self, tasks: int, processes: Processes) -> None:
        count = sum(map(len, processes.values()))
        self._floor, self._extra = divmod(tasks, count)
        self._threads = {name: len(threads) for name, threads in processes.items()}
        self._used = dict.fromkeys(processes, 0)

    def take(self, process: str) -> bool:
        """Take a place of a process; returns whether there was one."""
        least = self._threads[process] * self._floor
        used = self._used[process]
        if used >= least:
            if self._extra == 0 or used >= least + self._threads[process]:
                return False
            self._extra -= 1
        self._used[process] += 1
        return True

    def in_order(self) -> list[str]:
        """Processes by load, lowest first."""
        return sorted(self._used, key=lambda name: (self._used[name] / self._threads[name], name))


def _active(tasks: list[TaskId], processes: Processes) -> dict[str, list[TaskId]]:
    quotas = _Quotas(len(tasks), processes)
    task_ids: dict[str, list[TaskId]] = {name: [] for name in processes}
    free: list[TaskId] = []
    for task in tasks:
        had = [name for name, threads in processes.items() if _ran(threads, task)]
        owner = next((name for name in had if quotas.take(name)), None)
        (free if owner is None else task_ids[owner]).append(task)
    rest: list[TaskId] = []
    for task in free:
        copies = {name: _copied(threads, task) for name, threads in processes.items()}
        best = sorted((-full, name) for name, full in copies.items() if full is not None)
        owner = next((name for _, name in best if quotas.take(name)), None)
        (rest if owner is None else task_ids[owner]).append(task)
    for task in rest:
        owner = next(name for name in quotas.in_order() if quotas.take(name))
        task_ids[owner].append(task)
    return {name: sorted(got) for name, got in task_ids.items()}


def _ran(threads: Mapping[str, AssignableThread], task: TaskId) -> bool:
    return any(task in thread.active for thread in threads.values())


def _copied(threads: Mapping[str, AssignableThread], task: TaskId) -> int | None:
    """Progress of the best copy in a process; None without one."""
    return max((t.standby[task] for t in threads.values() if task in t.standby), default=None)


def _standby(
    stateful: list[TaskId],
    processes: Processes,
    active: Mapping[str, list[TaskId]],
    replicas: int,
) -> dict[str, list[TaskId]]:
    task_ids: dict[str, list[TaskId]] = {name: [] for name in processes}
    runs = {task: name for name, tasks in active.items() for task in tasks}
    count = sum(map(len, processes.values()))
    for turn in range(1, min(replicas, len(processes) - 1) + 1):
        share = math.ceil(turn * len(stateful) / count)
        for task in stateful:
            able = [n for n in processes if n != runs[task] and task not in task_ids[n]]
            chosen = min(able, key=lambda n: _preference(processes[n], task, task_ids[n], n, share))
            task_ids[chosen].append(task)
    return {name: sorted(got) for name, got in task_ids.items()}


def _preference(
    threads: Mapping[str, AssignableThread],
    task: TaskId,
    tasks: list[TaskId],
    name: str,
    share: int,
) -> tuple[bool, float, str]:
    """Sort key: processes with state below their share, then by load."""
    has_it = _copied(threads, task) is not None or _ran(threads, task)
    load = len(tasks) / len(threads)
    return not (has_it and load < share), load, name


def _to_threads(task_ids: Mapping[str, list[TaskId]], processes: Processes, had: Had) -> Tasks:
    result: Tasks = {}
    for name, threads in processes.items():
        floor, extra = divmod(len(task_ids[name]), len(threads))
        got: Tasks = {member: [] for member in threads}
        free = []
        for task in task_ids[name]:
            owner = next((m for m, thread in threads.items() if task in had(thread)), None)
            if owner is None or len(got[owner]) >= floor + (extra > 0):
                free.append(task)
                continue
            extra -= len(got[owner]) >= floor
            got[owner].append(task)
        for task in free:
            got[min(got, key=lambda member: (len(got[member]), member))].append(task)
        result |= {member: sorted(tasks) for member, tasks in got.items()}
    return result
