"""Items of a cell's state as rows."""

import pytest

from brokertwin.state.core.decision import CONTROLLER
from brokertwin.tables.state_rows import WHOLE, ItemKind, counts, named, rows
from tests.support.machine import CLUSTER, START, Bench, header
from tests.support.replicas import TOPIC, Replicas
from tests.support.state_items import something_of_every_kind


@pytest.fixture(scope="module")
def bench() -> Bench:
    return something_of_every_kind()


def one(bench: Bench, kind: ItemKind, **found: object) -> dict[str, object]:
    every = rows(kind, {CLUSTER: bench.cell.columns()})
    assert all(next(iter(row)) == "cell" and row["cell"] == CLUSTER for row in every)
    [row] = [row for row in every if found.items() <= row.items()]
    return row


def commit(bench: Bench, partition: int, offset: int) -> None:
    committed = {"partitionIndex": partition, "committedOffset": offset}
    topics = [{"name": "orders", "partitions": [committed]}]
    body = {"groupId": "g", "generationIdOrMemberEpoch": -1, "memberId": "", "topics": topics}
    bench.request("OFFSET_COMMIT", 8, body)


def test_topics(bench: Bench) -> None:
    assert one(bench, ItemKind.TOPICS, topic="orders")["partitions"] == 2


def test_logs(bench: Bench) -> None:
    row = one(bench, ItemKind.LOGS, topic="orders", partition=1)
    assert (row["logEndOffset"], row["highWatermark"], row["sizeInBytes"]) == (3, 3, 90)
    assert (row["broker"], row["batches"], row["logStartOffset"]) == (1, 1, 0)


def test_producers(bench: Bench) -> None:
    row = one(bench, ItemKind.PRODUCERS, producerId=7)
    assert (row["topic"], row["partition"], row["producerEpoch"]) == ("orders", 1, 1)
    assert (row["lastSequence"], row["lastOffset"]) == (2, 2)


def test_open_transactions_of_a_partition(bench: Bench) -> None:
    changed = Bench()
    changed.cell = bench.cell.copy()
    before = one(changed, ItemKind.PRODUCERS, producerId=7)
    assert (before["currentTxnFirstOffset"], before["coordinatorEpoch"]) == (-1, -1)
    holder = one(changed, ItemKind.TRANSACTIONAL_IDS)
    producer = (holder["producerId"], holder["producerEpoch"], 0)
    changed.append("orders", header(1, *producer, isTransactional=True), partition=1, name="t")
    row = one(changed, ItemKind.PRODUCERS, producerId=holder["producerId"])
    assert row["currentTxnFirstOffset"] == 3
    log = one(changed, ItemKind.LOGS, topic="orders", partition=1)
    assert (log["lastStableOffset"], log["highWatermark"]) == (3, 4)


def test_sessions(bench: Bench) -> None:
    row = one(bench, ItemKind.SESSIONS)
    assert (row["epoch"], row["partitions"], row["clientId"]) == (1, 1, "bench")
    assert (row["creationMs"], row["lastUsedMs"]) == (START, START)
    used = Bench()
    used.cell = bench.cell.copy()
    used.now = START + 7
    used.request("FETCH", 12, sessionId=row["sessionId"], sessionEpoch=1, topics=[], maxWaitMs=0)
    later = one(used, ItemKind.SESSIONS)
    assert (later["creationMs"], later["lastUsedMs"], later["epoch"]) == (START, START + 7, 2)


def test_fetch_sessions_by_client(bench: Bench) -> None:
    row = one(bench, ItemKind.CLIENTS)
    assert (row["broker"], row["clientId"], row["sessions"]) == (1, "bench", 1)
    assert (row["partitionsCached"], row["evicted"], row["evicting"]) == (1, 0, 0)


def test_groups(bench: Bench) -> None:
    row = one(bench, ItemKind.GROUPS, groupId="g")
    assert (row["state"], row["offsets"]) == ("Empty", 1)


def test_offsets(bench: Bench) -> None:
    row = one(bench, ItemKind.OFFSETS)
    assert (row["groupId"], row["topic"], row["partition"]) == ("g", "orders", 1)
    assert (row["committedOffset"], row["metadata"], row["commitTimestamp"]) == (3, "note", START)


def test_transactional_ids(bench: Bench) -> None:
    row = one(bench, ItemKind.TRANSACTIONAL_IDS)
    assert (row["broker"], row["transactionalId"], row["state"]) == (1, "t", "Ongoing")
    assert (row["producerId"], row["producerEpoch"]) == (0, 0)
    assert row["partitions"] == ["orders-0", "orders-1"]
    assert (row["transactionStartTimestamp"], row["transactionTimeoutMs"]) == (START, 1000)


def test_waiting(bench: Bench) -> None:
    row = one(bench, ItemKind.WAITING)
    assert (row["api"], row["deadline"], row["logs"]) == ("FETCH", START + 500, 1)


