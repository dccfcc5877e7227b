"""High watermarks in a broker's file, and their use at a start."""

import pytest

from brokertwin.state.cell.check import check
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.replication import checkpoints
from tests.support.replicas import BROKERS, Replicas

INTERVAL_MS = 5000


@pytest.fixture
def replicas() -> Replicas:
    return Replicas(min_insync_replicas="1")


def in_file(replicas: Replicas, broker: int) -> int:
    bench = replicas.bench
    machine = Broker(broker, bench.cell.tables, bench.settings, bench.now)
    return checkpoints.in_file(machine, replicas.log(broker))


def restored(replicas: Replicas, broker: int) -> list[int]:
    entries = replicas.bench.records_of(replicas.bench.last)
    first = next((each["record"] for each in entries if each["machine"] == broker), None)
    is_restored = first is not None and first["type"] == "HighWatermarkMoved"
    return [first["highWatermark"]] if first and is_restored else []


def test_file_is_written_every_five_seconds_after_the_first_partition(
    replicas: Replicas,
) -> None:
    replicas.bench.now += 4999
    replicas.produce(count=3)
    assert replicas.watermarks()[1] == (3, 3)
    assert in_file(replicas, 1) == 0
    replicas.bench.now += 1
    assert in_file(replicas, 1) == 3
    replicas.produce(count=2)
    assert in_file(replicas, 1) == 3
    replicas.bench.now += INTERVAL_MS - 1
    replicas.produce(count=2)
    assert in_file(replicas, 1) == 3
    replicas.bench.now += 1
    assert [in_file(replicas, broker) for broker in BROKERS] == [7] * 3


def test_no_timer_writes_the_file(replicas: Replicas) -> None:
    replicas.produce()
    assert replicas.bench.cell.tables.pending.keys("timer/") == []


def test_started_broker_takes_the_high_watermark_of_its_file(replicas: Replicas) -> None:
    replicas.produce(count=3)
    replicas.bench.now += INTERVAL_MS
    replicas.produce(count=2)
    replicas.kill(3)
    replicas.end_sessions()
    replicas.start(3)
    assert restored(replicas, 3) == [3]
    assert replicas.watermarks() == dict.fromkeys(BROKERS, (5, 5))


def test_file_written_since_has_the_current_high_watermark(replicas: Replicas) -> None:
    replicas.produce(count=3)
    replicas.bench.now += INTERVAL_MS
    replicas.kill(3)
    replicas.end_sessions()
    replicas.start(3)
    assert restored(replicas, 3) == []
    assert replicas.watermarks() == dict.fromkeys(BROKERS, (3, 3))


def test_clean_shutdown_writes_the_file(replicas: Replicas) -> None:
    replicas.produce(count=3)
    replicas.stop(3)
    assert in_file(replicas, 3) == 3
    replicas.start(3)
    assert restored(replicas, 3) == []


@pytest.mark.parametrize(("written", "begins_with"), [(120, 100), (80, 80)])
def test_example_22_least_of_checkpoint_and_log_end(
    replicas: Replicas, written: int, begins_with: int
) -> None:
    """A leader alone in its in-sync set then raises it to its log end."""
    replicas.leave_only_the_leader()
    replicas.produce(count=99)
    bench = replicas.bench
    assert replicas.watermarks()[1] == (100, 100)
    replicas.kill(1)
    key = f"1/checkpointed/{replicas.topic_id}/0"
    bench.cell.tables.replication.put(key, checkpoints.Checkpointed(written, 1))
    replicas.end_sessions()
    replicas.start(1)
    assert restored(replicas, 1) == [begins_with]
    assert replicas.leader()[0] == 1
    assert replicas.watermarks()[1] == (100, 100)


def test_check_finds_a_checkpoint_without_a_log(replicas: Replicas) -> None:
    place = checkpoints.Checkpointed(3, 1)
    replicas.bench.cell.tables.replication.put("1/checkpointed/nothing/0", place)
    assert check(replicas.bench.cell) == ["1/checkpointed/nothing/0 belongs to no log"]


def test_deleted_topic_leaves_the_file(replicas: Replicas) -> None:
    replicas.produce()
    bench = replicas.bench
    bench.request("DELETE_TOPICS", 5, topicNames=["orders"], timeoutMs=1000)
    assert bench.cell.tables.replication.keys("1/checkpointed/") == []
