"""Readers: captures come through as they are, damage is counted, credentials stay out."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.recordings.formats import dumps
from brokertwin.recordings.formats.batches import Completion
from brokertwin.recordings.formats.documents import Document, UnpairedDocuments
from brokertwin.recordings.formats.lines import SourceLine
from brokertwin.recordings.formats.order import Sorter
from brokertwin.recordings.formats.pipeline import FileReading, in_order, read_files, sort
from brokertwin.recordings.formats.readers import FormatReader, Origin
from brokertwin.recordings.formats.summary import Summary
from brokertwin.state.access.redaction import HIDDEN
from tests.support.examples import examples
from tests.support.requestlogs import DUMP, REQUEST_LOGS, SINGLE, read
from tests.support.sources import ROOT

CAPTURES = sorted((ROOT / "tests" / "captures").glob("*.jsonl.gz"))
PASSWORD = "open sesame"
LINES = [
    *gzip.decompress(SINGLE.read_bytes()).splitlines(keepends=True)[20:40],
    *gzip.decompress(CAPTURES[0].read_bytes()).splitlines(keepends=True)[1:9],
    *gzip.decompress((REQUEST_LOGS / "kroxylicious" / "text.log.gz").read_bytes()).splitlines(
        keepends=True
    )[379:427],
    *gzip.decompress((REQUEST_LOGS / "kroxylicious" / "json.log.gz").read_bytes()).splitlines(
        keepends=True
    )[:12],
]
NOW = "2026-11-21T12:00:00.000Z"
HEADERS = dumps.read([DUMP])
ADDED = {"id", "broker", "principalIsAsserted"}


def read_bytes(lines: list[bytes]) -> list[Document | UnpairedDocuments]:
    numbered = (SourceLine("any.log", number, text) for number, text in enumerate(lines, 1))
    return list(
        FormatReader(Origin("any.log")).read(
            (line for line in numbered if line.text.strip()), is_whole=True
        )
    )


@pytest.mark.parametrize("file", CAPTURES, ids=lambda file: file.name)
def test_a_capture_is_unchanged(file: Path) -> None:
    captured = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    documents, summary = read(file)
    made = [json.loads(document.encoded()) for document in documents]
    assert [without(document, ADDED) for document in made] == captured
    requests = [document for document in made if "requestHeader" in document]
    assert all(document["principalIsAsserted"] for document in requests)
    assert not summary.dead


def without(document: dict[str, Any], names: set[str]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


def test_ingested_documents_are_unchanged(tmp_path: Path) -> None:
    first, _ = read(SINGLE)
    written = tmp_path / "out.jsonl"
    written.write_bytes(b"\n".join(document.encoded() for document in first))
    second, _ = read(written)
    assert [document.encoded() for document in second] == [one.encoded() for one in first]


def test_one_file_may_hold_all_kinds() -> None:
    found = read_bytes(LINES)
    documents = [one for one in found if isinstance(one, Document)]
    assert {document.api for document in documents} >= {"PRODUCE", "API_VERSIONS", "METADATA"}
    assert len(documents) >= 20 + 8
    assert not [one for one in found if isinstance(one, UnpairedDocuments) and one.is_dead]


DAMAGE = st.one_of(
    st.tuples(st.just("cut"), st.integers(0, 500)),
    st.tuples(st.just("flip"), st.integers(0, 3000)),
    st.tuples(st.just("drop"), st.just(0)),
    st.tuples(st.just("twice"), st.just(0)),
    st.tuples(st.just("noise"), st.integers(0, 255)),
)


@settings(max_examples=examples(30))
@given(st.lists(st.tuples(st.integers(0, len(LINES) - 1), DAMAGE), max_size=12))
def test_no_damage_stops_the_reading(damages: list[tuple[int, tuple[str, int]]]) -> None:
    """A burst of damaged lines: each line is in a document or is left with a reason."""
    lines = list(LINES)
    for place, (kind, amount) in damages:
        text = lines[place]
        if kind == "cut":
            lines[place] = text[:amount] + b"\n"
        elif kind == "flip":
            at = amount % max(len(text), 1)
            lines[place] = (
                text[:at] + bytes(byte ^ 0x15 for byte in text[at : at + 1]) + text[at + 1 :]
            )
        elif kind == "drop":
            lines[place] = b""
        elif kind == "twice":
            lines[place] = text + text
        else:
            lines[place] = bytes([amount]) * 30 + b"\n"
    lines = b"".join(lines).splitlines(keepends=True)
    found = read_bytes([*lines, *LINES[:3]])
    whole = [one.place for one in found if isinstance(one, Document)]
    ends = {f"any.log:{len(lines) + number}" for number in (1, 2, 3)}
    assert ends <= set(whole), "the lines behind the damage are read"
    documents = [one for one in found if isinstance(one, Document)]
    assert all(one.reason for one in found if isinstance(one, UnpairedDocuments))
    with Sorter() as sorter:
        needs = sort(documents, sorter, Summary())
        completion = Completion(HEADERS, needs.names)
        written = [json.loads(document) for document in in_order(sorter, completion)]
    assert len(written) == len(documents)


@given(st.binary(max_size=300))
def test_any_bytes_are_left_with_a_reason(text: bytes) -> None:
    for found in read_bytes(text.splitlines(keepends=True)):
        assert isinstance(found, UnpairedDocuments)
        assert found.reason


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"kind": "tick"}, "internal kind from outside"),
        ({"kind": "complete", "of": "x"}, "internal kind from outside"),
        ({"time": "now"}, "wrong type"),
        ({"time": 2**70}, "number out of range"),
        ({"broker": 2**40}, "number out of range"),
        ({"responseTime": -1}, "impossible time"),
        ({"request": 4}, "wrong type"),
        ({"response": []}, "wrong type"),
    ],
)
def test_an_invalid_document_is_dead(tmp_path: Path, fields: dict[str, Any], reason: str) -> None:
    header = {"requestApiKey": 18, "requestApiVersion": 3}
    document = {"time": 1, "requestHeader": header, "request": {}, "connection": "c"} | fields
    file = tmp_path / "x.jsonl"
    file.write_text(json.dumps(document), encoding="utf-8")
    documents, summary = read(file)
    assert not documents
    assert dict(summary.dead) == {reason: 1}


NAMES = "topicData partitionData responses partitionResponses topics name topicId index errorCode"
NAMES += " baseOffset records configs value"
BODIES = st.recursive(
    st.none() | st.integers() | st.text(max_size=3) | st.sampled_from(["", "orders"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(NAMES.split()), inner, max_size=3)
    ),
)


@given(
    st.sampled_from(["PRODUCE", "FETCH", "METADATA", "ALTER_CONFIGS"]),
    st.dictionaries(st.sampled_from(["topicData", "responses", "topics", "acks"]), BODIES),
    st.dictionaries(st.sampled_from(["topicData", "responses", "topics"]), BODIES),
)
def test_bodies_of_any_shape_do_not_stop_reading(api: str, request: Any, response: Any) -> None:
    key = {"PRODUCE": 0, "FETCH": 1, "METADATA": 3, "ALTER_CONFIGS": 33}[api]
    entries = [
        {"header": {"type": kind, "apiKey": api, "apiVersion": 9, "correlationId": 1}, "payload": x}
        for kind, x in (("REQUEST", request), ("RESPONSE", response))
    ]
    wrapped = [
        {"message": json.dumps(x, indent=1), "sessionId": "s", "@timestamp": NOW} for x in entries
    ]
    lines = [request_log(key, api, request, response), *(json.dumps(line) for line in wrapped)]
    documents = [
        one for one in read_bytes([x.encode() for x in lines]) if isinstance(one, Document)
    ]
    assert len(documents) == 2
    with Sorter() as sorter:
        needs = sort(documents, sorter, Summary())
        assert len(list(in_order(sorter, Completion(HEADERS, needs.names)))) == 2


@pytest.mark.parametrize("depth", [50, 500, 900, 1500, 100_000])
def test_no_depth_of_a_body_stops_the_reading(tmp_path: Path, depth: int) -> None:
    file = tmp_path / "broker-1.log"
    line = request_log(51, "ALTER_USER_SCRAM_CREDENTIALS", {"x": 0}, {})
    deep = line.replace('"x": 0', '"x": ' + "[" * depth + "]" * depth)
    file.write_text(deep + line, encoding="utf-8")
    documents, summary = read(file)
    assert len(documents) + summary.dead.total() == 2
    assert documents[-1].place == "broker-1.log:2"


def test_unreadable_capture_entries_are_omitted(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    file.write_text('{"time":1,"request":null,"reason":"request: truncated"}\n', encoding="utf-8")
    documents, summary = read(file)
    assert not documents
    assert dict(summary.left) == {("", "not legible when it was captured"): 1}


def test_connections_of_several_captures_are_distinct() -> None:
    documents, _ = read(*CAPTURES[:2])
    names = {document.connection.partition("/")[0] for document in documents}
    assert names == {file.name.removesuffix(".gz") for file in CAPTURES[:2]}


def request_log(api_key: int, api: str, request: Any, response: Any) -> str:
    body = {
        "requestHeader": {
            "requestApiKey": api_key,
            "requestApiVersion": 0,
            "requestApiKeyName": api,
        },
        "request": request,
        "response": response,
        "connection": "127.0.0.1:9092-127.0.0.1:1000-0-0",
        "totalTimeMs": 1.0,
    }
    return f"[2026-11-21 01:22:27,944] DEBUG Completed request:{json.dumps(body)} (x)\n"


IN_BASE64 = base64.b64encode(PASSWORD.encode()).decode()
SECRETS = [
    (
        51,
        "ALTER_USER_SCRAM_CREDENTIALS",
        {"upsertions": [{"name": "u", "saltedPassword": IN_BASE64}]},
    ),
    (36, "SASL_AUTHENTICATE", {"authBytes": IN_BASE64}),
    (39, "RENEW_DELEGATION_TOKEN", {"hmac": IN_BASE64}),
    (
        44,
        "INCREMENTAL_ALTER_CONFIGS",
        {"resources": [{"configs": [{"name": "ssl.key.password", "value": PASSWORD}]}]},
    ),
]


@pytest.mark.parametrize(("key", "api", "body"), SECRETS, ids=[api for _, api, _ in SECRETS])
def test_no_document_holds_a_credential(tmp_path: Path, key: int, api: str, body: Any) -> None:
    file = tmp_path / "broker-1.log"
    file.write_text(request_log(key, api, body, {}), encoding="utf-8")
    documents, _ = read(file)
    [written] = [document.encoded() for document in documents]
    assert PASSWORD.encode() not in written
    assert IN_BASE64.encode() not in written
    assert HIDDEN.encode() in written or base64.b64encode(HIDDEN.encode()) in written


def test_a_rejection_hides_redacted_values(tmp_path: Path) -> None:
    file = tmp_path / "broker-1.log"
    response = {"responses": [{"errorCode": 40, "errorMessage": f"{PASSWORD} is no key"}]}
    file.write_text(request_log(*SECRETS[3], response), encoding="utf-8")
    [document] = read(file)[0]
    assert PASSWORD.encode() not in document.encoded()


def test_messages_about_damaged_lines_have_no_credentials(tmp_path: Path) -> None:
    for cut in range(60, 400, 7):
        file = tmp_path / "broker-1.log"
        line = request_log(*SECRETS[3], {})
        file.write_text(line[:cut] + "\n", encoding="utf-8")
        summary = Summary()
        letters: list[UnpairedDocuments] = []
        summary.on_dead = letters.append
        list(read_files([file], FileReading(broker=1), summary))
        for left in letters:
            assert PASSWORD not in left.reason + left.detail
