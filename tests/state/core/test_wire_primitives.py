"""Kafka's primitive types in bytes: malformed ones raise ValueError only."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.protocol.primitives import Reader


def test_values_are_read_in_order() -> None:
    reader = Reader(struct.pack(">hq", 7, -1) + b"\x00\x02hi\xff\xff\x00\x00\x00\x01\x2a")
    assert (reader.int16(), reader.int64()) == (7, -1)
    assert (reader.string(), reader.nullable_string(), reader.bytes_()) == ("hi", None, b"*")
    assert reader.tags() == {}
    reader.end()


def test_flexible_values_have_lengths_plus_one_and_tags() -> None:
    reader = Reader(b"\x03hi\x00\x02*\x03\x00\x01\x01\x05\x02no", is_flexible=True)
    assert (reader.string(), reader.nullable_string(), reader.bytes_()) == ("hi", None, b"*")
    assert reader.array(lambda: reader.int8()) == [0, 1]
    assert reader.tags() == {5: b"no"}
    reader.end()


def test_large_length_is_a_varint_of_two_bytes() -> None:
    text = "x" * 199
    assert Reader(b"\xc8\x01" + text.encode(), is_flexible=True).string() == text


@pytest.mark.parametrize(
    "encoded", [b"\xff\xff\xff\xff\xff\x01", b"\x05ab", b""], ids=["varint", "cut", "empty"]
)
def test_malformed_bytes_raise_value_error(encoded: bytes) -> None:
    with pytest.raises(ValueError, match=r"varint|expected"):
        Reader(encoded, is_flexible=True).string()


def test_remaining_bytes_raise_value_error() -> None:
    with pytest.raises(ValueError, match="1 bytes too many"):
        Reader(b"\x00").end()


@given(encoded=st.binary(max_size=40), is_flexible=st.booleans())
def test_array_is_never_longer_than_its_bytes(encoded: bytes, is_flexible: bool) -> None:
    reader = Reader(encoded, is_flexible)
    try:
        found = reader.array(lambda: reader.int8())
    except ValueError:
        return
    assert len(found) < len(encoded)
