"""Reads and writes Kafka's primitive types.

Source: Kafka's protocol guide, "Protocol Primitive Types"; KIP-482 for the compact ones and tags.
Numbers are big-endian, strings UTF-8.
"""

import base64
import struct
from collections.abc import Callable, Mapping, Sized
from functools import lru_cache
from typing import TypeVar

from brokertwin.protocol.bodies import Uuid

T = TypeVar("T")

STRING_BYTES_MAX = 2**15 - 1
"""Maximum size of a string that is not compact, in bytes."""

VARINT_BITS = 35
"""Maximum size of an unsigned 32-bit varint: five groups of seven bits."""


class MalformedError(ValueError):
    """The bytes are not a message of the expected kind."""


def uuid_of(raw: bytes) -> Uuid:
    """Encode sixteen bytes like Kafka: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


class Reader:
    """Reads values from bytes in order. Raises MalformedError.

    Args:
        encoded: the bytes.
        is_flexible: whether strings, bytes and arrays are compact and structures end with tags.
    """

    def __init__(self, encoded: bytes, is_flexible: bool = False) -> None:
        self._encoded = encoded
        self._at = 0
        self.is_flexible = is_flexible

    @property
    def has_more(self) -> bool:
        """True if unread bytes remain."""
        return self._at < len(self._encoded)

    def int8(self) -> int:
        """Read a signed integer of one byte."""
        return int.from_bytes(self._take(1), signed=True)

    def int16(self) -> int:
        """Read a signed integer of two bytes."""
        return int.from_bytes(self._take(2), signed=True)

    def uint16(self) -> int:
        """Read an unsigned integer of two bytes."""
        return int.from_bytes(self._take(2))

    def int32(self) -> int:
        """Read a signed integer of four bytes."""
        return int.from_bytes(self._take(4), signed=True)

    def int64(self) -> int:
        """Read a signed integer of eight bytes."""
        return int.from_bytes(self._take(8), signed=True)

    def string(self) -> str:
        """Read a string that is not null."""
        return self._text(self._length(2))

    def nullable_string(self) -> str | None:
        """Read a string or null."""
        length = self._length(2)
        return None if length < 0 else self._text(length)

    def bytes_(self) -> bytes:
        """Read bytes that are not null."""
        return self._take(self._length(4))

    def nullable_bytes(self) -> bytes | None:
        """Read bytes or null."""
        length = self._length(4)
        return None if length < 0 else self._take(length)

    def array(self, item: Callable[[], T]) -> list[T]:
        """Read the items of an array."""
        return self._items(self._length(4), item)

    def nullable_array(self, item: Callable[[], T]) -> list[T] | None:
        """Read the items of an array, or null."""
        count = self._length(4)
        return None if count < 0 else self._items(count, item)

    def nullable(self, item: Callable[[], T]) -> T | None:
        """Read a struct or null."""
        return item() if self.int8() > 0 else None

    def uuid(self) -> Uuid:
        """Read an id of sixteen bytes."""
        return uuid_of(self._take(16))

    def tags(self) -> dict[int, bytes]:
        """Read tagged fields by number; none if not flexible."""
        count = self._unsigned_varint() if self.is_flexible else 0
        return {self._unsigned_varint(): self._take(self._unsigned_varint()) for _ in range(count)}

    def end(self) -> None:
        """Raise MalformedError if bytes remain."""
        if self._at != len(self._encoded):
            raise MalformedError(f"{len(self._encoded) - self._at} bytes too many")

    def _text(self, length: int) -> str:
        try:
            return self._take(length).decode("utf-8")
        except UnicodeDecodeError as error:
            raise MalformedError("a string that is not UTF-8") from error

    def _items(self, count: int, item: Callable[[], T]) -> list[T]:
        if not 0 <= count <= len(self._encoded):
            raise MalformedError(f"an array of {count} items in {len(self._encoded)} bytes")
        return [item() for _ in range(count)]

    def _length(self, size: int) -> int:
        if self.is_flexible:
            return self._unsigned_varint() - 1
        return int.from_bytes(self._take(size), signed=True)

    def _unsigned_varint(self) -> int:
        number = 0
        for shift in range(0, VARINT_BITS, 7):
            byte = self._take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
        raise MalformedError("a varint of more than five bytes")

    def _take(self, length: int) -> bytes:
        taken = self._encoded[self._at : self._at + length]
        if length < 0 or len(taken) < length:
            raise MalformedError(f"{length} bytes expected at {self._at}, {len(taken)} are there")
        self._at += length
        return taken


INT8 = struct.Struct(">b").pack
INT16 = struct.Struct(">h").pack
UINT16 = struct.Struct(">H").pack
INT32 = struct.Struct(">i").pack
INT64 = struct.Struct(">q").pack

_OF_ONE_BYTE = [bytes([number]) for number in range(0x80)]


def unsigned_varint(number: int) -> bytes:
    """Encode a non-negative number in groups of seven bits, lowest first."""
    if number <= 0x7F:
        return _OF_ONE_BYTE[number]
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


@lru_cache(maxsize=4096)
def uuid_bytes(uuid: Uuid) -> bytes:
    """Return the sixteen bytes of an id."""
    return base64.urlsafe_b64decode(uuid + "==")


def put_count(out: bytearray, items: Sized | None, is_flexible: bool) -> None:
    """Append the length of bytes or of an array; null has length `-1`."""
    length = -1 if items is None else len(items)
    out += unsigned_varint(length + 1) if is_flexible else INT32(length)


def put_string(out: bytearray, text: str | None, is_flexible: bool) -> None:
    """Append a string or null. Raises ValueError if it is too long."""
    if text is None:
        out += b"\x00" if is_flexible else b"\xff\xff"
        return
    encoded = text.encode("utf-8")
    length = len(encoded)
    if is_flexible and length < 0x7F:
        out.append(length + 1)
    elif is_flexible:
        out += unsigned_varint(length + 1)
    elif length > STRING_BYTES_MAX:
        raise ValueError(f"a string of {length} bytes; Kafka's have at most {STRING_BYTES_MAX}")
    else:
        out += INT16(length)
    out += encoded


def put_bytes(out: bytearray, data: bytes | None, is_flexible: bool) -> None:
    """Append bytes or null."""
    put_count(out, data, is_flexible)
    out += data or b""


def put_numbers(out: bytearray, kind: str, numbers: list[int] | None, is_flexible: bool) -> None:
    """Append an array of integers or null.

    `kind` is a code of `struct`: `h` for int16, `i` for int32.
    """
    put_count(out, numbers, is_flexible)
    if numbers:
        out += struct.pack(f">{len(numbers)}{kind}", *numbers)


def put_strings(out: bytearray, texts: list[str], is_flexible: bool) -> None:
    """Append an array of strings. Raises ValueError if one is too long."""
    put_count(out, texts, is_flexible)
    for text in texts:
        put_string(out, text, is_flexible)


def put_tags(out: bytearray, tags: Mapping[int, bytes | bytearray]) -> None:
    """Append the tagged fields of a struct: fewer than 128, in order."""
    out.append(len(tags))
    for number, field in tags.items():
        out.append(number)
        out += unsigned_varint(len(field))
        out += field
