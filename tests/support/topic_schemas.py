"""Generate docs/schemas.json and the last table of docs/operations.md from the code of the job.

    python -m tests.support.topic_schemas        # writes both

Documents that the code builds field by field are declared here as structs; tests/test_schemas.py
compares them with real rows.
"""

import json
from typing import Any

import msgspec
from msgspec import NODEFAULT

from brokertwin.gateway.faults.fault_file import SCHEMA_ID
from brokertwin.kafka_io import topics
from brokertwin.kafka_io.placement import Placement
from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.bodies import Int32, Int64
from brokertwin.protocol.generated.offset_rows import OffsetCommitValue
from brokertwin.settings import Settings
from brokertwin.state.core.events import Event, Reason, RequestHeader
from brokertwin.state.core.outputs import BrokerChange, SegmentKey
from brokertwin.state.core.records import (
    RecordEntry,
)
from brokertwin.state.groups.offset_records import OffsetKey
from tests.support.sources import ROOT

PAGE = ROOT / "docs" / "operations.md"
JSON_SCHEMA = ROOT / "docs" / "schemas.json"


class Refused(msgspec.Struct):
    """Why a request became a dead letter."""

    reason: Reason
    detail: str


class Response(msgspec.Struct, rename="camel"):
    """A response. If the request became a dead letter, `error` replaces `response`.

    `id`, `broker`, `connection`, `principal` and the header are copied from the request. A request
    that cannot be parsed has only its readable fields.
    """

    id: str
    cluster: str
    broker: Int32 = 1
    connection: str = ""
    principal: str = ""
    request_header: RequestHeader | None = None
    kind: str = ""
    response_time: Int64 = 0
    response: dict[str, Any] | None = None
    closes_connection: bool = False
    mute_ms: int = 0
    error: Refused | None = None


class DeadLetter(msgspec.Struct, rename="camel"):
    """A refused event: its position in `requests`, the reason, and up to 64 KiB of its text.

    `packIndex` is its place in a pack.
    """

    cell: str
    partition: Int32
    offset: Int64
    reason: Reason
    detail: str
    input_bytes: int
    input: str = ""
    input_base64: str = ""
    pack_index: Int32 = 0


class Timer(msgspec.Struct, rename="camel"):
    """The time at which the clock writes a tick, in ms since 1970."""

    cluster: str
    deadline: Int64


class Segment(SegmentKey, rename="camel", frozen=True):
    """A sealed part of a log's index, with the headers of its batches."""

    batches: list[Batch]


KEYS = "the key of a record of Kafka's group coordinator: its type as an int16, then names"
OFFSETS = (
    "`OffsetCommitValue` 4, or 1 if the commit has an expiry; other rows of `__consumer_offsets` in"
    " the versions that Kafka 4.3.1 writes; null is a tombstone"
)
TOPICS: dict[str, tuple[str, str, tuple[type, ...]]] = {
    "requests": ("the name of the cell",
                 "JSON; or a pack of at most 1,000 events: a JSON text sequence (RFC 7464)",
                 (Event,)),
    "responses": ("none; `replyTo` of the request is the partition", "JSON",
                  (Response, BrokerChange)),
    "records": ("the name of the cell", "JSON", (RecordEntry,)),
    "offsets.default": (KEYS, OFFSETS, (OffsetKey, OffsetCommitValue)),
    "dead-letters": ("none", "JSON", (DeadLetter,)),
    "segments": ("JSON", "JSON; null is a tombstone", (Segment,)),
    "timers": ("the name of the cell", "JSON", (Timer,)),
    "placement": ("the name of the cluster", "JSON", (Placement,)),
    "data": ("none", "a record batch of Kafka (magic 2), as the client sent it", ()),
}  # fmt: skip
"""Topic to its key, its value, and its documents."""

MADE = "[comment]: # (made from the code: python -m tests.support.topic_schemas)"
"""The text above this line is written by hand."""


def page() -> str:
    above = PAGE.read_text(encoding="utf-8").partition(MADE)[0]
    parts = [f"{above}{MADE}\n", "| topic | key | value | types |", "|---|---|---|---|"]
    for spec in topics.specs(Settings(clusters=("default",))):
        key, value, structs = TOPICS[spec.name]
        name = spec.name.replace("default", "<cluster>")
        types = ", ".join(f"`{each.__name__}`" for each in structs)
        parts.append(f"| `{name}` | {key} | {value} | {types} |")
    return "\n".join(parts) + "\n"


def json_schema() -> str:
    structs = [_without_raw(each) for _, _, structs in TOPICS.values() for each in structs]
    _, definitions = msgspec.json.schema_components(structs, ref_template="#/$defs/{name}")
    document = {"$schema": SCHEMA_ID, "title": "Topics of a job", "$defs": definitions}
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _without_raw(struct: type) -> type:
    """The struct with `Any` for raw JSON, whose default msgspec cannot put into a schema."""
    fields = msgspec.structs.fields(struct)
    if not any(field.type is msgspec.Raw for field in fields):
        return struct
    kept: list[Any] = []
    for field in fields:
        kind = Any if field.type is msgspec.Raw else field.type
        if field.required:
            kept.append((field.name, kind))
        elif field.default_factory is not NODEFAULT:
            kept.append((field.name, kind, msgspec.field(default_factory=field.default_factory)))
        else:
            kept.append((field.name, kind, None if kind is Any else field.default))
    return msgspec.defstruct(
        struct.__name__, kept, rename="camel", namespace={"__doc__": struct.__doc__}
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    JSON_SCHEMA.write_text(json_schema(), encoding="utf-8")
