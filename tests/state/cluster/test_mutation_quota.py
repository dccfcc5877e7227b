"""`controller_mutation_rate`; `gateway/test_client_quotas.py` compares with Kafka."""

from typing import Any

import pytest

from brokertwin.state.cluster.mutation_quota import CONTROLLER_MUTATION_RATE, EXCEEDED, TokenBucket
from tests.support.machine import Bench

RATE = 2.0
BURST = 22
"""Tokens of eleven windows of a second."""
HOUR_MS = 3_600_000


@pytest.fixture
def bench() -> Bench:
    bench = Bench(brokers=(1, 2))
    entity = [{"entityType": "user", "entityName": "alice"}]
    quota = {"key": CONTROLLER_MUTATION_RATE, "value": RATE}
    body = {"entries": [{"entity": entity, "ops": [quota]}]}
    assert bench.request("ALTER_CLIENT_QUOTAS", 1, body)["entries"][0]["errorCode"] == 0
    return bench


def create(bench: Bench, version: int, *sizes: int, who: str = "User:alice") -> list[Any]:
    made = [
        {"name": f"t{len(bench.rows)}-{place}", "numPartitions": size, "replicationFactor": 1}
        for place, size in enumerate(sizes)
    ]
    response = bench.request("CREATE_TOPICS", version, topics=made, principal=who)
    return [*(each["errorCode"] for each in response["topics"]), response["throttleTimeMs"]]


def test_strict_request_fails_with_negative_tokens(bench: Bench) -> None:
    assert create(bench, 7, BURST + 10) == [0, 0]
    assert create(bench, 6, 1, 1) == [89, 89, 5_000]
    assert create(bench, 7, 1, who="User:bob") == [0, 0]
    bench.now += 4_000
    assert create(bench, 7, 1) == [89, 1_000]
    bench.now += 1_000
    assert create(bench, 7, 3, 1, 1) == [0, 89, 89, 1_500]


def test_older_request_is_accepted_and_throttled(bench: Bench) -> None:
    assert create(bench, 5, BURST) == [0, 0]
    assert create(bench, 5, 4, 2) == [0, 0, 3_000]
    bench.now += 1_000 * HOUR_MS
    assert create(bench, 5, BURST + 1) == [0, 500]


def test_added_and_deleted_partitions_count(bench: Bench) -> None:
    bench.topic("t", 2)
    bench.topic("u", 3)
    grown = {"topics": [{"name": "t", "count": BURST + 4}], "validateOnly": True}
    sender = {"principal": "User:alice"}
    first = bench.request("CREATE_PARTITIONS", 2, grown, **sender)
    assert (first["results"][0]["errorCode"], first["throttleTimeMs"]) == (0, 1_000)
    second = bench.request("CREATE_PARTITIONS", 3, grown, **sender)
    assert (second["results"][0]["errorCode"], second["throttleTimeMs"]) == (89, 1_000)
    assert second["results"][0]["errorMessage"] == EXCEEDED
    refused = bench.request("DELETE_TOPICS", 6, name="t", **sender)
    assert (refused["responses"][0]["errorCode"], refused["throttleTimeMs"]) == (89, 1_000)
    older = bench.request("DELETE_TOPICS", 4, topicNames=["t", "u"], **sender)
    assert [each["errorCode"] for each in older["responses"]] == [0, 0]
    assert older["throttleTimeMs"] == 3_500


def test_idle_client_is_dropped(bench: Bench) -> None:
    create(bench, 7, BURST + 10)
    keys = bench.cell.tables.quotas.keys
    assert keys("controller/bucket/") == ["controller/bucket/user=alice"]
    bucket = bench.cell.tables.quotas.get("controller/bucket/user=alice", TokenBucket)
    assert bucket == TokenBucket(-10.0, bench.now)
    bench.now += 2 * HOUR_MS
    bench.request("METADATA", 12, topics=[])
    assert keys("controller/bucket/") == []
