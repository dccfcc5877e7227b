"""Fields that the edge adds to an event, and events that it rejects."""

import gzip
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings

from brokertwin.errors import UserError
from brokertwin.kafka_io.placement import Placement
from brokertwin.recordings.formats.lines import read_lines
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.events import Event, Kind, Reason, Refusal
from brokertwin.state.core.murmur2 import partition_of
from brokertwin.state.core.outputs import DEAD_LETTERS, Position
from brokertwin.state.core.settings import CellSettings
from brokertwin.streaming.job.edge import JobEdge, Sendable, by_time
from tests.support.examples import examples
from tests.support.histories import CLUSTER, histories

NOW = 1_700_000_000_123
HEADER = {"requestApiKey": 18, "requestApiVersion": 3, "clientId": "c"}
BODY = {"clientSoftwareName": "kafka-python", "clientSoftwareVersion": "3.0.12"}


def placement(name: str) -> Placement:
    return Placement(
        cluster=name, brokers=[1], cells=[name], requests_partitions=6, responses_partitions=2
    )


ONE = JobEdge({"demo": placement("demo")}, "demo", None, lambda: NOW)
SEVERAL = JobEdge({n: placement(n) for n in ("a", "b")}, None, None, lambda: NOW)


def document(**fields: Any) -> bytes:
    return msgspec.json.encode({"requestHeader": HEADER, "request": BODY, **fields})


def request_of(api_key: int, version: int) -> bytes:
    return document(requestHeader={"requestApiKey": api_key, "requestApiVersion": version})


def event(edge: JobEdge, text: bytes) -> Event:
    made = edge.event(text, "file:1")
    assert isinstance(made, Sendable), made
    return msgspec.json.decode(made.document, type=Event)


def test_a_bare_document_gets_id_cluster_broker_time_and_nonce() -> None:
    made = event(ONE, document())
    assert (made.id, made.cluster, made.broker, made.time) == ("file:1", "demo", 1, NOW)
    assert len(made.nonce) == 32
    assert made.nonce != event(ONE, document()).nonce
    assert msgspec.json.decode(made.request) == BODY


def test_fields_of_a_document_are_kept() -> None:
    given = {"id": "x", "cluster": "b", "time": 5, "nonce": "n", "connection": "c9", "replyTo": 1}
    made = event(SEVERAL, document(principal="User:alice", **given))
    assert (made.id, made.cluster, made.time, made.nonce) == ("x", "b", 5, "n")
    assert (made.connection, made.reply_to, made.principal) == ("c9", 1, "User:alice")


def test_the_end_of_a_connection_is_taken() -> None:
    ended = {"kind": "disconnect", "connection": "c9", "time": 5}
    made = event(ONE, msgspec.json.encode(ended))
    assert (made.kind, made.connection, made.time) == (Kind.DISCONNECT, "c9", 5)
    assert made.request_header is None


def test_recorded_responses_are_left_out() -> None:
    made = ONE.event(document(response={"errorCode": 0}, responseTime=3.5, delivered=False), "f:1")
    assert isinstance(made, Sendable)
    fields = msgspec.json.decode(made.document)
    assert not {"response", "responseTime", "delivered"} & fields.keys()


