"""Reassignments: copy, completion, removal, cancellation."""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.state.cluster.image import Partition
from brokertwin.state.replication import reassignments
from tests.support.machine import Bench
from tests.support.replicas import Replicas

BROKERS = (1, 2, 3, 4)


def replicas_on(*assignment: int, **configs: str) -> Replicas:
    """`orders` on some of four brokers."""
    return Replicas(assignment, Bench(BROKERS), **configs)


def alive(replicas: Replicas) -> int:
    return next(b for b in BROKERS if not replicas.is_stopped(b))


def reassign(
    replicas: Replicas, wanted: list[int] | None, partition: int = 0, name: str = "orders", **o: Any
) -> dict[str, Any]:
    partitions = [{"partitionIndex": partition, "replicas": wanted}]
    body = {"timeoutMs": 1000, "topics": [{"name": name, "partitions": partitions}], **o}
    api = "ALTER_PARTITION_REASSIGNMENTS"
    response = replicas.bench.request(api, 1, body, broker=alive(replicas))
    assert response["errorCode"] == 0, response
    (topic,) = response["responses"]
    assert topic["name"] == name
    part: dict[str, Any] = topic["partitions"][0]
    return part


def ongoing(replicas: Replicas, **body: Any) -> list[Any]:
    api = "LIST_PARTITION_REASSIGNMENTS"
    response = replicas.bench.request(api, 0, {"topics": None, **body}, broker=alive(replicas))
    assert (response["errorCode"], response["errorMessage"]) == (0, None)
    return [(t["name"], each) for t in response["topics"] for each in t["partitions"]]


def one(replicas: list[int], adding: list[int], removing: list[int]) -> list[Any]:
    """Result of `ongoing` for partition 0."""
    partition = {"partitionIndex": 0, "replicas": replicas}
    return [("orders", {**partition, "addingReplicas": adding, "removingReplicas": removing})]


def held_by(replicas: Replicas) -> list[int]:
    tables = replicas.bench.cell.tables
    keys = [key for table in (tables.logs, tables.producers) for key in table.keys("")]
    return sorted({int(key.split("/")[0]) for key in keys if replicas.topic_id in key})


def test_partition_moves_with_all_its_items() -> None:
    replicas = replicas_on(1, 2)
    replicas.produce(count=5)
    replicas.produce(count=2)
    assert reassign(replicas, [3, 4])["errorCode"] == Error.NONE
    partition = replicas.partition()
    assert (partition.replicas, sorted(partition.isr)) == ([3, 4], [3, 4])
    assert (partition.leader, partition.leader_epoch) == (3, 1)
    assert ongoing(replicas) == []
    assert held_by(replicas) == [3, 4]
    assert {each: replicas.watermarks_of(each) for each in (3, 4)} == {3: (7, 7), 4: (7, 7)}
    assert replicas.produce(count=1)["baseOffset"] == 7
    assert replicas.watermarks_of(4) == (8, 8)


def test_old_replicas_serve_until_the_new_ones_are_in_sync() -> None:
    replicas = replicas_on(1, 2)
    replicas.produce(count=3)
    replicas.isolate(4)
    assert reassign(replicas, [4, 2])["errorCode"] == Error.NONE
    assert ongoing(replicas) == one([4, 2, 1], [4], [1])
    assert ongoing(replicas, topics=[{"name": "orders", "partitionIndexes": [0, 5]}]) != []
    assert ongoing(replicas, topics=[{"name": "nope", "partitionIndexes": [0]}]) == []
    assert (replicas.leader(), replicas.isr()) == ((1, 0), [1, 2])
    assert replicas.produce(count=2)["baseOffset"] == 3
    replicas.rejoin(4)
    assert ongoing(replicas) == []
    partition = replicas.partition()
    assert (partition.leader, partition.leader_epoch) == (4, 1)
    assert (partition.replicas, sorted(partition.isr)) == ([4, 2], [2, 4])
    assert held_by(replicas) == [2, 4]
    assert replicas.watermarks_of(4) == (5, 5)


def test_single_replica_gets_followers_and_loses_them() -> None:
    replicas = replicas_on(2)
    replicas.produce(count=4)
    reassign(replicas, [2, 3, 1])
    assert (replicas.leader(), sorted(replicas.isr())) == ((2, 0), [1, 2, 3])
    assert held_by(replicas) == [1, 2, 3]
    assert replicas.produce(count=1)["baseOffset"] == 4
    reassign(replicas, [3])
    assert (replicas.leader(), replicas.isr()) == ((3, 1), [3])
    assert held_by(replicas) == [3]
    assert replicas.produce(count=1)["baseOffset"] == 5
    assert replicas.watermarks_of(3) == (6, 6)


