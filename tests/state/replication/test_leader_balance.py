"""The first replica leads again by itself after a while (`auto.leader.rebalance.enable`)."""

from typing import Any

from brokertwin.state.cell.check import check
from brokertwin.state.replication.elections import LEADERS_TIMER
from tests.support.machine import Bench
from tests.support.replicas import BROKERS, Replicas

INTERVAL_MS = 300_000
"""`leader.imbalance.check.interval.seconds` as it is where nobody sets it."""


def back(**settings: Any) -> Replicas:
    """`orders` on brokers 1 to 3; 1 was away, is in sync again, and 2 leads since."""
    made = Replicas(bench=Bench(BROKERS, **settings))
    made.produce(count=3)
    made.stop(1)
    made.start(1)
    assert (made.leader(), made.isr()) == ((2, 1), [1, 2, 3])
    return made


def test_it_leads_again_an_interval_after_it_could() -> None:
    replicas = back()
    replicas.bench.tick(INTERVAL_MS - 1)
    assert replicas.leader() == (2, 1)
    replicas.bench.tick(1)
    assert replicas.leader() == (1, 2)
    assert replicas.produce(count=2)["baseOffset"] == 3
    assert replicas.watermarks() == dict.fromkeys(BROKERS, (5, 5))
    assert check(replicas.bench.cell) == []


def test_the_interval_is_a_setting() -> None:
    replicas = back(leader_imbalance_check_interval_seconds=5)
    replicas.bench.tick(5_000)
    assert replicas.leader() == (1, 2)


def test_it_may_be_switched_off() -> None:
    replicas = back(auto_leader_rebalance_enable=False)
    replicas.bench.tick(10 * INTERVAL_MS)
    assert replicas.leader() == (2, 1)


def test_nobody_waits_for_one_that_may_not_lead() -> None:
    """An idle cluster does nothing, also where a broker is away for ever."""
    replicas = back()
    replicas.stop(1)
    replicas.bench.tick(INTERVAL_MS)
    rows = replicas.bench.tick(10 * INTERVAL_MS)
    assert (replicas.leader(), rows) == ((2, 1), [])


def is_awaited(replicas: Replicas) -> bool:
    """Whether the controller's timer runs."""
    return bool(replicas.bench.cell.tables.pending.keys(f"timer/{LEADERS_TIMER}/"))


def test_the_timer_runs_only_while_there_is_reason_for_it() -> None:
    replicas = back(brokertwin_eligible_leader_replicas_version=0)
    assert is_awaited(replicas)
    replicas.bench.tick(INTERVAL_MS)
    replicas.stop(1)
    assert not is_awaited(replicas), "who is not there"
    replicas.start(1)
    replicas.bench.tick(INTERVAL_MS)
    replicas.leave_only_the_leader()
    replicas.stop(1)
    assert (replicas.leader()[0], replicas.partition().isr) == (-1, [1])
    assert not is_awaited(replicas), "who is in sync, and not there"


def test_nobody_waits_for_one_that_is_there_and_not_in_sync() -> None:
    replicas = back()
    replicas.bench.tick(INTERVAL_MS)
    replicas.stop(1)
    replicas.isolate(1)
    replicas.start(1)
    replicas.stop(3)
    assert (replicas.leader()[0], replicas.isr(), is_awaited(replicas)) == (2, [2], False)


def test_what_changes_meanwhile_does_not_put_it_off() -> None:
    replicas = back()
    replicas.bench.tick(INTERVAL_MS - 1)
    replicas.stop(3)
    replicas.start(3)
    replicas.bench.tick(1)
    assert replicas.leader()[0] == 1


def test_one_that_was_not_in_sync_is_counted_from_where_it_is() -> None:
    replicas = back()
    replicas.stop(1)
    replicas.bench.tick(INTERVAL_MS)
    replicas.start(1)
    replicas.bench.tick(INTERVAL_MS - 1)
    assert replicas.leader() == (2, 1)
    replicas.bench.tick(1)
    assert replicas.leader() == (1, 2)


def test_a_partition_that_has_come_to_others_is_led_by_the_first_of_them() -> None:
    replicas = Replicas((1, 2))
    wanted = {"name": "orders", "partitions": [{"partitionIndex": 0, "replicas": [3, 1]}]}
    body = {"topics": [wanted], "timeoutMs": 1000}
    answer = replicas.bench.request("ALTER_PARTITION_REASSIGNMENTS", 0, body)
    assert answer["responses"][0]["partitions"][0]["errorCode"] == 0
    assert replicas.leader()[0] == 1
    replicas.bench.tick(INTERVAL_MS)
    assert replicas.leader()[0] == 3


def test_an_election_on_request_leaves_nothing_to_do() -> None:
    replicas = back()
    wanted = [{"topic": "orders", "partitions": [0]}]
    body = {"electionType": 0, "topicPartitions": wanted, "timeoutMs": 1000}
    replicas.bench.request("ELECT_LEADERS", 2, body, broker=2)
    replicas.bench.tick(INTERVAL_MS)
    assert replicas.leader() == (1, 2)
