"""What an operator does to a cluster: other replicas for partitions, and preferred elections.

KIP-455, KIP-460. The operator asks a broker as `kafka-reassign-partitions.sh` and
`kafka-leader-election.sh` do, and sends what is refused no second time. Reassignments may take the
place of others that have not ended; what has not ended in the end is cancelled, since such a one
may never end by itself.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from brokertwin.simulation.cluster import SimulatedCluster
from brokertwin.simulation.plan import FaultKind, Injection
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, TRANSACTION_TOPIC
from brokertwin.state.core.errors import Error
from brokertwin.state.core.kafka_apis import KAFKA_APIS

TIMEOUT_MS = 5_000
PREFERRED = 0
COORDINATED = 2
"""Partitions of each topic of coordinators (`simulation/cluster.py`)."""

_KEYS = {api.name: key for key, api in KAFKA_APIS.items()}
_VERSIONS = {"ALTER_PARTITION_REASSIGNMENTS": 1, "ELECT_LEADERS": 2}

Place = tuple[str, int]


class Operator:
    """Asks, and hears what has come of it.

    Args:
        heard: is told of each intervention that has had an effect, and where.
    """

    def __init__(self, cluster: SimulatedCluster, heard: Callable[[FaultKind, str], None]) -> None:
        self._cluster = cluster
        self._heard = heard
        self._asked: dict[str, FaultKind] = {}
        self._has_reassigned = False
        self._count = 0
        self._pass_on = cluster.on_answer
        cluster.on_answer = self._answered

    def reassign(self, injection: Injection, brokers: list[int]) -> None:
        """Other replicas for a partition, as many as have to be in sync or more, in any order."""
        self._has_reassigned = True
        plan, chance = self._cluster.plan, Random(f"{injection.whom}")
        topic, partition = chance.choice(self._places())
        count = chance.randint(plan.in_sync_min, plan.replicas)
        replicas = chance.sample(self._cluster.settings.brokers, count)
        wanted = {"partitionIndex": partition, "replicas": replicas}
        body = {"topics": [{"name": topic, "partitions": [wanted]}], "timeoutMs": TIMEOUT_MS}
        self._ask("ALTER_PARTITION_REASSIGNMENTS", FaultKind.REASSIGN, body, chance.choice(brokers))

    def elect(self, injection: Injection, brokers: list[int]) -> None:
        """The first replica of every partition is to lead it."""
        body = {"electionType": PREFERRED, "topicPartitions": None, "timeoutMs": TIMEOUT_MS}
        chance = Random(f"{injection.whom}")
        self._ask("ELECT_LEADERS", FaultKind.ELECT, body, chance.choice(brokers))

    def cancel(self) -> None:
        """Reassignments that have not ended are cancelled."""
        if not self._has_reassigned:
            return
        topics: dict[str, list[dict[str, Any]]] = {}
        for topic, partition in self._places():
            wanted = {"partitionIndex": partition, "replicas": None}
            topics.setdefault(topic, []).append(wanted)
        named = [{"name": name, "partitions": each} for name, each in topics.items()]
        body = {"topics": named, "timeoutMs": TIMEOUT_MS}
        self._ask("ALTER_PARTITION_REASSIGNMENTS", None, body, self._cluster.settings.brokers[0])

    def _places(self) -> list[Place]:
        """Partitions of the run's topics, and of coordinators'."""
        plan = self._cluster.plan
        counts = dict.fromkeys(plan.topics, plan.partitions)
        counts |= {GROUP_TOPIC: COORDINATED, TRANSACTION_TOPIC: COORDINATED}
        return [(topic, at) for topic, count in counts.items() for at in range(count)]

    def _ask(self, api: str, fault: FaultKind | None, body: dict[str, Any], broker: int) -> None:
        self._count += 1
        name = f"operator/{self._count}"
        if fault is not None:
            self._asked[name] = fault
        header = {"requestApiKey": _KEYS[api], "requestApiVersion": _VERSIONS[api]}
        fields = {"id": name, "broker": broker, "connection": "operator", "requestHeader": header}
        self._cluster.request({**fields, "request": body})

    def _answered(self, name: str, document: dict[str, Any]) -> None:
        fault = self._asked.pop(name, None)
        if fault is None:
            self._pass_on(name, document)
            return
        answer = document.get("response") or {}
        done = _done(answer)
        if done:
            self._heard(fault, ", ".join(done))


def _done(answer: dict[str, Any]) -> list[str]:
    """The partitions that an answer names without an error."""
    topics = [(each["name"], each["partitions"]) for each in answer.get("responses", ())]
    topics += [
        (each["topic"], each["partitionResult"])
        for each in answer.get("replicaElectionResults", ())
    ]
    return [
        f"{topic}-{each.get('partitionIndex', each.get('partitionId'))}"
        for topic, partitions in topics
        for each in partitions
        if each["errorCode"] == Error.NONE
    ]