def test_an_event_goes_to_the_partition_of_its_cell() -> None:
    made = SEVERAL.event(document(cluster="b"), "f:1")
    assert isinstance(made, Sendable)
    assert (made.cell, made.partition) == ("b", partition_of(b"b", 6))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"no json", Reason.NOT_JSON),
        (b'{"id": "\xff"}', Reason.NOT_UTF8),
        (b'{"request": ' + b"[" * 100_000, Reason.TOO_DEEP),
        (b"[]", Reason.WRONG_TYPE),
        (document(time="now"), Reason.WRONG_TYPE),
        (document(broker=2**40), Reason.OUT_OF_RANGE),
        (b"{}", Reason.MISSING_FIELD),
        (document(cluster="else"), Reason.UNKNOWN_CLUSTER),
        (document(broker=9), Reason.UNKNOWN_BROKER),
        (document(replyTo=2), Reason.REPLY_TO),
        (document(kind="tick"), Reason.INTERNAL_KIND),
        (document(kind="complete", of="x"), Reason.INTERNAL_KIND),
        (b'{"kind": "disconnect", "time": 5}', Reason.MISSING_FIELD),
        (
            b'{"kind": "disconnect", "connection": "c", "id": "%b"}' % (b"x" * 5000),
            Reason.TOO_LARGE,
        ),
        (document(kind="anything"), Reason.INTERNAL_KIND),
        (document(choices={"sessionId": 4}), Reason.INTERNAL_KIND),
        (document(isHeld=True), Reason.INTERNAL_KIND),
        (document(of="x"), Reason.INTERNAL_KIND),
        (request_of(999, 0), Reason.UNKNOWN_API),
        (request_of(3, 99), Reason.UNSUPPORTED_VERSION),
        (request_of(80, 0), Reason.NOT_BUILT),
        (document(request={"clientSoftwareName": 5}), Reason.WRONG_TYPE),
        (document(principal="x" * 9_000_000), Reason.TOO_LARGE),
    ],
    ids=lambda value: value.name if isinstance(value, Reason) else "",
)
def test_future_dead_letters_are_rejected(text: bytes, reason: Reason) -> None:
    refused = ONE.event(text, "file:1")
    assert isinstance(refused, Refusal)
    assert refused.reason is reason
    assert refused.detail


def test_with_several_clusters_a_document_must_name_its_own() -> None:
    refused = SEVERAL.event(document(), "file:1")
    assert isinstance(refused, Refusal)
    assert refused.reason is Reason.MISSING_FIELD
    assert "a, b" in refused.detail


@given(histories(max_size=15))
@settings(max_examples=examples(20))
def test_accepted_documents_become_no_dead_letters(documents: list[bytes]) -> None:
    edge = JobEdge({CLUSTER: placement(CLUSTER)}, CLUSTER, None, lambda: NOW)
    cell = Cell(CellSettings(name=CLUSTER, cluster=CLUSTER, event_time="recorded"))
    for number, text in enumerate(documents):
        made = edge.event(text, f"h:{number}")
        if isinstance(made, Sendable):
            rows = cell.handle(made.document, Position(0, number))
            assert [row.value for row in rows if row.topic == DEAD_LETTERS] == []


def sendable(time: int, connection: str, name: str) -> Sendable:
    return Sendable("demo", 0, b"", name, time, connection)


def test_files_are_merged_by_time_and_a_connection_keeps_its_order() -> None:
    events = [
        ("one", sendable(10, "c1", "a")),
        ("one", sendable(5, "c1", "b")),
        ("one", sendable(10, "c2", "c")),
        ("two", sendable(7, "c1", "d")),
        ("two", sendable(10, "c1", "e")),
    ]
    assert [made.id for made in by_time(events)] == ["d", "a", "b", "c", "e"]


def test_lines_come_from_plain_and_compressed_files(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(b"one\n\ntwo\n")
    (tmp_path / "y.jsonl.gz").write_bytes(gzip.compress(b"three"))
    lines = list(read_lines([tmp_path / "x.jsonl", tmp_path / "y.jsonl.gz"]))
    assert [(line.file, line.number, line.text.strip()) for line in lines] == [
        ("x.jsonl", 1, b"one"),
        ("x.jsonl", 3, b"two"),
        ("y.jsonl", 1, b"three"),
    ]


@pytest.mark.parametrize("name", ["missing.jsonl", "broken.gz"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "broken.gz").write_bytes(gzip.compress(b"some text")[:12] + b"no deflate data")
    with pytest.raises(UserError, match=name):
        list(read_lines([tmp_path / name]))