def test_removing_a_lagging_replica_commits_records() -> None:
    replicas = replicas_on(1, 2, 3, min_insync_replicas="2")
    replicas.isolate(2, 3)
    assert replicas.produce(count=2, timeout_ms=60_000) is None
    reassign(replicas, [1])
    assert replicas.late_errors() == [Error.NONE]
    assert replicas.watermarks_of(1) == (2, 2)


def test_remaining_replicas_must_be_in_sync_when_the_number_shrinks() -> None:
    """As in 4.3.1: `PartitionReassignmentReplicas.maybeCompleteReassignment`."""
    replicas = replicas_on(1, 2, 3)
    replicas.stop(3)
    reassign(replicas, [1, 3])
    assert ongoing(replicas) == one([1, 3, 2], [], [2])
    assert replicas.isr() == [1, 2]
    replicas.start(3)
    assert ongoing(replicas) == []
    assert (replicas.partition().replicas, replicas.isr()) == ([1, 3], [1, 3])


def test_reordering_only_changes_the_preferred_replica() -> None:
    replicas = replicas_on(1, 2)
    reassign(replicas, [2, 1])
    assert (replicas.partition().replicas, replicas.leader()) == ([2, 1], (1, 0))
    assert replicas.partition().partition_epoch == 1
    reassign(replicas, [2, 1])
    assert replicas.partition().partition_epoch == 1, "a repeated request changes nothing"


def test_cancelled_reassignment_restores_the_assignment() -> None:
    replicas = replicas_on(1, 2)
    replicas.produce(count=3)
    replicas.isolate(4)
    reassign(replicas, [3, 4])
    assert sorted(replicas.isr()) == [1, 2, 3]
    assert held_by(replicas) == [1, 2, 3, 4]
    assert reassign(replicas, None)["errorCode"] == Error.NONE
    assert ongoing(replicas) == []
    assert (replicas.partition().replicas, replicas.isr()) == ([1, 2], [1, 2])
    assert replicas.leader() == (1, 1), "losing a replica starts a leader epoch"
    assert held_by(replicas) == [1, 2]
    refused = reassign(replicas, None)
    partition = {"partitionIndex": 0, "errorCode": Error.NO_REASSIGNMENT_IN_PROGRESS}
    assert refused == {**partition, "errorMessage": None}


def test_new_reassignment_replaces_an_ongoing_one() -> None:
    replicas = replicas_on(1, 2)
    replicas.produce(count=3)
    replicas.isolate(4)
    reassign(replicas, [1, 4])
    assert ongoing(replicas) == one([1, 4, 2], [4], [2])
    reassign(replicas, [1, 3])
    assert replicas.partition().replicas == [1, 3]
    assert held_by(replicas) == [1, 3]
    assert ongoing(replicas) == []


def test_reassignment_that_adds_nothing_new_never_completes() -> None:
    """As in a real cluster of 4.3.1; it can only be cancelled."""
    replicas = replicas_on(2, min_insync_replicas="1")
    replicas.stop(3)
    reassign(replicas, [1, 3])
    assert ongoing(replicas) == one([1, 3, 2], [1, 3], [2])
    reassign(replicas, [1])
    assert ongoing(replicas) == one([1, 2, 3], [1, 3], [2, 3])
    reassign(replicas, [1, 2, 3])
    assert ongoing(replicas) == one([1, 2, 3], [1, 3], [2, 3])
    replicas.start(3)
    assert ongoing(replicas) == one([1, 2, 3], [1, 3], [2, 3])
    assert sorted(replicas.isr()) == [1, 2, 3]
    reassign(replicas, None)
    assert (replicas.partition().replicas, ongoing(replicas)) == ([2], [])
    assert held_by(replicas) == [2]


def test_only_added_replicas_must_be_in_sync() -> None:
    """A remaining replica may be stopped (responses of 4.3.1)."""
    replicas = replicas_on(2, 3, min_insync_replicas="1")
    replicas.produce(count=3)
    replicas.stop(3)
    reassign(replicas, [3, 1])
    assert (replicas.partition().replicas, replicas.leader()) == ([3, 1], (1, 1))
    replicas.start(3)
    assert sorted(replicas.isr()) == [1, 3]
    assert replicas.watermarks_of(3) == (3, 3)


def test_assignment_without_live_replicas_waits() -> None:
    replicas = replicas_on(1, 3, min_insync_replicas="1")
    replicas.stop(3)
    assert reassign(replicas, [3])["errorCode"] == Error.NONE
    assert ongoing(replicas) == one([3, 1], [], [1])
    assert replicas.leader() == (1, 0)
    replicas.start(3)
    assert ongoing(replicas) == []
    assert (replicas.partition().replicas, replicas.leader()) == ([3], (3, 1))


