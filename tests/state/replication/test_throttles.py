"""Throttles: what is copied takes the time that the rate says, and who is in sync never waits."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.cluster.quota_rates import Rate, Sample, Windows
from brokertwin.state.core.tables import Tables
from brokertwin.state.replication import throttles
from brokertwin.state.replication.throttles import Side
from tests.support.examples import examples
from tests.support.machine import Bench
from tests.support.replicas import Replicas

BROKERS = (1, 2, 3, 4, 0)
BATCH_BYTES = 1000
RATE = 500
BATCHES = 20
SECOND_MS = 1000
LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
SET, DELETE = 0, 1


class Throttled(Replicas):
    """A log of known bytes, on brokers 1 and 2; a follower's fetch brings one batch."""

    def __init__(
        self, batches: int = BATCHES, fetch_bytes: int = BATCH_BYTES, **lists: str
    ) -> None:
        bench = Bench(BROKERS, replica_fetch_max_bytes=fetch_bytes)
        super().__init__((1, 2), bench, **lists)
        self.fill(batches)

    def fill(self, batches: int) -> None:
        """Appends that many batches; those in sync have them at once."""
        for _ in range(batches):
            answer = self.produce(count=BATCH_BYTES - 70)
            assert answer is not None and answer["errorCode"] == 0

    def rate(self, side: str, value: int | None, *brokers: int) -> None:
        """Sets the rate of brokers, or takes it away; of all by no name."""
        name = f"{side}.replication.throttled.rate"
        change = {"name": name, "configOperation": SET, "value": str(value)}
        if value is None:
            change = {"name": name, "configOperation": DELETE, "value": None}
        for broker in brokers or ("",):
            resource = {"resourceType": 4, "resourceName": str(broker), "configs": [change]}
            body = {"resources": [resource]}
            asked = broker or 1
            answer = self.bench.request("INCREMENTAL_ALTER_CONFIGS", 1, body, broker=asked)
            assert answer["responses"][0]["errorCode"] == 0, answer

    def assign(self, *brokers: int) -> None:
        """Reassigns the partition."""
        wanted = {"partitionIndex": 0, "replicas": list(brokers)}
        body = {"timeoutMs": 1000, "topics": [{"name": "orders", "partitions": [wanted]}]}
        answer = self.bench.request("ALTER_PARTITION_REASSIGNMENTS", 1, body)
        assert answer["responses"][0]["partitions"][0]["errorCode"] == 0, answer

    def batches_on(self, broker: int) -> int:
        """How many of the batches a broker has."""
        return self.log(broker).log_end_offset // (BATCH_BYTES - 70)

    def seconds_until(self, broker: int, batches: int = BATCHES) -> float:
        """The time until a broker has so many batches."""
        start = self.bench.now
        while self.batches_on(broker) < batches:
            self.bench.tick(100)
            assert self.bench.now < start + 1000 * SECOND_MS
        return (self.bench.now - start) / SECOND_MS


def moving(side: Side, rate: int = RATE, to: int = 3) -> Throttled:
    """A partition that begins to be copied, a minute after its brokers got a limit."""
    replicas = Throttled(**{f"{side}.replication.throttled.replicas": "*"})
    replicas.rate(side, rate)
    replicas.bench.tick(60 * SECOND_MS)
    replicas.assign(1, 2, to)
    return replicas


@pytest.mark.parametrize("side", list(Side))
def test_a_reassignment_takes_the_time_that_the_rate_says(side: Side) -> None:
    replicas = moving(side)
    assert replicas.batches_on(3) == 1, "the first one finds no rate"
    assert replicas.seconds_until(3, 2) == BATCH_BYTES / RATE
    replicas.bench.reload()
    assert replicas.seconds_until(3) == (BATCHES - 2) * BATCH_BYTES / RATE
    assert sorted(replicas.isr()) == [1, 2, 3]
    assert replicas.produce()["errorCode"] == 0


