"""The message schemas of a broker's APIs, from `brokertwin/protocol/schemas.json`.

`MESSAGES["ProduceRequest"]` and `MESSAGES["ProduceResponse"]`; `API_NAMES[0]` is `Produce`.
"""

import re
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import msgspec

VERSION_MAX = 2**15 - 1


class Versions(NamedTuple):
    """An inclusive range of versions; empty if `first` is above `last`."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


NO_VERSIONS = Versions(1, 0)


class Field(NamedTuple):
    """A field of a message or struct.

    `type` is Kafka's name of a primitive, or `struct`; for an array it is the element's type.
    `default` is a JSON value; None for a struct means the defaults of its fields.
    """

    name: str
    type: str
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    default: Any
    fields: tuple["Field", ...]
    flexible: Versions | None


class MessageSchema(NamedTuple):
    """A request, a response or a header."""

    name: str
    api_key: int
    versions: Versions
    flexible: Versions
    fields: tuple[Field, ...]


def parse_versions(text: str) -> Versions:
    """Parse `3-13`, `9+`, `4` or `none`."""
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), VERSION_MAX)
    first, _, last = text.partition("-")
    return Versions(int(first), int(last or first))


def message_of(name: str, document: dict[str, Any]) -> MessageSchema:
    """A message by its entry in the data file."""
    return MessageSchema(
        name=name,
        api_key=document.get("apiKey", -1),
        versions=parse_versions(document["versions"]),
        flexible=parse_versions(document["flexible"]),
        fields=tuple(_field(field) for field in document["fields"]),
    )


def _field(document: dict[str, Any]) -> Field:
    is_array = document["type"].startswith("[]")
    fields = tuple(_field(part) for part in document.get("fields", ()))
    kind = "struct" if fields else document["type"].removeprefix("[]")
    flexible = document.get("flexibleVersions")
    return Field(
        name=document["name"],
        type=kind,
        is_array=is_array,
        versions=parse_versions(document["versions"]),
        nullable=parse_versions(document.get("nullableVersions", "none")),
        tag=document.get("tag"),
        default=_default(kind, is_array, document.get("default")),
        fields=fields,
        flexible=None if flexible is None else parse_versions(flexible),
    )


def _default(kind: str, is_array: bool, default: Any) -> Any:
    if default == "null":
        return None
    if is_array:
        return []
    if kind == "struct":
        return {}
    if kind == "bool":
        return str(default).lower() == "true"
    if kind == "string":
        return default or ""
    if kind in {"bytes", "records"}:
        return ""
    if kind == "uuid":
        return "AAAAAAAAAAAAAAAAAAAAAA"
    if kind == "float64":
        return float(default or 0)
    return int(default, 0) if isinstance(default, str) and default else (default or 0)


def _document(name: str) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.json.decode((files(__package__) / name).read_bytes())
    return document


_SCHEMAS = _document("schemas.json")
_SCHEMAS["messages"] |= _document("schemas_4_4.json")["messages"]

MESSAGES: dict[str, MessageSchema] = {
    name: message_of(name, found) for name, found in _SCHEMAS["messages"].items()
}
"""Message name to schema."""

API_NAMES: dict[int, str] = {
    message.api_key: name.removesuffix("Request")
    for name, message in MESSAGES.items()
    if message.api_key >= 0 and name.endswith("Request")
}
"""API key to the prefix of its message names."""

API_KEYS = {name: key for key, name in API_NAMES.items()}
"""Prefix of its message names (`CreateTopics`) to API key."""

MODELLED_NAMES: dict[int, str] = API_NAMES | {
    message["apiKey"]: name.removesuffix("Request")
    for name, message in _SCHEMAS["controller"].items()
    if name.endswith("Request")
}
"""The same with the APIs that only brokers send, to a controller."""


@cache
def message(name: str) -> MessageSchema:
    """Return the schema of a request or response, also of those among brokers. Raises KeyError."""
    return MESSAGES.get(name) or message_of(name, _SCHEMAS["controller"][name])


@cache
def _row_schemas() -> dict[str, dict[str, Any]]:
    """Rows of coordinators, and the data that clients put into groups."""
    return {**_SCHEMAS["records"], **_document("other_schemas.json")["records"]}


@cache
def row_schema(name: str) -> MessageSchema:
    """Return the schema of a row. Raises KeyError."""
    return message_of(name, _row_schemas()[name])


def schema_of(name: str, version: int) -> MessageSchema:
    """Return the schema of a message or a row that has the version. Raises KeyError."""
    schema = MESSAGES.get(name) or row_schema(name)
    if version not in schema.versions:
        raise KeyError(f"{name} has no version {version}")
    return schema


@cache
def snake(name: str) -> str:
    """Return `topicId` as `topic_id`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
