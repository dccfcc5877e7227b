"""The page of the topics' schemas matches the code, and rows match the page."""

import re

import msgspec
import pytest

from brokertwin.kafka_io import topics
from brokertwin.settings import Settings
from brokertwin.state.core import outputs
from brokertwin.state.core.dead_letters import refused_event
from brokertwin.state.core.events import Reason, Refusal
from brokertwin.state.core.outputs import Output, Position
from brokertwin.state.core.records import RecordEntry
from tests.support import topic_schemas
from tests.support.groups import GroupBench
from tests.support.machine import Bench
from tests.support.replicas import Replicas
from tests.support.topic_schemas import DeadLetter, Response, Segment, Timer

HOW = "python -m tests.support.topic_schemas writes it anew"


def test_schema_page_is_up_to_date() -> None:
    assert topic_schemas.PAGE.read_text(encoding="utf-8") == topic_schemas.page(), HOW


def test_every_topic_of_the_job_is_there() -> None:
    names = [spec.name for spec in topics.specs(Settings(clusters=("default",)))]
    assert sorted(names) == sorted(topic_schemas.TOPICS)


def test_json_schema_is_up_to_date_and_has_every_type_that_is_named() -> None:
    text = topic_schemas.JSON_SCHEMA.read_text(encoding="utf-8")
    assert text == topic_schemas.json_schema(), HOW
    defined = msgspec.json.decode(text)["$defs"]
    named = set(re.findall(r"`([A-Z]\w+)`", topic_schemas.page().partition(topic_schemas.MADE)[2]))
    assert {"Event", "Response", "Segment"} <= named <= set(defined)


def generated_rows() -> list[Output]:
    """Rows of a group, of stopping brokers, and of pending and refused requests."""
    group = GroupBench()
    group.stable("one")
    group.request("METADATA", 12, name="nowhere")
    replicas = Replicas()
    replicas.stop(3)
    bench = Bench()
    letters = refused_event(bench.settings, b"\xff", Position(0, 7), Refusal(Reason.NOT_UTF8, "no"))
    header = b'{"requestApiKey":1,"requestApiVersion":4,"correlationId":1,"clientId":"c"}'
    document = b'{"id":"1","replyTo":0,"requestHeader":' + header + b"}"
    letters += refused_event(
        bench.settings, document, Position(0, 8), Refusal(Reason.NOT_BUILT, "no")
    )
    return [*group.rows, *replicas.bench.rows, *letters]


@pytest.mark.parametrize(
    ("topic", "struct"),
    [
        (outputs.RESPONSES, Response),
        (outputs.DEAD_LETTERS, DeadLetter),
        (outputs.TIMERS, Timer),
        (outputs.RECORDS, RecordEntry),
    ],
)
def test_rows_have_the_fields_of_their_struct_and_no_other(topic: str, struct: type) -> None:
    rows = [row for row in generated_rows() if row.topic == topic and row.value is not None]
    changes = [row for row in rows if row.id.startswith(outputs.BROKER_CHANGES)]
    assert bool(changes) == (topic == outputs.RESPONSES)
    names = {field.encode_name for field in msgspec.structs.fields(struct)}
    found: set[str] = set()
    for row in rows:
        if row not in changes:
            assert row.value is not None
            msgspec.json.decode(row.value, type=struct)
            found |= msgspec.json.decode(row.value).keys()
    assert found <= names
    assert {
        field.encode_name for field in msgspec.structs.fields(struct) if field.required
    } <= found


def test_a_sealed_segment_has_the_fields_of_its_struct() -> None:
    fields = [field.encode_name for field in msgspec.structs.fields(Segment)]
    assert fields == ["cluster", "topicId", "partition", "baseOffset", "batches"]
