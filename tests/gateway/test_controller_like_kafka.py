"""Elections, reassignments, stopped brokers: compare with a real cluster of three.

Each response is compared field by field, except fields specific to one of the two (ports, disks)
and the order of lists that Kafka returns in hash table order.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from brokertwin.gateway.admin import control
from brokertwin.gateway.admin.control import Control
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.engine.local_engine import LocalEngine
from tests.support.gateways import Client, running_gateway
from tests.support.goldens import golden
from tests.support.kafka_clusters import kafka_cluster
from tests.support.patience import wait_until

ELECT, REASSIGN, LIST = (
    "ELECT_LEADERS",
    "ALTER_PARTITION_REASSIGNMENTS",
    "LIST_PARTITION_REASSIGNMENTS",
)
TOPICS = {"pref": [[2, 1, 3], [3, 1, 2]], "wide": [[1, 2], [1, 3], [2, 3]], "solo": [[2]]}
READ_WITHIN_S = 60
UNSTABLE = ("host", "port", "clusterId", "controllerId", "logDir", "totalBytes", "usableBytes")


class Cluster(NamedTuple):
    client: Client
    stop: Callable[[int], Any]


@contextmanager
def gateway(home: Path) -> Iterator[Cluster]:
    """Start a gateway with three brokers."""
    taking = partial(LocalEngine, may_intervene=True)
    with running_gateway(brokers=3, engine_type=taking) as running:  # type: ignore[arg-type]
        made = Control(running.engine, home / "control")
        running.run(made.open())
        with running.client() as client:
            yield Cluster(
                client,
                lambda broker: control.ask(home / "control", ask="stop-broker", broker=broker),
            )
        running.run(made.close())


@contextmanager
def kafka(home: Path) -> Iterator[Cluster]:
    """Start three brokers of Kafka."""
    with kafka_cluster(home, 3) as nodes:
        host, _, port = nodes[1][1].rpartition(":")
        with Client(Address(host, int(port))) as client:
            yield Cluster(client, lambda broker: nodes[broker][0].stop())


def stable(response: Any) -> Any:
    """Return a response without uncompared fields, with sorted lists."""
    if isinstance(response, dict):
        return {name: stable(each) for name, each in response.items() if name not in UNSTABLE}
    if isinstance(response, list):
        return sorted((stable(each) for each in response), key=str)
    return response


def partitions(client: Client, topic: str) -> dict[int, Any]:
    """Return leader, epoch, replicas and in-sync set of each partition."""
    (found,) = client.call("METADATA", 12, name=topic)["topics"]
    return {
        each["partitionIndex"]: (
            each["leaderId"],
            each["leaderEpoch"],
            each["replicaNodes"],
            sorted(each["isrNodes"]),
            sorted(each["offlineReplicas"]),
        )
        for each in found["partitions"]
    }


def election(kind: int, partitions: Any, **other: Any) -> tuple[str, int, dict[str, Any]]:
    topics = partitions
    if partitions is not None:
        topics = [{"topic": topic, "partitions": each} for topic, each in partitions]
    return ELECT, 2, {"electionType": kind, "topicPartitions": topics, "timeoutMs": 10_000, **other}


def reassignment(topic: str, *wanted: Any, **other: Any) -> tuple[str, int, dict[str, Any]]:
    partitions = [{"partitionIndex": number, "replicas": each} for number, each in wanted]
    topics = [{"name": topic, "partitions": partitions}]
    return REASSIGN, 1, {"timeoutMs": 10_000, "topics": topics, **other}


LISTED = (LIST, 0, {"timeoutMs": 1000, "topics": None})
CLUSTER = ("DESCRIBE_CLUSTER", 2, {"includeFencedBrokers": True})

BEFORE: list[Any] = [
    election(0, [("pref", [0, 0, 7]), ("nope", [0])]),
    election(1, [("pref", [0])]),
    election(0, None),
    election(5, [("pref", [0])]),
    election(5, []),
    election(0, [("pref", [0])], timeoutMs=0),
    (ELECT, 0, {"topicPartitions": [{"topic": "pref", "partitions": [0]}], "timeoutMs": 1000}),
    LISTED,
    (LIST, 0, {"topics": []}),
    (LIST, 0, {"topics": [{"name": "nope", "partitionIndexes": [0]}]}),
    reassignment("wide", (0, None), (9, [1]), (0, []), (0, [1, 1]), (0, [1, 9]), (0, [-1])),
    reassignment("nope", (0, [1])),
    reassignment("wide", (0, [1, 2, 3]), allowReplicationFactorChange=False),
    reassignment("wide", (0, [9, 1, 2]), allowReplicationFactorChange=False),
    reassignment("wide", (0, [2, 1]), timeoutMs=0),
    (REASSIGN, 1, {"topics": []}),
    (REASSIGN, 0, {"timeoutMs": 1000, "topics": []}),
    reassignment("wide", (0, [2, 1])),
    election(0, [("wide", [0])]),
    "wide",
    reassignment("wide", (0, [1, 3])),
    "settled",
    "wide",
    reassignment("wide", (0, [1])),
    LISTED,
    "wide",
    ("UNREGISTER_BROKER", 0, {"brokerId": 9}),
    ("DESCRIBE_LOG_DIRS", 5, {"topics": [{"topic": "wide", "partitions": [0, 1, 2, 9]}]}),
    ("DESCRIBE_LOG_DIRS", 1, {"topics": []}),
    CLUSTER,
]
AFTER: list[Any] = [
    "pref",
    "wide",
    election(0, [("pref", [1])]),
    election(0, None),
    reassignment("wide", (2, [3, 1])),
    "settled",
    "wide",
    reassignment("wide", (1, [3])),
    LISTED,
    reassignment("wide", (1, [2, 3]), allowReplicationFactorChange=False),
    reassignment("wide", (1, None), (2, None)),
    "wide",
    reassignment("solo", (0, [1, 3])),
    "joined",
    LISTED,
    reassignment("solo", (0, [1])),
    LISTED,
    reassignment("solo", (0, None)),
    LISTED,
    "solo",
    CLUSTER,
    ("UNREGISTER_BROKER", 0, {"brokerId": 3}),
    ("UNREGISTER_BROKER", 0, {"brokerId": 3}),
    CLUSTER,
    reassignment("solo", (0, [3])),
]
"""Steps, with broker 3 stopped: a request, a topic's partitions, or a pause."""


