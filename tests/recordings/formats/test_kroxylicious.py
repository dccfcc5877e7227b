"""Kroxylicious' protocol log: two formats, requests and responses paired by connection and id."""

import gzip
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from brokertwin.recordings.formats import dumps, kroxylicious
from brokertwin.recordings.formats.documents import Document
from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.recordings.formats.summary import Summary
from brokertwin.recordings.replay import local, report
from brokertwin.recordings.replay.plan import plan
from brokertwin.recordings.replay.recording import read as read_history
from brokertwin.recordings.replay.search import SearchLimits
from brokertwin.recordings.replay.timing import TOLERANCES
from brokertwin.state.core.settings import BrokerSettings
from tests.support.requestlogs import DUMP, REQUEST_LOGS, SINGLE, read

TEXT = REQUEST_LOGS / "kroxylicious" / "text.log.gz"
JSON = REQUEST_LOGS / "kroxylicious" / "json.log.gz"
BROKER = FileReading(broker=1)


def entry(kind: str, api: str = "METADATA", number: int = 1, **payload: Any) -> str:
    header = {"type": kind, "apiKey": api, "apiVersion": 9, "correlationId": number}
    return json.dumps({"header": header, "payload": payload}, indent=2)


def wrapped(time: str, message: str, session: str = "s1") -> str:
    return json.dumps({"@timestamp": time, "message": message, "mdc": {"sessionId": session}})


def read_lines(tmp_path: Path, *lines: str) -> tuple[list[Document], Summary]:
    file = tmp_path / "proxy.log"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return read(file, reading=BROKER)


NOW = "2026-11-21T12:00:00.000Z"
LATER = "2026-11-21T12:00:00.250Z"
TOPIC = {"errorCode": 0, "name": "orders", "partitions": []}


@pytest.mark.parametrize("file", [TEXT, JSON])
def test_the_exchanges_are_those_of_the_request_log(file: Path) -> None:
    logged = {
        (
            document.api,
            document.header.correlation_id,
            document.header.client_id,
            one_line(document),
        )
        for document in read(SINGLE)[0]
        if msgspec.json.decode(document.rest["listener"]) != "CONTROLLER"
    }
    documents, summary = read(file, reading=BROKER)
    assert len(documents) == 216
    assert {
        (
            document.api,
            document.header.correlation_id,
            document.header.client_id,
            one_line(document),
        )
        for document in documents
    } == logged
    assert not summary.dead
    withheld = ("SASL_AUTHENTICATE", kroxylicious.WITHHELD)
    assert dict(summary.left) == {("", "another log line"): 1, withheld: 1}


def one_line(document: Document) -> str:
    bodies = [msgspec.json.decode(body) for body in (document.request, document.response)]
    return json.dumps([without_record_sets(body) for body in bodies])


