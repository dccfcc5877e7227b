"""Followers copy in separate steps: the effects of one Produce in a cluster of three."""

import pytest

from brokertwin.state.cell.cell import Cell
from brokertwin.state.cell.delivery import RandomDelivery
from brokertwin.state.logs import log as logs_room
from brokertwin.state.logs.log import Log, log_key
from tests.support.machine import Bench, header
from tests.support.replicas import Replicas

BROKERS = (1, 2, 3)
produce = Replicas.produce_on


@pytest.fixture
def bench() -> Bench:
    return Bench(BROKERS)


def topic(bench: Bench, **configs: str) -> str:
    """Create `orders` on all brokers with leader 1; return its id."""
    given = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    wanted = {"name": "orders", "configs": given, "numPartitions": -1, "replicationFactor": -1}
    wanted["assignments"] = [{"partitionIndex": 0, "brokerIds": list(BROKERS)}]
    response = bench.request("CREATE_TOPICS", 7, topics=[wanted], timeoutMs=30_000)
    assert response["topics"][0]["errorCode"] == 0
    return str(response["topics"][0]["topicId"])


def logs(bench: Bench, topic_id: str) -> list[tuple[int, int]]:
    table = bench.cell.tables.logs
    found = [table.get(log_key(broker, topic_id, 0), Log) for broker in BROKERS]
    return [(log.high_watermark, log.log_end_offset) for log in found if log is not None]


def steps(bench: Bench) -> list[tuple[int, str]]:
    rows = bench.last
    return [(row["machine"], row["record"]["type"]) for row in bench.records_of(rows)]


@pytest.mark.parametrize("acks", [-1, 1])
def test_every_replica_has_the_batch_after_the_event(bench: Bench, acks: int) -> None:
    topic_id = topic(bench, min_insync_replicas="2")
    assert produce(bench, acks, count=3)["errorCode"] == 0
    assert produce(bench, acks)["baseOffset"] == 3
    assert logs(bench, topic_id) == [(4, 4)] * 3


def test_high_watermark_does_not_move_with_the_append(bench: Bench) -> None:
    """It moves with the next fetch of the last follower."""
    topic(bench)
    produce(bench)
    assert steps(bench) == [
        (1, "BatchAppended"),
        (2, "BatchAppended"),
        (3, "BatchAppended"),
        (1, "HighWatermarkMoved"),
        (2, "HighWatermarkMoved"),
        (3, "HighWatermarkMoved"),
    ]


def test_single_replica_commits_with_the_append() -> None:
    bench = Bench(BROKERS)
    bench.topic("orders")
    leader = bench.request("METADATA", 12, name="orders")
    broker = leader["topics"][0]["partitions"][0]["leaderId"]
    assert produce(bench, broker=broker)["errorCode"] == 0
    assert steps(bench) == [(broker, "BatchAppended")]


def test_idle_cluster_has_no_timers(bench: Bench) -> None:
    topic(bench)
    produce(bench)
    before = bench.cell.columns()
    assert bench.tick(3_600_000) == []
    assert {**bench.cell.columns(), "meta": b""} == {**before, "meta": b""}


def test_lagging_follower_fetches_in_portions() -> None:
    """A response is limited; the follower continues after it."""
    bench = Bench(BROKERS, replica_fetch_max_bytes=300)
    topic_id = topic(bench)
    for _ in range(5):
        produce(bench, count=90)
    assert logs(bench, topic_id) == [(450, 450)] * 3


def test_follower_that_needs_sealed_batches_takes_over_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes over bounds, index and producers; then it copies, and may lead."""
    monkeypatch.setattr(logs_room, "CHUNK_BATCHES_MAX", 2)
    monkeypatch.setattr(logs_room, "INDEX_CHUNKS_MAX", 2)
    replicas = Replicas(min_insync_replicas="1")
    bench = replicas.bench
    replicas.produce()
    replicas.isolate(3)
    for number in range(12):
        batch = header(1, 7, 0, number)
        bench.append("orders", batch, acks=1)
    bench.tick(100_000)
    assert replicas.isr() == [1, 2]
    assert replicas.log(1).segments
    replicas.rejoin(3)
    assert replicas.watermarks() == dict.fromkeys(BROKERS, (13, 13))
    assert replicas.isr() == [1, 2, 3]
    assert replicas.log(3) == replicas.log(1)
    replicas.stop(1, 2)
    assert replicas.leader()[0] == 3
    assert bench.append("orders", header(1, 7, 0, 11), broker=3)["baseOffset"] == 12, "known"
    assert bench.append("orders", header(1, 7, 0, 12), broker=3)["baseOffset"] == 13
    replicas.start(1, 2)
    assert replicas.watermarks() == dict.fromkeys(BROKERS, (14, 14))


@pytest.mark.parametrize("seed", range(20))
def test_any_delivery_order_gives_the_same_state(bench: Bench, seed: int) -> None:
    """Messages between the same two machines keep their order."""
    drawn = iter(range(seed, 10**9, 7919))
    topic_id = topic(bench)
    bench.cell = Cell(
        bench.settings,
        bench.cell.columns(),
        make_schedule=lambda: RandomDelivery(lambda count: next(drawn) % count),
    )
    for count in (1, 5, 2):
        assert produce(bench, count=count)["errorCode"] == 0
    assert logs(bench, topic_id) == [(8, 8)] * 3


def test_deleted_topic_leaves_no_items(bench: Bench) -> None:
    topic(bench)
    produce(bench)
    bench.request("DELETE_TOPICS", 5, topicNames=["orders"], timeoutMs=1000)
    kept = [f"{broker}/checkpointing" for broker in BROKERS]
    assert bench.cell.tables.replication.keys("") == kept, "high watermark files are still written"
    assert bench.cell.tables.logs.keys("") == []