def is_settled(client: Client) -> bool:
    return client.call(*LISTED)["topics"] == []


def has_joined(client: Client) -> bool:
    return 1 in partitions(client, "solo")[0][3]


def responses_to(client: Client, steps: list[Any], expected: dict[Any, Any]) -> list[Any]:
    """Return the responses to each step; a broker may apply changes after it responds."""
    responses: list[Any] = []
    for step in steps:
        if step == "settled":
            wait_until(partial(is_settled, client), "no reassignment is under way")
        elif step == "joined":
            wait_until(partial(has_joined, client), "broker 1 is in sync")
        else:
            send = partial(response_to, client, step)
            wanted = expected.get((len(steps), len(responses)))
            if wanted is not None and (isinstance(step, str) or step == CLUSTER):
                with suppress(AssertionError):  # the final comparison reports it
                    wait_until(lambda send=send, wanted=wanted: send() == wanted, "", READ_WITHIN_S)
            responses.append((step, send()))
    return responses


def response_to(client: Client, step: Any) -> Any:
    return partitions(client, step) if isinstance(step, str) else stable(client.call(*step))


def play(cluster: Cluster, expected: dict[Any, Any]) -> list[list[Any]]:
    """Play all steps; `expected` has partitions by the step that describes them."""
    for name, assignments in TOPICS.items():
        given = [{"partitionIndex": n, "brokerIds": each} for n, each in enumerate(assignments)]
        topic = {"name": name, "numPartitions": -1, "replicationFactor": -1, "assignments": given}
        cluster.client.call("CREATE_TOPICS", 7, {"topics": [topic], "timeoutMs": 30_000})
        wait_until(partial(is_created, cluster.client, name), f"{name} is known")
    before = responses_to(cluster.client, BEFORE, expected)
    cluster.stop(3)
    wait_until(partial(is_fenced, cluster.client, 3), "broker 3 is fenced")
    return [before, responses_to(cluster.client, AFTER, expected)]


def is_created(client: Client, name: str) -> bool:
    (topic,) = client.call("METADATA", 12, name=name)["topics"]
    return len(topic["partitions"]) == len(TOPICS[name])


def is_fenced(client: Client, broker: int) -> bool:
    brokers = client.call(*CLUSTER)["brokers"]
    return any(each["brokerId"] == broker and each["isFenced"] for each in brokers)


def recorded_by_kafka(home: Path, expected: dict[Any, Any]) -> list[list[Any]]:
    with kafka(home) as cluster:
        return play(cluster, expected)


@pytest.mark.compares
def test_controller_responds_to_elections_and_reassignments_like_kafkas(tmp_path: Path) -> None:
    with gateway(tmp_path) as cluster:
        ours = play(cluster, {})
    expected = {
        (len(steps), number): response
        for steps, responses in zip((BEFORE, AFTER), ours, strict=True)
        for number, (_, response) in enumerate(responses)
    }
    real = golden(
        "cluster/controller",
        lambda: recorded_by_kafka(tmp_path / "kafka", expected),
        scenario=[TOPICS, BEFORE, AFTER],
    )
    for one, other in zip(ours, real, strict=True):
        differing = [pair for pair in zip(one, other, strict=True) if pair[0] != pair[1]]
        assert differing == [], "\n".join(f"ours {pair[0]}\nreal {pair[1]}" for pair in differing)
