"""Offsets of open transactions: commit, abort, visibility."""

import itertools
from typing import Any

import msgspec
import pytest

from brokertwin.state.cell import check
from brokertwin.state.cluster import image
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, partition_for
from brokertwin.state.groups import groups
from brokertwin.state.logs.log import Log, log_key
from brokertwin.state.transactions import transactional_offsets
from tests.support.machine import CLUSTER
from tests.support.transactions import TransactionBench

STABLE, UNSTABLE = 0, 88
TOO_LARGE, OLD_EPOCH = 12, 47


def commit(bench: TransactionBench, offset: int, partition: int = 0) -> None:
    committed = {"partitionIndex": partition, "committedOffset": offset}
    body = {
        "groupId": "g",
        "generationIdOrMemberEpoch": -1,
        "memberId": "",
        "topics": [{"name": "a", "partitions": [committed]}],
    }
    bench.request("OFFSET_COMMIT", 8, body)


def begun(bench: TransactionBench, *names: str) -> list[tuple[int, int, int]]:
    """Begin transactions of producers that include the group."""
    holders = [bench.init(name) for name in names]
    for name, holder in zip(names, holders, strict=True):
        assert bench.add_offsets(name, holder) == 0
    return list(holders)


@pytest.mark.parametrize("is_commit", [True, False])
def test_marker_commits_or_drops_pending_offsets(is_commit: bool) -> None:
    bench = TransactionBench()
    (holder,) = begun(bench, "t1")
    bench.commit_offset("t1", holder, 5)
    bench.commit_offset("t1", holder, 7)
    bench.commit_offset("t1", holder, 3, partition=1)
    assert bench.committed_offset() == (STABLE, -1)
    assert bench.committed_offset(require_stable=True) == (UNSTABLE, -1)
    bench.end("t1", holder, is_commit=is_commit)
    expected = (7, 3) if is_commit else (-1, -1)
    assert bench.committed_offset(require_stable=True) == (STABLE, expected[0])
    assert bench.committed_offset(require_stable=True, partition=1) == (STABLE, expected[1])


@pytest.mark.parametrize(("written_last", "error"), [("t1", 100), ("plain", 105)])
def test_example_18_pending_offset_is_committed_by_its_marker(
    written_last: str, error: int
) -> None:
    """Unless a later offset was written before the marker."""
    bench = TransactionBench()
    (holder,) = begun(bench, "t1")
    commit(bench, 99)
    bench.commit_offset("t1", holder, 100)
    if written_last == "plain":
        commit(bench, 105)
    assert bench.committed_offset() == (STABLE, 105 if written_last == "plain" else 99)
    bench.end("t1", holder)
    assert bench.committed_offset(require_stable=True) == (STABLE, error)


@pytest.mark.parametrize("order", list(itertools.permutations(["t1", "t2", "plain"])))
@pytest.mark.parametrize("first", ["t1", "t2"])
def test_write_order_counts_not_marker_order(order: tuple[str, ...], first: str) -> None:
    bench = TransactionBench()
    holders = dict(zip(("t1", "t2"), begun(bench, "t1", "t2"), strict=True))
    for number, name in enumerate(order):
        if name == "plain":
            commit(bench, number)
        else:
            bench.commit_offset(name, holders[name], number)
    second = "t2" if first == "t1" else "t1"
    bench.end(first, holders[first])
    assert bench.committed_offset(require_stable=True)[0] == UNSTABLE
    bench.end(second, holders[second])
    assert bench.committed_offset(require_stable=True) == (STABLE, 2)


def test_abort_keeps_the_committed_offset() -> None:
    bench = TransactionBench()
    one, two = begun(bench, "t1", "t2")
    bench.commit_offset("t1", one, 1)
    bench.commit_offset("t2", two, 2)
    bench.end("t2", two, is_commit=False)
    bench.end("t1", one)
    assert bench.committed_offset(require_stable=True) == (STABLE, 1)


def test_offset_commit_can_begin_a_transaction_in_version_2() -> None:
    bench = TransactionBench()
    holder = bench.init()
    assert bench.commit_offset("t1", holder, 4, version=3) == 48
    assert bench.commit_offset("t1", holder, 4, version=4) == 120
    assert bench.commit_offset("t1", holder, 4, version=5) == 0
    assert bench.end("t1", holder, version=5)["errorCode"] == 0
    assert bench.committed_offset(require_stable=True) == (STABLE, 4)


def test_errors_of_the_transaction_coordinator_come_first() -> None:
    bench = TransactionBench()
    holder = bench.init()
    generation = {"generationId": 3, "memberId": "m"}
    assert bench.commit_offset("t1", (holder.producer_id, 9), 4, **generation) == 47
    assert bench.commit_offset("t1", (99, 0), 4, **generation) == 49
    bench.add_offsets("t1", holder)
    assert bench.commit_offset("t1", holder, 4, **generation) == 22
    commit(bench, 1)
    assert bench.commit_offset("t1", holder, 4, **generation) == 25
    assert bench.commit_offset("t1", holder, 4, committedMetadata="x" * 4097) == 12
    assert bench.commit_offset("t1", holder, 4, group="") == 24
    assert bench.commit_offset("t1", holder, 4, partition=9) == 3


