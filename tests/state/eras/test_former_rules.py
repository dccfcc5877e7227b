"""Rules of former Kafka versions: their effects and losses."""

from collections.abc import Sequence
from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.state.cell.check import check
from brokertwin.state.cell.delivery import AtOnce
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import (
    CONTROLLER,
    CommandedPartition,
    LeaderAndIsr,
    Sent,
)
from brokertwin.state.core.records import PartitionAltered
from brokertwin.state.eras import leader_and_isr
from brokertwin.state.logs.log import batches_from
from tests.support.machine import Bench
from tests.support.replicas import BROKERS, Replicas

LAG_MS = 30_000
HW, EPOCH = "hw", "epoch"


def records_of(replicas: Replicas, broker: int) -> dict[int, int]:
    """Batches of a broker: offset to checksum."""
    batches = batches_from(replicas.bench.cell.tables.of(broker), replicas.log(broker), 0)
    return {batch.base_offset: batch.crc for batch in batches}


@pytest.mark.parametrize(("truncation", "survive"), [(EPOCH, [0, 1, 2]), (HW, [])])
def test_truncation_to_the_high_watermark_loses_acknowledged_records(
    truncation: str, survive: list[int]
) -> None:
    """Leadership moves twice before followers get a high watermark (KIP-101).

    Both followers have all acknowledged records but do not know it. Broker 3 follows broker 2
    briefly, then it leads; every election is clean.
    """
    bench = Bench((1, 2, 3, 4), brokertwin_truncation=truncation)
    replicas = Replicas((1, 2, 3, 4), bench=bench)
    replicas.isolate(4)
    waiting = [replicas.produce(crc=crc, timeout_ms=3 * LAG_MS) for crc in (7, 8, 9)]
    assert waiting == [None] * 3
    replicas.isolate(2, 3)
    bench.tick(2 * LAG_MS)
    assert replicas.late_errors() == [0, 0, 0], "acknowledged: broker 4 is no longer in sync"
    assert replicas.watermarks() == {1: (3, 3), 2: (0, 3), 3: (0, 3), 4: (0, 0)}
    replicas.stop(1)
    assert replicas.leader() == (2, 1)
    replicas.stop(2)
    assert replicas.leader() == (3, 2)
    assert replicas.partition().leader_recovery_state == 0
    assert list(records_of(replicas, 3)) == survive
    replicas.rejoin(2, 3, 4)
    replicas.start(1, 2)
    if truncation == EPOCH:
        assert replicas.watermarks() == dict.fromkeys((1, 2, 3, 4), (3, 3))
        assert replicas.isr() == [1, 2, 3, 4]


def test_two_offsets_differ_after_the_truncation_of_the_seed() -> None:
    """Case 1 of out of range: the leader ends at 5, the follower at 7; epochs are not compared."""
    replicas = _unclean(HW)
    first, second = records_of(replicas, 1), records_of(replicas, 2)
    assert sorted(first) == sorted(second) == [0, 1, 2, 3, 4]
    assert [offset for offset in first if first[offset] != second[offset]] == [3, 4]
    assert any("is not the same on" in actual for actual in check(replicas.bench.cell))


def test_leader_epochs_leave_equal_logs() -> None:
    replicas = _unclean(EPOCH)
    assert records_of(replicas, 1) == records_of(replicas, 2)
    assert check(replicas.bench.cell) == []


def _unclean(truncation: str) -> Replicas:
    """Broker 1 has seven records; broker 2, with three of them, is elected and writes two."""
    bench = Bench((1, 2), brokertwin_truncation=truncation)
    configs = {"unclean_leader_election_enable": "true", "min_insync_replicas": "1"}
    replicas = Replicas((1, 2), bench=bench, **configs)
    for crc in (1, 2, 3):
        replicas.produce(crc=crc)
    replicas.isolate(2)
    for crc in (4, 5, 6, 7):
        replicas.produce(acks=1, crc=crc)
    bench.tick(2 * LAG_MS)
    assert replicas.isr() == [1]
    assert replicas.watermarks()[1] == (7, 7)
    bench.now += 5000
    bench.is_checked = False  # the isolated broker has lost records
    replicas.stop(1)
    replicas.rejoin(2)
    assert replicas.leader()[0] == 2
    for crc in (14, 15):
        replicas.produce(crc=crc)
    replicas.start(1)
    return replicas


