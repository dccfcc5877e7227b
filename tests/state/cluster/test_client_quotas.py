"""Client quotas: which holds for whom, how a rate is taken, and what a throttled fetch gets."""

from typing import Any

import pytest

from brokertwin.state.cell.cell import Cell
from brokertwin.state.cluster import client_quotas
from brokertwin.state.cluster.client_quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE, Entity
from brokertwin.state.cluster.quota_rates import EXPIRATION_CHECK_INTERVAL_MS, Rate, Windows
from brokertwin.state.core.records import ClientQuotaAltered
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import Table
from tests.support.machine import Bench, header, produce_body
from tests.support.replicas import Replicas

TOPIC = "orders"
SETTINGS = BrokerSettings()
WINDOWS = Windows(SETTINGS.quota_window_num, SETTINGS.quota_window_size_seconds * 1000)
ALICE, APP = "alice", "app"
HOUR = EXPIRATION_CHECK_INTERVAL_MS
WINDOWS_MS = WINDOWS.age_ms
"""After so long nothing counts any more."""


def part(kind: str, name: str | None) -> dict[str, Any]:
    return {"entityType": kind, "entityName": name}


def alter(bench: Bench, entity: list[dict[str, Any]], *ops: dict[str, Any]) -> int:
    """The error of an alteration."""
    entry = {"entity": entity, "ops": [{"value": 0.0, "remove": False, **op} for op in ops]}
    answer = bench.request("ALTER_CLIENT_QUOTAS", 1, {"entries": [entry], "validateOnly": False})
    return int(answer["entries"][0]["errorCode"])


def described(bench: Bench, *components: dict[str, Any], strict: bool = False) -> Any:
    body = {"components": list(components), "strict": strict}
    return bench.request("DESCRIBE_CLIENT_QUOTAS", 1, body)


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
"""In the order in which they go before one another (KIP-55)."""


def test_the_first_quota_that_there_is_holds() -> None:
    table = Table()
    for value, entity in reversed(list(enumerate(LEVELS, 1))):
        record = ClientQuotaAltered(entity, CONSUMER_BYTE_RATE, float(value))
        client_quotas.apply_altered(table, 1, record)
        limit = client_quotas.limit(table, 1, ALICE, APP, CONSUMER_BYTE_RATE)
        assert limit is not None
        assert limit.value == value
        kinds = [each.partition("=")[0] for each in limit.shared_by.split("/")]
        assert kinds == sorted(entity)
    for entity in LEVELS:
        client_quotas.apply_altered(table, 1, ClientQuotaAltered(entity, CONSUMER_BYTE_RATE, None))
    assert client_quotas.limit(table, 1, ALICE, APP, CONSUMER_BYTE_RATE) is None
    assert table.keys("") == []


def test_a_rate_is_taken_over_all_windows_but_one_at_least() -> None:
    rate = Rate([])
    rate.record(0, 1000.0, WINDOWS)
    assert rate.per_second(0, WINDOWS) == 100
    rate.record(5_000, 1000.0, WINDOWS)
    assert rate.per_second(5_000, WINDOWS) == 200
    assert rate.per_second(20_000, WINDOWS) == 0


def test_a_steady_rate_has_all_its_windows() -> None:
    """Eleven samples of a second, the first of which began ten seconds ago."""
    rate = Rate([])
    for second in range(30):
        rate.record(second * 1000, 1000.0, WINDOWS)
    assert rate.per_second(29_000, WINDOWS) == 1100


