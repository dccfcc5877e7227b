"""A cell as a whole: refusals, faults, time. `test_histories.py` has the rest."""

import re
import weakref
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.protocol.batch_headers import Batch
from brokertwin.state.cell import event_loop as loop
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core import outputs
from brokertwin.state.core.events import Reason
from brokertwin.state.core.layers import DamagedError
from brokertwin.state.core.outputs import Output, Position
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.logs import log as logs
from brokertwin.state.logs.log import Log
from brokertwin.state.logs.log_tail import LogTail
from tests.support.events import within_a_process
from tests.support.examples import examples
from tests.support.histories import CLUSTER, START, histories
from tests.support.machine import Bench, header, produce_body

SETTINGS = CellSettings(name=CLUSTER, cluster=CLUSTER, event_time="recorded")


def run(cell: Cell, documents: list[bytes], first: int = 0) -> list[Output]:
    """The rows of documents, which start at offset `first`."""
    return [
        row
        for offset, document in enumerate(documents, first)
        for row in cell.handle(document, Position(0, offset))
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)
EVENT_LIKE = st.fixed_dictionaries(
    {"id": st.just("x"), "cluster": st.just(CLUSTER)},
    optional={
        "broker": st.just(1) | JSON,
        "time": st.integers(0, 2**62) | JSON,
        "kind": st.sampled_from(["request", "tick", "complete", "restore"]) | JSON,
        "nonce": JSON,
        "replyTo": st.just(0) | JSON,
        "requestHeader": st.fixed_dictionaries(
            {
                "requestApiKey": st.integers(0, 30) | JSON,
                "requestApiVersion": st.integers(0, 13) | JSON,
            }
        ),
        "request": JSON,
        "choices": JSON,
    },
)


@given(st.binary(max_size=60) | (JSON | EVENT_LIKE).map(lambda value: repr_json(value)))
def test_no_document_raises_and_refused_ones_change_nothing(document: bytes) -> None:
    cell = Cell(SETTINGS)
    before = cell.columns()
    rows = cell.handle(document, Position(0, 0))
    if any(row.topic == outputs.DEAD_LETTERS for row in rows):
        assert cell.columns() == before


def repr_json(value: Any) -> bytes:
    import json

    return json.dumps(value).encode()


POISON = {
    Reason.NOT_JSON: b"{",
    Reason.NOT_UTF8: b'{"id": "\xff"}',
    Reason.TOO_LARGE: b" " * (8 * 1024 * 1024 + 1),
    Reason.TOO_DEEP: b'{"id":"x","cluster":"bench","request":'
    + b"[" * 100_000
    + b"]" * 100_000
    + b"}",
    Reason.OUT_OF_RANGE: b'{"id":"x","cluster":"bench","broker":4294967296}',
    Reason.WRONG_TYPE: b'{"id":"x","cluster":"bench","time":"now"}',
    Reason.MISSING_FIELD: b'{"id":"x","cluster":"bench"}',
    Reason.UNKNOWN_FIELD: b'{"id":"x","cluster":"bench","kind":"tick","tiem":5}',
    Reason.UNKNOWN_CLUSTER: b'{"id":"x","cluster":"other","kind":"tick"}',
    Reason.INTERNAL_KIND: b'{"id":"x","cluster":"bench","kind":"complete","of":"y"}',
}


@pytest.mark.parametrize("reason", POISON)
def test_invalid_document_is_a_dead_letter_with_its_reason(reason: Reason) -> None:
    bench = Bench()
    bench.topic("orders")
    before = bench.cell.columns()
    bench.handle(POISON[reason])
    (letter,) = bench.dead_letters(bench.last)
    assert letter["reason"] == reason
    assert bench.cell.columns() == before


@pytest.mark.parametrize(
    ("reason", "key", "version", "event"),
    [
        (Reason.UNKNOWN_API, 999, 0, {}),
        (Reason.UNSUPPORTED_VERSION, 0, 99, {}),
        (Reason.NOT_BUILT, 80, 0, {}),
        (Reason.UNKNOWN_BROKER, 3, 12, {"broker": 7}),
        (Reason.REPLY_TO, 3, 12, {"replyTo": 5}),
    ],
)
def test_refused_request_has_a_reason(
    reason: Reason, key: int, version: int, event: dict[str, Any]
) -> None:
    bench = Bench()
    event_id = bench.send(key, version, **event)
    (letter,) = bench.dead_letters(bench.last)
    assert letter["reason"] == reason
    if reason is not Reason.REPLY_TO:
        assert bench.responses[event_id]["error"]["reason"] == reason