def test_by_time_only_idle_caught_up_replica_is_removed() -> None:
    replicas = Replicas(bench=Bench(BROKERS, brokertwin_isr_by_time_only=True))
    replicas.produce()
    bench = replicas.bench
    bench.tick(100 * LAG_MS)
    assert replicas.isr() == [1, 2, 3], "pending fetches count as activity"
    replicas.isolate(3)
    bench.tick(LAG_MS)
    assert replicas.isr() == [1, 2, 3]
    bench.tick(LAG_MS)
    assert replicas.isr() == [1, 2]
    replicas.rejoin(3)
    assert replicas.isr() == [1, 2, 3]
    bench.tick(LAG_MS)
    assert replicas.bench.cell.tables.pending.keys("timer/") == [], "no replica is idle"


def commanded(**settings: Any) -> Replicas:
    bench = Bench(BROKERS, brokertwin_leader_and_isr=True, **settings)
    return Replicas(bench=bench, min_insync_replicas="1")


def test_elections_by_command_equal_elections_by_metadata() -> None:
    found = []
    for replicas in (commanded(), Replicas(min_insync_replicas="1")):
        replicas.produce(count=3)
        replicas.stop(1)
        replicas.produce(count=2)
        replicas.start(1)
        replicas.stop(2, 3)
        replicas.produce()
        replicas.start(2, 3)
        assert check(replicas.bench.cell) == []
        found.append((replicas.leader(), replicas.isr(), replicas.watermarks()))
    assert found[0] == found[1] == ((1, 2), [1, 2, 3], dict.fromkeys(BROKERS, (6, 6)))


def test_broker_handles_a_command() -> None:
    """Commands of an older controller are rejected; changes are in order, leaders first."""
    replicas = commanded()
    bench, topic_id = replicas.bench, replicas.topic_id
    broker = Broker(2, bench.cell.tables, bench.settings, bench.now)
    topic = {"name": "other", "numPartitions": -1, "replicationFactor": -1}
    topic["assignments"] = [{"partitionIndex": p, "brokerIds": [1, 2]} for p in (0, 1)]
    made = bench.request("CREATE_TOPICS", 7, topics=[topic], timeoutMs=30_000)
    other = made["topics"][0]["topicId"]
    partitions = [
        CommandedPartition(1, PartitionAltered(other, 0, leader=1)),
        CommandedPartition(1, PartitionAltered(topic_id, 0, leader=2)),
        CommandedPartition(0, PartitionAltered(other, 1, leader=2)),
        CommandedPartition(1, PartitionAltered(other, 7, leader=2)),
        CommandedPartition(1, PartitionAltered("A" * 22, 0, leader=2)),
    ]
    stale = leader_and_isr.handle(broker, LeaderAndIsr(CONTROLLER, 2, 0, partitions))
    assert stale == (Error.STALE_CONTROLLER_EPOCH, {}, [])
    taken = leader_and_isr.handle(broker, LeaderAndIsr(CONTROLLER, 2, 1, partitions))
    assert [(each.topic_id, each.leader) for each in taken.changes] == [(topic_id, 2), (other, 1)]
    assert taken.errors == {
        (other, 0): Error.NONE,
        (topic_id, 0): Error.NONE,
        (other, 1): Error.STALE_CONTROLLER_EPOCH,
        (other, 7): Error.UNKNOWN_TOPIC_OR_PARTITION,
        ("A" * 22, 0): Error.UNKNOWN_TOPIC_OR_PARTITION,
    }
    outsider = Broker(3, bench.cell.tables, bench.settings, bench.now)
    refused = leader_and_isr.handle(outsider, LeaderAndIsr(CONTROLLER, 3, 1, partitions[:1]))
    assert refused.errors == {(other, 0): Error.UNKNOWN_TOPIC_OR_PARTITION}


def test_repeated_command_is_a_no_op(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(schedule: AtOnce, messages: Sequence[Sent]) -> None:
        for message in messages:
            send(schedule, [message] * (2 if isinstance(message, LeaderAndIsr) else 1))

    send = AtOnce.send
    monkeypatch.setattr(AtOnce, "send", twice)
    replicas = commanded()
    replicas.produce(count=3)
    replicas.stop(1)
    assert replicas.leader() == (2, 1)
    assert replicas.produce(count=2)["baseOffset"] == 3
    kinds = [entry["record"] for entry in replicas.bench.records() if entry["machine"] == 3]
    elections = [each for each in kinds if each["type"] == "PartitionAltered" and each["leader"]]
    assert [each["leader"] for each in elections] == [2]
