"""Preferred elections by the controller (`auto.leader.rebalance.enable`)."""

from typing import Any

from brokertwin.state.cell.check import check
from brokertwin.state.replication.elections import LEADERS_TIMER
from tests.support.machine import Bench
from tests.support.replicas import BROKERS, Replicas

INTERVAL_MS = 300_000
"""Default of `leader.imbalance.check.interval.seconds`."""


def back(**settings: Any) -> Replicas:
    """`orders` on brokers 1 to 3; 1 was stopped and is in sync again, 2 leads."""
    made = Replicas(bench=Bench(BROKERS, **settings))
    made.produce(count=3)
    made.stop(1)
    made.start(1)
    assert (made.leader(), made.isr()) == ((2, 1), [1, 2, 3])
    return made


def test_first_replica_leads_after_an_interval() -> None:
    replicas = back()
    replicas.bench.tick(INTERVAL_MS - 1)
    assert replicas.leader() == (2, 1)
    replicas.bench.tick(1)
    assert replicas.leader() == (1, 2)
    assert replicas.produce(count=2)["baseOffset"] == 3
    assert replicas.watermarks() == dict.fromkeys(BROKERS, (5, 5))
    assert check(replicas.bench.cell) == []


def test_interval_is_configurable() -> None:
    replicas = back(leader_imbalance_check_interval_seconds=5)
    replicas.bench.tick(5_000)
    assert replicas.leader() == (1, 2)


def test_rebalance_can_be_disabled() -> None:
    replicas = back(auto_leader_rebalance_enable=False)
    replicas.bench.tick(10 * INTERVAL_MS)
    assert replicas.leader() == (2, 1)


def test_no_timer_for_a_replica_that_may_not_lead() -> None:
    """An idle cluster has no timer, even if a broker is stopped forever."""
    replicas = back()
    replicas.stop(1)
    replicas.bench.tick(INTERVAL_MS)
    rows = replicas.bench.tick(10 * INTERVAL_MS)
    assert (replicas.leader(), rows) == ((2, 1), [])


def is_awaited(replicas: Replicas) -> bool:
    return bool(replicas.bench.cell.tables.pending.keys(f"timer/{LEADERS_TIMER}/"))


def test_timer_runs_only_with_a_reason() -> None:
    replicas = back(brokertwin_eligible_leader_replicas_version=0)
    assert is_awaited(replicas)
    replicas.bench.tick(INTERVAL_MS)
    replicas.stop(1)
    assert not is_awaited(replicas), "stopped"
    replicas.start(1)
    replicas.bench.tick(INTERVAL_MS)
    replicas.leave_only_the_leader()
    replicas.stop(1)
    assert (replicas.leader()[0], replicas.partition().isr) == (-1, [1])
    assert not is_awaited(replicas), "in sync, but stopped"


def test_no_timer_for_a_live_replica_out_of_sync() -> None:
    replicas = back()
    replicas.bench.tick(INTERVAL_MS)
    replicas.stop(1)
    replicas.isolate(1)
    replicas.start(1)
    replicas.stop(3)
    assert (replicas.leader()[0], replicas.isr(), is_awaited(replicas)) == (2, [2], False)


def test_further_changes_do_not_restart_the_timer() -> None:
    replicas = back()
    replicas.bench.tick(INTERVAL_MS - 1)
    replicas.stop(3)
    replicas.start(3)
    replicas.bench.tick(1)
    assert replicas.leader()[0] == 1


def test_interval_starts_when_the_replica_is_in_sync() -> None:
    replicas = back()
    replicas.stop(1)
    replicas.bench.tick(INTERVAL_MS)
    replicas.start(1)
    replicas.bench.tick(INTERVAL_MS - 1)
    assert replicas.leader() == (2, 1)
    replicas.bench.tick(1)
    assert replicas.leader() == (1, 2)


def test_reassigned_partition_is_led_by_its_first_replica() -> None:
    replicas = Replicas((1, 2))
    body = {"name": "orders", "partitionIndex": 0, "replicas": [3, 1], "timeoutMs": 1000}
    response = replicas.bench.request("ALTER_PARTITION_REASSIGNMENTS", 0, body)
    assert response["responses"][0]["partitions"][0]["errorCode"] == 0
    assert replicas.leader()[0] == 1
    replicas.bench.tick(INTERVAL_MS)
    assert replicas.leader()[0] == 3


def test_requested_election_leaves_nothing_to_do() -> None:
    replicas = back()
    replicas.bench.request(
        "ELECT_LEADERS", 2, electionType=0, topic="orders", partitions=[0], timeoutMs=1000, broker=2
    )
    replicas.bench.tick(INTERVAL_MS)
    assert replicas.leader() == (1, 2)
