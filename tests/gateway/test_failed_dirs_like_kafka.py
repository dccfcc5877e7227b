"""Failed log directories: compare with a real cluster of three.

Three brokers with three directories each. Kafka chooses freely in which one a new log is created,
so the test picks one in which the second broker has the required logs, and removes that directory.
Kafka notices when the broker writes its checkpoint of high watermarks, seconds later.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from brokertwin.gateway.admin import control
from brokertwin.gateway.admin.control import Control
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.engine.local_engine import LocalEngine
from tests.support.batches import batch
from tests.support.gateways import Client, produce_body, running_gateway
from tests.support.goldens import KEEPING, WRITTEN_MS, golden
from tests.support.kafka_clusters import kafka_cluster
from tests.support.patience import wait_until

DISKS = 3
BROKER = 2
"""The broker whose directory fails."""

TOPICS = {
    "led": [[2, 1, 3]] * DISKS,
    "followed": [[3, 2, 1]] * DISKS,
    "solo": [[2]] * DISKS,
}
"""One partition of each on each disk of the broker: Kafka fills disks evenly."""

FAILED = 1
"""The disk that fails; a broker halts without the first one, which has its metadata."""

UNSTABLE = (
    "clusterId",
    "controllerId",
    "logDir",
    "totalBytes",
    "usableBytes",
    "topicId",
    "host",
    "port",
    "timestamp",
)


RECORDS = batch(b"x", timestamps=[WRITTEN_MS])


class Cluster(NamedTuple):
    """A cluster with clients by broker, and its actions.

    Attributes:
        clients: by the broker's id.
        disks: the broker's log directories, the metadata directory first.
        fail: removes a log directory of the broker.
        restart: stops the broker, restores the directory, and starts it.
    """

    clients: dict[int, Client]
    disks: list[str]
    fail: Callable[[], Any]
    restart: Callable[[], Client]


@contextmanager
def gateway(home: Path) -> Iterator[Cluster]:
    disks = [f"/disk-{number}" for number in range(1, DISKS + 1)]
    taking: Any = partial(LocalEngine, may_intervene=True)
    settings = {**KEEPING, "log.dirs": ",".join(disks)}
    with running_gateway(settings, brokers=3, engine_type=taking) as running:
        made, path = Control(running.engine, home / "control"), home / "control"
        running.run(made.open())

        def restart() -> Client:
            for kind in ("stop-broker", "start-broker"):
                control.ask(path, ask=kind, broker=BROKER)
            return opened(running.addresses[BROKER])

        def fail() -> None:
            response = control.ask(path, ask="fail-log-dir", broker=BROKER, directory=disks[FAILED])
            assert response == {"response": {}}

        clients = {each: running.client(each) for each in (1, 2, 3)}
        yield Cluster(clients, disks, fail, restart)
        for client in clients.values():
            client.close()
        running.run(made.close())


@contextmanager
def kafka(home: Path) -> Iterator[Cluster]:
    """Start three brokers of Kafka."""
    with kafka_cluster(home, 3, KEEPING, disks=DISKS) as nodes:
        own = home / str(BROKER)
        disks = [own / "data", *(own / f"disk-{number}" for number in range(2, DISKS + 1))]
        away = own / "away"

        def restart() -> Client:
            node, _ = nodes[BROKER]
            node.stop()
            away.rename(disks[FAILED])
            return opened(address_of(node.start()))

        clients = {each: opened(address_of(address)) for each, (_, address) in nodes.items()}
        yield Cluster(clients, [*map(str, disks)], lambda: disks[FAILED].rename(away), restart)
        for client in clients.values():
            client.close()


def address_of(bootstrap: str) -> Address:
    host, _, port = bootstrap.rpartition(":")
    return Address(host, int(port))


def opened(address: Address) -> Client:
    """Return a client, as soon as the broker listens."""
    clients: list[Client] = []

    def listens() -> bool:
        try:
            clients.append(Client(address))
        except ConnectionRefusedError:
            return False
        return True

    wait_until(listens, "the broker listens")
    return clients[0]


class Requests:
    """Sends requests about partitions by their disk, and records the responses.

    Of each topic partition 0 is on the disk that fails, 1 on the first one, 2 on the last.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.reported: list[Any] = []
        self._numbers: dict[str, dict[int, int]] = {}

    def look(self) -> None:
        found: dict[str, dict[int, int]] = {name: {} for name in TOPICS}
        response = self.cluster.clients[BROKER].call("DESCRIBE_LOG_DIRS", 4, topics=None)
        for each in response["results"]:
            disk = self.cluster.disks.index(each["logDir"])
            for topic in each["topics"]:
                for partition in topic["partitions"]:
                    place = {FAILED: 0, 0: 1, 2: 2}[disk]
                    found[topic["name"]][place] = partition["partitionIndex"]
        assert all(sorted(each) == [0, 1, 2] for each in found.values()), found
        self._numbers = found

    def number(self, topic: str, place: int) -> int:
        return self._numbers[topic][place]

    def each(self, field: str, places: tuple[int, ...] = (0, 1, 2), **more: Any) -> Any:
        return [
            {
                "name": topic,
                "topic": topic,
                "partitions": [{field: self.number(topic, each), **more} for each in places],
            }
            for topic in TOPICS
        ]

    def call(self, broker: int, api: str, version: int, body: dict[str, Any]) -> Any:
        response = self.cluster.clients[broker].call(api, version, body)
        self.reported.append((api, version, broker, self._stable(response)))
        return response

    def produce(self, broker: int, topic: str, place: int, acks: int = -1) -> Any:
        body = produce_body(topic, RECORDS, self.number(topic, place), acks)
        return self.call(broker, "PRODUCE", 9, body)

    def _stable(self, response: Any, topic: str = "") -> Any:
        """Return a response with disks for partition numbers, without uncompared fields."""
        if isinstance(response, list):
            return sorted((self._stable(each, topic) for each in response), key=str)
        if not isinstance(response, dict):
            return response
        names = [response[key] for key in ("name", "topic", "topicName") if key in response]
        topic = str(names[0]) if names else topic
        result = {
            key: self._stable(value, topic)
            for key, value in response.items()
            if key not in UNSTABLE
        }
        for key in ("partitionIndex", "index", "partition", "partitionId"):
            if topic in self._numbers and isinstance(result.get(key), int):
                places = {number: place for place, number in self._numbers[topic].items()}
                result[key] = places[result[key]]
        if "logDir" in response:
            result["disk"] = self.cluster.disks.index(response["logDir"])
        return result

    def leaders(self, topic: str) -> list[tuple[int, int, list[int]]]:
        """Return leader, epoch and in-sync set of each partition at each broker."""
        known = []
        for client in self.cluster.clients.values():
            (found,) = client.call("METADATA", 12, name=topic)["topics"]
            known.append(
                [
                    (each["leaderId"], each["leaderEpoch"], sorted(each["isrNodes"]))
                    for each in sorted(found["partitions"], key=lambda p: int(p["partitionIndex"]))
                ]
            )
        assert all(isinstance(each, list) for each in known)
        return known[0] if all(each == known[0] for each in known) else []


