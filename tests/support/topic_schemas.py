"""Generate docs/schemas.md from the code that writes and reads the job's topics.

    python -m tests.support.topic_schemas        # writes docs/schemas.md

Documents that the code builds field by field are declared here as structs; tests/test_schemas.py
compares them with real rows.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import NODEFAULT, inspect

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

PAGE = ROOT / "docs" / "schemas.md"


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
    """A refused event: its position in `requests`, the reason, and up to 64 KiB of its text."""

    cell: str
    partition: Int32
    offset: Int64
    reason: Reason
    detail: str
    input_bytes: int
    input: str = ""
    input_base64: str = ""


class Timer(msgspec.Struct, rename="camel"):
    """The time at which the clock writes a tick, in ms since 1970."""

    cluster: str
    deadline: Int64


class Segment(SegmentKey, rename="camel", frozen=True):
    """A sealed part of a log's index, with the headers of its batches."""

    batches: list[Batch]


KEYS = "the key of a record of Kafka's group coordinator: its type as an int16, then names"
OFFSETS = (
    "`OffsetCommitValue` 4, or 1 if the commit has an expiry (type 1); `GroupMetadataValue` 3 of"
    " a classic group (2); of a consumer group, each in version 0, `ConsumerGroupMetadataValue`"
    " (3), `…MemberMetadataValue` (5), `…TargetAssignmentMetadataValue` (6),"
    " `…TargetAssignmentMemberValue` (7), `…CurrentMemberAssignmentValue` (8) and"
    " `…RegularExpressionValue` (16); of a share group `ShareGroupMemberMetadataValue` (10),"
    " `…MetadataValue` (11), `…TargetAssignmentMetadataValue` (12), `…TargetAssignmentMemberValue`"
    " (13), `…CurrentMemberAssignmentValue` (14) and `…StatePartitionMetadataValue` (15); of a"
    " streams group `StreamsGroupMetadataValue` (17), `…MemberMetadataValue` (19),"
    " `…TargetAssignmentMetadataValue` (20), `…TargetAssignmentMemberValue` (21),"
    " `…CurrentMemberAssignmentValue` (22) and `…TopologyValue` (23); null is a tombstone"
)
TOPICS: dict[str, tuple[str, str, tuple[type, ...]]] = {
    "requests": ("the name of the cell", "JSON", (Event,)),
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
    """The whole page."""
    parts = [PAGE.read_text(encoding="utf-8").partition(MADE)[0] + MADE + "\n"]
    for spec in topics.specs(Settings(clusters=("default",))):
        key, value, structs = TOPICS[spec.name]
        name = spec.name.replace("default", "<cluster>")
        parts.append(f"## `{name}`\n\nKey: {key}. Value: {value}.\n")
        parts.append(f"Settings: {_settings(spec.settings)}.\n")
        parts += [_struct(struct, _list) for struct in structs]
    done = {each for _, _, structs in TOPICS.values() for each in structs}
    parts.append("## Parts of these documents\n")
    parts.append("A record has its type in the field `type`.\n")
    parts += [_struct(each, _line) for each in sorted(_all_below(done), key=lambda t: t.__name__)]
    return "\n".join(parts).rstrip() + "\n"


def _settings(settings: Any) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in sorted(settings.items()))


def _struct(struct: type, shown: Callable[[inspect.StructType], list[str]]) -> str:
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    text = (struct.__doc__ or "").split("Attributes:")[0]
    summary = " ".join(text.split())
    return "\n".join([f"### {struct.__name__}", "", summary, "", *shown(info)])


def _list(info: inspect.StructType) -> list[str]:
    return [*(f"- {field}" for field in _fields(info)), ""]


def _line(info: inspect.StructType) -> list[str]:
    fields = _fields(info)
    return [f"{'; '.join(fields)}.", ""] if fields else []


def _fields(info: inspect.StructType) -> list[str]:
    return [
        f"`{field.encode_name}` {_type(field.type)}"
        + (f" = {default}" if (default := _default(field)) else "")
        for field in info.fields
    ]


def _default(field: inspect.Field) -> str:
    if field.required:
        return ""
    value = field.default
    if value is NODEFAULT:
        value = field.default_factory() if callable(field.default_factory) else None
    if value is None or isinstance(value, msgspec.Raw):
        return ""  # the page states it for all nullable types
    return f"`{msgspec.json.encode(value).decode()}`"


def _type(kind: inspect.Type) -> str:
    """The name of a type."""
    if isinstance(kind, inspect.StructType):
        return f"[{kind.cls.__name__}](#{kind.cls.__name__.lower()})"
    if isinstance(kind, inspect.UnionType):
        if sum(isinstance(each, inspect.StructType) for each in kind.types) > 2:
            return "one of the records below"
        names = [name for name in map(_type, kind.types) if name != "null"]
        joined = " or ".join(names)
        if len(names) == len(kind.types):
            return joined
        return f"({joined})?" if " or " in joined or "→" in joined else f"{joined}?"
    if isinstance(kind, inspect.ListType):
        item = _type(kind.item_type)
        return f"list of {item}" if item.endswith("[]") else f"{item}[]"  # [][] is a link
    if isinstance(kind, inspect.TupleType):
        return f"({', '.join(map(_type, kind.item_types))})"
    if isinstance(kind, inspect.DictType):
        return f"{_type(kind.key_type)}→{_type(kind.value_type)}"
    if isinstance(kind, inspect.EnumType):
        return f"text of {len(kind.cls)}: {', '.join(f'`{each.value}`' for each in kind.cls)}"
    if isinstance(kind, inspect.LiteralType):
        return ", ".join(f"`{value}`" for value in sorted(kind.values, key=str))
    if isinstance(kind, inspect.IntType):
        return _integer(kind)
    return {
        "StrType": "text", "BoolType": "bool", "NoneType": "null", "FloatType": "float",
        "BytesType": "base64", "RawType": "any JSON", "AnyType": "any JSON",
    }[type(kind).__name__]  # fmt: skip


def _integer(kind: inspect.IntType) -> str:
    widths = {2**7 - 1: "int8", 2**15 - 1: "int16", 2**31 - 1: "int32", 2**63 - 1: "int64"}
    name = widths.get(kind.le or 0, "integer")
    return f"{name}, not negative" if kind.ge == 0 else name


def _parts(kind: inspect.Type) -> Iterator[type]:
    if isinstance(kind, inspect.StructType):
        yield kind.cls
    elif isinstance(kind, inspect.UnionType | inspect.TupleType):
        below = kind.types if isinstance(kind, inspect.UnionType) else kind.item_types
        for each in below:
            yield from _parts(each)
    elif isinstance(kind, inspect.ListType):
        yield from _parts(kind.item_type)
    elif isinstance(kind, inspect.DictType):
        yield from _parts(kind.value_type)


def _below(struct: type) -> list[type]:
    """The structs that the fields of one have."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return [part for field in info.fields for part in _parts(field.type)]


def _all_below(structs: set[type]) -> set[type]:
    found: set[type] = set()
    waiting = list(structs)
    while waiting:
        for part in _below(waiting.pop()):
            if part not in found | structs:
                found.add(part)
                waiting.append(part)
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
