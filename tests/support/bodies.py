"""Bodies of Kafka's messages: of chosen fields, with every field of a version, with any values."""

import base64
import itertools
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from brokertwin.protocol.kafka_apis import API_KEYS
from brokertwin.protocol.schemas import API_NAMES, MESSAGES, Field

_INTEGERS = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "uint32": (0, 2**32 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
NOT_FINITE = ("Infinity", "-Infinity", "NaN")
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ELEMENTS_MAX = 2

_OF_EDGES = {"batches", "recordsError", "recordsSeen"}
"""What an event has in place of the records of a partition (`tests/wire/overlay.py`)."""


def request_body(
    api: str | int, version: int, body: dict[str, Any] | None, fields: dict[str, Any]
) -> dict[str, Any]:
    """Put each field where the API's schema has it; the items above it are lists of one.

    `topic="a", partition=0, fetchOffset=5` is one topic with one partition. A name at several
    places goes to the outermost, then to the first; a struct or list is taken as it is. `body` may
    have anything. Raises TypeError if the API has none of `fields` in any version.
    """
    key = API_KEYS.get(api) if isinstance(api, str) else api
    left = {**(body or {}), **fields}
    if key not in API_NAMES:
        return left
    schema = MESSAGES[f"{API_NAMES[key]}Request"]
    placed = _placed(schema.fields, version, left)
    if unknown := (fields.keys() & left.keys()) - _names(schema.fields):
        raise TypeError(f"{schema.name} has no {', '.join(sorted(unknown))}")
    return left | placed


def _placed(fields: tuple[Field, ...], version: int, left: dict[str, Any]) -> dict[str, Any]:
    present = [field for field in fields if version in field.versions]
    body = {field.name: left.pop(field.name) for field in present if field.name in left}
    if any(field.type == "records" for field in fields):
        body |= {name: left.pop(name) for name in _OF_EDGES & left.keys()}
    for field in present:
        inner = {} if field.name in body else _placed(field.fields, version, left)
        if inner:
            body[field.name] = [inner] if field.is_array else inner
    return body


def _names(fields: tuple[Field, ...]) -> set[str]:
    return {field.name for field in fields}.union(*(_names(field.fields) for field in fields))


def bodies(name: str, version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Bodies of a message in a version; tagged fields are there or not, never at their default."""
    return bodies_of(MESSAGES[name].fields, version)


def full_body(name: str, version: int, is_null: bool) -> dict[str, Any]:
    """A body with every field of a version: each another value, or null where that is allowed."""
    return _full(MESSAGES[name].fields, version, is_null, itertools.count(1))


def _full(
    fields: tuple[Field, ...], version: int, is_null: bool, numbers: Iterator[int]
) -> dict[str, Any]:
    body = {}
    for field in fields:
        if version not in field.versions:
            continue
        if is_null and version in field.nullable:
            if field.tag is None or field.default is not None:
                body[field.name] = None
        elif field.is_array:
            body[field.name] = [_full_element(field, version, is_null, numbers) for _ in range(2)]
        else:
            body[field.name] = _full_element(field, version, is_null, numbers)
    return body


def _full_element(field: Field, version: int, is_null: bool, numbers: Iterator[int]) -> Any:
    if field.type == "struct":
        return _full(field.fields, version, is_null, numbers)
    number = next(numbers)
    if field.type in _INTEGERS:
        return number % 100 + 1
    if field.type in {"bool", "float64"}:
        return field.default is not True if field.type == "bool" else number / 4
    if field.type == "string":
        return f"text {number} é"
    if field.type == "uuid":
        return _base64url(number.to_bytes(16, "big"))
    data = f"data {number}".encode()
    return data if field.type == "records" else _base64(data)


def bodies_of(fields: tuple[Field, ...], version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Structs with these fields in a version, as in `bodies`."""
    present = [field for field in fields if version in field.versions]
    regular = {f.name: _values(f, version) for f in present if f.tag is None}
    tagged = {
        f.name: _values(f, version).filter(lambda value, f=f: value != f.default)
        for f in present
        if f.tag is not None
    }
    return st.fixed_dictionaries(regular, optional=tagged)


def _values(field: Field, version: int) -> st.SearchStrategy[Any]:
    values = _elements(field, version)
    if field.is_array:
        values = st.lists(values, max_size=ELEMENTS_MAX)
    if version in field.nullable:
        values = st.none() | values
    return values


def _elements(field: Field, version: int) -> st.SearchStrategy[Any]:
    if field.type == "struct":
        return bodies_of(field.fields, version)
    if field.type in _INTEGERS:
        return st.integers(*_INTEGERS[field.type])
    if field.type == "bool":
        return st.booleans()
    if field.type == "float64":
        return st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(NOT_FINITE)
    if field.type == "string":
        return _TEXT
    if field.type == "uuid":
        return st.binary(min_size=16, max_size=16).map(_base64url)
    data = st.binary(max_size=8)
    return data if field.type == "records" else data.map(_base64)


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