def test_quotas_are_set_described_and_removed() -> None:
    bench = Bench()
    user, client = part("user", ALICE), part("client-id", None)
    assert alter(bench, [user, client], {"key": CONSUMER_BYTE_RATE, "value": 500.0}) == 0
    wanted = {"entityType": "user", "matchType": 0, "match": ALICE}
    (entry,) = described(bench, wanted)["entries"]
    assert sorted(entry["entity"], key=str) == sorted([user, client], key=str)
    assert entry["values"] == [{"key": CONSUMER_BYTE_RATE, "value": 500.0}]
    assert described(bench, wanted, strict=True)["entries"] == []
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
def test_an_alteration_that_makes_no_sense_is_42(
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
def test_a_filter_that_makes_no_sense_is_refused(component: dict[str, Any], error: int) -> None:
    assert described(Bench(), component)["errorCode"] == error


@pytest.mark.parametrize("value", ["Infinity", "NaN", 12.5])
def test_a_quota_without_a_number_of_json_outlives_a_checkpoint_and_its_record(value: Any) -> None:
    bench = Bench()
    assert alter(bench, [part("user", ALICE)], {"key": "request_percentage", "value": value}) == 0
    bench.cell = Cell(bench.settings, bench.cell.columns())
    (entry,) = described(bench)["entries"]
    assert entry["values"] == [{"key": "request_percentage", "value": value}]
    altered = [r["record"] for r in bench.records() if r["record"]["type"] == "ClientQuotaAltered"]
    assert {record["value"] for record in altered} == {value}


def test_a_quota_that_is_no_number_throttles_nobody_and_lets_one_batch_through() -> None:
    reader = Reader()
    assert (
        alter(
            reader.bench, [part("client-id", "bench")], {"key": CONSUMER_BYTE_RATE, "value": "NaN"}
        )
        == 0
    )
    assert [sizes(reader.fetch(0)) for _ in range(3)] == [[1000]] * 3


FRAME = (4 + 4 + 6 + 1 + 1) + (1 + len(TOPIC) + 1 + 1) + (4 + 2 + 24 + 1 + 4 + 2 + 1)
"""What is around the records of one partition: the answer's, its topic's, the partition's."""


READER_RATE = 110.0


class Reader:
    """A consumer whose answers have 1000 bytes of records; its quota lets one through."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.bench.topic(TOPIC)
        for _ in range(3):
            self.bench.append(TOPIC, header(size=1000))
        quota = {"key": CONSUMER_BYTE_RATE, "value": READER_RATE}
        alter(self.bench, [part("client-id", "bench")], quota)

    def fetch(self, offset: int, session: int = 0, epoch: int = -1) -> dict[str, Any]:
        wanted = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1000}
        body = {"sessionId": session, "sessionEpoch": epoch}
        body |= {"topics": [{"topic": TOPIC, "partitions": [wanted]}]}
        answer: dict[str, Any] = self.bench.request("FETCH", 12, body)
        return answer


def sizes(answer: dict[str, Any]) -> list[int]:
    return [
        partition["recordsSizeInBytes"]
        for topic in answer["responses"]
        for partition in topic["partitions"]
    ]


def test_who_is_too_fast_waits_and_then_gets_what_there_is() -> None:
    reader = Reader()
    assert sizes(reader.fetch(0)) == [1000]
    throttled = reader.fetch(1)
    excess = 2 * (1000 + FRAME) / 10 - READER_RATE
    assert throttled["throttleTimeMs"] == round(excess / READER_RATE * 10_000)
    assert (throttled["responses"], throttled["errorCode"]) == ([], 0)
    reader.bench.now += WINDOWS_MS
    assert sizes(reader.fetch(1)) == [1000]


def test_a_client_that_says_nothing_any_more_is_forgotten() -> None:
    reader = Reader()
    reader.fetch(0)
    rates, bench = reader.bench.cell.tables.quotas, reader.bench
    (rate,) = rates.keys("1/rate/")
    bench.now = bench.now // HOUR * HOUR + HOUR - 1
    reader.fetch(1)
    bench.now += 1
    bench.tick()
    assert rates.keys("1/rate/") == [rate], "what it has just read still counts"
    bench.now += HOUR
    bench.tick()
    assert rates.keys("1/rate/") == []


def test_example_19_a_throttled_full_answer_makes_no_session() -> None:
    reader = Reader()
    reader.fetch(0)
    assert reader.fetch(1, epoch=0)["sessionId"] == 0
    assert reader.bench.cell.tables.fetch_sessions.keys("1/session/") == []


def test_a_throttled_answer_leaves_the_session_as_it_is() -> None:
    reader = Reader()
    session = reader.fetch(0, epoch=0)["sessionId"]
    throttled = reader.fetch(1, session, 1)
    assert (throttled["sessionId"], throttled["responses"]) == (session, [])
    assert throttled["throttleTimeMs"] > 0
    reader.bench.now += WINDOWS_MS
    again = reader.fetch(1, session, 2)
    assert (again["throttleTimeMs"], sizes(again)) == (0, [1000])


def test_an_answer_in_a_session_counts_what_it_shows() -> None:
    reader = Reader()
    bench, table = reader.bench, reader.bench.cell.tables.quotas
    session = reader.fetch(0, epoch=0)["sessionId"]
    (key,) = table.keys("1/rate/")
    empty = 4 + 4 + 6 + 1 + 1

    def counted(offset: int, epoch: int) -> float:
        bench.now += WINDOWS_MS
        reader.fetch(offset, session, epoch)
        rate = table.get(key, Rate)
        return sum(sample.value for sample in rate.samples if sample.start == bench.now)

    assert counted(3, 1) == empty, "nothing has changed"
    assert counted(1, 2) == 1000 + FRAME
    assert counted(9, 3) > empty, "an error is shown"


def test_an_answer_has_no_more_than_the_windows_let_through() -> None:
    reader = Reader()
    alter(reader.bench, [part("client-id", "bench")], {"key": CONSUMER_BYTE_RATE, "value": 250.0})
    wanted = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 10_000}
    body = {"sessionEpoch": -1, "topics": [{"topic": TOPIC, "partitions": [wanted]}]}
    wait_ms = reader.bench.request("FETCH", 12, body)["throttleTimeMs"]
    assert wait_ms == 4 * FRAME, "what is around them is too much, for a moment"
    reader.bench.now += wait_ms
    assert sizes(reader.bench.request("FETCH", 12, body)) == [2500]


class Writer:
    """A producer that writes 1000 bytes a time, with a quota of 100 a second."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        alter(bench, [part("client-id", "bench")], {"key": PRODUCER_BYTE_RATE, "value": 100.0})

    def send(self, acks: int = 1, **fields: Any) -> str:
        """Sends a Produce to broker 1; gives back its id."""
        body = produce_body(TOPIC, header(size=1000), acks=acks, timeoutMs=30000, **fields)
        body["topicData"][0]["partitionData"][0]["recordsSizeInBytes"] = 1000
        return self.bench.send("PRODUCE", 9, body)

    def write(self, acks: int = 1, **fields: Any) -> Any:
        """The answer to a Produce; None where there is none."""
        return self.bench.answers.get(self.send(acks, **fields), {}).get("response")


def writer_alone() -> Writer:
    writer = Writer(Bench())
    writer.bench.topic(TOPIC)
    return writer


def test_who_writes_too_fast_has_written_and_is_not_heard_for_a_while() -> None:
    writer = writer_alone()
    answers = [writer.write() for _ in range(3)]
    assert [each["throttleTimeMs"] for each in answers] == [0, 10_000, 20_000]
    offsets = [each["responses"][0]["partitionResponses"][0]["baseOffset"] for each in answers]
    assert offsets == [0, 1, 2], "everything counts, and all of it is written"
    writer.bench.now += WINDOWS_MS
    assert writer.write()["throttleTimeMs"] == 0


def test_a_produce_counts_as_the_edge_has_seen_it_and_refused_or_silent_ones_too() -> None:
    writer = writer_alone()
    assert writer.write(requestSizeInBytes=1100)["throttleTimeMs"] == 1000
    assert writer.write(acks=0) is None
    refused = writer.write(acks=5, requestSizeInBytes=1)
    assert refused["responses"][0]["partitionResponses"][0]["errorCode"] == 21
    assert refused["throttleTimeMs"] == 11_010


def test_an_answer_that_waits_for_followers_keeps_what_it_says() -> None:
    replicas = Replicas()
    writer = Writer(replicas.bench)
    replicas.isolate(2, 3)
    waiting = writer.send(requestSizeInBytes=2000, acks=-1)
    assert waiting not in writer.bench.answers
    replicas.rejoin(2, 3)
    for _ in range(20):
        writer.bench.tick(1000)
    assert writer.bench.answers[waiting]["response"]["throttleTimeMs"] == 10_000


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
def test_an_address_has_its_own_connection_rate_or_that_of_all(
    name: str, host: str, rate: float
) -> None:
    table = Table()
    assert client_quotas.connection_rate(table, 1, host) is None
    for entity, value in (({"ip": name}, 3.0), ({"ip": None}, 9.0)):
        record = ClientQuotaAltered(entity, "connection_creation_rate", value)
        client_quotas.apply_altered(table, 1, record)
    assert client_quotas.connection_rate(table, 1, host) == rate
    assert client_quotas.connection_rate(table, 2, host) is None
