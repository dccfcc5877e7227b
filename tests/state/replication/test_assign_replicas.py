"""Reports of brokers about log directories: AssignReplicasToDirs and heartbeats."""

from typing import Any

import pytest

from brokertwin.state.cluster import image
from brokertwin.state.cluster.image import LOST, MIGRATING, UNASSIGNED, is_dir_online
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.replication import directories
from tests.support.machine import Bench
from tests.support.replicas import BROKERS, FEATURES, Replicas
from tests.support.replicas import TOPIC as ORDERS

DISKS = ("/disk-1", "/disk-2")
EXTERNAL = 7
ONE, TWO, NOWHERE = "directory1directory1dQ", "directory2directory2dQ", "A" * 20 + "BA"


@pytest.fixture
def replicas() -> Replicas:
    """`orders` on brokers [1, 2, 3] with leader 1, in the first of two directories."""
    return Replicas(bench=Bench(BROKERS, log_dirs=DISKS), min_insync_replicas="1")


def assign(replicas: Replicas, broker: int, epoch: int, *reports: Any) -> Any:
    """Send directories, topic ids and partitions; return the error and those of partitions."""
    dirs: list[Any] = []
    for directory, topic_id, numbers in reports:
        partitions = [{"partitionIndex": each} for each in numbers]
        dirs.append({"id": directory, "topics": [{"topicId": topic_id, "partitions": partitions}]})
    body = {"brokerId": broker, "brokerEpoch": epoch, "directories": dirs}
    response = replicas.bench.request("ASSIGN_REPLICAS_TO_DIRS", 0, body)
    assert [each["id"] for each in response["directories"]] in ([], [each[0] for each in reports])
    error_codes = [
        [each["errorCode"] for each in topic["partitions"]]
        for directory in response["directories"]
        for topic in directory["topics"]
    ]
    return response["errorCode"], error_codes


def directory(replicas: Replicas, broker: int, path: str) -> str:
    return directories.directory_id(replicas.bench.settings, broker, path)


def beat(replicas: Replicas, broker: int, *offline: str, version: int = 2, **fields: Any) -> Any:
    body = {"brokerId": broker, "brokerEpoch": replicas.epoch(broker), **fields}
    body |= {"currentMetadataOffset": 1000, "offlineLogDirs": list(offline)}
    return replicas.bench.request("BROKER_HEARTBEAT", version, body)


def registered_dirs(replicas: Replicas, broker: int) -> list[str]:
    registration = image.registration(replicas.bench.cell.tables.of(CONTROLLER), broker)
    return registration.log_dirs


def test_brokers_report_directories_of_new_replicas(replicas: Replicas) -> None:
    partition = replicas.partition()
    assert partition.directories == {b: directory(replicas, b, "/disk-1") for b in BROKERS}
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 3)
    kinds = [entry["record"]["type"] for entry in replicas.bench.records()]
    assert kinds.count("ReplicasAssigned") == 12, "3 brokers, on 4 machines"


def test_leader_uses_the_partition_epoch_after_an_assignment(
    replicas: Replicas,
) -> None:
    replicas.produce()
    path = {"path": "/disk-2", "topics": [{"name": ORDERS, "partitions": [0]}]}
    replicas.bench.request("ALTER_REPLICA_LOG_DIRS", 2, {"dirs": [path]}, broker=2)
    assert replicas.partition().partition_epoch == 4
    assert replicas.leadership().partition_epoch == 4
    replicas.stop(3)
    replicas.start(3)
    assert replicas.isr() == [1, 2, 3]


def test_errors_of_an_assignment(replicas: Replicas) -> None:
    there, topic = directory(replicas, 1, "/disk-2"), replicas.topic_id
    assert assign(replicas, 1, 5, (there, topic, [0])) == (77, [])
    assert assign(replicas, 9, 0, (there, topic, [0])) == (77, [])
    assert assign(replicas, 1, 0, (there, "A" * 22, [0, 1])) == (0, [[100, 100]])
    assert assign(replicas, 1, 0, (there, topic, [0, 1, -1])) == (0, [[0, 3, 3]])
    assert replicas.partition().directories[1] == there
    assert replicas.partition().leader == 1
    replicas.bench.request(
        "ALTER_PARTITION_REASSIGNMENTS",
        0,
        name=ORDERS,
        partitionIndex=0,
        replicas=[1, 2],
        timeoutMs=1000,
    )
    assert assign(replicas, 3, 0, (there, topic, [0])) == (0, [[6]])
    assert sorted(replicas.partition().directories) == [1, 2], "a former replica is dropped"


