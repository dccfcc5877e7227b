"""Who runs which task: balance, stickiness and copies, of threads drawn at random."""

from hypothesis import given
from hypothesis import strategies as st

from brokertwin.clients.streams.layout import TaskId
from brokertwin.clients.streams.task_assignor import AssignableThread, TaskAssignment, assign_tasks

TASKS = [TaskId(0, partition) for partition in range(6)]


def went_on(
    threads: dict[str, AssignableThread], before: TaskAssignment, copied: int = 5
) -> dict[str, AssignableThread]:
    """The threads as they come to the next rebalance; new ones as they are."""
    return {
        member: AssignableThread(
            process=thread.process,
            active=frozenset(before.active.get(member, ())),
            standby=dict.fromkeys(before.standby.get(member, ()), copied),
        )
        for member, thread in threads.items()
    }


def texts(tasks: list[TaskId]) -> list[str]:
    return [str(task) for task in tasks]


def test_example_6_six_tasks_on_three_threads_are_two_each() -> None:
    """Example 22 of groups and offsets, its first part."""
    threads = {name: AssignableThread(process="p") for name in ("t1", "t2", "t3")}
    made = assign_tasks(TASKS, [], threads, 0)
    assert {name: texts(tasks) for name, tasks in made.active.items()} == {
        "t1": ["0_0", "0_3"],
        "t2": ["0_1", "0_4"],
        "t3": ["0_2", "0_5"],
    }


def test_example_7_a_dead_threads_tasks_move_and_the_others_stay() -> None:
    threads = {name: AssignableThread(process="p") for name in ("t1", "t2", "t3")}
    made = assign_tasks(TASKS, [], threads, 0)
    left = went_on({name: threads[name] for name in ("t1", "t2")}, made)
    after = assign_tasks(TASKS, [], left, 0)
    assert set(made.active["t1"]) < set(after.active["t1"])
    assert set(made.active["t2"]) < set(after.active["t2"])
    assert sorted(map(len, after.active.values())) == [3, 3]


def test_example_8_a_task_moves_to_the_most_caught_up_standby() -> None:
    threads = {
        "a": AssignableThread(process="a", standby={TASKS[0]: 3}),
        "b": AssignableThread(process="b", standby={TASKS[0]: 7}),
        "c": AssignableThread(process="c"),
    }
    made = assign_tasks(TASKS[:3], TASKS[:3], threads, 1)
    assert TASKS[0] in made.active["b"]
    assert TASKS[0] in made.standby["a"]


def test_standbys_do_not_unbalance_task_counts() -> None:
    copied = {"a": TASKS[1:2], "b": TASKS[:1], "c": TASKS[:2]}
    threads = {
        name: AssignableThread(process=name, standby=dict.fromkeys(tasks, 5))
        for name, tasks in copied.items()
    }
    made = assign_tasks(TASKS[:2], TASKS[:2], threads, 1)
    assert made.active == {"a": [TASKS[1]], "b": [TASKS[0]], "c": []}
    assert made.standby == {"a": [], "b": [TASKS[1]], "c": [TASKS[0]]}


def test_processes_with_more_threads_have_more_tasks() -> None:
    threads = {name: AssignableThread(process=name[0]) for name in ("a1", "a2", "b1")}
    made = assign_tasks(TASKS, [], threads, 0)
    assert [len(made.active[name]) for name in ("a1", "a2", "b1")] == [2, 2, 2]


GROUPS = st.dictionaries(
    st.integers(0, 9).map(lambda number: f"m{number}"),
    st.integers(0, 3).map(lambda number: AssignableThread(process=f"p{number}")),
    min_size=1,
    max_size=7,
)
TASK_SETS = st.sets(st.builds(TaskId, st.integers(0, 2), st.integers(0, 5)), min_size=1)


@given(GROUPS, GROUPS, TASK_SETS, st.integers(0, 2), st.data())
def test_each_task_runs_once_balanced_and_sticky(
    first: dict[str, AssignableThread],
    second: dict[str, AssignableThread],
    tasks: set[TaskId],
    replicas: int,
    data: st.DataObject,
) -> None:
    stateful = data.draw(st.sets(st.sampled_from(sorted(tasks))))
    before = assign_tasks(tasks, stateful, first, replicas)
    holds(tasks, stateful, first, replicas, before)
    assert assign_tasks(tasks, stateful, went_on(first, before), replicas) == before
    threads = went_on(second | {m: t for m, t in first.items() if m in second}, before)
    after = assign_tasks(tasks, stateful, threads, replicas)
    holds(tasks, stateful, threads, replicas, after)


def holds(
    tasks: set[TaskId],
    stateful: set[TaskId],
    threads: dict[str, AssignableThread],
    replicas: int,
    made: TaskAssignment,
) -> None:
    assert set(made.active) == set(made.standby) == set(threads)
    assert sorted(task for got in made.active.values() for task in got) == sorted(tasks)
    sizes = [len(got) for got in made.active.values()]
    assert max(sizes) - min(sizes) <= 1
    processes = {thread.process for thread in threads.values()}
    copies = [(threads[m].process, task) for m, got in made.standby.items() for task in got]
    assert len(copies) == len(set(copies)) == len(stateful) * min(replicas, len(processes) - 1)
    runs = {task: threads[m].process for m, got in made.active.items() for task in got}
    assert all(runs[task] != process for process, task in copies)
    assert {task for _, task in copies} <= stateful


@given(GROUPS, TASK_SETS)
def test_a_task_moves_only_for_balance(
    threads: dict[str, AssignableThread], tasks: set[TaskId]
) -> None:
    """A new thread gets its share, and nothing else moves."""
    before = assign_tasks(tasks, [], threads, 0)
    more = went_on({**threads, "new": AssignableThread(process="new")}, before)
    after = assign_tasks(tasks, [], more, 0)
    left = {m: set(before.active[m]) - set(after.active[m]) for m in threads}
    came = {m: set(after.active[m]) - set(before.active[m]) for m in threads}
    assert len(after.active["new"]) == sum(map(len, left.values())) - sum(map(len, came.values()))
    processes = {m: thread.process for m, thread in more.items()}
    stayed = {
        task
        for m, got in before.active.items()
        for other, now in after.active.items()
        if processes[m] == processes[other]
        for task in set(got) & set(now)
    }
    assert len(tasks) - len(stayed) == len(after.active["new"])