def test_counts(bench: Bench) -> None:
    columns = bench.cell.columns()
    [row] = counts({CLUSTER: columns})
    assert row["bytes"] == sum(map(len, columns.values()))
    for kind in WHOLE:
        assert row[kind.value] == len(rows(kind, {CLUSTER: columns})) > 0


def test_batches_of_producers_and_partitions_of_sessions_have_their_own_rows(
    bench: Bench,
) -> None:
    other = Bench()
    other.topic("orders", 1)
    for number in range(7):
        other.append("orders", header(1, 7, 1, number))
    batches = rows(ItemKind.PRODUCER_BATCHES, {CLUSTER: other.cell.columns()})
    assert [row["lastSequence"] for row in batches] == [2, 3, 4, 5, 6]
    first = one(bench, ItemKind.PRODUCER_BATCHES)
    assert [first[name] for name in ("firstSequence", "lastSequence")] == [0, 2]
    assert [first[name] for name in ("firstOffset", "lastOffset")] == [0, 2]
    body = one(bench, ItemKind.SESSION_PARTITIONS)
    assert (body["topic"], body["partition"], body["partitionMaxBytes"]) == ("orders", 0, 100)
    assert body["sessionId"] == one(bench, ItemKind.SESSIONS)["sessionId"]
    led = one(bench, ItemKind.PARTITIONS, topic="orders", partition=1)
    assert (led["leader"], led["isr"], led["replicas"]) == (1, [1], [1])


def test_numbers_are_sorted_numerically() -> None:
    bench = Bench()
    bench.topic("orders", 11)
    found = rows(ItemKind.LOGS, {name: bench.cell.columns() for name in ("c/10", "c/9")})
    assert [row["partition"] for row in found] == [*range(11), *range(11)]
    assert [row["cell"] for row in found][::11] == ["c/9", "c/10"]


def test_an_item_is_found_by_its_identity(bench: Bench) -> None:
    every = rows(ItemKind.PRODUCERS, {CLUSTER: bench.cell.columns()})
    assert [row["producerId"] for row in every if named(ItemKind.PRODUCERS, row, "7")] == [7]
    assert [row for row in every if named(ItemKind.PRODUCERS, row, "orders")] == every
    assert not any(named(ItemKind.PRODUCERS, row, "order") for row in every)


@pytest.mark.parametrize(("offset", "lag"), [(1, 2), (3, 0), (10, -7)])
def test_a_lag_is_negative_beyond_the_log_end(bench: Bench, offset: int, lag: int) -> None:
    changed = Bench()
    changed.cell = bench.cell.copy()
    commit(changed, 1, offset)
    assert one(changed, ItemKind.OFFSETS, groupId="g", partition=1)["lag"] == lag
    group = one(changed, ItemKind.GROUPS, groupId="g")
    assert (group["lag"], group["lowestLag"]) == (lag, lag)


def test_replicas_and_fetchers() -> None:
    replicas = Replicas()
    bench = replicas.bench
    bench.append(TOPIC, header(3))
    of_leader = rows(ItemKind.REPLICAS, {CLUSTER: bench.cell.columns()})
    assert [(row["broker"], row["replica"], row["lag"], row["isInSync"]) for row in of_leader] == [
        (1, 2, 0, True),
        (1, 3, 0, True),
    ]
    copied = rows(ItemKind.FETCHERS, {CLUSTER: bench.cell.columns()})
    assert [(row["broker"], row["thread"], row["fetchOffset"]) for row in copied] == [
        (2, "ReplicaFetcherThread-0-1", 3),
        (3, "ReplicaFetcherThread-0-1", 3),
    ]
    replicas.stop(3)
    (left,) = rows(ItemKind.FETCHERS, {CLUSTER: bench.cell.columns()})
    assert left["broker"] == 2


def test_zookeeper_shows_the_block_of_producer_ids() -> None:
    bench = Bench(brokers=(1, 2), brokertwin_zk_producer_id_blocks=True)
    body = {"transactionalId": None, "transactionTimeoutMs": 1}
    for broker in (1, 2):
        bench.request("INIT_PRODUCER_ID", 4, body, broker=broker)
    assert one(bench, ItemKind.ZOOKEEPER) == {
        "cell": CLUSTER,
        "path": "/latest_producer_id_block",
        "data": '{"version":1,"broker":2,"block_start":"1000","block_end":"1999"}',
        "version": 2,
    }


def test_zookeeper_shows_committed_offsets_and_their_groups() -> None:
    bench = Bench(brokertwin_offset_storage="zookeeper")
    bench.topic("orders", 2)
    commit(bench, 1, 5)
    node = {"path": "/consumers/g/offsets/orders/1", "data": "5", "version": None}
    assert one(bench, ItemKind.ZOOKEEPER) == {"cell": CLUSTER, **node}
    group = one(bench, ItemKind.GROUPS)
    assert (group["broker"], group["groupId"], group["state"]) == (CONTROLLER, "g", "Empty")
    assert (group["offsets"], group["lag"]) == (1, -5)
