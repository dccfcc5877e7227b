"""Debug logs of clients as recordings of a client."""

import csv
import io
import json
import lzma
import re
from pathlib import Path

import pytest

from brokertwin.cli.recordings.explain import Where, _clients, _groups
from brokertwin.errors import UserError
from brokertwin.recordings.explain.story import TimelineEntry
from brokertwin.recordings.replay.recording import read as read_history
from tests.support.console import brokertwin

RDKAFKA = """\
%7|1651858329.428|SEND|reader-a#consumer-1| [thrd:GroupCoordinator]: GroupCoordinator/1001: \
Sent HeartbeatRequest (v3, 92 bytes @ 0, CorrId 14)
%7|1651858329.430|RECV|reader-a#consumer-1| [thrd:GroupCoordinator]: GroupCoordinator/1001: \
Received HeartbeatResponse (v3, 6 bytes, CorrId 14, rtt 2.25ms)
%7|1651858329.430|REQERR|reader-a#consumer-1| [thrd:main]: GroupCoordinator/1001: \
HeartbeatRequest failed: Broker: Group rebalance in progress: explicit actions Ignore
%7|1651858329.431|SEND|reader-a#consumer-1| [thrd:kafka:9092/2]: kafka:9092/2: \
Sent OffsetRequest (v1, 92 bytes @ 0, CorrId 14)
"""
HEADER = (
    "RequestHeader(apiKey=JOIN_GROUP, apiVersion=9, clientId=reader-a, correlationId=5,"
    " headerVersion=2)"
)
PREFIX = "DEBUG [Consumer clientId=reader-a, groupId=parcels]"
JAVA = f"""\
[2026-11-27 02:32:26,989] {PREFIX} Sending JOIN_GROUP request with header {HEADER} and timeout \
305000 to node 2147483646: JoinGroupRequestData(groupId='parcels', sessionTimeoutMs=45000, \
memberId='', groupInstanceId=null, protocolType='consumer', \
protocols=[JoinGroupRequestProtocol(name='range', metadata=[0, 3, 0])], reason='it's, (new)') \
(org.apache.kafka.clients.NetworkClient)
[2026-11-27 02:32:27,056] {PREFIX} Received JOIN_GROUP response from node 2147483646 for request \
with header {HEADER}: JoinGroupResponseData(throttleTimeMs=0, errorCode=79, generationId=-1, \
protocolName=null, leader='', memberId='reader-a-1795746719847', members=[]) \
(org.apache.kafka.clients.NetworkClient)
"""


def _kafkajs(at: str, what: str, **fields: object) -> str:
    start = {"level": "DEBUG", "timestamp": f"2026-05-24T11:45:51.{at}Z", "logger": "kafkajs"}
    message = f"[Connection] {what} JoinGroup(key: 11, version: 5)"
    own = {"broker": "kafka:9092", "clientId": "reader-a", "correlationId": 13}
    return json.dumps(start | {"message": message} | own | fields, separators=(",", ":"))


NO_MEMBER = "The group member needs to have a valid member id before actually entering a consumer"
KAFKAJS = "\n".join(
    (
        _kafkajs("201", "Request", expectResponse=True, size=209),
        _kafkajs("204", "Response", error=NO_MEMBER, size=9),
        _kafkajs("204", "Response", error=NO_MEMBER, payload={"type": "Buffer"}),
    )
)
KAFKA_PYTHON = """\
2019-06-22 14:50:18,001 DEBUG <BrokerConnection node_id=1 host=b:9303> Request 19: \
HeartbeatRequest_v1(group='parcels', generation_id=3, member_id='m1')
2019-06-22 14:50:18,003 DEBUG <BrokerConnection node_id=1 host=b:9303> Response 19 (101.5 ms): \
HeartbeatResponse_v1(throttle_time_ms=0, error_code=25)
"""
LOGS = {"librdkafka": RDKAFKA, "Java client": JAVA, "KafkaJS": KAFKAJS}


