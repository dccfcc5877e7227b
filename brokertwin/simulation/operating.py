"""An operator: partition reassignments and preferred leader elections.

KIP-455, KIP-460. Sends the requests of `kafka-reassign-partitions.sh` and
`kafka-leader-election.sh` without retries. Reassignments can replace pending ones. Pending ones are
cancelled at the end, because they may never finish.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from brokertwin.protocol.errors import Error
from brokertwin.simulation.cluster import SimulatedCluster
from brokertwin.simulation.plan import FaultKind, Injection
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, TRANSACTION_TOPIC

TIMEOUT_MS = 5_000
PREFERRED = 0
COORDINATED = 2
"""Partitions of each coordinator topic (`simulation/cluster.py`)."""

_VERSIONS = {"ALTER_PARTITION_REASSIGNMENTS": 1, "ELECT_LEADERS": 2}

Place = tuple[str, int]


class Operator:
    """Sends requests and processes responses.

    Args:
        on_effect: called with the effect of each successful request.
    """

    def __init__(
        self, cluster: SimulatedCluster, on_effect: Callable[[FaultKind, str], None]
    ) -> None:
        self._cluster = cluster
        self._on_effect = on_effect
        self._has_reassigned = False

    def reassign(self, injection: Injection, brokers: list[int]) -> None:
        """Reassign a partition to random replicas, at least as many as must be in sync."""
        self._has_reassigned = True
        plan, chance = self._cluster.plan, Random(f"{injection.whom}")
        topic, partition = chance.choice(self._places())
        count = chance.randint(plan.in_sync_min, plan.replicas)
        replicas = chance.sample(self._cluster.settings.brokers, count)
        partition_body = {"partitionIndex": partition, "replicas": replicas}
        body = {
            "topics": [{"name": topic, "partitions": [partition_body]}],
            "timeoutMs": TIMEOUT_MS,
        }
        self._send(
            "ALTER_PARTITION_REASSIGNMENTS", FaultKind.REASSIGN, body, chance.choice(brokers)
        )

    def elect(self, injection: Injection, brokers: list[int]) -> None:
        body = {"electionType": PREFERRED, "topicPartitions": None, "timeoutMs": TIMEOUT_MS}
        chance = Random(f"{injection.whom}")
        self._send("ELECT_LEADERS", FaultKind.ELECT, body, chance.choice(brokers))

    def cancel(self) -> None:
        if not self._has_reassigned:
            return
        topics: dict[str, list[dict[str, Any]]] = {}
        for topic, partition in self._places():
            partition_body = {"partitionIndex": partition, "replicas": None}
            topics.setdefault(topic, []).append(partition_body)
        named = [{"name": name, "partitions": each} for name, each in topics.items()]
        body = {"topics": named, "timeoutMs": TIMEOUT_MS}
        self._send("ALTER_PARTITION_REASSIGNMENTS", None, body, self._cluster.settings.brokers[0])

    def _places(self) -> list[Place]:
        """Return the partitions of the run's topics and of coordinators."""
        plan = self._cluster.plan
        counts = dict.fromkeys(plan.topics, plan.partitions)
        counts |= {GROUP_TOPIC: COORDINATED, TRANSACTION_TOPIC: COORDINATED}
        return [(topic, at) for topic, count in counts.items() for at in range(count)]

    def _send(self, api: str, fault: FaultKind | None, body: dict[str, Any], broker: int) -> None:
        def take(document: dict[str, Any]) -> None:
            done = _done(document.get("response") or {})
            if fault is not None and done:
                self._on_effect(fault, ", ".join(done))

        self._cluster.call("operator", api, _VERSIONS[api], body, broker, take)


def _done(response: dict[str, Any]) -> list[str]:
    """Return the partitions without error in a response."""
    topics = [(each["name"], each["partitions"]) for each in response.get("responses", ())]
    topics += [
        (each["topic"], each["partitionResult"])
        for each in response.get("replicaElectionResults", ())
    ]
    return [
        f"{topic}-{each.get('partitionIndex', each.get('partitionId'))}"
        for topic, partitions in topics
        for each in partitions
        if each["errorCode"] == Error.NONE
    ]