@pytest.mark.parametrize("side", list(Side))
def test_the_part_of_a_batch_that_did_not_fit_counts(side: Side) -> None:
    lists = {f"{side}.replication.throttled.replicas": "*"}
    replicas = Throttled(fetch_bytes=BATCH_BYTES * 3 // 2, **lists)
    replicas.rate(side, RATE)
    replicas.bench.tick(60 * SECOND_MS)
    replicas.assign(1, 2, 3)
    assert replicas.batches_on(3) == 1
    assert replicas.seconds_until(3, 2) == BATCH_BYTES * 3 / 2 / RATE


@pytest.mark.parametrize(
    ("lists", "rated"),
    [
        ({}, Side),
        ({LISTS[0]: "0:2,0:3", LISTS[1]: "0:1,0:2,1:3"}, Side),
        ({LISTS[0]: "*", LISTS[1]: "*"}, ()),
        ({LISTS[0]: "*"}, [Side.FOLLOWER]),
        ({LISTS[1]: "*"}, [Side.LEADER]),
        ({LISTS[1]: "0:3"}, [Side.LEADER]),
    ],
)
def test_who_is_not_named_or_has_no_rate_does_not_wait(
    lists: dict[str, str], rated: list[Side]
) -> None:
    replicas = Throttled(**lists)
    for side in rated:
        replicas.rate(side, RATE)
    replicas.assign(1, 2, 3)
    assert replicas.batches_on(3) == BATCHES


@pytest.mark.parametrize(
    ("side", "listed"), [(Side.LEADER, "1:7, 0:1"), (Side.FOLLOWER, "0:3,0:4")]
)
def test_a_named_replica_waits_and_others_do_not(side: Side, listed: str) -> None:
    replicas = Throttled(**{f"{side}.replication.throttled.replicas": listed})
    named = 1 if side is Side.LEADER else 3
    replicas.rate(side, RATE, named)
    replicas.bench.tick(60 * SECOND_MS)
    replicas.assign(1, 2, 3)
    assert replicas.batches_on(3) == 1
    assert replicas.seconds_until(3, 3) == 2 * BATCH_BYTES / RATE


def test_in_sync_replicas_never_wait_but_what_they_copy_counts() -> None:
    replicas = Throttled(0, **dict.fromkeys(LISTS, "*"))
    for side in Side:
        replicas.rate(side, RATE)
    replicas.fill(5)
    assert replicas.watermarks_of(2) == replicas.watermarks_of(1)
    assert replicas.batches_on(2) == 5
    replicas.assign(1, 2, 3)
    assert replicas.batches_on(3) == 0, "the leader has given its in-sync replica all that"
    assert replicas.seconds_until(3, 1) == 5 * BATCH_BYTES / RATE
    replicas.fill(1)
    assert replicas.batches_on(2) == 6


def test_a_leader_that_was_throttled_before_a_follower_joins_does_not_afterwards() -> None:
    replicas = Throttled(3, **dict.fromkeys(LISTS, "*"))
    for side in Side:
        replicas.rate(side, RATE)
    replicas.assign(1, 2, 3)
    replicas.seconds_until(3, 3)
    assert sorted(replicas.isr()) == [1, 2, 3]
    replicas.fill(10)
    assert replicas.batches_on(3) == 13


def fetched_as(replicas: Throttled, replica: int, **asked: int) -> int | None:
    """The bytes that a client gets of the log's beginning; None: it waits."""
    wanted = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 10 * BATCH_BYTES}
    topics = [{"topic": "orders", "partitions": [wanted]}]
    body = {"replicaId": replica, "maxBytes": 10 * BATCH_BYTES, "sessionEpoch": -1}
    answer = replicas.bench.request(
        "FETCH", 12, {**body, "minBytes": 1, "maxWaitMs": 0, "topics": topics, **asked}
    )
    if answer is None:
        return None
    (partition,) = answer["responses"][0]["partitions"]
    assert partition["errorCode"] == 0
    return int(partition["recordsSizeInBytes"])


@pytest.mark.parametrize("follower", [3, 0])
def test_a_client_that_fetches_as_a_replica_out_of_sync_gets_nothing_for_a_while(
    follower: int,
) -> None:
    replicas = moving(Side.LEADER, rate=1, to=follower)
    assert replicas.batches_on(follower) == 1, "which is too fast already"
    assert fetched_as(replicas, follower) == 0
    assert fetched_as(replicas, follower, maxWaitMs=500) is None
    assert fetched_as(replicas, 2) == 10 * BATCH_BYTES, "it is in sync"
    assert fetched_as(replicas, -1) == 10 * BATCH_BYTES, "nor are consumers held back"
    replicas.rate(Side.LEADER, None)
    replicas.isolate(follower)
    assert fetched_as(replicas, follower) == 10 * BATCH_BYTES


def test_what_clients_fetch_as_replicas_counts() -> None:
    replicas = Throttled(5, **dict.fromkeys(LISTS, "*"))
    replicas.rate(Side.LEADER, 10 * RATE)
    assert fetched_as(replicas, 2) == 5 * BATCH_BYTES
    replicas.rate(Side.LEADER, RATE)
    replicas.assign(1, 2, 3)
    assert replicas.batches_on(3) == 0, "the client has taken what there is for some seconds"
    assert replicas.seconds_until(3, 1) > 1