def fetch(**fields: Any) -> dict[str, Any]:
    """A Fetch with fields of a partition and fields that the model does not read."""
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 100, **fields}
    topics = [{"topic": "orders", "partitions": [partition]}]
    return {"sessionEpoch": -1, "maxWaitMs": 0, "topics": topics, "clusterId": "c"}


def test_request_with_an_unknown_field_is_refused_wherever_it_is() -> None:
    """With Kafka's fields that the model does not read it is accepted."""
    bench = Bench()
    bench.topic("orders")
    bench.request("FETCH", 12, fetch(highWatermark=5))
    header = {"requestApiKey": 1, "requestApiVersion": 12, "clientID": "x"}
    event = {"id": "e", "cluster": "bench", "requestHeader": header, "request": fetch()}
    for wrong in ({"request": fetch(fetchOfset=5)}, {"requestHeader": header}):
        fields = {"requestHeader": {"requestApiKey": 1, "requestApiVersion": 12}}
        bench.handle({**event, **fields, **wrong})
        (letter,) = bench.dead_letters(bench.last)
        assert letter["reason"] == Reason.UNKNOWN_FIELD
        assert "unknown field `" in letter["detail"]
        assert bench.responses["e"]["error"]["reason"] == Reason.UNKNOWN_FIELD
        assert bench.responses["e"]["requestHeader"]["requestApiKey"] == 1


def test_fault_in_a_handler_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench()
    bench.topic("orders")
    before = bench.cell.columns()

    def break_down(*_: object) -> None:
        raise ZeroDivisionError("planted")

    body = produce_body("orders", header())
    with monkeypatch.context() as patch:
        patch.setattr(logs, "log_key", break_down)
        bench.send("PRODUCE", 12, body)
    (letter,) = bench.dead_letters(bench.last)
    assert letter["reason"] == Reason.FAULT
    where = r"ZeroDivisionError: planted \(.*\.break_down, line \d+\)"
    assert re.fullmatch(where, letter["detail"]), "it names the innermost function"
    assert bench.cell.columns() == before
    response = bench.request("PRODUCE", 12, body)
    assert response["responses"][0]["partitionResponses"][0]["baseOffset"] == 0


@settings(max_examples=examples(25))
@given(histories(), st.lists(st.integers(0, 100), max_size=8))
def test_invalid_documents_between_events_only_add_dead_letters(
    documents: list[bytes], places: list[int]
) -> None:
    """A handler that raises leaves no trace, whatever came since the last commit.

    Events that are repeated from a document and from a dictionary give the same rows.
    """
    expected = run(Cell(SETTINGS), documents)
    poison = {place % (len(documents) + 1) for place in places}
    cell = Cell(SETTINGS)
    rows = []
    for offset, document in enumerate(documents):
        if offset in poison:
            last = cell.handle(raising(cell), Position(0, offset))
            assert [row.topic for row in last] == [outputs.DEAD_LETTERS, outputs.RESPONSES]
        event = within_a_process(document) if offset % 2 else document
        rows += cell.handle(event, Position(0, offset))
    assert rows == expected


def test_damaged_state_raises_instead_of_a_dead_letter() -> None:
    """Else each event that meets it would be a dead letter, and the job would go on."""
    bench = Bench()
    bench.topic("orders", 1)
    damaged = {**bench.cell.columns(), "metadata": b"\xc1"}
    settings = bench.cell.settings
    header = {"requestApiKey": 3, "requestApiVersion": 9}
    event = {"id": "x", "cluster": settings.cluster, "time": START, "requestHeader": header}
    document = msgspec.json.encode({**event, "request": {"topics": []}})
    (response,) = Cell(settings, bench.cell.columns()).handle(document, Position(0, 9))
    assert response.topic == outputs.RESPONSES
    with pytest.raises(DamagedError, match="a state row"):
        Cell(settings, damaged).handle(document, Position(0, 9))


def raising(cell: Cell) -> bytes:
    """A request of an API that is not built: the guard takes it as a handler that raises."""
    event = {
        "id": "poison",
        "cluster": CLUSTER,
        "broker": 1,
        "time": cell.meta.now,
        "requestHeader": {"requestApiKey": 80, "requestApiVersion": 0},
        "request": {},
    }
    return msgspec.json.encode(event)


