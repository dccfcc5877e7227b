"""Items of a cell's state as rows."""

import pytest

from brokerstream.streaming.state_rows import Kind, counts, rows
from tests.support.machine import CLUSTER, START, Bench, header

BATCH = header(3, 7, 1, 0, size=90, baseTimestamp=START, maxTimestamp=START, magic=2)


@pytest.fixture(scope="module")
def bench() -> Bench:
    """A cluster with something of every kind."""
    bench = Bench()
    bench.topic("orders", 2)
    partition = {"index": 1, "batches": [BATCH]}
    topic = {"name": "orders", "partitionData": [partition]}
    bench.request("PRODUCE", 9, {"acks": -1, "topicData": [topic]})
    wanted = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 100}
    fetch = {"sessionEpoch": 0, "topics": [{"topic": "orders", "partitions": [wanted]}]}
    bench.request("FETCH", 12, {**fetch, "maxWaitMs": 0})
    bench.request("FETCH", 12, {**fetch, "sessionEpoch": -1, "maxWaitMs": 500, "minBytes": 1})
    bench.request("FIND_COORDINATOR", 4, {"keyType": 0, "coordinatorKeys": ["g"]})
    committed = {"partitionIndex": 1, "committedOffset": 3, "committedMetadata": "note"}
    body = {
        "groupId": "g",
        "generationIdOrMemberEpoch": -1,
        "memberId": "",
        "topics": [{"name": "orders", "partitions": [committed]}],
    }
    bench.request("OFFSET_COMMIT", 8, body)
    for _ in range(2):
        bench.request("FIND_COORDINATOR", 4, {"keyType": 1, "coordinatorKeys": ["t"]})
        init = {"transactionalId": "t", "transactionTimeoutMs": 1000}
        holder = bench.request("INIT_PRODUCER_ID", 2, init)
    added = {
        "v3AndBelowTransactionalId": "t",
        "v3AndBelowProducerId": holder["producerId"],
        "v3AndBelowProducerEpoch": holder["producerEpoch"],
        "v3AndBelowTopics": [{"name": "orders", "partitions": [1, 0]}],
    }
    bench.request("ADD_PARTITIONS_TO_TXN", 3, added)
    return bench


def one(bench: Bench, kind: Kind, **found: object) -> dict[str, object]:
    """The row that has these values."""
    every = rows(kind, {CLUSTER: bench.cell.columns()})
    assert all(next(iter(row)) == "cell" and row["cell"] == CLUSTER for row in every)
    [row] = [row for row in every if found.items() <= row.items()]
    return row


def test_topics(bench: Bench) -> None:
    assert one(bench, Kind.TOPICS, topic="orders")["partitions"] == 2


def test_logs(bench: Bench) -> None:
    row = one(bench, Kind.LOGS, topic="orders", partition=1)
    assert (row["logEndOffset"], row["highWatermark"], row["sizeInBytes"]) == (3, 3, 90)
    assert (row["broker"], row["batches"], row["logStartOffset"]) == (1, 1, 0)


def test_producers(bench: Bench) -> None:
    row = one(bench, Kind.PRODUCERS, producerId=7)
    assert (row["topic"], row["partition"], row["producerEpoch"]) == ("orders", 1, 1)
    assert (row["lastSequence"], row["lastOffset"]) == (2, 2)


def test_what_is_open_in_a_partition(bench: Bench) -> None:
    changed = Bench()
    changed.cell = bench.cell.copy()
    before = one(changed, Kind.PRODUCERS, producerId=7)
    assert (before["currentTxnFirstOffset"], before["coordinatorEpoch"]) == (-1, -1)
    holder = one(changed, Kind.TRANSACTIONAL_IDS)
    producer = (holder["producerId"], holder["producerEpoch"], 0)
    changed.append("orders", header(1, *producer, isTransactional=True), partition=1, name="t")
    row = one(changed, Kind.PRODUCERS, producerId=holder["producerId"])
    assert row["currentTxnFirstOffset"] == 3
    log = one(changed, Kind.LOGS, topic="orders", partition=1)
    assert (log["lastStableOffset"], log["highWatermark"]) == (3, 4)


def test_sessions(bench: Bench) -> None:
    row = one(bench, Kind.SESSIONS)
    assert (row["epoch"], row["partitions"], row["clientId"]) == (1, 1, "bench")


def test_fetch_sessions_by_client(bench: Bench) -> None:
    row = one(bench, Kind.CLIENTS)
    assert (row["broker"], row["clientId"], row["sessions"]) == (1, "bench", 1)
    assert (row["partitionsCached"], row["evicted"], row["evicting"]) == (1, 0, 0)


def test_groups(bench: Bench) -> None:
    row = one(bench, Kind.GROUPS, group="g")
    assert (row["state"], row["offsets"]) == ("Empty", 1)


def test_offsets(bench: Bench) -> None:
    row = one(bench, Kind.OFFSETS)
    assert (row["group"], row["topic"], row["partition"]) == ("g", "orders", 1)
    assert (row["offset"], row["metadata"], row["commitTimestamp"]) == (3, "note", START)


def test_transactional_ids(bench: Bench) -> None:
    row = one(bench, Kind.TRANSACTIONAL_IDS)
    assert (row["broker"], row["transactionalId"], row["state"]) == (1, "t", "Ongoing")
    assert (row["producerId"], row["producerEpoch"]) == (0, 0)
    assert row["partitions"] == ["orders-0", "orders-1"]
    assert (row["transactionStartTimestamp"], row["transactionTimeoutMs"]) == (START, 1000)


def test_waiting(bench: Bench) -> None:
    row = one(bench, Kind.WAITING)
    assert (row["api"], row["deadline"], row["logs"]) == ("FETCH", START + 500, 1)


def test_counts(bench: Bench) -> None:
    columns = bench.cell.columns()
    [row] = counts({CLUSTER: columns})
    assert row["bytes"] == sum(map(len, columns.values()))
    for kind in Kind:
        assert row[kind.value] == len(rows(kind, {CLUSTER: columns})) > 0
