"""Brokers that are not in the settings of a cluster: they register by requests."""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.state.cluster import topics
from tests.support.machine import CLUSTER, header, produce_body
from tests.support.replicas import FEATURES, Replicas

OTHER = 9
SESSION_MS = 9000


@pytest.fixture
def replicas() -> Replicas:
    """`orders` on brokers 1 to 3; broker 9 has registered, in epoch 1."""
    return registered(OTHER)


def registered(broker: int) -> Replicas:
    made = Replicas(min_insync_replicas="1")
    listeners = [
        {"name": "CLIENT", "host": "h9", "port": 9099, "securityProtocol": 0},
        {"name": "INNER", "host": "i9", "port": 9098, "securityProtocol": 0},
    ]
    body = {
        "brokerId": broker,
        "clusterId": topics.derive_uuid("cluster", CLUSTER),
        "incarnationId": "incarnationincarnation",
        "features": FEATURES,
        "listeners": listeners,
        "rack": "r9",
        "logDirs": ["dirdirdirdirdirdirdird"],
    }
    response = made.bench.request("BROKER_REGISTRATION", 4, body)
    assert (response["errorCode"], response["brokerEpoch"]) == (0, 1)
    return made


def beat(replicas: Replicas, broker: int = OTHER, **fields: Any) -> bool:
    body = {"brokerId": broker, "brokerEpoch": 1, "currentMetadataOffset": 1000, **fields}
    response = replicas.bench.request("BROKER_HEARTBEAT", 2, body)
    assert response["errorCode"] == 0
    return bool(response["isFenced"])


def create(replicas: Replicas, name: str, brokers: list[int]) -> tuple[int, str | None]:
    assignments = [{"partitionIndex": 0, "brokerIds": brokers}]
    topic = {"name": name, "numPartitions": -1, "replicationFactor": -1}
    body = {"topics": [{**topic, "assignments": assignments}], "timeoutMs": 1000}
    (created,) = replicas.bench.request("CREATE_TOPICS", 7, body)["topics"]
    return created["errorCode"], created["errorMessage"]


def found(replicas: Replicas, name: str) -> tuple[int, int, list[int], list[int], list[int]]:
    response = replicas.bench.request("METADATA", 12, name=name)
    (each,) = response["topics"][0]["partitions"]
    names = ("leaderId", "leaderEpoch", "replicaNodes", "isrNodes", "offlineReplicas")
    leader, epoch, replica_nodes, isr, offline = (each[name] for name in names)
    return leader, epoch, replica_nodes, isr, offline


def test_unfenced_broker_is_visible(replicas: Replicas) -> None:
    bench = replicas.bench

    def described() -> tuple[list[Any], list[Any]]:
        cluster = bench.request("DESCRIBE_CLUSTER", 2, includeFencedBrokers=True)["brokers"]
        metadata = bench.request("METADATA", 12, topics=[])["brokers"]
        return (
            [each for each in cluster if each["brokerId"] == OTHER],
            [each for each in metadata if each["nodeId"] == OTHER],
        )

    where = {"host": "h9", "port": 9099, "rack": "r9"}
    assert described() == ([{"brokerId": 9, **where, "isFenced": True}], [])
    assert beat(replicas, currentMetadataOffset=0) is True
    assert beat(replicas) is False
    expected = [{"brokerId": 9, **where, "isFenced": False}], [{"nodeId": 9, **where}]
    assert described() == expected
    bench.request("UNREGISTER_BROKER", 0, brokerId=OTHER)
    assert described() == ([], [])


@pytest.mark.parametrize("broker", [1, OTHER])
def test_client_gets_the_listener_that_it_uses(replicas: Replicas, broker: int) -> None:
    """The edge decides for broker 1 on any listener; 9 has no listener OTHER."""
    beat(replicas)
    assert create(replicas, "led", [broker, 2]) == (0, None)

    def described(listener: str) -> Any:
        response = replicas.bench.request("METADATA", 12, name="led", listener=listener)
        hosts = [each["host"] for each in response["brokers"] if each["nodeId"] == broker]
        (partition,) = response["topics"][0]["partitions"]
        return hosts, *(partition[n] for n in ("errorCode", "leaderId", "offlineReplicas"))

    is_other = broker == OTHER
    assert (
        described("") == described("CLIENT") == (["h9" if is_other else "localhost"], 0, broker, [])
    )
    assert described("INNER") == (["i9" if is_other else "localhost"], 0, broker, [])
    unknown = ([], 72, -1, [OTHER]) if is_other else (["localhost"], 0, broker, [])
    assert described("PLAINTEXT") == unknown


