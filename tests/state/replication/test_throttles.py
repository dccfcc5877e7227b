"""Replication quotas: copying takes as long as the rate requires; in-sync replicas never wait."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.cluster.quota_rates import QuotaRate, QuotaSample, QuotaWindows
from brokertwin.state.core.tables import CellTables
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
    """A log of known size on two brokers; each fetch returns one batch."""

    def __init__(
        self, batches: int = BATCHES, fetch_bytes: int = BATCH_BYTES, **lists: str
    ) -> None:
        bench = Bench(BROKERS, replica_fetch_max_bytes=fetch_bytes)
        super().__init__((1, 2), bench, **lists)
        self.fill(batches)

    def fill(self, batches: int) -> None:
        """Append batches; in-sync replicas get them at once."""
        for _ in range(batches):
            response = self.produce(count=BATCH_BYTES - 70)
            assert response is not None and response["errorCode"] == 0

    def rate(self, side: str, value: int | None, *brokers: int) -> None:
        """Set or remove the rate of brokers, or the default."""
        name = f"{side}.replication.throttled.rate"
        change = {"name": name, "configOperation": SET, "value": str(value)}
        if value is None:
            change = {"name": name, "configOperation": DELETE, "value": None}
        for broker in brokers or ("",):
            resource = {"resourceType": 4, "resourceName": str(broker), "configs": [change]}
            fields = broker or 1
            response = self.bench.request("INCREMENTAL_ALTER_CONFIGS", 1, resource, broker=fields)
            assert response["responses"][0]["errorCode"] == 0, response

    def assign(self, *brokers: int) -> None:
        body = {"timeoutMs": 1000, "name": "orders", "partitionIndex": 0, "replicas": list(brokers)}
        response = self.bench.request("ALTER_PARTITION_REASSIGNMENTS", 1, body)
        assert response["responses"][0]["partitions"][0]["errorCode"] == 0, response

    def batches_on(self, broker: int) -> int:
        return self.log(broker).log_end_offset // (BATCH_BYTES - 70)

    def seconds_until(self, broker: int, batches: int = BATCHES) -> float:
        start = self.bench.now
        while self.batches_on(broker) < batches:
            self.bench.tick(100)
            assert self.bench.now < start + 1000 * SECOND_MS
        return (self.bench.now - start) / SECOND_MS


def moving(side: Side, rate: int = RATE, to: int = 3) -> Throttled:
    """A partition that starts to be copied, a minute after the limit was set."""
    replicas = Throttled(**{f"{side}.replication.throttled.replicas": "*"})
    replicas.rate(side, rate)
    replicas.bench.tick(60 * SECOND_MS)
    replicas.assign(1, 2, to)
    return replicas


@pytest.mark.parametrize("side", list(Side))
def test_reassignment_takes_as_long_as_the_rate_requires(side: Side) -> None:
    replicas = moving(side)
    assert replicas.batches_on(3) == 1, "no rate was measured before the first batch"
    assert replicas.seconds_until(3, 2) == BATCH_BYTES / RATE
    replicas.bench.reload()
    assert replicas.seconds_until(3) == (BATCHES - 2) * BATCH_BYTES / RATE
    assert sorted(replicas.isr()) == [1, 2, 3]
    assert replicas.produce()["errorCode"] == 0


@pytest.mark.parametrize("side", list(Side))
def test_partial_batches_count(side: Side) -> None:
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
def test_unlisted_or_unlimited_replica_does_not_wait(
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
def test_listed_replica_waits_and_others_do_not(side: Side, listed: str) -> None:
    replicas = Throttled(**{f"{side}.replication.throttled.replicas": listed})
    named = 1 if side is Side.LEADER else 3
    replicas.rate(side, RATE, named)
    replicas.bench.tick(60 * SECOND_MS)
    replicas.assign(1, 2, 3)
    assert replicas.batches_on(3) == 1
    assert replicas.seconds_until(3, 3) == 2 * BATCH_BYTES / RATE


def test_in_sync_replicas_never_wait_but_their_bytes_count() -> None:
    replicas = Throttled(0, **dict.fromkeys(LISTS, "*"))
    for side in Side:
        replicas.rate(side, RATE)
    replicas.fill(5)
    assert replicas.watermarks_of(2) == replicas.watermarks_of(1)
    assert replicas.batches_on(2) == 5
    replicas.assign(1, 2, 3)
    assert replicas.batches_on(3) == 0, "the in-sync replica has used the quota"
    assert replicas.seconds_until(3, 1) == 5 * BATCH_BYTES / RATE
    replicas.fill(1)
    assert replicas.batches_on(2) == 6


def test_time_before_a_follower_joins_does_not_count() -> None:
    replicas = Throttled(3, **dict.fromkeys(LISTS, "*"))
    for side in Side:
        replicas.rate(side, RATE)
    replicas.assign(1, 2, 3)
    replicas.seconds_until(3, 3)
    assert sorted(replicas.isr()) == [1, 2, 3]
    replicas.fill(10)
    assert replicas.batches_on(3) == 13


def fetched_as(replicas: Throttled, replica: int, **fields: int) -> int | None:
    """Bytes that a client reads from the log start; None if it waits."""
    part = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 10 * BATCH_BYTES}
    topics = [{"topic": "orders", "partitions": [part]}]
    body = {"replicaId": replica, "maxBytes": 10 * BATCH_BYTES, "sessionEpoch": -1}
    response = replicas.bench.request(
        "FETCH", 12, {**body, "minBytes": 1, "maxWaitMs": 0, "topics": topics, **fields}
    )
    if response is None:
        return None
    (partition,) = response["responses"][0]["partitions"]
    assert partition["errorCode"] == 0
    return int(partition["recordsSizeInBytes"])


@pytest.mark.parametrize("follower", [3, 0])
def test_client_that_fetches_as_an_out_of_sync_replica_is_throttled(
    follower: int,
) -> None:
    replicas = moving(Side.LEADER, rate=1, to=follower)
    assert replicas.batches_on(follower) == 1, "above the rate already"
    assert fetched_as(replicas, follower) == 0
    assert fetched_as(replicas, follower, maxWaitMs=500) is None
    assert fetched_as(replicas, 2) == 10 * BATCH_BYTES, "it is in sync"
    assert fetched_as(replicas, -1) == 10 * BATCH_BYTES, "consumers are not throttled"
    replicas.rate(Side.LEADER, None)
    replicas.isolate(follower)
    assert fetched_as(replicas, follower) == 10 * BATCH_BYTES


def test_bytes_fetched_by_clients_as_replicas_count() -> None:
    replicas = Throttled(5, **dict.fromkeys(LISTS, "*"))
    replicas.rate(Side.LEADER, 10 * RATE)
    assert fetched_as(replicas, 2) == 5 * BATCH_BYTES
    replicas.rate(Side.LEADER, RATE)
    replicas.assign(1, 2, 3)
    assert replicas.batches_on(3) == 0, "the client has used the quota of some seconds"
    assert replicas.seconds_until(3, 1) > 1


@pytest.mark.parametrize("side", list(Side))
def test_changed_rate_applies_at_once(side: Side) -> None:
    replicas = moving(side)
    assert replicas.seconds_until(3, 6) == 5 * BATCH_BYTES / RATE
    replicas.rate(side, 2 * RATE)
    assert replicas.batches_on(3) == 11, "held partitions continue"
    replicas.rate(side, RATE // 2)
    assert replicas.seconds_until(3, 12) > 5 * BATCH_BYTES / RATE
    replicas.rate(side, None)
    assert replicas.batches_on(3) == BATCHES


@pytest.mark.parametrize("name", LISTS)
def test_topic_without_throttle_continues_at_once(name: str) -> None:
    replicas = moving(Side(name.partition(".")[0]))
    assert replicas.batches_on(3) == 1
    replicas.alter_config(name, "")
    assert replicas.batches_on(3) == BATCHES


@pytest.mark.parametrize("side", list(Side))
def test_follower_may_copy_one_second_at_once(side: Side) -> None:
    replicas = moving(side, 5 * BATCH_BYTES)
    assert replicas.batches_on(3) == 6, "the sixth batch exceeds the rate"
    assert replicas.seconds_until(3, 7) == 6 / 5


def test_append_does_not_reach_a_held_replica() -> None:
    replicas = moving(Side.LEADER)
    replicas.fill(2)
    assert replicas.batches_on(3) == 1
    replicas.seconds_until(3, 2)
    replicas.fill(1)  # it was not caught up: the high watermark does not wait for it


def test_held_replica_gets_the_log_start() -> None:
    replicas = moving(Side.LEADER)
    topic = {"name": "orders", "partitions": [{"partitionIndex": 0, "offset": 7}]}
    response = replicas.bench.request("DELETE_RECORDS", 2, {"topics": [topic], "timeoutMs": 1000})
    (partition,) = response["topics"][0]["partitions"]
    assert (partition["lowWatermark"], partition["errorCode"]) == (7, 0)
    assert (replicas.log(3).log_start_offset, replicas.batches_on(3)) == (7, 1)


def test_held_and_then_isolated_replica_was_not_caught_up() -> None:
    replicas = moving(Side.LEADER)
    assert replicas.batches_on(3) == 1
    replicas.isolate(3)
    assert replicas.produce()["errorCode"] == 0, "the high watermark does not wait for it"
    replicas.rejoin(3)
    assert replicas.seconds_until(3) > 0


def test_restarted_broker_has_no_measured_rate() -> None:
    replicas = moving(Side.FOLLOWER)
    assert replicas.batches_on(3) == 1
    replicas.stop(3)
    replicas.start(3)
    assert replicas.batches_on(3) == 2
    assert replicas.seconds_until(3, 3) == BATCH_BYTES / RATE


def test_cluster_without_limits_counts_nothing() -> None:
    replicas = Throttled(**dict.fromkeys(LISTS, "*"))
    replicas.assign(1, 2, 3)
    tables = replicas.bench.cell.tables
    assert [key for key in tables.quotas.keys("") if "/rate/" in key] == []
    assert [key for key in tables.replication.keys("") if "/held/" in key] == []


def broker_of(samples: list[QuotaSample], now: int, limit: int) -> Broker:
    bench = Bench(leader_replication_throttled_rate=limit)
    tables = CellTables()
    tables.quotas.put("1/rate/leader.replication", QuotaRate(samples))
    return Broker(1, tables, bench.settings, now)


@given(
    gaps=st.lists(
        st.tuples(st.integers(1000, 3000), st.integers(1, 5000)), min_size=1, max_size=12
    ),
    since=st.integers(0, 3000),
    limit=st.one_of(st.just(0), st.integers(1, 4000)),
)
@settings(max_examples=examples(100))
def test_timer_fires_as_soon_as_the_rate_allows(
    gaps: list[tuple[int, int]], since: int, limit: int
) -> None:
    now, rate = 0, QuotaRate([])
    for gap, size in gaps:
        now += gap
        rate.record(now, size, QuotaWindows(11, 1000))
    now += since
    broker = broker_of(rate.samples, now, limit)
    if not throttles._is_exceeded(broker, Side.LEADER):
        return
    allowed = throttles._allowed_at(broker, Side.LEADER)
    assert not throttles._is_exceeded(broker_of(rate.samples, allowed, limit), Side.LEADER)
    for other in {now, allowed - 1, *range(now, allowed, 97)}:
        assert throttles._is_exceeded(broker_of(rate.samples, other, limit), Side.LEADER), other


@pytest.mark.parametrize("is_read_again", [False, True])
def test_fetch_session_that_is_no_longer_a_replicas_is_not_throttled(is_read_again: bool) -> None:
    made = Throttled(**{LISTS[0]: "*"})
    made.isolate(3)
    made.rate("leader", 10)
    made.assign(1, 2, 3)

    def fetched(replica: int, session: int, epoch: int) -> Any:
        partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 100_000}
        topics = [{"topic": "orders", "partitions": [partition]}]
        body = {"replicaId": replica, "sessionId": session, "sessionEpoch": epoch, "topics": topics}
        return made.bench.request("FETCH", 12, {"minBytes": 1, **body}, broker=1)

    def sizes(response: Any) -> list[int]:
        parts = [part for topic in response["responses"] for part in topic["partitions"]]
        return [part["recordsSizeInBytes"] for part in parts]

    response = fetched(3, 0, 0)
    session = response["sessionId"]
    assert not any(sizes(fetched(3, session, 1)))
    if is_read_again:
        made.bench.reload()
    assert sum(sizes(fetched(-1, session, 2))) > 0
