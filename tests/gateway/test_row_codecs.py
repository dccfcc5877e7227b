"""The generated codec of rows agrees with the gateway's codec, made from the same schemas."""

import importlib
import json
import pkgutil
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.protocol import generated
from brokertwin.protocol.primitives import MalformedError, Reader
from brokertwin.protocol.reading import reader_of
from brokertwin.protocol.rows import Row, RowKey
from brokertwin.protocol.schemas import MessageSchema, message_of
from brokertwin.protocol.writing import writer_of
from tests.support.bodies import bodies_of
from tests.support.examples import examples
from tests.wire.methods import snake
from tests.wire.structs import WIRE

RECORDS = json.loads((WIRE / "schemas.json").read_text(encoding="utf-8"))["records"]
NULL_STRUCT = "classicMemberMetadata"
"""A tagged struct whose null Kafka writes as 0, and the gateway as -1."""


def kinds() -> dict[str, type[Row | RowKey]]:
    modules = [
        importlib.import_module(f"{generated.__name__}.{module.name}")
        for module in pkgutil.iter_modules(generated.__path__)
    ]
    found = {name: kind for module in modules for name, kind in vars(module).items()}
    return {name: found[name] for name in RECORDS if name in found}


KINDS = kinds()
VERSIONS = [
    (name, version)
    for name, kind in KINDS.items()
    for version in range(kind.VERSIONS[1] + 1 if issubclass(kind, Row) else 1)
]


def snaked(value: Any) -> Any:
    if isinstance(value, dict):
        return {snake(name): snaked(each) for name, each in value.items()}
    return [snaked(each) for each in value] if isinstance(value, list) else value


def written(message: MessageSchema, version: int, body: dict[str, Any]) -> bytes:
    out = bytearray()
    writer_of("a row", message.fields, version, version in message.flexible)(out, body)
    return bytes(out)


@pytest.mark.parametrize(("name", "version"), VERSIONS)
@given(data=st.data())
@settings(max_examples=examples(5), deadline=None)
def test_both_codecs_agree(name: str, version: int, data: st.DataObject) -> None:
    message, kind = message_of(name, RECORDS[name]), KINDS[name]
    is_flexible = version in message.flexible
    body = data.draw(bodies_of(message.fields, version))
    encoded = written(message, version, body)
    row = kind.read(Reader(encoded, is_flexible), version)
    assert row == msgspec.convert(snaked(body), kind)
    if body.get(NULL_STRUCT, 0) is None:
        return
    out = bytearray()
    row.write(out, version, is_flexible)
    assert out == encoded
    read = reader_of("a row", message.fields, version, is_flexible)
    assert read(bytes(out), 0) == (body, len(out))


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


def test_every_row_that_the_model_writes_is_tested() -> None:
    assert len(KINDS) > 40
