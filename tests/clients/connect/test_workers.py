"""Workers of one group that crash, pause and leave; `simulation/test_losses.py` has more losses.

No two members run the same task, and all tasks run again within timeouts and delay.
"""

import pytest

from brokertwin.clients.connect.work import ConnectTaskId
from brokertwin.clients.consumer_coordinator import ClientMemberState
from brokertwin.clients.timeline import Timeline
from tests.support.connect_world import (
    DELAY_MS,
    SESSION_MS,
    ConnectWorld,
    Worker,
)
from tests.support.figures import FIGURES, PAGES, figure


def layout(workers: int, tasks: int) -> ConnectWorld:
    """Return a world with a source and a sink of `tasks` tasks each on `workers` workers."""
    world = ConnectWorld()
    world.submit("sink", tasks)
    world.submit("source", tasks)
    for _ in range(workers):
        world.start()
    world.settle()
    world.wait(10_000)
    return world


def sizes(world: ConnectWorld) -> list[int]:
    return [sum(not item.is_connector for item in worker.running) for worker in world.workers]


@pytest.mark.parametrize(
    ("workers", "tasks", "expected"), [(1, 1, [2]), (1, 2, [4]), (2, 2, [2, 2]), (3, 2, [2, 1, 1])]
)
def test_example_9_the_four_layouts_of_the_seed(
    workers: int, tasks: int, expected: list[int]
) -> None:
    world = layout(workers, tasks)
    assert world.is_at_rest
    assert sorted(sizes(world)) == sorted(expected)
    assert world.violations == []


def leader(world: ConnectWorld) -> Worker:
    return next(worker for worker in world.workers if worker.coordinator.is_leader)


def follower(world: ConnectWorld) -> Worker:
    return next(worker for worker in world.workers if not worker.coordinator.is_leader)


def lost(world: ConnectWorld, worker: Worker) -> int:
    """A worker crashes: how many ms until all is run again."""
    world.crash(worker)
    began = world.now
    while not world.is_at_rest:
        world.turn(100)
        assert world.now - began < 60_000
    return world.now - began


def test_example_10_a_crashed_workers_tasks_move_after_session_timeout_and_delay() -> None:
    world = layout(2, 2)
    took = lost(world, follower(world))
    assert took + 1_000 >= SESSION_MS + DELAY_MS
    assert took <= SESSION_MS + DELAY_MS + 5_000


def test_example_11_without_its_leader_a_group_does_not_wait() -> None:
    """A new leader does not know the assignments; like Kafka's, it assigns at once."""
    world = layout(2, 2)
    took = lost(world, leader(world))
    assert took <= SESSION_MS + 3_000


def test_example_12_a_worker_stops_tasks_before_a_late_rejoin() -> None:
    world = layout(3, 2)
    late = follower(world)
    world.pause(late)
    world.wait(SESSION_MS + DELAY_MS + 5_000)
    assert late.running
    world.pause(late)
    while late.coordinator.state is ClientMemberState.STABLE or late.running:
        world.turn(50)
        assert not (
            late.running and late.coordinator.state is ClientMemberState.PREPARING_REBALANCE
        )
    world.settle()
    assert world.violations == []


def test_a_slow_task_stops_before_it_starts_elsewhere() -> None:
    world = layout(1, 2)
    world.stop_ms = 3_000
    world.start()
    world.wait(20_000)
    assert sizes(world) == [2, 2]
    assert world.violations == []


def test_example_13_a_leaving_worker_also_starts_the_delay() -> None:
    world = layout(2, 2)
    world.leave(follower(world))
    world.wait(DELAY_MS - 1_000)
    assert not world.is_at_rest
    assert world.settle() <= 4_000


def test_example_14_task_counts_change_while_others_continue() -> None:
    world = layout(2, 2)
    before = {item for worker in world.workers for item in worker.running}
    world.submit("sink", 4)
    world.settle()
    moves = world.moves
    world.submit("sink", 1)
    world.settle()
    assert ConnectTaskId("source", 0) in before
    assert world.violations == []
    assert world.moves - moves <= 8


def test_the_pages_picture_of_the_layouts_is_a_run() -> None:
    world = ConnectWorld()
    world.submit("sink", 2)
    world.submit("source", 2)
    world.start()
    world.settle()
    for pause_ms in (3_000, 8_000):
        world.wait(pause_ms)
        world.start()
    world.wait(8_000)
    assert world.timeline.picture(world.now) == figure(FIGURES, "Workers start")


def test_the_pages_picture_of_a_killed_worker_is_a_run() -> None:
    world = layout(2, 2)
    world.timeline = Timeline(world.now)
    world.wait(3_000)
    world.crash(follower(world))
    world.wait(15_000)
    assert world.timeline.picture(world.now) == figure(
        PAGES / "streams.md", "workers is killed at 3 s"
    )


def test_a_worker_whose_session_ends_while_joining_stops_tasks_first() -> None:
    """Found by the simulator."""
    world = layout(1, 2)
    (late,) = world.workers
    world.stop_ms = 3_000
    world.start()
    while late.coordinator.state is not ClientMemberState.PREPARING_REBALANCE:
        world.turn(5)
    network = world.world.networks[late.client]
    for node in network.nodes:
        network.cut(node)
    world.pause(late)
    world.wait(SESSION_MS + 1_000)
    world.pause(late)
    while not late.coordinator.stopping:
        world.turn(5)
    while late.coordinator.stopping:
        assert not late.coordinator._is_in_flight("JOIN_GROUP")
        world.turn(50)
    world.settle()
    assert world.violations == []