def _story(
    tmp_path: Path, text: str, name: str = "reader-a"
) -> tuple[list[TimelineEntry], list[str]]:
    file = tmp_path / "client.log"
    file.write_text(text)
    client = _clients(Where(files=[file]), name)
    return client.story(), client.ending()


def test_librdkafka_logs_have_latency_and_errors(tmp_path: Path) -> None:
    story, ending = _story(tmp_path, RDKAFKA)
    beat, offsets = story
    assert (beat.api, beat.version, beat.id) == ("HEARTBEAT", 3, "client.log:1")
    assert beat.time == 1651858329428
    assert beat.said == "response of broker 1001 after 2.25 ms; Broker: Group rebalance in progress"
    assert [each.code for each in beat.refused] == [27]
    assert offsets.api == "LIST_OFFSETS"
    assert offsets.said == "no response of broker 2 in the log"
    assert ending == [
        (
            "client reader-a: 2 requests over 2 connections,"
            " 2022-05-06 17:32:09.428 to 2022-05-06 17:32:09.432"
        ),
        "refused: REBALANCE_IN_PROGRESS 1",
        "HEARTBEAT: 1 request, median 2.25 ms, longest 2.25 ms",
        "LIST_OFFSETS: 1 request, 1 without a response in the log",
    ]


def test_java_client_logs_have_bodies(tmp_path: Path) -> None:
    (join,), ending = _story(tmp_path, JAVA)
    assert join.said == "reason: it's, (new); response of broker 1 after 67 ms"
    assert [each.code for each in join.refused] == [79]
    assert "explain group parcels tells its whole story" in ending
    group = _groups(Where(files=[tmp_path / "client.log"]), "parcels")
    assert [each.api for each in group.story()] == ["JOIN_GROUP"]


def test_latencies_of_logs_with_whole_seconds_are_unknown(tmp_path: Path) -> None:
    (join,), ending = _story(tmp_path, re.sub(r"(:\d\d),\d{3}\]", r"\1]", JAVA))
    assert join.said == "reason: it's, (new); response of broker 1"
    assert ending[-1] == "JOIN_GROUP: 1 request"


def test_kafkajs_errors_are_identified_by_text(tmp_path: Path) -> None:
    (join,), ending = _story(tmp_path, KAFKAJS)
    assert join.said == f"response of a broker after 3 ms; {NO_MEMBER}"
    assert [each.code for each in join.refused] == [79]
    assert ending[-1] == "JOIN_GROUP: 1 request, median 3 ms, longest 3 ms"


@pytest.mark.parametrize("kind", LOGS)
def test_it_is_read_in_the_json_of_a_container_runtime(tmp_path: Path, kind: str) -> None:
    wrapped = "\n".join(
        json.dumps({"log": f"{line}\n", "stream": "stderr", "time": "2026-11-27T02:32:27.1Z"})
        for line in LOGS[kind].splitlines()
    )
    plain, _ = _story(tmp_path, LOGS[kind])
    story, _ = _story(tmp_path, wrapped)
    assert [each.said for each in story] == [each.said for each in plain]
    assert [each.time for each in story] == [each.time for each in plain]


@pytest.mark.parametrize("kind", [*LOGS, "franz-go, zap", "kafka-python"])
@pytest.mark.parametrize("delimiter", [",", ";"])
def test_it_is_read_in_a_table(tmp_path: Path, kind: str, delimiter: str) -> None:
    text = LOGS.get(kind) or KAFKA_PYTHON
    if kind in WRAPPERS:
        text = "\n".join(WRAPPERS[kind])
    written = io.StringIO()
    rows = csv.writer(written, delimiter=delimiter)
    rows.writerow(["@timestamp", "@message"])
    rows.writerows(("2026-11-27T02:32:27.1Z", line) for line in text.splitlines())
    client = "reader-a" if kind in LOGS else "unnamed"
    plain, file = tmp_path / "plain.log", tmp_path / "table.csv"
    plain.write_text(text)
    file.write_text(written.getvalue())
    stories = [_clients(Where(files=[each]), client).story() for each in (plain, file)]
    said, of_table = ([(each.said, each.time, each.refused) for each in s] for s in stories)
    assert of_table == said