def prepare(requesting: Requests) -> None:
    """Create topics on all disks, with a record in each partition on all replicas."""
    topics = [
        {
            "name": name,
            "numPartitions": -1,
            "replicationFactor": -1,
            "assignments": [
                {"partitionIndex": number, "brokerIds": brokers}
                for number, brokers in enumerate(assignment)
            ],
        }
        for name, assignment in TOPICS.items()
    ]
    for each in topics:  # one by one, so that each is spread evenly
        body = {"topics": [each], "timeoutMs": 30_000}
        response = requesting.cluster.clients[1].call("CREATE_TOPICS", 7, body)
        assert response["topics"][0]["errorCode"] == 0

    def is_known() -> bool:
        try:
            requesting.look()
        except AssertionError:
            return False
        return all(len(requesting.leaders(name)) == DISKS for name in TOPICS)

    wait_until(is_known, "all brokers know the topics")
    for name, ((leader, *_), *_) in TOPICS.items():
        for place in range(DISKS):
            wait_until(
                lambda: (
                    requesting.produce(leader, name, place)["responses"][0][  # noqa: B023
                        "partitionResponses"
                    ][0]["errorCode"]
                    == 0
                ),
                "the leader serves",
            )
    requesting.reported.clear()


def send_requests(requesting: Requests) -> None:
    """Send all requests about replicas while the directory is missing."""
    named = {"topics": [{"name": name} for name in TOPICS]}
    for broker in (1, BROKER):
        for version in (0, 1, 5, 8, 12):
            requesting.call(broker, "METADATA", version, named)
        requesting.call(broker, "DESCRIBE_TOPIC_PARTITIONS", 0, named)
    for topic in TOPICS:
        for place in range(DISKS):
            requesting.produce(BROKER, topic, place)
            requesting.produce(BROKER, topic, place, acks=1)
    of_all: dict[str, Any] = {"replicaId": -1, "timeoutMs": 3000, "isolationLevel": 0}
    listed = requesting.each("partitionIndex", timestamp=-1)
    requesting.call(BROKER, "LIST_OFFSETS", 7, {**of_all, "topics": listed})
    epochs = requesting.each("partition", leaderEpoch=0, currentLeaderEpoch=-1)
    requesting.call(BROKER, "OFFSET_FOR_LEADER_EPOCH", 4, {**of_all, "topics": epochs})
    epochs = requesting.each("partition", (0,), leaderEpoch=0, currentLeaderEpoch=7)
    requesting.call(BROKER, "OFFSET_FOR_LEADER_EPOCH", 4, {**of_all, "topics": epochs})
    deleted = requesting.each("partitionIndex", (0, 1), offset=0)
    requesting.call(BROKER, "DELETE_RECORDS", 2, {**of_all, "topics": deleted})
    for epoch in (-1, 0, 9):
        wanted = requesting.each(
            "partition", fetchOffset=0, partitionMaxBytes=1000, currentLeaderEpoch=epoch
        )
        body = {"maxWaitMs": 0, "minBytes": 1, "maxBytes": 10_000, "sessionEpoch": -1}
        requesting.call(BROKER, "FETCH", 12, {**body, "topics": wanted})
    numbers = [
        {"name": topic, "partitionIndexes": [requesting.number(topic, each) for each in (0, 1, 2)]}
        for topic in TOPICS
    ]
    requesting.call(BROKER, "DESCRIBE_PRODUCERS", 0, {"topics": numbers})
    marker = {"producerId": 1, "producerEpoch": 0, "transactionResult": True, "topics": numbers}
    body = {"markers": [{**marker, "coordinatorEpoch": 0}]}
    requesting.call(BROKER, "WRITE_TXN_MARKERS", 1, body)
    for version in (1, 4, 5):
        requesting.call(BROKER, "DESCRIBE_LOG_DIRS", version, {"topics": None})
    led = [{"topic": "led", "partitions": [requesting.number("led", each) for each in (0, 1)]}]
    requesting.call(BROKER, "DESCRIBE_LOG_DIRS", 5, {"topics": led})
    elections: dict[str, Any] = {"timeoutMs": 10_000}
    elections["topicPartitions"] = [
        {"topic": topic, "partitions": [requesting.number(topic, each) for each in (0, 1)]}
        for topic in TOPICS
    ]
    for kind in (0, 1):
        requesting.call(1, "ELECT_LEADERS", 2, {**elections, "electionType": kind})