def test_failed_event_is_rolled_back_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three appends, not committed; the second batch of a Produce raises, its first is undone."""
    bench = Bench()
    bench.is_checked = False  # a check closes the ends of logs
    bench.topic("orders", partitions=2)

    def produce(*partitions: int) -> Any:
        data = [{"index": partition, "batches": [header()]} for partition in partitions]
        bench.send("PRODUCE", 12, acks=-1, name="orders", partitionData=data)
        return bench.last

    for _ in range(3):
        produce(0)
    take = LogTail.take

    def append_to_the_first_only(tail: LogTail, batch: Batch) -> Any:
        if tail.log.partition == 1:
            raise ZeroDivisionError("planted")
        return take(tail, batch)

    with monkeypatch.context() as patch:
        patch.setattr(LogTail, "take", append_to_the_first_only)
        (letter,) = bench.dead_letters(produce(0, 1))
    assert letter["reason"] == Reason.FAULT
    log_end_offsets = [log.log_end_offset for _, log in bench.cell.tables.logs.items("1/log/", Log)]
    assert sorted(log_end_offsets) == [0, 3]
    assert not bench.dead_letters(produce(1))


def test_committed_event_is_not_repeated_after_a_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A deadline raises as a Produce comes; the next fault does not append it again."""
    bench = Bench()
    bench.topic("orders")
    bench.send("FETCH", 12, maxWaitMs=500, minBytes=1, topic="orders", partition=0)

    def break_down(*_: object) -> None:
        raise ZeroDivisionError("planted")

    fetch = msgspec.structs.replace(loop.BUILT[1], complete=break_down)
    with monkeypatch.context() as patch:
        patch.setitem(loop.BUILT, 1, fetch)
        bench.now += 600
        bench.send("PRODUCE", 12, produce_body("orders", header()))
        assert [letter["reason"] for letter in bench.dead_letters(bench.last)] == [Reason.FAULT]
    bench.send(80, 0)
    log_end_offsets = [log.log_end_offset for _, log in bench.cell.tables.logs.items("1/log/", Log)]
    assert log_end_offsets == [1]


def test_too_large_response_becomes_an_error() -> None:
    bench = Bench()
    bench.topic("orders", partitions=100)
    bench.cell.settings = msgspec.structs.replace(bench.settings, output_bytes_max=1000)
    event_id = bench.send("METADATA", 12, topics=None)
    assert bench.responses[event_id]["error"]["reason"] == Reason.OUTPUT_TOO_LARGE


def test_new_settings_affect_only_later_events() -> None:
    bench = Bench()
    for partitions in (2, 5):
        given = msgspec.structs.replace(bench.settings.broker_settings, num_partitions=partitions)
        bench.cell.settings = msgspec.structs.replace(bench.settings, broker_settings=given)
        topic = {"name": f"of-{partitions}", "numPartitions": -1, "replicationFactor": -1}
        bench.send("CREATE_TOPICS", 7, {"topics": [topic], "timeoutMs": 30_000})
    body = bench.responses[bench.send("METADATA", 12, topics=None)]["response"]
    assert {t["name"]: len(t["partitions"]) for t in body["topics"]} == {"of-2": 2, "of-5": 5}


def test_time_is_clamped_to_the_row_and_monotonic() -> None:
    settings = CellSettings(name=CLUSTER, cluster=CLUSTER, event_time_max_skew_ms=5000)
    cell = Cell(settings)

    def tick(time: int, append_time: int) -> int:
        event = {"id": "t", "cluster": CLUSTER, "kind": "tick", "time": time}
        cell.handle(msgspec.json.encode(event), Position(0, 0, append_time))
        return cell.meta.now

    assert tick(START, START + 1) == START
    assert tick(START + 10**9, START + 2) == START + 2 + 5000
    assert tick(START - 10**9, START + 3) == START + 2 + 5000
    assert tick(START - 10**9, START + 20_000) == START + 15_000


def test_deadline_is_announced_once_and_fires_at_its_time() -> None:
    bench = Bench()
    bench.topic("orders")
    body = {
        "maxWaitMs": 500,
        "minBytes": 1,
        "topics": [{"topic": "orders", "partitions": [{"partition": 0}]}],
    }
    first = bench.send("FETCH", 12, body)
    (timer,) = bench.of(outputs.TIMERS, bench.last)
    assert msgspec.json.decode(timer.value or b"")["deadline"] == bench.now + 500
    bench.now += 10
    bench.send("FETCH", 12, body)
    assert bench.of(outputs.TIMERS, bench.last) == []
    deadline = bench.now + 490
    bench.tick(2000)
    assert bench.responses[first]["responseTime"] == deadline
    assert len(bench.of(outputs.RESPONSES, bench.last)) == 2


def test_state_of_a_dropped_cell_is_freed() -> None:
    """No cache outside of a cell refers to its machines, and no cycle waits for the collector."""
    bench = Bench()
    topic = {"name": "t", "numPartitions": 1, "replicationFactor": 1, "assignments": []}
    body = {"topics": [{**topic, "configs": []}], "timeoutMs": 1000, "validateOnly": False}
    bench.request("CREATE_TOPICS", 7, body)
    bench.cell.commit()
    tables = weakref.ref(bench.cell.tables)
    del bench
    assert tables() is None