def test_unknown_topic_is_in_the_response_without_partitions() -> None:
    # compared with Apache Kafka 4.3.1
    bench = TransactionBench()
    holder = bench.init()
    bench.add_offsets("t1", holder)
    request = {"transactionalId": "t1", "groupId": "g"}
    request |= {"producerId": holder.producer_id, "producerEpoch": holder.epoch}
    topic = {"name": "a", "partitions": [{"partitionIndex": 0, "committedOffset": 1}]}
    missing = {"name": "none", "partitions": []}
    for topics, reported in [
        ([missing], {"none": []}),
        ([missing, {"name": "a", "partitions": []}], {"none": []}),
        ([topic, missing], {"none": [], "a": [0]}),
    ]:
        response = bench.request("TXN_OFFSET_COMMIT", 3, request, topics=topics)
        actual = {t["name"]: [p["errorCode"] for p in t["partitions"]] for t in response["topics"]}
        assert actual == reported


def test_group_exists_from_its_first_pending_offset_on() -> None:
    bench = TransactionBench()
    (holder,) = begun(bench, "t1")
    bench.commit_offset("t1", holder, 4)
    assert groups.find_stored(bench.cell.tables.of(1), "g") is not None
    bench.end("t1", holder, is_commit=False)
    assert groups.find_stored(bench.cell.tables.of(1), "g") is not None


def test_deleting_a_topic_drops_its_pending_offsets() -> None:
    bench = TransactionBench()
    (holder,) = begun(bench, "t1")
    bench.commit_offset("t1", holder, 4)
    bench.request("DELETE_TOPICS", 5, topicNames=["a"], timeoutMs=1000)
    assert transactional_offsets.unstable(bench.cell.tables.of(1), "g") == set()
    bench.end("t1", holder)
    assert bench.committed_offset(require_stable=True) == (STABLE, -1)
    assert bench.dead_letters() == []


def test_deleting_a_group_drops_its_pending_offsets() -> None:
    """One tombstone for each partition, committed, pending or both."""
    bench = TransactionBench()
    (holder,) = begun(bench, "t1")
    commit(bench, 2)
    bench.commit_offset("t1", holder, 4)
    bench.commit_offset("t1", holder, 5, partition=1)
    bench.request("DELETE_GROUPS", 2, groupsNames=["g"])
    kinds = [entry["record"] for entry in bench.records()][-3:]
    assert [(kind["type"], kind.get("partition")) for kind in kinds] == [
        ("OffsetDeleted", 0),
        ("OffsetDeleted", 1),
        ("GroupRecord", None),
    ]
    assert transactional_offsets.unstable(bench.cell.tables.of(1), "g") == set()
    bench.end("t1", holder)
    assert groups.find_stored(bench.cell.tables.of(1), "g") is None
    assert bench.dead_letters() == []


def marker(bench: TransactionBench, producer_id: int, epoch: int, coordinator_epoch: int) -> int:
    topic = {"name": GROUP_TOPIC, "partitionIndexes": [partition_for("g", 50)]}
    fields = {"producerId": producer_id, "producerEpoch": epoch, "transactionResult": False}
    fields |= {"coordinatorEpoch": coordinator_epoch, "topics": [topic]}
    response = bench.request("WRITE_TXN_MARKERS", 1, markers=[fields])
    return int(response["markers"][0]["topics"][0]["partitions"][0]["errorCode"])


def test_partition_checks_epochs_without_verification() -> None:
    """Epochs of offsets and markers. Other errors come first."""
    bench = TransactionBench(transaction_partition_verification_enable=False)
    assert bench.commit_offset("t1", (7, 3), 5) == 0
    assert bench.commit_offset("t1", (7, 2), 6, version=2) == OLD_EPOCH
    assert bench.commit_offset("t1", (7, 2), 6, committedMetadata="x" * 4097) == TOO_LARGE
    assert bench.commit_offset("t1", (7, -1), 6) == -1
    assert bench.commit_offset("t1", (8, 0), 6) == 0, "another producer"
    assert [marker(bench, 7, *epochs) for epochs in ((2, 9), (3, 9), (4, 8), (5, 9))] == [
        *(OLD_EPOCH, 0, 52, 0)
    ]
    assert bench.commit_offset("t1", (7, 4), 6) == OLD_EPOCH
    assert bench.commit_offset("t1", (7, 5), 6) == 0
    assert check.check(bench.cell) == []
    bench.reload()
    assert bench.commit_offset("t1", (7, 4), 6) == OLD_EPOCH


def test_coordinator_is_not_called_if_the_partition_knows_the_error() -> None:
    """An old epoch there, or offsets that wait for their marker there."""
    bench = TransactionBench(transaction_partition_verification_enable=False)
    assert bench.commit_offset("t1", (7, 3), 5, version=5) == 49
    assert bench.commit_offset("t1", (7, 3), 5) == 0
    reported = [bench.commit_offset("t1", (7, epoch), 6, version=5) for epoch in (2, 3, 4)]
    assert reported == [OLD_EPOCH, 0, 49]
    marker(bench, 7, 3, 0)
    assert bench.commit_offset("t1", (7, 3), 6, version=5) == 49