def moves(requesting: Requests) -> None:
    for target, path in enumerate(requesting.cluster.disks):
        named = {
            "name": "led",
            "partitions": [requesting.number("led", each) for each in (0, 1, 2)],
        }
        wanted = [{"path": path, "topics": [named, {"name": "nowhere", "partitions": [target]}]}]
        requesting.call(BROKER, "ALTER_REPLICA_LOG_DIRS", 2, {"dirs": wanted})


def lead_through(cluster: Cluster) -> list[Any]:
    """Play a cluster's failure of a directory, and its recovery."""
    requesting = Requests(cluster)
    prepare(requesting)
    cluster.fail()

    def is_offline() -> bool:
        return all((-1, 1, []) in requesting.leaders(each) for each in ("solo",)) and all(
            any(BROKER not in isr for _, _, isr in requesting.leaders(each)) for each in TOPICS
        )

    wait_until(is_offline, "others lead")
    send_requests(requesting)
    moves(requesting)
    requesting.produce(1, "led", 0)
    late = [{"partitionIndex": each, "brokerIds": [BROKER, 1]} for each in (0, 1)]
    wanted = {"name": "late", "numPartitions": -1, "replicationFactor": -1, "assignments": late}
    cluster.clients[1].call("CREATE_TOPICS", 7, {"topics": [wanted], "timeoutMs": 30_000})
    wait_until(lambda: len(requesting.leaders("late")) == len(late), "the new topic is known")
    requesting.call(BROKER, "METADATA", 12, {"topics": [{"name": "late"}]})
    cluster.clients[BROKER].close()
    cluster.clients[BROKER] = cluster.restart()

    def is_back() -> bool:
        found = {name: requesting.leaders(name) for name in TOPICS}
        sizes = [len(isr) == len(TOPICS[name][0]) for name in found for *_, isr in found[name]]
        return len(sizes) == DISKS * len(TOPICS) and all(sizes)

    wait_until(is_back, "all are in sync")
    for topic in TOPICS:
        requesting.call(1, "METADATA", 12, {"topics": [{"name": topic}]})
    described = [{"topic": name, "partitions": list(range(DISKS))} for name in TOPICS]
    requesting.call(BROKER, "DESCRIBE_LOG_DIRS", 5, {"topics": described})
    requesting.produce(BROKER, "solo", 0)
    requesting.produce(BROKER, "led", 0)
    return requesting.reported


def recorded_by_kafka(home: Path) -> list[Any]:
    with kafka(home) as real:
        return lead_through(real)


@pytest.mark.compares
def test_requests_about_a_failed_log_directory_get_kafkas_responses(tmp_path: Path) -> None:
    with gateway(tmp_path) as ours:
        responses = lead_through(ours)
    scenario = [TOPICS, [(api, version, broker) for api, version, broker, _ in responses]]
    expected = golden("cluster/failed_dirs", lambda: recorded_by_kafka(tmp_path), scenario=scenario)
    assert len(responses) == len(expected)
    differing = [pair for pair in zip(responses, expected, strict=True) if pair[0] != pair[1]]
    assert differing == []
