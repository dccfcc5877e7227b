"""DeleteRecords: the log start offset moves forward, with Kafka 4.3.1's responses."""

from typing import Any

import pytest

from tests.support.machine import Bench, header


class Deleter:
    """A broker with a topic `a` of two batches of three records, and short words for deleting."""

    def __init__(self, filled: int = 2, **configs: str) -> None:
        self.bench = Bench(offsets_topic_replication_factor=1)
        self.bench.topic("a", 2, **configs)
        for _ in range(filled):
            self.fill()

    def fill(self, count: int = 3) -> None:
        assert self.bench.append("a", header(count, size=100))["errorCode"] == 0

    def delete(self, *offsets: tuple[int, int], topic: str = "a", version: int = 2) -> Any:
        partitions = [{"partitionIndex": p, "offset": offset} for p, offset in offsets]
        body = {"topics": [{"name": topic, "partitions": partitions}], "timeoutMs": 10000}
        response = self.bench.request("DELETE_RECORDS", version, body)
        return {
            p["partitionIndex"]: (p["errorCode"], p["lowWatermark"])
            for p in response["topics"][0]["partitions"]
        }

    def start(self) -> int:
        topics = [{"name": "a", "partitions": [{"partitionIndex": 0, "timestamp": -2}]}]
        response = self.bench.request("LIST_OFFSETS", 7, {"replicaId": -1, "topics": topics})
        start: int = response["topics"][0]["partitions"][0]["offset"]
        return start


def test_example_21_with_one_replica() -> None:
    deleter = Deleter(filled=0)
    deleter.fill(8)
    assert deleter.delete((0, 5)) == {0: (0, 5)}
    assert deleter.delete((0, 9)) == {0: (1, -1)}
    assert deleter.delete((0, -1)) == {0: (0, 8)}


def test_only_a_changed_log_start_offset_writes_a_record() -> None:
    deleter = Deleter()
    before = len(deleter.bench.records())
    deleter.delete((0, 4))
    deleter.delete((0, 4))
    deleter.delete((0, 3))
    moved = deleter.bench.records()[before:]
    assert [entry["record"]["logStartOffset"] for entry in moved] == [4]


@pytest.mark.parametrize("topic", ["none", "a"])
def test_unknown_partitions_return_unknown_topic_or_partition(topic: str) -> None:
    assert Deleter().delete((9, 0), (-1, 0), topic=topic) == {9: (3, -1), -1: (3, -1)}


def test_internal_topics_are_left_alone() -> None:
    deleter = Deleter()
    deleter.bench.request("FIND_COORDINATOR", 4, keyType=0, coordinatorKeys=["g"])
    name = "__consumer_offsets"
    assert deleter.delete((0, 0), (99, 0), topic=name) == {0: (17, -1), 99: (3, -1)}


@pytest.mark.parametrize(
    ("policy", "error"), [("compact", 44), ("compact,delete", 0), ("delete", 0)]
)
def test_the_policy_must_have_delete(policy: str, error: int) -> None:
    deleter = Deleter(filled=0, cleanup_policy=policy)
    assert deleter.delete((0, 0)) == {0: (error, -1 if error else 0)}
    assert deleter.delete((0, 99)) == {0: (error or 1, -1)}


def test_last_offset_of_a_repeated_partition_wins() -> None:
    deleter = Deleter()
    assert deleter.delete((0, 5), (1, 0), (0, 2)) == {0: (0, 2), 1: (0, 0)}
    assert deleter.start() == 2


def test_non_leader_returns_not_leader_or_follower() -> None:
    bench = Bench(brokers=(1, 2))
    bench.topic("a")
    topics = [{"name": "a", "partitions": [{"partitionIndex": 0, "offset": 0}]}]
    errors = [
        bench.request("DELETE_RECORDS", 2, topics=topics, broker=broker)["topics"][0]["partitions"][
            0
        ]["errorCode"]
        for broker in (1, 2)
    ]
    assert sorted(errors) == [0, 6]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_version_responds_alike(version: int) -> None:
    assert Deleter().delete((0, 2), version=version) == {0: (0, 2)}


def test_records_below_the_start_are_out_of_range_for_a_fetch() -> None:
    deleter = Deleter()
    deleter.delete((0, 4))
    partition = {"partition": 0, "fetchOffset": 3, "partitionMaxBytes": 1000}
    body = {"topics": [{"topic": "a", "partitions": [partition]}]}
    responded = deleter.bench.request("FETCH", 12, body)["responses"][0]["partitions"][0]
    assert (responded["errorCode"], responded["logStartOffset"]) == (1, -1)
    partition["fetchOffset"] = 4
    responded = deleter.bench.request("FETCH", 12, body)["responses"][0]["partitions"][0]
    assert (responded["errorCode"], responded["logStartOffset"]) == (0, 4)
    assert [batch["baseOffset"] for batch in responded["batches"]] == [3]
