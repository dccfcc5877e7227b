"""Structs are read and written like documents of the same content: rows, requests, responses."""

import importlib
import json
import pkgutil
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.protocol import generated, rows
from brokertwin.protocol.bodies import Body, render
from brokertwin.protocol.codec import message_reader, message_writer, request_type, response_type
from brokertwin.protocol.primitives import MalformedError
from brokertwin.protocol.rows import Row, RowKey
from brokertwin.protocol.schemas import API_NAMES, MESSAGES, row_schema
from tests.support.bodies import bodies, bodies_of
from tests.support.examples import examples
from tests.wire.overlay import NOT_MODELLED
from tests.wire.structs import WIRE

RECORDS = json.loads((WIRE / "schemas.json").read_text(encoding="utf-8"))["records"]


def kinds() -> dict[str, type[Row | RowKey]]:
    modules = [
        importlib.import_module(f"{generated.__name__}.{module.name}")
        for module in pkgutil.iter_modules(generated.__path__)
    ]
    actual = {name: kind for module in modules for name, kind in vars(module).items()}
    return {name: actual[name] for name in RECORDS if name in actual}


KINDS = kinds()
VERSIONS = [
    (name, version)
    for name, kind in KINDS.items()
    for version in range(kind.VERSIONS[1] + 1 if issubclass(kind, Row) else 1)
]


def bodies_of_the_model() -> dict[str, type[Body]]:
    result = {}
    for key, api in API_NAMES.items():
        for suffix, type_of in (("Request", request_type), ("Response", response_type)):
            try:
                result[api + suffix] = type_of(key)
            except KeyError:
                continue
    return result


BODIES = bodies_of_the_model()


def written(name: str, version: int, body: Any, kind: type[msgspec.Struct] | None = None) -> bytes:
    out = bytearray()
    message_writer(name, version, kind)(out, body)
    return bytes(out)


@pytest.mark.parametrize(("name", "version"), VERSIONS)
@given(data=st.data())
@settings(max_examples=examples(5), deadline=None)
def test_row_is_read_and_written_like_its_document(
    name: str, version: int, data: st.DataObject
) -> None:
    kind = KINDS[name]
    body = data.draw(bodies_of(row_schema(name).fields, version))
    encoded = written(name, version, body)
    row, end = rows.read(kind, encoded, 0, version)
    assert (row, end) == (msgspec.convert(body, kind), len(encoded))
    again = written(name, version, row, kind)
    assert rows.read(kind, again, 0, version)[0] == row
    assert message_reader(name, version)(encoded, 0) == (body, len(encoded))


@pytest.mark.parametrize("name", sorted(BODIES))
@given(data=st.data())
@settings(max_examples=examples(3), deadline=None)
def test_body_is_read_and_written_like_its_document(name: str, data: st.DataObject) -> None:
    kind, (first, last) = BODIES[name], MESSAGES[name].versions
    version = data.draw(st.integers(first, last))
    document = without_records(data.draw(bodies(name, version)), b"")
    encoded = written(name, version, document)
    read, end = message_reader(name, version, kind)(encoded, 0)
    read = msgspec.convert(without_records(msgspec.to_builtins(read)), kind)
    expected = msgspec.convert(without_records(message_reader(name, version)(encoded, 0)[0]), kind)
    assert (read, end) == (expected, len(encoded))
    if name.endswith("Response"):
        described = without_records(render(expected, version), b"")
        assert written(name, version, with_records(read), kind) == written(name, version, described)


def without_records(value: Any, instead: Any = None) -> Any:
    """Empty the record sets of a document: the model has batch headers in their place."""
    if isinstance(value, dict):
        return {
            name: instead if name == "records" else without_records(each, instead)
            for name, each in value.items()
        }
    return [without_records(each, instead) for each in value] if isinstance(value, list) else value


def with_records(value: Any) -> Any:
    """Give the partitions of a body empty record sets."""
    for name in value.__struct_fields__:
        each = getattr(value, name)
        if name == "records":
            value.records = b""
        for part in each if isinstance(each, list) else [each]:
            if isinstance(part, msgspec.Struct):
                with_records(part)
    return value


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if issubclass(kind, Row)])
def test_cut_rows_and_unknown_versions_are_refused(name: str) -> None:
    kind = KINDS[name]
    assert issubclass(kind, Row)
    newest = kind.VERSIONS[1]
    encoded = kind().encoded(newest)
    assert kind.decoded(encoded) == kind()
    for wrong in (encoded[:-1], encoded + b"\0", (newest + 1).to_bytes(2) + encoded[2:]):
        with pytest.raises(MalformedError):
            kind.decoded(wrong)


def test_every_row_and_body_of_the_model_is_tested() -> None:
    assert len(KINDS) > 40
    not_modelled = {name + suffix for name in NOT_MODELLED for suffix in ("Request", "Response")}
    headers = {"RequestHeader", "ResponseHeader"}
    assert BODIES.keys() == MESSAGES.keys() - not_modelled - headers
