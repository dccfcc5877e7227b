"""Cordoned log directories get no new logs (KIP-1066)."""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from tests.support.machine import Bench

DISKS = ("/disk-1", "/disk-2")


def cordon(bench: Bench, text: str, broker: int = 1) -> None:
    setting = {"name": "cordoned.log.dirs", "configOperation": 0, "value": text}
    resource = {"resourceType": 4, "resourceName": str(broker), "configs": [setting]}
    body = {"resources": [resource]}
    (response,) = bench.request("INCREMENTAL_ALTER_CONFIGS", 1, body, broker=broker)["responses"]
    assert response["errorCode"] == 0, response


def described(bench: Bench) -> dict[str, tuple[bool, int]]:
    """Directories: cordoned or not, and the number of logs."""
    response = bench.request("DESCRIBE_LOG_DIRS", 5, topics=None)
    return {
        each["logDir"]: (each["isCordoned"], sum(len(t["partitions"]) for t in each["topics"]))
        for each in response["results"]
    }


def create(bench: Bench, name: str, **more: Any) -> int:
    wanted = {"name": name, "numPartitions": 2, "replicationFactor": 1, **more}
    (topic,) = bench.request("CREATE_TOPICS", 7, {"topics": [wanted], "timeoutMs": 1000})["topics"]
    return int(topic["errorCode"])


def test_new_logs_avoid_cordoned_directories() -> None:
    bench = Bench(log_dirs=DISKS)
    cordon(bench, "/disk-2")
    assert create(bench, "orders") == 0
    assert described(bench) == {"/disk-1": (False, 2), "/disk-2": (True, 0)}
    topics = [{"name": name, "partitions": [0]} for name in ("orders", "later")]
    results = bench.request("ALTER_REPLICA_LOG_DIRS", 2, path="/disk-2", topics=topics)["results"]
    errors = [each["partitions"][0]["errorCode"] for each in results]
    assert errors == [Error.INVALID_REPLICA_ASSIGNMENT] * 2


@pytest.mark.parametrize("text", ["*", "/disk-2,/disk-1"])
def test_broker_with_all_directories_cordoned_gets_only_assigned_partitions(text: str) -> None:
    bench = Bench(log_dirs=DISKS)
    cordon(bench, text)
    assert create(bench, "orders") == Error.INVALID_REPLICATION_FACTOR
    named = {"numPartitions": -1, "replicationFactor": -1}
    named["assignments"] = [{"partitionIndex": 0, "brokerIds": [1]}]  # type: ignore[assignment]
    assert create(bench, "named", **named) == 0
    assert described(bench) == {"/disk-1": (True, 1), "/disk-2": (True, 0)}
    cordon(bench, "")
    assert create(bench, "orders") == 0


def test_other_brokers_get_the_partitions_of_a_cordoned_broker() -> None:
    bench = Bench((1, 2))
    cordon(bench, "*", broker=2)
    assert create(bench, "orders") == 0
    response = bench.request("METADATA", 12, name="orders")
    (topic,) = response["topics"]
    assert {each["leaderId"] for each in topic["partitions"]} == {1}
    assert create(bench, "wide", replicationFactor=2) == Error.INVALID_REPLICATION_FACTOR