@pytest.mark.parametrize("side", list(Side))
def test_another_rate_holds_at_once(side: Side) -> None:
    replicas = moving(side)
    assert replicas.seconds_until(3, 6) == 5 * BATCH_BYTES / RATE
    replicas.rate(side, 2 * RATE)
    assert replicas.batches_on(3) == 11, "what was held back for the last seconds comes now"
    replicas.rate(side, RATE // 2)
    assert replicas.seconds_until(3, 12) > 5 * BATCH_BYTES / RATE
    replicas.rate(side, None)
    assert replicas.batches_on(3) == BATCHES


@pytest.mark.parametrize("name", LISTS)
def test_a_topic_that_is_not_throttled_any_more_goes_on_at_once(name: str) -> None:
    replicas = moving(Side(name.partition(".")[0]))
    assert replicas.batches_on(3) == 1
    replicas.alter_config(name, "")
    assert replicas.batches_on(3) == BATCHES


@pytest.mark.parametrize("side", list(Side))
def test_a_follower_may_copy_a_seconds_worth_at_once(side: Side) -> None:
    replicas = moving(side, 5 * BATCH_BYTES)
    assert replicas.batches_on(3) == 6, "with the sixth the rate is above the limit"
    assert replicas.seconds_until(3, 7) == 6 / 5


def test_an_append_does_not_reach_who_is_held_back() -> None:
    replicas = moving(Side.LEADER)
    replicas.fill(2)
    assert replicas.batches_on(3) == 1
    replicas.seconds_until(3, 2)
    replicas.fill(1)  # it was not caught up either: the high watermark does not wait for it


def test_who_is_held_back_hears_of_the_logs_start() -> None:
    replicas = moving(Side.LEADER)
    wanted = {"name": "orders", "partitions": [{"partitionIndex": 0, "offset": 7}]}
    answer = replicas.bench.request("DELETE_RECORDS", 2, {"topics": [wanted], "timeoutMs": 1000})
    (found,) = answer["topics"][0]["partitions"]
    assert (found["lowWatermark"], found["errorCode"]) == (7, 0)
    assert (replicas.log(3).log_start_offset, replicas.batches_on(3)) == (7, 1)


def test_who_is_held_back_and_then_cut_off_was_not_caught_up() -> None:
    replicas = moving(Side.LEADER)
    assert replicas.batches_on(3) == 1
    replicas.isolate(3)
    assert replicas.produce()["errorCode"] == 0, "the high watermark does not wait for it"
    replicas.rejoin(3)
    assert replicas.seconds_until(3) > 0


def test_a_broker_that_restarts_has_forgotten_how_fast_it_was() -> None:
    replicas = moving(Side.FOLLOWER)
    assert replicas.batches_on(3) == 1
    replicas.stop(3)
    replicas.start(3)
    assert replicas.batches_on(3) == 2
    assert replicas.seconds_until(3, 3) == BATCH_BYTES / RATE


def test_a_cluster_without_limits_counts_nothing() -> None:
    replicas = Throttled(**dict.fromkeys(LISTS, "*"))
    replicas.assign(1, 2, 3)
    tables = replicas.bench.cell.tables
    assert [key for key in tables.quotas.keys("") if "/rate/" in key] == []
    assert [key for key in tables.replication.keys("") if "/held/" in key] == []


def broker_of(samples: list[Sample], now: int, limit: int) -> Broker:
    bench = Bench(leader_replication_throttled_rate=limit)
    tables = Tables()
    tables.quotas.put("1/rate/leader.replication", Rate(samples))
    return Broker(1, tables, bench.settings, now)


@given(
    gaps=st.lists(
        st.tuples(st.integers(1000, 3000), st.integers(1, 5000)), min_size=1, max_size=12
    ),
    since=st.integers(0, 3000),
    limit=st.one_of(st.just(0), st.integers(1, 4000)),
)
@settings(max_examples=examples(100))
def test_a_timer_runs_until_the_first_time_at_which_the_rate_allows(
    gaps: list[tuple[int, int]], since: int, limit: int
) -> None:
    now, rate = 0, Rate([])
    for gap, size in gaps:
        now += gap
        rate.record(now, size, Windows(11, 1000))
    now += since
    broker = broker_of(rate.samples, now, limit)
    if not throttles._is_exceeded(broker, Side.LEADER):
        return
    allowed = throttles._allowed_at(broker, Side.LEADER)
    assert not throttles._is_exceeded(broker_of(rate.samples, allowed, limit), Side.LEADER)
    for other in {now, allowed - 1, *range(now, allowed, 97)}:
        assert throttles._is_exceeded(broker_of(rate.samples, other, limit), Side.LEADER), other


@pytest.mark.parametrize("is_read_again", [False, True])
def test_a_session_that_is_no_replicas_any_more_is_not_held_back(is_read_again: bool) -> None:
    made = Throttled(**{LISTS[0]: "*"})
    made.isolate(3)
    made.rate("leader", 10)
    made.assign(1, 2, 3)

    def fetched(replica: int, session: int, epoch: int) -> Any:
        wanted = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 100_000}
        topics = [{"topic": "orders", "partitions": [wanted]}]
        body = {"replicaId": replica, "sessionId": session, "sessionEpoch": epoch, "topics": topics}
        return made.bench.request("FETCH", 12, {"minBytes": 1, **body}, broker=1)

    def sizes(answer: Any) -> list[int]:
        parts = [part for topic in answer["responses"] for part in topic["partitions"]]
        return [part["recordsSizeInBytes"] for part in parts]

    answer = fetched(3, 0, 0)
    session = answer["sessionId"]
    assert not any(sizes(fetched(3, session, 1)))
    if is_read_again:
        made.bench.reload()
    assert sum(sizes(fetched(-1, session, 2))) > 0