def test_coordinator_without_the_listener_is_not_available(replicas: Replicas) -> None:
    beat(replicas)
    assignments = [{"partitionIndex": n, "brokerIds": [OTHER]} for n in range(50)]
    topic = {"name": "__consumer_offsets", "numPartitions": -1, "replicationFactor": -1}
    body = {"topics": [{**topic, "assignments": assignments}], "timeoutMs": 1000}
    (created,) = replicas.bench.request("CREATE_TOPICS", 7, body)["topics"]
    assert created["errorCode"] == 0

    def found(listener: str) -> tuple[int, str]:
        body = {"key": "g", "keyType": 0}
        response = replicas.bench.request("FIND_COORDINATOR", 3, body, listener=listener)
        return response["errorCode"], response["host"]

    assert [found(each) for each in ("INNER", "PLAINTEXT")] == [(0, "i9"), (15, "")]


def test_placement_of_partitions_is_that_of_a_real_controller(replicas: Replicas) -> None:
    fenced = "All brokers specified in the manual partition assignment for partition 0 are fenced"
    assert create(replicas, "fenced", [9]) == (39, f"{fenced} or in controlled shutdown.")
    text = "The manual partition assignment includes broker 8, but no such broker is registered."
    assert create(replicas, "unknown", [8]) == (39, text)
    assert create(replicas, "beside", [9, 1]) == (0, None)
    assert found(replicas, "beside") == (1, 0, [9, 1], [1], [9])
    beat(replicas)
    assert create(replicas, "alone", [9]) == (0, None)
    assert found(replicas, "alone") == (9, 0, [9], [9], [])
    assert create(replicas, "first", [9, 1]) == (0, None)
    assert found(replicas, "first") == (9, 0, [9, 1], [9, 1], [])


def test_its_leaderships_move_when_its_session_ends(replicas: Replicas) -> None:
    beat(replicas)
    create(replicas, "first", [9, 1])
    create(replicas, "alone", [9])
    replicas.bench.tick(SESSION_MS + 1)
    assert found(replicas, "first") == (1, 1, [9, 1], [1], [9])
    assert found(replicas, "alone")[:2] == (-1, 1)
    body = produce_body("first", header(), timeoutMs=1000)
    response = replicas.bench.request("PRODUCE", 10, body)
    assert response["responses"][0]["partitionResponses"][0]["errorCode"] == Error.NONE


def test_no_timer_runs_for_its_followers(replicas: Replicas) -> None:
    beat(replicas)
    create(replicas, "first", [1, 9, 2])
    replicas.stop(1)
    replicas.start(1)
    assert found(replicas, "first")[0] == OTHER
    timers = replicas.bench.cell.tables.pending.keys("timer/")
    assert timers == ["timer/leaders/controller/", "timer/session/controller/9"]


@pytest.mark.parametrize("broker", [OTHER, 0])
def test_it_follows_by_requests(broker: int) -> None:
    replicas = registered(broker)
    beat(replicas, broker)
    create(replicas, "second", [1, broker])
    body = produce_body("second", header(3), timeoutMs=5000)
    waits = replicas.bench.send("PRODUCE", 10, body)
    assert waits not in replicas.bench.responses, "the cell does not fetch for it"
    for offset in (0, 3):
        partition = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 100_000}
        fetch = {"replicaId": broker, "maxWaitMs": 0, "minBytes": 1}
        fetch["topics"] = [{"topic": "second", "partitions": [{**partition, "logStartOffset": 0}]}]
        replicas.bench.request("FETCH", 12, fetch)
    response = replicas.bench.responses[waits]["response"]["responses"][0]
    assert response["partitionResponses"][0]["errorCode"] == Error.NONE


def test_it_leaves_the_in_sync_set_if_it_does_not_fetch(replicas: Replicas) -> None:
    create(replicas, "second", [1, 9])
    replicas.bench.settings.broker_settings.broker_session_timeout_ms = 200_000
    beat(replicas)
    create(replicas, "third", [1, 9])
    body = produce_body("third", header(3), acks=1, timeoutMs=5000)
    replicas.bench.request("PRODUCE", 10, body)
    assert found(replicas, "third")[3] == [1, 9]
    replicas.bench.tick(60_000)
    assert found(replicas, "third")[3] == [1]


def test_new_epoch_is_above_all_others(replicas: Replicas) -> None:
    replicas.stop(2)
    replicas.start(2)
    assert replicas.epoch(2) == 2
