"""Fetch by followers: privileged sessions, up to the log end (seed 000, KIP-227)."""

from typing import Any

import pytest

from brokertwin.state.fetch.session_items import FetchSession
from brokertwin.state.fetch.shards import SHARDS
from tests.support.machine import Bench, header

LEADER, FOLLOWER, STRANGER = 1, 2, 3
TOPIC = "orders"
V12, V17 = 12, 17


def bench_of_three(**settings: Any) -> Bench:
    """Brokers 1 to 3; `orders`-0 is on 1, the leader, and on 2."""
    bench = Bench(brokers=(LEADER, FOLLOWER, STRANGER), **settings)
    assignment = {"partitionIndex": 0, "brokerIds": [LEADER, FOLLOWER]}
    topic = {"name": TOPIC, "assignments": [assignment]}
    topic |= {"numPartitions": -1, "replicationFactor": -1}
    bench.request("CREATE_TOPICS", 7, topics=[topic], timeoutMs=30_000)
    bench.append(TOPIC, header(3, size=90), acks=1)
    return bench


def fetch(
    bench: Bench, replica: int, version: int = V12, epoch: int = -1, leader: int = -1, **event: Any
) -> dict[str, Any]:
    """Response to a broker's first fetch; with `epoch` 0 it requests a session."""
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
    partition["currentLeaderEpoch"] = leader
    body: dict[str, Any] = {"sessionEpoch": epoch}
    body["topics"] = [{"topic": TOPIC, "partitions": [partition]}]
    if version >= V17:
        metadata = bench.request("METADATA", 12, name=TOPIC)
        body["topics"][0]["topicId"] = metadata["topics"][0]["topicId"]
        body["replicaState"] = {"replicaId": replica, "replicaEpoch": 7}
    else:
        body["replicaId"] = replica
    response: dict[str, Any] = bench.request("FETCH", version, body, **event)
    return response


def partition_of(response: dict[str, Any]) -> dict[str, Any]:
    partition: dict[str, Any] = response["responses"][0]["partitions"][0]
    return partition


@pytest.mark.parametrize("version", [V12, V17])
def test_follower_reads_the_leaders_log(version: int) -> None:
    partition = partition_of(fetch(bench_of_three(), FOLLOWER, version))
    assert (partition["errorCode"], partition["recordsSizeInBytes"]) == (0, 90)
    assert partition["abortedTransactions"] is None


def test_kafka_13837_broker_without_a_replica_gets_an_error() -> None:
    """Kafka once returned an empty response, and the broker fetched again and again."""
    bench = bench_of_three()
    assert partition_of(fetch(bench, STRANGER))["errorCode"] == 6
    assert partition_of(fetch(bench, STRANGER, leader=0))["errorCode"] == 75


@pytest.mark.parametrize("version", [V12, V17])
def test_session_of_a_follower_is_privileged(version: int) -> None:
    bench = bench_of_three()
    session_id = fetch(bench, FOLLOWER, version, epoch=0)["sessionId"]
    session = bench.cell.tables.fetch_sessions.get(f"{LEADER}/session/{session_id}", FetchSession)
    assert session is not None
    assert session.is_privileged


def test_follower_evicts_a_consumer_at_once() -> None:
    """The thread of broker 2 itself has one of the slots."""
    bench = bench_of_three(max_incremental_fetch_session_cache_slots=SHARDS)
    consumers = [fetch(bench, -1, epoch=0)["sessionId"] for _ in range(SHARDS + 1)]
    free = SHARDS - 1
    assert [bool(session) for session in consumers] == [True] * free + [False] * 2
    sessions = [fetch(bench, FOLLOWER, epoch=0)["sessionId"] for _ in range(SHARDS + 1)]
    assert sum(1 for session in sessions if session) == free
    table = bench.cell.tables.fetch_sessions
    left = [session for _, session in table.items(f"{LEADER}/session/", FetchSession)]
    assert [session.is_privileged for session in left] == [True] * SHARDS


def test_follower_requires_cluster_action() -> None:
    bench = bench_of_three(
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:ANONYMOUS;User:broker",
    )
    assert partition_of(fetch(bench, FOLLOWER, principal="User:broker"))["errorCode"] == 0
    refused = fetch(bench, FOLLOWER, principal="User:eve", epoch=0)
    assert partition_of(refused)["errorCode"] == 29
