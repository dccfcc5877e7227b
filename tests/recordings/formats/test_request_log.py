"""Kafka's request log: every line of real ones becomes a document, with its time of arrival."""

import gzip
import json
from collections import Counter
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec
import pytest

from brokertwin.protocol.codec import message_reader, message_writer
from brokertwin.protocol.schemas import API_NAMES, MESSAGES
from brokertwin.recordings.formats import request_log
from brokertwin.recordings.formats.documents import Document
from brokertwin.recordings.formats.lines import read_lines
from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.recordings.formats.request_log import host_of
from tests.support.requestlogs import RUNS, SINGLE, logs_of, read

CONTROLLERS_ALONE = {
    "ALLOCATE_PRODUCER_IDS",
    "ALTER_PARTITION",
    "BROKER_HEARTBEAT",
    "BROKER_REGISTRATION",
    "CONTROLLER_REGISTRATION",
}
"""APIs that only controllers take; the codec has those of a broker's listener."""

LINE = (
    '[2026-11-21 01:22:27,944] DEBUG Completed request:{"isForwarded":false,"requestHeader":'
    '{"requestApiKey":3,"requestApiVersion":13,"correlationId":2,"clientId":"c",'
    '"requestApiKeyName":"METADATA"},"request":{"topics":[]},"response":{"topics":[]},'
    '"connection":"127.0.0.1:9092-127.0.0.9:52382-0-0","totalTimeMs":8.572,'
    '"principal":"User:alice",'
    '"listener":"CLIENT","securityProtocol":"SASL_SSL"} (kafka.request.logger)'
)
NEXT = LINE.replace('"correlationId":2', '"correlationId":3')
COMPLETED_MS = 1795224147944


def document_of(tmp_path: Path, line: str) -> dict[str, object]:
    file = tmp_path / "broker-1.log"
    file.write_text(line + "\n", encoding="utf-8")
    documents, _ = read(file)
    [document] = documents
    decoded: dict[str, object] = json.loads(document.encoded())
    return decoded


@pytest.mark.parametrize(
    "fields", ['"requestApiVersionDeprecated":true', '"ofALaterRelease":{"a":[1]}']
)
def test_a_header_with_further_fields_is_read(tmp_path: Path, fields: str) -> None:
    name = '"requestApiKeyName":"METADATA"'
    plain = document_of(tmp_path, LINE)
    assert document_of(tmp_path, LINE.replace(name, f"{name},{fields}")) == plain


@pytest.mark.parametrize("run", RUNS)
def test_every_line_of_a_real_log_becomes_a_document(run: str) -> None:
    files = logs_of(run)
    documents, summary = read(*files)
    lines = sum(len(gzip.decompress(file.read_bytes()).splitlines()) for file in files)
    assert (summary.lines, len(documents)) == (lines, lines)
    assert not summary.dead
    assert not summary.left
    assert {document.broker for document in documents} == {1, 2, 3, 100}


@pytest.mark.parametrize("run", RUNS)
def test_bodies_are_those_of_the_schema_except_for_record_sets(run: str) -> None:
    """Encoded and decoded again, only the fields listed in README.md are missing."""
    without_schema: Counter[str] = Counter()
    for document in read(*logs_of(run))[0]:
        name = API_NAMES.get(document.header.request_api_key, "")
        if f"{name}Request" not in MESSAGES:
            without_schema[document.api] += 1
            continue
        for kind, body in (("Request", document.request), ("Response", document.response)):
            logged = msgspec.json.decode(body)
            message = name + kind, document.header.request_api_version
            sent = bytearray()
            message_writer(*message)(sent, logged)
            found, _ = message_reader(*message)(bytes(sent), 0)
            assert found == with_record_sets(logged), document.place
    assert without_schema.keys() <= CONTROLLERS_ALONE


def with_record_sets(value: object) -> object:
    """Replace logged sizes by record sets as on the wire."""
    if isinstance(value, list):
        return [with_record_sets(part) for part in value]
    if not isinstance(value, dict):
        return value
    parts = {name: with_record_sets(part) for name, part in value.items()}
    if parts.pop("recordsSizeInBytes", None) is not None:
        parts["records"] = b""
    return parts


def test_arrival_is_response_time_minus_total_time(tmp_path: Path) -> None:
    document = document_of(tmp_path, LINE)
    assert document["time"] == COMPLETED_MS - 9
    assert document["responseTime"] == 8.572


def test_a_document_keeps_log_fields_and_principal(tmp_path: Path) -> None:
    document = document_of(tmp_path, LINE)
    kept = {name: document[name] for name in ("isForwarded", "listener", "securityProtocol")}
    assert kept == {"isForwarded": False, "listener": "CLIENT", "securityProtocol": "SASL_SSL"}
    assert document["principal"] == "User:alice"
    assert document["principalIsAsserted"] is True
    assert document["host"] == "127.0.0.9"
    assert document["response"] == {"topics": []}
    assert (document["id"], document["broker"]) == ("broker-1.log:1", 1)