def test_json_is_read_behind_a_time_and_a_tab(tmp_path: Path) -> None:
    line = json.dumps(
        {
            "message": 'a#consumer-1 [thrd:main]: Group "g" heartbeat error response in'
            " state up: Broker: Unknown member"
        }
    )
    (beat,), _ = _story(tmp_path, f"1795165925412\t{line}\n", "a")
    assert [each.code for each in beat.refused] == [25]


@pytest.mark.parametrize("kind", LOGS)
def test_a_cut_line_is_no_damage(tmp_path: Path, kind: str) -> None:
    cut = "\n".join(line[: len(line) * 3 // 4] for line in LOGS[kind].splitlines())
    file = tmp_path / "client.log"
    file.write_text(f"{cut}\n{LOGS[kind]}")
    assert _clients(Where(files=[file]), "reader-a").story()


@pytest.mark.parametrize("kind", LOGS)
def test_other_commands_refuse_it_and_name_explain(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "client.log"
    file.write_text(LOGS[kind])
    with pytest.raises(UserError, match="brokertwin explain client") as raised:
        read_history([file])
    assert kind in raised.value.message


def test_the_command_prints_the_requests(tmp_path: Path, empty_directory: Path) -> None:
    file = tmp_path / "client.log"
    file.write_text(RDKAFKA)
    done = brokertwin("explain", "client", "reader-a", file, "--errors", cwd=empty_directory)
    assert done.returncode == 0, done.stderr
    assert "17:32:09.428  client reader-a  HEARTBEAT v3  client.log:1" in done.stdout
    assert "refused: 27 REBALANCE_IN_PROGRESS" in done.stdout
    done = brokertwin("explain", "client", "nobody", file, cwd=empty_directory)
    assert done.returncode == 2
    assert "It has reader-a." in done.stderr


TEXTLOGS = Path(__file__).parents[2] / "textlogs"
REFUSED = {
    ("kafka-python", "ledger-writer"): [
        *("FIND_COORDINATOR 15", "INIT_PRODUCER_ID 51", "ADD_PARTITIONS_TO_TXN 51"),
        *("PRODUCE 6", "END_TXN 14"),
    ],
    ("kafka-python", "ledger-reader"): [
        *("JOIN_GROUP 25", "JOIN_GROUP 79", "SYNC_GROUP 27", "FETCH 6", "OFFSET_COMMIT 22"),
        "HEARTBEAT 27",
    ],
    ("aiokafka", "unnamed"): [
        *("FIND_COORDINATOR 15", "INIT_PRODUCER_ID 51", "ADD_PARTITIONS_TO_TXN 51", "PRODUCE 6"),
        *("END_TXN 14", "JOIN_GROUP 25", "JOIN_GROUP 79", "SYNC_GROUP 27", "FETCH 6"),
        *("OFFSET_COMMIT 22", "JOIN_GROUP 79"),
    ],
    ("librdkafka-refused", "ledger-writer"): [
        *("FIND_COORDINATOR 15", "INIT_PRODUCER_ID 51", "ADD_PARTITIONS_TO_TXN 51", "PRODUCE 6"),
        "END_TXN 14",
    ],
    ("librdkafka-refused", "ledger-reader"): [
        *("JOIN_GROUP 25", "JOIN_GROUP 79", "SYNC_GROUP 27", "HEARTBEAT 27", "FETCH 6"),
        *("HEARTBEAT 27", "OFFSET_COMMIT 22"),
    ],
    ("franz-go", "unnamed"): [
        *("FIND_COORDINATOR 15", "INIT_PRODUCER_ID 51", "PRODUCE 6", "END_TXN 14"),
        *("OFFSET_COMMIT 22", "HEARTBEAT 27"),
    ],
    ("sarama", "unnamed"): [
        *("FIND_COORDINATOR 15", "INIT_PRODUCER_ID 51", "ADD_PARTITIONS_TO_TXN 51"),
        *("ADD_PARTITIONS_TO_TXN 51", "PRODUCE 6", "END_TXN 14", "FETCH 6"),
    ],
}
"""Logs of clients whose broker refused some requests once, and what was refused."""


@pytest.mark.parametrize("log", REFUSED, ids=" ".join)
def test_each_refusal_is_on_its_own_request(tmp_path: Path, log: tuple[str, str]) -> None:
    name, client = log
    file = tmp_path / "client.log"
    file.write_bytes(lzma.decompress((TEXTLOGS / f"{name}.log.xz").read_bytes()))
    story = _clients(Where(files=[file]), client).story()
    found = [f"{each.api} {error.code}" for each in story for error in each.refused]
    assert sorted(found) == sorted(REFUSED[log])


def test_clients_with_bodies_have_the_stories_of_groups_and_producers(tmp_path: Path) -> None:
    for name in ("kafka-python", "aiokafka"):
        file = tmp_path / f"{name}.log"
        file.write_bytes(lzma.decompress((TEXTLOGS / f"{name}.log.xz").read_bytes()))
        name_of_group = "billing" if name == "kafka-python" else "billing2"
        group = _groups(Where(files=[file]), name_of_group)
        notes = [note for each in group.story() for note in each.notes]
        assert "generation 1 begins, by this request" in notes


SENT = "[thrd:main]: b:1/1: Sent HeartbeatRequest (v3, 92 bytes @ 0, CorrId 14)"
GOT = "[thrd:main]: b:1/1: Received HeartbeatResponse (v3, 6 bytes, CorrId 14, rtt 2.25ms)"
FAILED = "[thrd:main]: b:1/1: HeartbeatRequest failed: Broker: Unknown member: actions Permanent"
GROUP_FAILED = '[thrd:main]: Group "g" heartbeat error response in state up: Broker: Unknown member'
BEAT = "Response Heartbeat(key: 12, version: 3)"
FIELDS = {
    "logger": "kafkajs",
    "broker": "b:1",
    "clientId": "a",
    "correlationId": 7,
    "error": "The coordinator is not aware of this member",
    "size": 9,
}
NEST = json.dumps({"timestamp": "2026-11-20T09:12:05.412Z", **FIELDS})
AT = "2026-11-20T09:12:05.412Z"
FRANZ_GO: list[tuple[str, dict[str, str | None]]] = [
    ("wrote Heartbeat v4", {"broker": "1", "err": None}),
    ("read Heartbeat v4", {"broker": "1", "err": None}),
    ("heartbeat errored", {"group": "g", "err": "UNKNOWN_MEMBER_ID: The coordinator is not"}),
]
WRAPPERS = {
    "Rust": [f"[{AT} DEBUG rdkafka::client] librdkafka: SEND {each}" for each in (SENT, GOT)]
    + [f"[{AT} DEBUG rdkafka::client] librdkafka: REQERR {FAILED}"],
    "Vector": [f"{AT} DEBUG rdkafka::client: librdkafka: SEND {SENT}"]
    + [f"{AT} DEBUG rdkafka::client: librdkafka: {each}" for each in (GOT, FAILED)],
    "C++": [f"{AT} LOG-7-SEND: {SENT}", f"{AT} LOG-7-RECV: {GOT}", f"{AT} LOG-7-REQERR: {FAILED}"],
    ".NET": [f"[{AT} DBG] a#producer-1 SEND {each}" for each in (SENT, GOT, FAILED)],
    "Node": [
        json.dumps(
            {"time": AT, "severity": 7, "fac": "SEND", "message": each, "name": "a#consumer-1"}
        )
        for each in (SENT, GOT, FAILED)
    ],
    "NestJS": [f"[Nest] 41  - 11/20/2026, 9:12:05 AM   ERROR [K] ERROR [Connection] {BEAT} {NEST}"],
    "winston, simple": [f"{AT} debug: {BEAT} {json.dumps({'extra': FIELDS})}"],
    "winston, JSON": [
        json.dumps({"level": "debug", "message": BEAT, "extra": FIELDS, "timestamp": AT})
    ],
    "logfmt": [
        f"ts={AT} client=a#consumer-1 msg={json.dumps(each)}" for each in (SENT, GOT, GROUP_FAILED)
    ],
    ".NET, with scopes": [
        f"{AT} dbug: Kafka[0]\n      a#consumer-1 {each}" for each in (SENT, GOT, FAILED)
    ],
    "librdkafka-dotnet": [
        f"{AT} [Debug] From(a#consumer-1) {each}" for each in (SENT, GOT, FAILED)
    ],
    "kafka-go, glog": [
        f"I1120 09:12:05.412448  12 k.go:1] a#consumer-1 {each}" for each in (SENT, GOT, FAILED)
    ],
    "pino-pretty, singleLine": [f"[{AT}] ERROR (71): {BEAT} {json.dumps(FIELDS)}"],
    "KafkaJS on Lambda": [f"{AT}\tc6af9ac6\tERROR\t{json.dumps({'message': BEAT, **FIELDS})}"],
    "franz-go, zap": [
        json.dumps({"level": "debug", "ts": 1795165925.412, "msg": message} | fields)
        for message, fields in FRANZ_GO
    ],
    "franz-go, zerolog": [
        json.dumps({"level": "debug", "time": 1795165925412} | fields | {"message": message})
        for message, fields in FRANZ_GO
    ],
    "franz-go, logfmt": [
        f'level=info msg="{message}" @service=redpanda-connect time="{AT}" '
        + " ".join(f'{name}="{value}"' for name, value in fields.items() if value)
        for message, fields in FRANZ_GO
    ],
    "franz-go, klog": [
        f"I1120 09:12:05.412448       1 kgo.go:12] {message}; "
        + ", ".join(f"{name}: {value or '<nil>'}" for name, value in fields.items())
        for message, fields in FRANZ_GO
    ],
}
UNNAMED = ("Rust", "Vector", "C++", "franz-go")


@pytest.mark.parametrize("kind", WRAPPERS)
def test_the_lines_of_other_loggers_are_read(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "client.log"
    file.write_text("\n".join(WRAPPERS[kind]) + "\n")
    client = "unnamed" if kind.startswith(UNNAMED) else "a"
    (beat,) = _clients(Where(files=[file]), client).story()
    assert beat.api == "HEARTBEAT"
    assert [each.code for each in beat.refused] == [25]
    assert beat.time == 1795165925412


PINO_PRETTY = f"[{AT}] ERROR (71): {BEAT}\n" + "".join(
    f"    {name}: {json.dumps(value)}\n" for name, value in FIELDS.items()
)
INSPECTED = f"""\
{{
  namespace: 'Connection',
  log: {{
    timestamp: '{AT}',
    message: '{BEAT}',
    correlationId: 7,
    error: 'The coordinator is not aware of this member'
  }}
}}
"""


@pytest.mark.parametrize("text", [PINO_PRETTY, INSPECTED], ids=["pino-pretty", "util.inspect"])
def test_fields_of_kafkajs_on_lines_of_their_own_are_refused_with_what_to_do(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "client.log"
    file.write_text(text)
    with pytest.raises(UserError, match="debug log of a KafkaJS client") as raised:
        _clients(Where(files=[file]), "a")
    assert "JSON.stringify, not util.inspect; with pino-pretty's singleLine" in raised.value.hint


def test_java_util_logging_writes_the_time_before_the_message(tmp_path: Path) -> None:
    said = "[Consumer clientId=reader-a] Attempt to heartbeat failed since group is rebalancing"
    head = "Nov 20, 2026 9:12:05 AM org.apache.kafka.clients.ConsumerCoordinator handle"
    (beat,), _ = _story(tmp_path, f"{head}\nINFO: {said}\n")
    assert [each.code for each in beat.refused] == [27]
    assert beat.time == 1795165925000


def test_a_log_without_dates_is_refused_with_what_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "client.log"
    file.write_text(f"[19:15:43 DBG] a#producer-1 SEND {SENT}\n")
    with pytest.raises(UserError, match="1 of 1 lines have no date and time") as raised:
        _clients(Where(files=[file]), "a")
    assert "Log each line with its date" in raised.value.hint


def test_errors_of_the_client_itself_do_not_replace_those_of_the_broker(tmp_path: Path) -> None:
    local = "HeartbeatRequest failed: Local: Timed out: actions Retry"
    lines = (SENT, GOT, FAILED, f"[thrd:main]: b:1/1: {local}")
    text = "".join(f"%7|1651858329.428|X|reader-a#consumer-1| {line}\n" for line in lines)
    (beat,), ending = _story(tmp_path, text)
    assert [each.code for each in beat.refused] == [25]
    assert "refused: UNKNOWN_MEMBER_ID 1" in ending


def test_a_log_without_bodies_does_not_say_that_nothing_was_refused(tmp_path: Path) -> None:
    text = "".join(f"%7|1651858329.428|X|reader-a#consumer-1| {line}\n" for line in (SENT, GOT))
    _, ending = _story(tmp_path, text)
    assert ending[1] == "the log shows no refusal; it does not have the bodies of all responses"


MAIN = "[thrd:main]: "
OLD_EPOCH = "Broker: Producer attempted an operation with an old epoch (INVALID_PRODUCER_EPOCH)"
ABORTED = f"{MAIN}Current transaction failed in state BeginCommit: Failed to commit offsets to "
GROUPS = f'{MAIN}Group "g" heartbeat error response in state up: Broker: Unknown member'
RESET = (
    f"{MAIN}orders [0]: offset reset (at offset 43, broker 1) to offset BEGINNING: fetch failed "
)
SET = (
    "[thrd:b:1/1]: b:1/1: orders [0]: MessageSet with 3 message(s) (BaseSeq 3) encountered error: "
)
ALONE = {
    "HEARTBEAT 25": GROUPS,
    "SYNC_GROUP 27": "SyncGroup response: Broker: Group rebalance in progress (0 bytes)",
    "OFFSET_COMMIT 25": f"{MAIN}Offset commit (manual) failed for 1/1 partition(s): Broker: Unknown"
    " member: orders[0]@5(Broker: Unknown member)",
    "END_TXN 47": f"{MAIN}Fatal transaction error: Failed to end transaction: {OLD_EPOCH}",
    "ADD_OFFSETS_TO_TXN 47": f"{MAIN}Fatal transaction error: Failed to add offsets to transaction:"
    f" {OLD_EPOCH}",
    "TXN_OFFSET_COMMIT 22": f"{ABORTED}transaction on broker b:1/1: Broker: Specified group"
    " generation id is not valid (after 20ms) (ILLEGAL_GENERATION)",
    "PRODUCE 45": f"{SET}Broker: Broker received an out of order sequence number (actions x)",
    "CONSUMER_GROUP_HEARTBEAT 110": f"{MAIN}ConsumerGroupHeartbeat failed due to: Broker: The"
    " member epoch is fenced by the group coordinator: will rejoin the group",
    "FETCH 1": f"{RESET}due to requested offset not available: Broker: Offset out of range",
}


APART = [("", "a#consumer-1", "a#consumer-2"), ("", "a#producer-1", "b#producer-2")]
APART += [(pod, "a#consumer-1", "a#consumer-1") for pod in ("pod-{}  | ", "[pod/pod-{}/app] ")]


@pytest.mark.parametrize("apart", APART, ids=str)
def test_the_clients_of_a_log_are_kept_apart(tmp_path: Path, apart: tuple[str, ...]) -> None:
    """Their correlation ids are the same."""
    pod, *names = apart
    first, second = (f"{pod.format(n + 1)}%7|1651858329.428|X|{names[n]}| " for n in range(2))
    slow = GOT.replace("2.25", "3.5")
    text = "".join(
        f"{line}\n"
        for line in (first + SENT, second + SENT, second + GOT, first + slow, first + FAILED)
    )
    entries = [
        each
        for name in dict.fromkeys(n[0] for n in names)
        for each in _story(tmp_path, text, name)[0]
    ]
    of_first, of_second = sorted(entries, key=lambda each: int(each.id.rpartition(":")[2]))
    assert [each.code for each in of_first.refused] == [25]
    assert "after 3.5 ms" in of_first.said
    assert of_second.refused == []


def _logged(*lines: str) -> str:
    return "".join(f"%7|1651858329.428|FAC|reader-a#consumer-1| {line}\n" for line in lines)


@pytest.mark.parametrize("refused", ALONE)
def test_refusals_whose_requests_are_not_in_the_log(tmp_path: Path, refused: str) -> None:
    """`debug=cgrp,eos` logs errors and no requests; each refusal counts once."""
    (entry,), ending = _story(tmp_path, _logged(ALONE[refused], ALONE[refused]))
    assert [f"{entry.api} {each.code}" for each in entry.refused] == [refused]
    assert entry.said.startswith(("response of a broker;", "response of broker 1;"))
    assert ending[-1] == f"{entry.api}: 1 request"


@pytest.mark.parametrize("refused", ALONE)
def test_refusals_belong_to_the_requests_of_a_log(tmp_path: Path, refused: str) -> None:
    api = refused.split()[0].title().replace("_", "")
    sent = f"[thrd:b:1/1]: b:1/1: Sent {api}Request (v1, 92 bytes @ 0, CorrId 9)"
    got = f"[thrd:b:1/1]: b:1/1: Received {api}Response (v1, 6 bytes, CorrId 9, rtt 2.25ms)"
    (entry,), _ = _story(tmp_path, _logged(sent, got, ALONE[refused]))
    assert [f"{entry.api} {each.code}" for each in entry.refused] == [refused]
    assert "after 2.25 ms" in entry.said


def test_java_clients_before_kafka_2_5(tmp_path: Path) -> None:
    text = (
        "[2018-10-05 10:00:00,001] DEBUG [Consumer clientId=reader-a, groupId=parcels] Using older"
        " server API v1 to send HEARTBEAT {group_id=parcels,generation_id=3,member_id=m1} with"
        " correlation id 5 to node 2147483646 (org.apache.kafka.clients.NetworkClient)\n"
        "[2018-10-05 10:00:00,003] TRACE [Consumer clientId=reader-a, groupId=parcels] Completed"
        " receive from node 2147483646 for HEARTBEAT with correlation id 5, received"
        " {throttle_time_ms=0,error_code=25} (org.apache.kafka.clients.NetworkClient)\n"
    )
    (beat,), ending = _story(tmp_path, text)
    assert (beat.api, beat.version, [each.code for each in beat.refused]) == ("HEARTBEAT", 1, [25])
    assert "response of broker 1 after 2 ms" in beat.said
    assert "explain group parcels tells its whole story" in ending


def test_the_node_id_of_a_coordinator_is_no_time(tmp_path: Path) -> None:
    file = tmp_path / "client.log"
    file.write_text(re.sub(r"(?m)^\[2026-11-27 ", "[", JAVA))
    with pytest.raises(UserError, match="2 of 2 lines have no date and time"):
        _clients(Where(files=[file]), "reader-a")
