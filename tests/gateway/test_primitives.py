"""Primitive types of Kafka's protocol in bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.protocol.primitives import (
    MalformedError,
    NotEncodableError,
    read_uvarint,
    read_varint,
    uuid_bytes,
    uuid_of,
    uvarint_size,
    write_uvarint,
    write_varint,
)


@given(st.integers(0, 2**32 - 1))
def test_unsigned_varint_is_read_as_written(value: int) -> None:
    out = bytearray()
    write_uvarint(out, value)
    assert read_uvarint(bytes(out), 0) == (value, len(out))
    assert uvarint_size(value) == len(out)


@given(st.integers(-(2**63), 2**63 - 1))
def test_zigzag_varint_is_read_as_written(value: int) -> None:
    out = bytearray()
    write_varint(out, value)
    assert read_varint(bytes(out), 0) == (value, len(out))


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, b"\0"), (-1, b"\1"), (1, b"\2"), (-64, b"\x7f"), (64, b"\x80\1")]
)
def test_small_numbers_have_short_zigzag_varints(value: int, encoded: bytes) -> None:
    out = bytearray()
    write_varint(out, value)
    assert out == encoded


def test_unterminated_varint_is_malformed() -> None:
    with pytest.raises(MalformedError, match="longer than 5 bytes"):
        read_uvarint(b"\xff" * 9, 0)
    with pytest.raises(MalformedError, match="more than 10 bytes"):
        read_varint(b"\xff" * 11, 0)


@given(st.binary(min_size=16, max_size=16))
def test_uuid_is_read_as_written(raw: bytes) -> None:
    assert uuid_bytes(uuid_of(raw)) == raw


@pytest.mark.parametrize("text", ["short", "AAAAAAAAAAAAAAAAAAAAAAAAAA"])
def test_other_texts_are_no_uuid(text: str) -> None:
    with pytest.raises(NotEncodableError, match="is no uuid"):
        uuid_bytes(text)