def test_a_produce_without_response_has_null(tmp_path: Path) -> None:
    line = LINE.replace('"response":{"topics":[]}', '"response":""').replace("METADATA", "PRODUCE")
    document = document_of(tmp_path, line.replace('"requestApiKey":3', '"requestApiKey":0'))
    assert document["response"] is None


@pytest.mark.parametrize(
    "prefix",
    [
        "2026-11-21 01:22:27,944 DEBUG [request] ",
        "2026-11-21T01:22:27.944Z pod-1 ",
        "2026-11-21 03:22:27.944 +0200 ",
    ],
)
def test_layouts_with_a_time_are_accepted(tmp_path: Path, prefix: str) -> None:
    line = prefix + LINE.partition("DEBUG ")[2] + " [data-plane-kafka-network-thread-1]"
    assert document_of(tmp_path, line)["time"] == COMPLETED_MS - 9


def test_a_json_layout_is_read_too(tmp_path: Path) -> None:
    message = LINE.partition("DEBUG ")[2].removesuffix(" (kafka.request.logger)")
    line = json.dumps({"@timestamp": "2026-11-21T01:22:27.944+0000", "message": message})
    assert document_of(tmp_path, line)["time"] == COMPLETED_MS - 9


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (LINE[:120], "cut"),
        (LINE[:300], "cut"),
        (LINE[:300] + "} (kafka.request.logger)", "cut"),
        (LINE.replace("8.572", "-1"), "impossible time"),
        (LINE.replace("8.572", "1e12"), "impossible time"),
        (LINE.replace('"totalTimeMs":8.572,', ""), "missing field"),
        (
            LINE.replace('"requestApiVersion":13', '"requestApiVersion":99999'),
            "number out of range",
        ),
        (LINE.replace('{"topics":[]}', "[]", 1), "wrong type"),
        (LINE.partition("DEBUG ")[2], "no time"),
        (
            "[2020-01-01 00:00:00,000] DEBUG Completed request:RequestHeader(apiKey=FETCH, ...",
            "text request log of a Kafka before 2.8",
        ),
    ],
)
def test_a_damaged_line_is_counted_and_the_next_is_read(
    tmp_path: Path, damaged: str, reason: str
) -> None:
    file = tmp_path / "broker-1.log"
    file.write_text(f"{LINE}\n{damaged}\n{NEXT}\n", encoding="utf-8")
    documents, summary = read(file)
    assert [document.place for document in documents] == ["broker-1.log:1", "broker-1.log:3"]
    assert dict(summary.dead) == {reason: 1}
    assert summary.examples[0][:2] == ("broker-1.log:2", reason)


def test_other_lines_of_a_log_are_no_damage(tmp_path: Path) -> None:
    file = tmp_path / "broker-1.log"
    other = (
        "[2026-11-21 01:22:27,950] ERROR something (kafka.server.KafkaApis)\n\tat a.b.C(D.java:1)"
    )
    file.write_text(f"{LINE}\n{other}\n{NEXT}\n", encoding="utf-8")
    documents, summary = read(file)
    assert len(documents) == 2
    assert not summary.dead
    assert dict(summary.left) == {("", "Kafka's server.log"): 1, ("", "another log line"): 1}


@pytest.mark.parametrize(
    ("connection", "host"),
    [
        ("10.0.0.1:9092-10.0.0.7:52382-0-0", "10.0.0.7"),
        ("10.0.0.1:9092-10.0.0.7:52382-12", "10.0.0.7"),
        ("0:0:0:0:0:0:0:1:9092-fe80:0:0:0:0:0:0:2:5555-0-0", "fe80:0:0:0:0:0:0:2"),
        ("c1", ""),
        ("a-b-c", ""),
    ],
)
def test_the_clients_host_is_in_the_connections_name(connection: str, host: str) -> None:
    assert host_of(connection) == host


def test_the_zone_of_the_log_is_the_one_given() -> None:
    documents, _ = read(SINGLE, reading=FileReading(zone=ZoneInfo("Asia/Tokyo")))
    in_utc, _ = read(SINGLE)
    hours_ms = {there.time - here.time for there, here in zip(documents, in_utc, strict=True)}
    assert hours_ms == {-9 * 3600 * 1000}


def test_a_request_that_kafka_logs_without_its_body_is_no_damage(tmp_path: Path) -> None:
    """AlterConfigs of loggers: by docs/ingest.md it switches the request log on."""
    line = LINE.replace('"request":{"topics":[]}', '"request":""')
    line = line.replace('"requestApiKey":3', '"requestApiKey":44')
    file = tmp_path / "broker-1.log"
    file.write_text(f"{line}\n{LINE}\n", encoding="utf-8")
    documents, summary = read(file)
    assert len(documents) == 1
    assert not summary.dead
    reason = "Kafka logged the request without its body"
    assert dict(summary.left) == {("INCREMENTAL_ALTER_CONFIGS", reason): 1}