def test_repeated_assignment_changes_nothing(replicas: Replicas) -> None:
    before = replicas.partition()
    reports = (directory(replicas, 2, "/disk-1"), replicas.topic_id, [0])
    assert assign(replicas, 2, 0, reports) == (0, [[0]])
    assert replicas.partition() == before


@pytest.mark.parametrize("named", [NOWHERE, LOST])
def test_replica_in_an_unknown_directory_is_offline(replicas: Replicas, named: str) -> None:
    replicas.isolate(1)  # its directory is online, so it would join again
    beat(replicas, 1, directory(replicas, 1, "/disk-2"))
    assert replicas.leader() == (1, 0), "the replica is in the other directory"
    assert assign(replicas, 1, 0, (named, replicas.topic_id, [0])) == (0, [[0]])
    assert replicas.leader() == (2, 1)
    assert replicas.partition().isr == [2, 3]
    assert replicas.partition().directories[1] == named


def test_heartbeat_reports_failed_directories(replicas: Replicas) -> None:
    replicas.isolate(1)
    gone = directory(replicas, 1, "/disk-1")
    assert beat(replicas, 1, gone, version=0)["errorCode"] == 0
    assert replicas.leader() == (1, 0), "version 0 has no directories"
    response = beat(replicas, 1, gone, NOWHERE)
    assert (response["errorCode"], response["isFenced"]) == (0, False)
    assert replicas.leader() == (2, 1)
    assert replicas.partition().isr == [2, 3]
    assert registered_dirs(replicas, 1) == [directory(replicas, 1, "/disk-2")]
    before = replicas.partition()
    beat(replicas, 1, gone)
    assert replicas.partition() == before, "reported before"


def test_report_of_all_directories_keeps_the_registered_ones(replicas: Replicas) -> None:
    beat(replicas, 1, *(directory(replicas, 1, path) for path in DISKS))
    assert replicas.leader() == (2, 1)
    assert registered_dirs(replicas, 1) == [], "an empty list means all"


def register(replicas: Replicas, *dirs: str) -> None:
    body = {"brokerId": EXTERNAL, "clusterId": cluster_id(replicas), "features": FEATURES}
    body |= {"incarnationId": "incarnationincarnation", "logDirs": list(dirs)}
    response = replicas.bench.request("BROKER_REGISTRATION", 4, body)
    assert response["errorCode"] == 0
    assert beat(replicas, EXTERNAL)["isFenced"] is False


def cluster_id(replicas: Replicas) -> str:
    return str(replicas.bench.request("METADATA", 12, topics=[])["clusterId"])


def topic_on(replicas: Replicas, *brokers: int) -> str:
    """Id of a topic with one partition, led by the first of these brokers."""
    assigned = [{"partitionIndex": 0, "brokerIds": list(brokers)}]
    topic = {"name": "far", "numPartitions": -1, "replicationFactor": -1, "assignments": assigned}
    response = replicas.bench.request("CREATE_TOPICS", 7, {"topics": [topic], "timeoutMs": 1000})
    return str(response["topics"][0]["topicId"])


def far(replicas: Replicas) -> Any:
    topic = image.topic_by_name(replicas.bench.cell.tables.of(CONTROLLER), "far")
    assert topic is not None
    return topic.partitions[0]


def test_replicas_of_a_broker_with_one_directory_are_in_it(replicas: Replicas) -> None:
    register(replicas, ONE)
    topic_on(replicas, EXTERNAL, 2)
    assert far(replicas).directories[EXTERNAL] == ONE
    beat(replicas, EXTERNAL, ONE)
    assert (far(replicas).leader, far(replicas).isr) == (2, [2])


def test_broker_with_several_directories_must_report_them(replicas: Replicas) -> None:
    register(replicas, ONE, TWO)
    topic = topic_on(replicas, EXTERNAL, 2)
    assert EXTERNAL not in far(replicas).directories
    beat(replicas, EXTERNAL, ONE)
    assert far(replicas).leader == EXTERNAL
    epoch = replicas.epoch(EXTERNAL)
    assert assign(replicas, EXTERNAL, epoch, (ONE, topic, [0])) == (0, [[0]])
    assert (far(replicas).leader, far(replicas).isr) == (2, [2])
    response = replicas.bench.request("METADATA", 12, name="far", broker=2)
    assert response["topics"][0]["partitions"][0]["offlineReplicas"] == [EXTERNAL]


@pytest.mark.parametrize(
    ("named", "is_there"),
    [(None, True), (UNASSIGNED, True), (MIGRATING, True), (LOST, False), (ONE, True), (TWO, False)],
)
def test_online_directories(named: str | None, is_there: bool) -> None:
    assert is_dir_online([ONE], named) is is_there
    assert is_dir_online([], named) is (named != LOST)
