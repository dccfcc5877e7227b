"""Items of a cell's state as rows."""

import pytest

from brokertwin.sinks.state_rows import WHOLE, Kind, counts, named, rows
from tests.support.machine import CLUSTER, START, Bench, header
from tests.support.replicas import TOPIC, Replicas
from tests.support.state_items import something_of_every_kind


@pytest.fixture(scope="module")
def bench() -> Bench:
    return something_of_every_kind()


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
    row = one(bench, Kind.GROUPS, groupId="g")
    assert (row["state"], row["offsets"]) == ("Empty", 1)


def test_offsets(bench: Bench) -> None:
    row = one(bench, Kind.OFFSETS)
    assert (row["groupId"], row["topic"], row["partition"]) == ("g", "orders", 1)
    assert (row["committedOffset"], row["metadata"], row["commitTimestamp"]) == (3, "note", START)


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
    for kind in WHOLE:
        assert row[kind.value] == len(rows(kind, {CLUSTER: columns})) > 0


def test_a_producers_batches_and_a_sessions_partitions_are_parts_with_rows_of_their_own(
    bench: Bench,
) -> None:
    other = Bench()
    other.topic("orders", 1)
    for number in range(7):
        other.append("orders", header(1, 7, 1, number))
    batches = rows(Kind.PRODUCER_BATCHES, {CLUSTER: other.cell.columns()})
    assert [row["lastSequence"] for row in batches] == [2, 3, 4, 5, 6]
    first = one(bench, Kind.PRODUCER_BATCHES)
    assert [first[name] for name in ("firstSequence", "lastSequence")] == [0, 2]
    assert [first[name] for name in ("firstOffset", "lastOffset")] == [0, 2]
    asked = one(bench, Kind.SESSION_PARTITIONS)
    assert (asked["topic"], asked["partition"], asked["partitionMaxBytes"]) == ("orders", 0, 100)
    assert asked["sessionId"] == one(bench, Kind.SESSIONS)["sessionId"]
    led = one(bench, Kind.PARTITIONS, topic="orders", partition=1)
    assert (led["leader"], led["isr"], led["replicas"]) == (1, [1], [1])


def test_numbers_are_in_order_as_numbers() -> None:
    bench = Bench()
    bench.topic("orders", 11)
    found = rows(Kind.LOGS, {name: bench.cell.columns() for name in ("c/10", "c/9")})
    assert [row["partition"] for row in found] == [*range(11), *range(11)]
    assert [row["cell"] for row in found][::11] == ["c/9", "c/10"]


def test_an_item_is_found_by_what_names_it(bench: Bench) -> None:
    every = rows(Kind.PRODUCERS, {CLUSTER: bench.cell.columns()})
    assert [row["producerId"] for row in every if named(Kind.PRODUCERS, row, "7")] == [7]
    assert [row for row in every if named(Kind.PRODUCERS, row, "orders")] == every
    assert not any(named(Kind.PRODUCERS, row, "order") for row in every)


@pytest.mark.parametrize(("offset", "lag"), [(1, 2), (3, 0), (10, -7)])
def test_a_lag_is_negative_beyond_the_log_end(bench: Bench, offset: int, lag: int) -> None:
    changed = Bench()
    changed.cell = bench.cell.copy()
    topic = {"name": "orders", "partitions": [{"partitionIndex": 1, "committedOffset": offset}]}
    body = {"groupId": "g", "generationIdOrMemberEpoch": -1, "memberId": "", "topics": [topic]}
    changed.request("OFFSET_COMMIT", 8, body)
    assert one(changed, Kind.OFFSETS, groupId="g", partition=1)["lag"] == lag
    group = one(changed, Kind.GROUPS, groupId="g")
    assert (group["lag"], group["lowestLag"]) == (lag, lag)


def test_replicas_and_fetchers() -> None:
    replicas = Replicas()
    bench = replicas.bench
    bench.append(TOPIC, header(3))
    of_leader = rows(Kind.REPLICAS, {CLUSTER: bench.cell.columns()})
    assert [(row["broker"], row["replica"], row["lag"], row["isInSync"]) for row in of_leader] == [
        (1, 2, 0, True),
        (1, 3, 0, True),
    ]
    copied = rows(Kind.FETCHERS, {CLUSTER: bench.cell.columns()})
    assert [(row["broker"], row["thread"], row["fetchOffset"]) for row in copied] == [
        (2, "ReplicaFetcherThread-0-1", 3),
        (3, "ReplicaFetcherThread-0-1", 3),
    ]
    replicas.stop(3)
    (left,) = rows(Kind.FETCHERS, {CLUSTER: bench.cell.columns()})
    assert left["broker"] == 2