def test_a_document_of_a_pretty_printed_body_is_one_line(tmp_path: Path) -> None:
    body = json.loads(LINE[LINE.index("{") : LINE.rindex("}") + 1])
    file = tmp_path / "broker-1.log"
    text = json.dumps(body, indent=2)
    file.write_text(f"{LINE[:25]} DEBUG Completed request:{text} (x)\n", encoding="utf-8")
    [document] = read(file)[0]
    assert b"\n" not in document.encoded()
    assert json.loads(document.encoded())["request"] == {"topics": []}


def test_a_whole_second_before_the_logs_own_time_does_not_count(tmp_path: Path) -> None:
    prefix = "2026-11-21T01:22:27+0000 kafka-0 kafka-server-start.sh[812]: "
    file = tmp_path / "broker-1.log"
    file.write_text(prefix + LINE + "\n", encoding="utf-8")
    [document] = read(file)[0]
    assert document.time == COMPLETED_MS - 9


@pytest.mark.parametrize(
    "zone", ["+01", "+0100", "+01:00", "CET", " CET", " Europe/Berlin", "+01:00[Europe/Berlin]"]
)
def test_a_zone_in_the_log_is_used(tmp_path: Path, zone: str) -> None:
    line = LINE.replace("01:22:27,944", f"02:22:27,944{zone}")
    assert document_of(tmp_path, line)["time"] == COMPLETED_MS - 9


def test_the_zone_of_a_runtimes_time_is_the_logs(tmp_path: Path) -> None:
    """The log is in the time of Kolkata; docker adds UTC, some ms later."""
    line = LINE.replace("01:22:27,944", "06:52:27,944")
    wrapped = json.dumps({"log": line + "\n", "time": "2026-11-21T01:22:27.951234567Z"})
    for text in (wrapped, f"2026-11-21T01:22:27.951234567Z stdout F {line}"):
        assert document_of(tmp_path, text)["time"] == COMPLETED_MS - 9


def test_an_agents_time_of_another_day_does_not_set_the_zone(tmp_path: Path) -> None:
    line = json.dumps({"@timestamp": "2026-11-23T19:00:00.123Z", "message": LINE})
    assert document_of(tmp_path, line)["time"] == COMPLETED_MS - 9


def test_an_unknown_zone_causes_a_warning(tmp_path: Path) -> None:
    reported: list[str] = []
    file = tmp_path / "broker-1.log"
    file.write_text(LINE.replace("27,944]", "27,944 XYT]") + "\n", encoding="utf-8")
    documents, _ = read(file, reading=FileReading(warn=reported.append))
    assert [document.time for document in documents] == [COMPLETED_MS - 9]
    assert len(reported) == 1
    assert "XYT" in reported[0]
    assert "--time-zone" in reported[0]


def test_lines_of_another_time_are_no_copies(tmp_path: Path) -> None:
    file = tmp_path / "broker-1.log"
    later = LINE.replace("27,944", "28,944")
    file.write_text(f"{LINE}\n{later}\n{LINE}\n", encoding="utf-8")
    documents, summary = read(file, file)
    assert [document.place for document in documents] == ["broker-1.log#1:1", "broker-1.log#1:2"]
    assert dict(summary.left) == {("", "a copy of a line that came before"): 4}


@pytest.mark.parametrize(
    "separators",
    [(", ", ": "), (", ", ":"), (",", " :"), (",\t", ":"), (",\r", ":")],
    ids=["both", "comma", "colon", "tab", "carriage return"],
)
def test_a_copy_with_other_spaces_is_a_copy(tmp_path: Path, separators: tuple[str, str]) -> None:
    line = LINE.replace('"request":{"topics":[]}', '"request":{"topics":[],"a":[1,2]}')
    begin, end = line.index("{"), line.rindex("}") + 1
    spaced = json.dumps(json.loads(line[begin:end]), separators=separators)
    file = tmp_path / "broker-1.log"
    file.write_bytes(f"{line}\n{line[:begin]}{spaced}{line[end:]}\n".encode())
    documents, summary = read(file)
    assert [document.place for document in documents] == ["broker-1.log:1"]
    assert dict(summary.left) == {("", "a copy of a line that came before"): 1}


def test_line_that_is_decoded_once_has_the_same_document() -> None:
    lines = [line for path in logs_of("steady") for line in read_lines([path])][::20]
    count = 0
    for line in lines:
        text = line.text[line.text.index(b"{") : line.text.rindex(b"}") + 1]
        usual = request_log.usual_document(line, line.place, text, 1_000)
        expected = request_log.document_of(line, line.place, text, 1_000)
        if usual is not None:
            count += 1
            assert isinstance(expected, Document)
            assert usual.details == expected.details
            assert usual.encoded() == expected.encoded()
    assert count > len(lines) / 2
