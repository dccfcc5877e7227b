"""Client quotas: precedence, rates, and throttled responses."""

from typing import Any

import pytest

from brokertwin.state.cell.cell import Cell
from brokertwin.state.cluster import client_quotas
from brokertwin.state.cluster.client_quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, Entity
from brokertwin.state.cluster.quota_rates import (
    EXPIRATION_CHECK_INTERVAL_MS,
    QuotaRate,
    QuotaWindows,
)
from brokertwin.state.core.records import ClientQuotaAltered
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import CellTables
from tests.support.machine import Bench, header, produce_body
from tests.support.replicas import Replicas

TOPIC = "orders"
SETTINGS = BrokerSettings()
WINDOWS = QuotaWindows(SETTINGS.quota_window_num, SETTINGS.quota_window_size_seconds * 1000)
ALICE, APP = "alice", "app"
HOUR = EXPIRATION_CHECK_INTERVAL_MS
WINDOWS_MS = WINDOWS.age_ms
"""All samples have expired after this time."""


def part(kind: str, name: str | None) -> dict[str, Any]:
    return {"entityType": kind, "entityName": name}


def alter(bench: Bench, entity: list[dict[str, Any]], *ops: dict[str, Any]) -> int:
    entry = {"entity": entity, "ops": [{"value": 0.0, "remove": False, **op} for op in ops]}
    response = bench.request("ALTER_CLIENT_QUOTAS", 1, {"entries": [entry], "validateOnly": False})
    return int(response["entries"][0]["errorCode"])


def described(bench: Bench, *components: dict[str, Any], strict: bool = False) -> Any:
    return bench.request("DESCRIBE_CLIENT_QUOTAS", 1, components=list(components), strict=strict)


LEVELS: list[Entity] = [
    {"user": ALICE, "client-id": APP},
    {"user": ALICE, "client-id": None},
    {"user": ALICE},
    {"user": None, "client-id": APP},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": APP},
    {"client-id": None},
]
"""Entities in their order of precedence (KIP-55)."""


def test_first_existing_quota_applies() -> None:
    at = CellTables().of(1)
    for value, entity in reversed(list(enumerate(LEVELS, 1))):
        record = ClientQuotaAltered(entity, CONSUMER_BYTE_RATE, float(value))
        client_quotas.apply_altered(at, record)
        limit = client_quotas.limit(at, ALICE, APP, CONSUMER_BYTE_RATE)
        assert limit is not None
        assert limit.value == value
        kinds = [each.partition("=")[0] for each in limit.shared_by.split("/")]
        assert kinds == sorted(entity)
    for entity in LEVELS:
        client_quotas.apply_altered(at, ClientQuotaAltered(entity, CONSUMER_BYTE_RATE, None))
    assert client_quotas.limit(at, ALICE, APP, CONSUMER_BYTE_RATE) is None
    assert at.tables.metadata.keys("") == []


def test_rate_covers_at_least_all_windows_but_one() -> None:
    rate = QuotaRate([])
    rate.record(0, 1000.0, WINDOWS)
    assert rate.per_second(0, WINDOWS) == 100
    rate.record(5_000, 1000.0, WINDOWS)
    assert rate.per_second(5_000, WINDOWS) == 200
    assert rate.per_second(20_000, WINDOWS) == 0


def test_steady_rate_has_all_windows() -> None:
    """Eleven samples of a second, the first of which started ten seconds ago."""
    rate = QuotaRate([])
    for second in range(30):
        rate.record(second * 1000, 1000.0, WINDOWS)
    assert rate.per_second(29_000, WINDOWS) == 1100


def test_quotas_are_set_described_and_removed() -> None:
    bench = Bench()
    user, client = part("user", ALICE), part("client-id", None)
    assert alter(bench, [user, client], {"key": CONSUMER_BYTE_RATE, "value": 500.0}) == 0
    entity = {"entityType": "user", "matchType": 0, "match": ALICE}
    (entry,) = described(bench, entity)["entries"]
    assert sorted(entry["entity"], key=str) == sorted([user, client], key=str)
    assert entry["values"] == [{"key": CONSUMER_BYTE_RATE, "value": 500.0}]
    assert described(bench, entity, strict=True)["entries"] == []
    assert alter(bench, [user, client], {"key": CONSUMER_BYTE_RATE, "remove": True}) == 0
    assert described(bench)["entries"] == []


@pytest.mark.parametrize(
    ("entity", "op"),
    [
        ([], {"key": CONSUMER_BYTE_RATE, "value": 1.0}),
        ([part("topic", "t")], {"key": CONSUMER_BYTE_RATE, "value": 1.0}),
        ([part("user", ALICE)], {"key": "speed", "value": 1.0}),
        ([part("user", ALICE)], {"key": CONSUMER_BYTE_RATE, "value": 0.0}),
        ([part("user", ALICE)], {"key": CONSUMER_BYTE_RATE, "value": 1.5}),
        ([part("ip", "127.0.0.1"), part("user", ALICE)], {"key": "speed", "value": 1.0}),
        ([part("ip", "127.0.0.1")], {"key": "connection_creation_rate", "value": 2.0**40}),
    ],
)
def test_invalid_alteration_is_an_invalid_request(
    entity: list[dict[str, Any]], op: dict[str, Any]
) -> None:
    assert alter(Bench(), entity, op) == 42


