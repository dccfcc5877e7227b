"""The sticky task assignor, compared with Kafka's class.

`TaskAssignors.java` runs Kafka's class from the jars. `GOLDENS=compare EXAMPLES=1000` compares a
thousand groups.
"""

import json
from collections import Counter
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from brokertwin.state.core.java_hashes import JavaMap, java_hash
from brokertwin.state.core.java_queues import JavaPriorityQueue
from brokertwin.state.groups import sticky_assignor
from brokertwin.state.groups.sticky_assignor import TaskMember, TaskSpec
from brokertwin.state.groups.streams_group import TargetTasks, Tasks
from tests.support.java_responses import inputs, java_responses, json_from_java

GROUPS = 200
ROUNDS = 4
DRIVER = Path(__file__).with_name("TaskAssignors.java")


class Application:
    """A streams application whose threads, processes and topics change."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        count = self.chance.choice([1, 1, 2, 3, 12])
        self.counts = {str(n): self.chance.choice([1, 2, 3, 7, 20]) for n in range(count)}
        self.stateful = {each for each in self.counts if self.chance.random() < 0.6}
        self.replicas = self.chance.choice([0, 0, 1, 1, 2])
        self.members: dict[str, str] = {}
        self.targets: dict[str, TargetTasks] = {}
        self.change()

    def change(self) -> None:
        """Add and remove members; topics and the number of standbys may grow."""
        for member in list(self.members):
            if self.chance.random() < 0.2:
                del self.members[member]
        for _ in range(self.chance.choice([1, 1, 2, 6])):
            process = f"process-{self.chance.choice([1, 2, 3, self.chance.randint(0, 10**6)])}"
            self.members[f"member-{self.chance.randint(0, 10**6)}"] = process
        self.targets = {each: self.targets.get(each, TargetTasks()) for each in self.members}
        if self.chance.random() < 0.2:
            self.counts[self.chance.choice(list(self.counts))] += self.chance.randint(1, 3)
        if self.chance.random() < 0.1:
            self.replicas = self.chance.randint(0, 2)

    def request(self) -> str:
        """Return the group in the driver's input format."""
        members = {
            member: {
                "process": process,
                "active": self.targets[member].active,
                "standby": self.targets[member].standby,
            }
            for member, process in self.members.items()
        }
        fields = {"taskCounts": self.counts, "stateful": sorted(self.stateful), "members": members}
        return json.dumps({**fields, "standbyReplicas": self.replicas})

    def assign(self) -> dict[str, TargetTasks]:
        """Return the targets; they are the former targets of the next assignment."""
        members: JavaMap[str, TaskMember] = JavaMap(java_hash)
        for member, process in self.members.items():
            members[member] = TaskMember(process, self.targets[member])
        counts = dict(sorted(self.counts.items()))
        self.targets = sticky_assignor.assign(
            TaskSpec(members, counts, self.stateful, self.replicas)
        )
        return self.targets


def places(tasks: Tasks) -> list[tuple[str, int]]:
    return [(part, number) for part, numbers in tasks.items() for number in numbers]


def holds(application: Application, targets: dict[str, TargetTasks]) -> None:
    """Check that tasks are assigned once, and standbys to other processes."""
    wanted = {(part, n) for part, count in application.counts.items() for n in range(count)}
    active = Counter(each for target in targets.values() for each in places(target.active))
    assert active == Counter(wanted)
    processes: dict[str, list[tuple[str, int]]] = {}
    for member, target in targets.items():
        both = [*places(target.active), *places(target.standby)]
        processes.setdefault(application.members[member], []).extend(both)
    for tasks in processes.values():
        assert len(tasks) == len(set(tasks)), "a process has a task once"
    copies = Counter(each for target in targets.values() for each in places(target.standby))
    most = min(application.replicas, len(processes) - 1)
    assert copies == Counter(
        {each: most for each in wanted if most and each[0] in application.stateful}
    )


@pytest.mark.parametrize("seed", range(30))
def test_each_task_has_one_member_and_standbys_elsewhere(seed: int) -> None:
    application = Application(seed)
    for _ in range(ROUNDS):
        holds(application, application.assign())
        application.change()


def test_remaining_members_keep_their_quota_when_a_member_joins() -> None:
    application = Application(0)
    application.counts, application.stateful, application.replicas = {"0": 6}, set(), 0
    application.members = {"a": "p1", "b": "p2"}
    application.targets = {each: TargetTasks() for each in application.members}
    before = application.assign()
    application.members["c"] = "p3"
    application.targets = {**before, "c": TargetTasks()}
    after = application.assign()
    assert {name: len(places(each.active)) for name, each in after.items()} == dict.fromkeys(
        "abc", 2
    )
    for name in ("a", "b"):
        assert set(places(after[name].active)) < set(places(before[name].active))


@pytest.mark.parametrize("gone", range(3))
def test_standby_becomes_active_when_the_member_leaves(gone: int) -> None:
    application = Application(0)
    application.counts, application.stateful, application.replicas = {"0": 3}, {"0"}, 1
    application.members = {name: f"p-{name}" for name in "abc"}
    application.targets = {each: TargetTasks() for each in application.members}
    before = application.assign()
    lost = before["abc"[gone]].active
    (heir,) = (name for name, each in before.items() if each.standby == lost)
    for targets in (application.members, application.targets):
        del targets["abc"[gone]]
    assert set(places(application.assign()[heir].active)) > set(places(lost))


def test_queue_breaks_ties_like_java() -> None:
    queue: JavaPriorityQueue[list[int]] = JavaPriorityQueue(lambda item: item[0])
    for number in range(6):
        queue.add([0, number])
    order = []
    while (item := queue.poll()) is not None:
        order.append(item[1])
    assert order == [0, 5, 4, 3, 2, 1]


@pytest.mark.compares
def test_tasks_are_assigned_like_by_kafkas_class() -> None:
    requests: list[tuple[str, dict[str, Any]]] = []
    for seed in range(inputs(GROUPS)):
        application = Application(seed)
        for _ in range(ROUNDS):
            request, targets = application.request(), application.assign()
            requests.append(
                (request, {n: msgspec.to_builtins(each) for n, each in targets.items()})
            )
            application.change()
    queries = [request for request, _ in requests]
    responses = java_responses("groups/sticky_assignor", queries, partial(json_from_java, DRIVER))
    for (request, ours), theirs in zip(requests, responses, strict=True):
        assert {n: {**each, "warmup": {}} for n, each in theirs.items()} == ours, request
