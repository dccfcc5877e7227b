"""Idle producers expire at the checks, and at no other time."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from brokertwin.state.cell.expiry import last_check
from brokertwin.state.core import outputs
from brokertwin.state.logs import producer_expiry
from brokertwin.state.logs.producer import ProducerStateEntry
from brokertwin.state.logs.producer_expiry import is_expired
from tests.support.machine import START, Bench, header

DAY = 86_400_000
INTERVAL = 600_000
NEXT_CHECK = START // INTERVAL * INTERVAL + INTERVAL


def produce(
    bench: Bench, sequence: int, timestamp: int, producer_id: int = 7, index: int = 0
) -> dict[str, Any]:
    batch = header(1, producer_id, 0, sequence, maxTimestamp=timestamp)
    return bench.append("orders", batch, partition=index, version=12)


def known(bench: Bench, partition: int = 0) -> list[int]:
    body = {"topics": [{"name": "orders", "partitionIndexes": [partition]}]}
    described = bench.request("DESCRIBE_PRODUCERS", 0, body)["topics"][0]["partitions"][0]
    return [producer["producerId"] for producer in described["activeProducers"]]


def orders(**settings: Any) -> Bench:
    bench = Bench(**settings)
    bench.topic("orders", partitions=2)
    return bench


def test_example_15_producer_expires_a_day_after_its_last_timestamp() -> None:
    silent = ProducerStateEntry(producer_epoch=0, last_timestamp=0)
    assert not is_expired(silent, 86_399_999, DAY)
    assert is_expired(silent, 86_400_000, DAY)


def test_checks_run_at_multiples_of_the_interval() -> None:
    assert last_check(INTERVAL, 0, INTERVAL - 1) is None
    assert last_check(INTERVAL, 0, INTERVAL) == INTERVAL
    assert last_check(INTERVAL, INTERVAL, 2 * INTERVAL - 1) is None
    assert last_check(INTERVAL, INTERVAL - 1, 5 * INTERVAL + 3) == 5 * INTERVAL


def test_expired_producer_may_start_at_any_sequence() -> None:
    bench = orders()
    produce(bench, 0, START)
    produce(bench, 0, START + 2 * INTERVAL, producer_id=8)
    bench.tick(DAY - 1)
    assert known(bench) == [7, 8]
    assert produce(bench, 5, bench.now)["errorCode"] == 45
    bench.tick(INTERVAL)
    assert known(bench) == [8]
    assert produce(bench, 5, bench.now)["errorCode"] == 0


def test_duplicate_after_expiry_is_appended_again() -> None:
    bench = orders()
    assert produce(bench, 0, START)["baseOffset"] == 0
    assert produce(bench, 0, START)["baseOffset"] == 0
    bench.tick(DAY + INTERVAL)
    assert produce(bench, 0, bench.now)["baseOffset"] == 1


def test_producer_with_old_timestamps_stays_until_the_next_check() -> None:
    bench = orders()
    old = START - 365 * DAY
    assert produce(bench, 0, old)["baseOffset"] == 0
    bench.now = NEXT_CHECK - 1
    assert produce(bench, 0, old)["baseOffset"] == 0, "a duplicate"
    assert known(bench) == [7]
    bench.now = NEXT_CHECK
    assert known(bench) == []


def test_new_batch_renews_a_producer_but_duplicate_does_not() -> None:
    bench = orders()
    produce(bench, 0, START)
    produce(bench, 0, START, producer_id=8)
    bench.now = START + DAY // 2
    produce(bench, 1, bench.now)
    produce(bench, 0, bench.now, producer_id=8)
    bench.now = START + DAY + INTERVAL
    assert known(bench) == [7]


def test_expiration_and_interval_are_configurable() -> None:
    bench = orders(producer_id_expiration_ms=5000, producer_id_expiration_check_interval_ms=1000)
    produce(bench, 0, START)
    bench.tick(4999)
    assert known(bench) == [7]
    bench.tick(1)
    assert known(bench) == []


def test_idle_cluster_has_no_expiry_timer() -> None:
    bench = orders()
    produce(bench, 0, START)
    assert bench.of(outputs.TIMERS) == []
    bench.tick(DAY + INTERVAL)
    assert bench.of(outputs.TIMERS) == []


def test_expiry_record_precedes_the_records_of_the_event() -> None:
    bench = orders()
    for producer_id in (10, 9):
        produce(bench, 0, START, producer_id, index=1)
    bench.now = START + 3 * DAY
    produce(bench, 0, bench.now)
    expired, appended = bench.records()[-2:]
    assert expired["record"]["type"] == "ProducersExpired"
    assert (expired["record"]["partition"], expired["record"]["producerIds"]) == (1, [9, 10])
    assert expired["time"] == (START + 3 * DAY) // INTERVAL * INTERVAL
    assert appended["record"]["type"] == "BatchAppended"


def test_pending_requests_time_out_in_order_with_checks() -> None:
    bench = orders()
    produce(bench, 0, START - DAY)
    bench.now = NEXT_CHECK - 100
    body = {"minBytes": 1, "topics": [{"topic": "orders", "partitions": [{"partition": 1}]}]}
    for wait in (50, 150):
        bench.send("FETCH", 12, body, maxWaitMs=wait, id=f"wait-{wait}")
    bench.tick(1000)
    assert [bench.responses[f"wait-{w}"]["responseTime"] for w in (50, 150)] == [
        NEXT_CHECK - 50,
        NEXT_CHECK + 50,
    ]
    assert bench.records()[-1]["time"] == NEXT_CHECK


def test_many_ids_are_split_into_records(monkeypatch: Any) -> None:
    monkeypatch.setattr(producer_expiry, "IDS_MAX", 2)
    bench = orders()
    for producer_id in range(5):
        produce(bench, 0, START, producer_id)
    bench.tick(2 * DAY)
    expired = [e["record"]["producerIds"] for e in bench.records() if "producerIds" in e["record"]]
    assert expired == [[0, 1], [2, 3], [4]]
    assert known(bench) == []


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8), st.integers(0, 30))
def test_additional_ticks_change_nothing(pauses: list[int], age: int) -> None:
    """Only the time of the next event counts, not the number of checks."""
    given = {
        "producer_id_expiration_ms": 20_000,
        "producer_id_expiration_check_interval_ms": 4000,
    }
    busy, quiet = (orders(**given) for _ in range(2))
    for bench in (busy, quiet):
        produce(bench, 0, START - age * 1000)
    for pause in pauses:
        busy.tick(pause * 1000)
    quiet.now = busy.now
    assert known(busy) == known(quiet)