@pytest.mark.parametrize(
    ("component", "error"),
    [
        ({"entityType": "", "matchType": 2}, 42),
        ({"entityType": "topic", "matchType": 2}, 35),
        ({"entityType": "user", "matchType": 7}, 42),
        ({"entityType": "user", "matchType": 0}, 42),
    ],
)
def test_invalid_filter_is_rejected(component: dict[str, Any], error: int) -> None:
    assert described(Bench(), component)["errorCode"] == error


@pytest.mark.parametrize("value", ["Infinity", "NaN", 12.5])
def test_non_finite_quota_survives_checkpoint_and_record(value: Any) -> None:
    bench = Bench()
    assert alter(bench, [part("user", ALICE)], {"key": "request_percentage", "value": value}) == 0
    bench.cell = Cell(bench.settings, bench.cell.columns())
    (entry,) = described(bench)["entries"]
    assert entry["values"] == [{"key": "request_percentage", "value": value}]
    altered = [r["record"] for r in bench.records() if r["record"]["type"] == "ClientQuotaAltered"]
    assert {record["value"] for record in altered} == {value}


def test_nan_quota_throttles_no_client_and_allows_one_batch() -> None:
    reader = Reader()
    assert (
        alter(
            reader.bench, [part("client-id", "bench")], {"key": CONSUMER_BYTE_RATE, "value": "NaN"}
        )
        == 0
    )
    assert [sizes(reader.fetch(0)) for _ in range(3)] == [[1000]] * 3


FRAME = (4 + 4 + 6 + 1 + 1) + (1 + len(TOPIC) + 1 + 1) + (4 + 2 + 24 + 1 + 4 + 2 + 1)
"""Bytes around the records of one partition: of response, topic and partition."""


READER_RATE = 110.0


class Reader:
    """A consumer whose responses have 1000 bytes of records; its quota allows one."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.bench.topic(TOPIC)
        for _ in range(3):
            self.bench.append(TOPIC, header(size=1000))
        quota = {"key": CONSUMER_BYTE_RATE, "value": READER_RATE}
        alter(self.bench, [part("client-id", "bench")], quota)

    def fetch(self, offset: int, session: int = 0, epoch: int = -1) -> dict[str, Any]:
        partition = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1000}
        body = {"sessionId": session, "sessionEpoch": epoch}
        body |= {"topics": [{"topic": TOPIC, "partitions": [partition]}]}
        response: dict[str, Any] = self.bench.request("FETCH", 12, body)
        return response


def sizes(response: dict[str, Any]) -> list[int]:
    return [
        partition["recordsSizeInBytes"]
        for topic in response["responses"]
        for partition in topic["partitions"]
    ]


def test_fast_consumer_waits_and_then_gets_all_records() -> None:
    reader = Reader()
    assert sizes(reader.fetch(0)) == [1000]
    throttled = reader.fetch(1)
    excess = 2 * (1000 + FRAME) / 10 - READER_RATE
    assert throttled["throttleTimeMs"] == round(excess / READER_RATE * 10_000)
    assert (throttled["responses"], throttled["errorCode"]) == ([], 0)
    reader.bench.now += WINDOWS_MS
    assert sizes(reader.fetch(1)) == [1000]


def test_idle_client_is_dropped() -> None:
    reader = Reader()
    reader.fetch(0)
    rates, bench = reader.bench.cell.tables.quotas, reader.bench
    (rate,) = rates.keys("1/rate/")
    bench.now = bench.now // HOUR * HOUR + HOUR - 1
    reader.fetch(1)
    bench.now += 1
    bench.tick()
    assert rates.keys("1/rate/") == [rate], "its last fetch still counts"
    bench.now += HOUR
    bench.tick()
    assert rates.keys("1/rate/") == []


def test_example_19_throttled_full_response_creates_no_session() -> None:
    reader = Reader()
    reader.fetch(0)
    assert reader.fetch(1, epoch=0)["sessionId"] == 0
    assert reader.bench.cell.tables.fetch_sessions.keys("1/session/") == []


def test_throttled_response_keeps_the_session_unchanged() -> None:
    reader = Reader()
    session = reader.fetch(0, epoch=0)["sessionId"]
    throttled = reader.fetch(1, session, 1)
    assert (throttled["sessionId"], throttled["responses"]) == (session, [])
    assert throttled["throttleTimeMs"] > 0
    reader.bench.now += WINDOWS_MS
    again = reader.fetch(1, session, 2)
    assert (again["throttleTimeMs"], sizes(again)) == (0, [1000])


def test_session_response_counts_only_its_partitions() -> None:
    reader = Reader()
    bench, table = reader.bench, reader.bench.cell.tables.quotas
    session = reader.fetch(0, epoch=0)["sessionId"]
    (key,) = table.keys("1/rate/")
    empty = 4 + 4 + 6 + 1 + 1

    def counted(offset: int, epoch: int) -> float:
        bench.now += WINDOWS_MS
        reader.fetch(offset, session, epoch)
        rate = table.get(key, QuotaRate)
        return sum(sample.value for sample in rate.samples if sample.start == bench.now)

    assert counted(3, 1) == empty, "no changes"
    assert counted(1, 2) == 1000 + FRAME
    assert counted(9, 3) > empty, "an error is shown"


def test_response_is_limited_to_the_quota_of_the_windows() -> None:
    reader = Reader()
    alter(reader.bench, [part("client-id", "bench")], {"key": CONSUMER_BYTE_RATE, "value": 250.0})
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 10_000}
    body = {"sessionEpoch": -1, "topics": [{"topic": TOPIC, "partitions": [partition]}]}
    wait_ms = reader.bench.request("FETCH", 12, body)["throttleTimeMs"]
    assert wait_ms == 4 * FRAME, "the bytes around the records exceed the quota briefly"
    reader.bench.now += wait_ms
    assert sizes(reader.bench.request("FETCH", 12, body)) == [2500]


class Writer:
    """A producer that writes 1000 bytes at a time, with a quota of 100 per second."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        alter(bench, [part("client-id", "bench")], {"key": PRODUCER_BYTE_RATE, "value": 100.0})

    def send(self, acks: int = 1, **fields: Any) -> str:
        """Send a Produce to broker 1; return its id."""
        body = produce_body(TOPIC, header(size=1000), acks=acks, timeoutMs=30000, **fields)
        body["topicData"][0]["partitionData"][0]["recordsSizeInBytes"] = 1000
        return self.bench.send("PRODUCE", 9, body)

    def write(self, acks: int = 1, **fields: Any) -> Any:
        """Response to a Produce, or None."""
        return self.bench.responses.get(self.send(acks, **fields), {}).get("response")