def test_offsets_without_a_producer_are_committed_at_once_without_verification() -> None:
    bench = TransactionBench(transaction_partition_verification_enable=False)
    assert bench.commit_offset("t1", (-1, -1), 5) == 0
    assert bench.committed_offset(require_stable=True) == (STABLE, 5)


def test_first_transactional_commit_that_stores_nothing_creates_a_group() -> None:
    bench = TransactionBench(transaction_partition_verification_enable=False)
    assert bench.commit_offset("t1", (7, 3), 5, committedMetadata="x" * 4097) == TOO_LARGE
    deletion = bench.request("DELETE_GROUPS", 2, groupsNames=["g"])
    assert deletion["results"] == [{"groupId": "g", "errorCode": 0}]


def test_transaction_that_began_with_rows_ends_with_a_marker() -> None:
    """Even if rows are disabled meanwhile: the log would stay unstable."""
    bench = TransactionBench(brokertwin_internal_logs=True)
    (holder,) = begun(bench, "t1")
    assert bench.commit_offset("t1", holder, 5) == 0
    bench.settings.broker_settings.brokertwin_internal_logs = False
    bench.end("t1", holder)
    topic = image.topic_by_name(bench.cell.tables.of(1), GROUP_TOPIC)
    assert topic is not None
    key = log_key(1, topic.topic_id, partition_for("g", 50))
    log = bench.cell.tables.logs.get(key, Log)
    assert log is not None
    assert (log.last_stable_offset, log.log_end_offset) == (2, 2)


def test_group_that_moves_during_verification_gets_not_coordinator() -> None:
    """It creates no group there, because no client would find it."""
    few = {"offsets_topic_num_partitions": 3, "transaction_state_log_num_partitions": 3}
    bench = TransactionBench(
        brokers=(1, 2, 3),
        offsets_topic_replication_factor=3,
        given={
            "transaction.state.log.replication.factor": "3",
            "transaction.state.log.min.isr": "1",
        },
        **few,
    )
    bench.settings.may_intervene = True

    def coordinator(kind: int, key: str) -> int:
        requested = {"keyType": kind, "coordinatorKeys": [key]}
        (coordinator,) = bench.request("FIND_COORDINATOR", 4, requested)["coordinators"]
        return int(coordinator["nodeId"])

    name = next(f"t{n}" for n in range(50) if coordinator(1, f"t{n}") == 2)
    group = next(f"g{n}" for n in range(50) if coordinator(0, f"g{n}") == 1)
    producer_id, epoch, *_ = bench.init(name, broker=2)
    isolated = {"id": "isolated", "cluster": CLUSTER, "kind": "isolate-broker", "broker": 3}
    bench.handle({**isolated, "time": bench.now})
    offset = {"partitionIndex": 0, "committedOffset": 5, "committedMetadata": "x" * 5000}
    ids = {"transactionalId": name, "producerId": producer_id, "producerEpoch": epoch}
    body = {**ids, "groupId": group, "topics": [{"name": "a", "partitions": [offset]}]}
    requested = bench.send("TXN_OFFSET_COMMIT", 5, body, broker=1)
    assert requested not in bench.responses
    place = {"partitionIndex": partition_for(group, 3), "replicas": [2]}
    moved = {"topics": [{"name": GROUP_TOPIC, "partitions": [place]}], "timeoutMs": 10_000}
    assert bench.request("ALTER_PARTITION_REASSIGNMENTS", 0, moved, broker=2)["errorCode"] == 0
    bench.handle({**isolated, "id": "back", "kind": "rejoin-broker", "time": bench.now})
    (topic,) = bench.responses[requested]["response"]["topics"]
    assert [each["errorCode"] for each in topic["partitions"]] == [16]
    assert groups.live_ids(bench.cell.tables.of(1)) == []


def test_transactional_commits_are_written_to_the_compacted_offsets() -> None:
    bench = TransactionBench()
    (holder,) = begun(bench, "t1")
    bench.commit_offset("t1", holder, 4)
    assert bench.of("offsets.bench") == []
    bench.end("t1", holder)
    assert len(bench.of("offsets.bench")) == 1
    kinds = [entry["record"] for entry in bench.records()][-3:]
    assert [kind["type"] for kind in kinds] == [
        "OffsetCommitted",
        "TransactionalOffsetsEnded",
        "TransactionMetadataWritten",
    ]
    assert kinds[0]["producerId"] == holder[0]


def test_no_items_are_left() -> None:
    bench = TransactionBench()
    holders: list[Any] = begun(bench, "t1", "t2")
    for name, holder in zip(("t1", "t2"), holders, strict=True):
        bench.commit_offset(name, holder, 4)
        bench.end(name, holder)
    left = [key for key in bench.cell.tables.groups.keys("") if "pending" in key]
    assert left == []
    assert msgspec.msgpack.decode(bench.cell.columns()["groups"])