def test_cancel_that_would_lose_records_requires_unclean_elections() -> None:
    for allowed, error in (("false", Error.INVALID_REPLICA_ASSIGNMENT), ("true", Error.NONE)):
        replicas = replicas_on(1, min_insync_replicas="1", unclean_leader_election_enable=allowed)
        replicas.produce(count=3)
        replicas.isolate(3)
        reassign(replicas, [2, 3])
        replicas.stop(1)
        assert (replicas.leader()[0], replicas.isr()) == (2, [2])
        refused = reassign(replicas, None)
        assert refused["errorCode"] == error
        if error is not Error.NONE:
            text = "Unable to revert partition assignment for orders:0 because it would require"
            assert refused["errorMessage"] == f"{text} an unclean leader election."
        else:
            partition = replicas.partition()
            assert (partition.replicas, partition.isr, partition.leader) == ([1], [1], -1)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ([], "an empty replica list."),
        ([1, 1], "the broker 1 more than once."),
        ([1, 9], "broker 9, but no such broker is registered."),
        ([-1, 2], "broker -1, but no such broker is registered."),
    ],
)
def test_invalid_assignment_is_rejected(wanted: list[int], text: str) -> None:
    replicas = replicas_on(1, 2)
    refused = reassign(replicas, wanted)
    assert refused["errorCode"] == Error.INVALID_REPLICA_ASSIGNMENT
    assert refused["errorMessage"] == f"The manual partition assignment includes {text}"
    assert replicas.partition().partition_epoch == 0


def test_unknown_topic_or_partition() -> None:
    replicas = replicas_on(1, 2)
    refused = [reassign(replicas, [1], partition=9), reassign(replicas, [1], name="nope")]
    assert [each["errorCode"] for each in refused] == [Error.UNKNOWN_TOPIC_OR_PARTITION] * 2
    texts = ["Unable to find partition orders:9.", "Unable to find a topic named nope."]
    assert [each["errorMessage"] for each in refused] == texts


def test_replication_factor_may_be_fixed() -> None:
    replicas = replicas_on(1, 2)
    kept = {"allowReplicationFactorChange": False}
    refused = reassign(replicas, [1, 2, 3], **kept)
    assert refused["errorCode"] == Error.INVALID_REPLICATION_FACTOR
    assert refused["errorMessage"] == "The replication factor is changed from 2 to 3"
    refused = reassign(replicas, [9, 1, 2], **kept)
    assert refused["errorCode"] == Error.INVALID_REPLICA_ASSIGNMENT, "checked first"
    assert reassign(replicas, None, **kept)["errorCode"] == Error.NO_REASSIGNMENT_IN_PROGRESS
    replicas.isolate(4)
    reassign(replicas, [1, 4], **kept)
    assert reassign(replicas, [4], **kept)["errorCode"] == Error.INVALID_REPLICATION_FACTOR
    assert reassign(replicas, [1, 3], **kept)["errorCode"] == Error.NONE


def test_rejected_and_empty_requests() -> None:
    bench = replicas_on(1, 2).bench
    api = "ALTER_PARTITION_REASSIGNMENTS"
    partitions = [{"partitionIndex": 0, "replicas": [2, 1]}]
    topics = [{"name": "orders", "partitions": partitions}]
    late = bench.request(api, 1, {"timeoutMs": 0, "topics": topics})
    assert late["errorCode"] == late["responses"][0]["partitions"][0]["errorCode"] == 7
    nothing = bench.request(api, 0, {"timeoutMs": 0, "topics": []})
    empty = {"throttleTimeMs": 0, "errorCode": 0, "errorMessage": ""}
    assert nothing == {**empty, "responses": []}
    listed = bench.request("LIST_PARTITION_REASSIGNMENTS", 0, topics=[])
    assert listed == {**empty, "errorMessage": None, "topics": []}


def test_reassignment_completes_when_added_and_one_remaining_replica_are_in_sync() -> None:
    done = reassignments.completed
    assert done([1, 2], [], [], [1, 2]) is None
    assert done([1, 2, 3], [3], [], [1, 2]) is None
    assert done([1, 2, 3], [3], [], [3]) == ([1, 2, 3], [3])
    assert done([3, 1, 2], [3], [1, 2], [1, 2]) is None
    assert done([3, 1, 2], [3], [1, 2], [1, 3]) == ([3], [3])
    assert done([1, 2], [], [2], [2]) is None
    partition = Partition(3, 1, 1, [3, 1], [3], 0, [3], [1])
    assert reassignments.reverted(partition) == ([1], [1], True)
