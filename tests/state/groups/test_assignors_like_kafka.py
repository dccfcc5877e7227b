"""Assignors compared with Kafka's classes, for random changing groups.

`Assignors.java` runs Kafka's classes from the jars: a thousand inputs, four of each group.
`GOLDENS=compare EXAMPLES=1000` compares that many groups.
"""

import json
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from brokertwin.state.cluster.topics import derive_uuid
from brokertwin.state.core.java_hashes import JavaMap, java_hash, timeline_order
from brokertwin.state.groups import range_assignor, simple_assignor, uniform_assignor
from brokertwin.state.groups.assignments import GroupSpec, Subscriber, Target
from tests.support.java_responses import inputs, java_responses, json_from_java

GROUPS = 250
ROUNDS = 4
DRIVER = Path(__file__).with_name("Assignors.java")
ASSIGN = {
    "uniform": uniform_assignor.assign,
    "range": range_assignor.assign,
    "simple": simple_assignor.assign,
}


class Crowd:
    """A group whose members, topics and subscriptions change."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.assignor = self.chance.choice([*["uniform"] * 3, "range", *["simple"] * 2])
        self.is_same = self.chance.random() < 0.5
        self.topics = {
            f"t{n}": (derive_uuid(f"{seed}/{n}"), self.chance.choice([1, 2, 3, 7, 20, 40]))
            for n in range(self.chance.randint(1, 5))
        }
        self.wish = self._names()
        self.members: dict[str, dict[str, Any]] = {}
        self.most = 0
        self.change()

    def _names(self) -> list[str]:
        names = [*self.topics, "absent"]
        return sorted(self.chance.sample(names, self.chance.randint(1, len(names))))

    def change(self) -> None:
        """Add and remove members; topics may grow."""
        for member in list(self.members):
            if self.chance.random() < 0.2:
                del self.members[member]
        for _ in range(self.chance.choice([1, 1, 2, 8])):
            instance = f"i{self.chance.randint(0, 99)}" if self.chance.random() < 0.2 else None
            wish = self.wish if self.is_same else self._names()
            member = f"member-{self.chance.randint(0, 10**6)}"
            self.members[member] = {"instance": instance, "topics": wish, "target": {}}
        for name, (topic_id, count) in self.topics.items():
            if self.chance.random() < 0.2:
                self.topics[name] = (topic_id, count + self.chance.randint(1, 5))
        if not self.is_same and self.chance.random() < 0.5:
            self.chance.choice(list(self.members.values()))["topics"] = self._names()
        self.most = max(self.most, len(self.members))

    def is_homogeneous(self) -> bool:
        return len({tuple(member["topics"]) for member in self.members.values()}) == 1

    def request(self) -> str:
        """Return the group in the driver's input format."""
        topics = [
            {"name": name, "id": topic_id, "partitions": count}
            for name, (topic_id, count) in self.topics.items()
        ]
        members = [{"id": member, **subscription} for member, subscription in self.members.items()]
        request = {"assignor": self.assignor, "isHomogeneous": self.is_homogeneous()}
        return json.dumps({**request, "topics": topics, "members": members})

    def assign(self) -> dict[str, Any]:
        """Return targets, which the members keep, and the order of members."""
        order = timeline_order(self.members, len(self.members))
        in_order: JavaMap[str, Subscriber] = JavaMap(java_hash)
        for member in order:
            in_order[member] = self._subscriber(self.members[member])
        counts = dict(self.topics.values())
        owned = {
            (topic_id, partition)
            for member in self.members.values()
            for topic_id, partitions in member["target"].items()
            for partition in partitions
        }
        members = {member: in_order[member] for member in in_order}
        spec = GroupSpec(members, counts, self.is_homogeneous(), owned)
        assigned = ASSIGN[self.assignor](spec)
        targets: dict[str, Target] = {member: assigned.get(member, {}) for member in members}
        for member, target in targets.items():
            self.members[member]["target"] = target
        return {"order": order, "targets": targets}

    def _subscriber(self, given: dict[str, Any]) -> Subscriber:
        names = JavaMap.holding(java_hash, dict.fromkeys(given["topics"]))
        ids = [self.topics[name][0] for name in names if name in self.topics]
        return Subscriber(given["instance"], ids, len(given["topics"]), given["target"])


@pytest.mark.compares
def test_targets_equal_those_of_kafkas_assignors() -> None:
    """The order of topics and partitions is compared, too."""
    crowds = [Crowd(seed) for seed in range(inputs(GROUPS))]
    requests: list[tuple[int, str, dict[str, Any]]] = []
    for seed, crowd in enumerate(crowds):
        for _ in range(ROUNDS):
            requests.append((seed, crowd.request(), crowd.assign()))
            crowd.change()
    queries = [request for _, request, _ in requests]
    responses = java_responses("groups/assignors", queries, partial(json_from_java, DRIVER))
    for (seed, request, ours), theirs in zip(requests, responses, strict=True):
        case = f"seed {seed}: {request}"
        assert ours["order"] == theirs["order"], case
        is_simple = json.loads(request)["assignor"] == "simple"
        ordered = _by_topic if is_simple else _ordered
        assert ordered(ours["targets"]) == ordered(theirs["targets"]), case


def _ordered(targets: dict[str, Target]) -> list[Any]:
    return [(member, list(target.items())) for member, target in targets.items()]


def _by_topic(targets: dict[str, Target]) -> list[Any]:
    """Return sorted targets without empty topics, as the driver prints them.

    `simple` has two topics of one bucket of a Java map in reverse order in about one of 4,000
    groups.
    """
    return [
        (member, sorted((topic, places) for topic, places in target.items() if places))
        for member, target in targets.items()
    ]
