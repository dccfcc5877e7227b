"""Describe APIs, as in Apache Kafka 4.3.1."""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from tests.support.machine import Bench, header
from tests.support.replicas import TOPIC, Replicas


@pytest.fixture
def bench() -> Bench:
    """A broker with topic `a` of two partitions; producer 5 has written two batches to 0."""
    bench = Bench()
    bench.topic("a", 2)
    for sequence, count in ((0, 2), (2, 1)):
        bench.append("a", header(count, 5, 0, sequence, maxTimestamp=bench.now))
    return bench


@pytest.mark.parametrize(
    ("epoch", "current", "partition", "response"),
    [
        (0, -1, 0, (0, 0, 3)),
        (5, -1, 0, (0, -1, -1)),
        (-1, -1, 0, (0, -1, -1)),
        (0, 9, 0, (Error.UNKNOWN_LEADER_EPOCH, -1, -1)),
        (0, -1, 7, (Error.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)),
    ],
)
def test_end_of_a_leader_epoch(
    bench: Bench, epoch: int, current: int, partition: int, response: tuple[int, int, int]
) -> None:
    part = {"partition": partition, "currentLeaderEpoch": current, "leaderEpoch": epoch}
    body = {"replicaId": -1, "topics": [{"topic": "a", "partitions": [part]}]}
    got = bench.request("OFFSET_FOR_LEADER_EPOCH", 4, body)["topics"][0]["partitions"][0]
    assert (got["errorCode"], got["leaderEpoch"], got["endOffset"]) == response


def test_describe_producers(bench: Bench) -> None:
    body = {"topics": [{"name": "a", "partitionIndexes": [0, 1, 9]}]}
    response = bench.request("DESCRIBE_PRODUCERS", 0, body)["topics"][0]["partitions"]
    assert response[0]["activeProducers"] == [
        {
            "producerId": 5,
            "producerEpoch": 0,
            "lastSequence": 2,
            "lastTimestamp": bench.now,
            "coordinatorEpoch": -1,
            "currentTxnStartOffset": -1,
        }
    ]
    assert [partition["errorCode"] for partition in response] == [0, 0, 3]
    assert response[1]["activeProducers"] == []


def test_every_replica_describes_its_producers_but_no_other_broker() -> None:
    bench = Replicas((1, 2)).bench
    bench.append(TOPIC, header(2, 5, 0, 0, maxTimestamp=bench.now))
    body = {"topics": [{"name": TOPIC, "partitionIndexes": [0]}]}
    actual = {}
    for broker in (1, 2, 3):
        response = bench.request("DESCRIBE_PRODUCERS", 0, body, broker=broker)
        (partition,) = response["topics"][0]["partitions"]
        ids = [each["producerId"] for each in partition["activeProducers"]]
        actual[broker] = (partition["errorCode"], ids)
    assert actual == {1: (0, [5]), 2: (0, [5]), 3: (Error.NOT_LEADER_OR_FOLLOWER, [])}


def test_describe_cluster(bench: Bench) -> None:
    response = bench.request("DESCRIBE_CLUSTER", 1, endpointType=1)
    assert [broker["brokerId"] for broker in response["brokers"]] == [1]
    assert (response["controllerId"], response["clusterAuthorizedOperations"]) == (1, -(2**31))
    wrong = bench.request("DESCRIBE_CLUSTER", 1, endpointType=7)
    assert wrong["errorCode"] == Error.UNSUPPORTED_ENDPOINT_TYPE
    assert (wrong["brokers"], wrong["clusterId"], wrong["controllerId"]) == ([], "", -1)


def test_topics_are_paged(bench: Bench) -> None:
    bench.topic("b", 2)
    pages: list[list[tuple[str, int]]] = []
    cursor: Any = None
    while True:
        body = {"topics": [], "responsePartitionLimit": 3, "cursor": cursor}
        response = bench.request("DESCRIBE_TOPIC_PARTITIONS", 0, body)
        pages.append(
            [(t["name"], p["partitionIndex"]) for t in response["topics"] for p in t["partitions"]]
        )
        cursor = response["nextCursor"]
        if cursor is None:
            break
    assert pages == [[("a", 0), ("a", 1), ("b", 0)], [("b", 1)]]


def test_missing_topic_is_an_error(bench: Bench) -> None:
    body = {"topics": [{"name": "a"}, {"name": "none"}, {"name": "bad name!"}]}
    response = bench.request("DESCRIBE_TOPIC_PARTITIONS", 0, body)
    assert {topic["name"]: topic["errorCode"] for topic in response["topics"]} == {
        "a": 0,
        "none": Error.UNKNOWN_TOPIC_OR_PARTITION,
        "bad name!": Error.INVALID_TOPIC_EXCEPTION,
    }