def writer_alone() -> Writer:
    writer = Writer(Bench())
    writer.bench.topic(TOPIC)
    return writer


def test_fast_producer_is_written_and_muted() -> None:
    writer = writer_alone()
    responses = [writer.write() for _ in range(3)]
    assert [each["throttleTimeMs"] for each in responses] == [0, 10_000, 20_000]
    offsets = [each["responses"][0]["partitionResponses"][0]["baseOffset"] for each in responses]
    assert offsets == [0, 1, 2], "everything is written and counts"
    writer.bench.now += WINDOWS_MS
    assert writer.write()["throttleTimeMs"] == 0


def test_produce_counts_by_reported_size_even_if_rejected_or_without_response() -> None:
    writer = writer_alone()
    assert writer.write(requestSizeInBytes=1100)["throttleTimeMs"] == 1000
    assert writer.write(acks=0) is None
    refused = writer.write(acks=5, requestSizeInBytes=1)
    assert refused["responses"][0]["partitionResponses"][0]["errorCode"] == 21
    assert refused["throttleTimeMs"] == 11_010


def test_pending_produce_keeps_its_throttle_time() -> None:
    replicas = Replicas()
    writer = Writer(replicas.bench)
    replicas.isolate(2, 3)
    waiting = writer.send(requestSizeInBytes=2000, acks=-1)
    assert waiting not in writer.bench.responses
    replicas.rejoin(2, 3)
    for _ in range(20):
        writer.bench.tick(1000)
    assert writer.bench.responses[waiting]["response"]["throttleTimeMs"] == 10_000


@pytest.mark.parametrize(
    ("name", "host", "rate"),
    [
        ("10.0.0.7", "10.0.0.7", 3.0),
        ("10.0.0.7", "::ffff:10.0.0.7", 3.0),
        ("10.0.0.7", "10.0.0.8", 9.0),
        ("localhost", "127.0.0.1", 3.0),
        ("localhost", "127.0.0.2", 9.0),
        ("2001:db8::1", "2001:db8::1", 3.0),
        ("2001:db8:0:0:0:0:0:1", "2001:db8::1", 3.0),
        ("10.0.0.7", "", 9.0),
    ],
)
def test_address_has_its_own_connection_rate_or_the_default(
    name: str, host: str, rate: float
) -> None:
    at = CellTables().of(1)
    assert client_quotas.connection_rate(at, host) is None
    for entity, value in (({"ip": name}, 3.0), ({"ip": None}, 9.0)):
        record = ClientQuotaAltered(entity, "connection_creation_rate", value)
        client_quotas.apply_altered(at, record)
    assert client_quotas.connection_rate(at, host) == rate
    assert client_quotas.connection_rate(at.tables.of(2), host) is None