def without_record_sets(value: Any) -> Any:
    if isinstance(value, list):
        return [without_record_sets(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {
        name: without_record_sets(part)
        for name, part in value.items()
        if name not in ("records", "recordsSizeInBytes")
    }


@pytest.mark.parametrize("file", [TEXT, JSON])
def test_replayed_responses_equal_the_brokers(file: Path) -> None:
    history = read_history([file], BROKER, dumps.read([DUMP]))
    slow = SearchLimits(TOLERANCES.scaled(20))  # lines of the text have the time of their writing
    planned = plan(history, "recorded", BrokerSettings(), is_compared=True, limits=slow)
    responses = local.run(planned.documents, planned.settings)
    compared = report.compare_all(history.exchanges, planned.schedule, responses, frozenset())
    assert (report.agreeing(compared), len(compared)) == (216, 216)


def test_requests_are_paired_by_connection_and_correlation_id(tmp_path: Path) -> None:
    documents, summary = read_lines(
        tmp_path,
        wrapped(NOW, entry("REQUEST"), "s1"),
        wrapped(NOW, entry("REQUEST", number=2), "s2"),
        wrapped(LATER, entry("RESPONSE", number=2, brokers=[]), "s2"),
        wrapped(LATER, entry("RESPONSE", number=1, brokers=[{"nodeId": 1}]), "s1"),
        wrapped(LATER, entry("RESPONSE", number=1), "s2"),
    )
    responses = {
        document.connection: msgspec.json.decode(document.response) for document in documents
    }
    assert responses == {"s1": {"brokers": [{"nodeId": 1}]}, "s2": {"brokers": []}}
    assert {msgspec.json.decode(document.rest["responseTime"]) for document in documents} == {250.0}
    reason = "a response whose request is not in the log"
    assert dict(summary.left) == {("METADATA", reason): 1}


def test_the_session_may_be_a_top_level_field(tmp_path: Path) -> None:
    line = {"@timestamp": NOW, "message": entry("REQUEST"), "sessionId": "top"}
    documents, _ = read_lines(tmp_path, json.dumps(line))
    assert [document.connection for document in documents] == ["top"]


def test_a_request_without_response_has_none(tmp_path: Path) -> None:
    documents, _ = read_lines(tmp_path, wrapped(NOW, entry("REQUEST")))
    assert "response" not in json.loads(documents[0].encoded())


def test_a_produce_with_acks_0_has_the_response_null(tmp_path: Path) -> None:
    documents, _ = read_lines(tmp_path, wrapped(NOW, entry("REQUEST", "PRODUCE", acks=0)))
    assert json.loads(documents[0].encoded())["response"] is None


def test_pending_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kroxylicious, "PENDING_MAX", 2)
    pairs = kroxylicious.Pairs()
    made = []
    for number in range(5):
        line = kroxylicious.SourceLine("f", number, b"")
        text = entry("REQUEST", number=number).encode()
        made += list(pairs.take(kroxylicious.Wrapped(line, 0, "s", text)))
    assert [document.place for document in made] == ["f:0", "f:1", "f:2"]
    assert [document.place for document in pairs.rest()] == ["f:3", "f:4"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (entry("REQUEST"), "an entry without time or sessionId"),
        (wrapped(NOW, entry("REQUEST", number=-4)), "a request of the proxy itself"),
        (wrapped("", entry("REQUEST")), "an entry without time or sessionId"),
    ],
)
def test_entries_without_an_event_are_reported(tmp_path: Path, line: str, reason: str) -> None:
    documents, summary = read_lines(tmp_path, line)
    assert not documents
    assert dict(summary.left) == {("METADATA", reason): 1}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (wrapped(NOW, entry("REQUEST", "NO_SUCH_API")), "unknown API"),
        (wrapped(NOW, entry("QUESTION")), "wrong type"),
        (wrapped(NOW, entry("REQUEST", number=2**40)), "number out of range"),
        (wrapped(NOW, '{ "header" : 4 }'), "wrong type"),
        (wrapped(NOW, '{ "header" : '), "cut"),
        ("2026-11-21 12:00:00 DEBUG x - {\n" + '  "header" : {', "cut"),
    ],
)
def test_a_damaged_entry_is_dead(tmp_path: Path, line: str, reason: str) -> None:
    documents, summary = read_lines(tmp_path, line)
    assert not documents
    assert dict(summary.dead) == {reason: 1}


def test_a_cut_entry_does_not_consume_the_next(tmp_path: Path) -> None:
    lines = gzip.decompress(TEXT.read_bytes()).decode().splitlines()
    starts = [number for number, text in enumerate(lines) if text.endswith("- {")]
    response = next(n for n, start in enumerate(starts) if n > 9 and "RESPONSE" in lines[start + 2])
    broken = [*lines[: starts[response] + 3], *lines[starts[response + 1] :]]
    documents, summary = read_lines(tmp_path, *broken)
    assert dict(summary.dead) == {"cut": 1}
    assert len(documents) == 216
    assert sum("response" not in json.loads(document.encoded()) for document in documents) == 1


@pytest.mark.parametrize("api", ["METADATA", "PRODUCE"])
def test_an_exchange_that_two_filters_log_counts_once(tmp_path: Path, api: str) -> None:
    soon = "2026-11-21T12:00:00.003Z"
    requests = [wrapped(time, entry("REQUEST", api, acks=0, topics=[])) for time in (NOW, soon)]
    responses = [wrapped(LATER, entry("RESPONSE", api, topics=[TOPIC]))] * 2
    documents, summary = read_lines(tmp_path, *requests, *(responses if api == "METADATA" else []))
    assert len(documents) == 1
    assert documents[0].time == 1795262400000
    response = {"topics": [TOPIC]} if api == "METADATA" else None
    assert msgspec.json.decode(documents[0].response) == response
    assert not summary.dead


def test_a_correlation_id_that_is_used_again_is_another_request(tmp_path: Path) -> None:
    """Some clients number no requests."""
    later = "2026-11-21T12:00:07.000Z"
    lines = [wrapped(time, entry("REQUEST", "PRODUCE", 0, acks=0)) for time in (NOW, later)]
    documents, _ = read_lines(tmp_path, *lines)
    assert len(documents) == 2
