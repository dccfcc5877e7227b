"""Reads and writes Kafka's primitive types.

Source: Kafka's protocol guide, "Protocol Primitive Types"; KIP-482 for the compact ones and tags.
Numbers are big-endian, strings UTF-8.
"""

import base64
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from brokertwin.state.core.schema import Uuid

T = TypeVar("T")

STRING_BYTES_MAX = 2**15 - 1
"""The bytes of a string that is not compact, at most."""

VARINT_BITS = 35
"""Five bytes of seven bits: what an unsigned varint of 32 bits takes at most."""


class MalformedError(ValueError):
    """Bytes that are not what they should be."""


def uuid_of(raw: bytes) -> Uuid:
    """Sixteen bytes as Kafka writes an id: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


class Reader:
    """Takes values off bytes, in their order. Raises MalformedError where they do not fit.

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
        """Whether something is left."""
        return self._at < len(self._encoded)

    def int8(self) -> int:
        """A signed integer of one byte."""
        return int.from_bytes(self._take(1), signed=True)

    def int16(self) -> int:
        """A signed integer of two bytes."""
        return int.from_bytes(self._take(2), signed=True)

    def uint16(self) -> int:
        """An unsigned integer of two bytes."""
        return int.from_bytes(self._take(2))

    def int32(self) -> int:
        """A signed integer of four bytes."""
        return int.from_bytes(self._take(4), signed=True)

    def int64(self) -> int:
        """A signed integer of eight bytes."""
        return int.from_bytes(self._take(8), signed=True)

    def string(self) -> str:
        """A string that is there."""
        return self._text(self._length(2))

    def nullable_string(self) -> str | None:
        """A string, or None."""
        length = self._length(2)
        return None if length < 0 else self._text(length)

    def bytes_(self) -> bytes:
        """Bytes that are there."""
        return self._take(self._length(4))

    def nullable_bytes(self) -> bytes | None:
        """Bytes, or None."""
        length = self._length(4)
        return None if length < 0 else self._take(length)

    def array(self, item: Callable[[], T]) -> list[T]:
        """The items of an array."""
        return self._items(self._length(4), item)

    def nullable_array(self, item: Callable[[], T]) -> list[T] | None:
        """The items of an array, or None."""
        count = self._length(4)
        return None if count < 0 else self._items(count, item)

    def nullable(self, item: Callable[[], T]) -> T | None:
        """A struct, or None."""
        return item() if self.int8() > 0 else None

    def uuid(self) -> Uuid:
        """An id of sixteen bytes."""
        return uuid_of(self._take(16))

    def tags(self) -> dict[int, bytes]:
        """The tagged fields of a flexible structure, by their numbers; none of another one."""
        count = self._unsigned_varint() if self.is_flexible else 0
        return {self._unsigned_varint(): self._take(self._unsigned_varint()) for _ in range(count)}

    def end(self) -> None:
        """Nothing may be left."""
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


_INT8 = struct.Struct(">b").pack
_INT16 = struct.Struct(">h").pack
_UINT16 = struct.Struct(">H").pack
_INT32 = struct.Struct(">i").pack
_INT64 = struct.Struct(">q").pack

_OF_ONE_BYTE = [bytes([number]) for number in range(0x80)]


def unsigned_varint(number: int) -> bytes:
    """A number of at least 0 in groups of seven bits, the lowest first."""
    if number <= 0x7F:
        return _OF_ONE_BYTE[number]
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def string_bytes(text: str) -> bytes:
    """A string that is not compact. Raises ValueError where its length has no room."""
    encoded = text.encode("utf-8")
    if len(encoded) > STRING_BYTES_MAX:
        raise ValueError(
            f"a string of {len(encoded)} bytes; Kafka's have at most {STRING_BYTES_MAX}"
        )
    return struct.pack(">h", len(encoded)) + encoded


class Writer:
    """Puts values into bytes, in their order; the other side of `Reader`.

    Args:
        is_flexible: whether strings, bytes and arrays are compact and structures end with tags.
    """

    def __init__(self, is_flexible: bool = False) -> None:
        self._parts: list[bytes] = []
        self.is_flexible = is_flexible

    def encoded(self) -> bytes:
        """What was written."""
        return b"".join(self._parts)

    def int8(self, number: int) -> None:
        """A signed integer of one byte."""
        self._parts.append(_INT8(number))

    def int16(self, number: int) -> None:
        """A signed integer of two bytes."""
        self._parts.append(_INT16(number))

    def uint16(self, number: int) -> None:
        """An unsigned integer of two bytes."""
        self._parts.append(_UINT16(number))

    def int32(self, number: int) -> None:
        """A signed integer of four bytes."""
        self._parts.append(_INT32(number))

    def int64(self, number: int) -> None:
        """A signed integer of eight bytes."""
        self._parts.append(_INT64(number))

    def string(self, text: str) -> None:
        """A string that is there. Raises ValueError where its length has no room."""
        if self.is_flexible:
            self._counted(text.encode("utf-8"))
        else:
            self._parts.append(string_bytes(text))

    def nullable_string(self, text: str | None) -> None:
        """A string, or None. Raises ValueError where its length has no room."""
        if text is not None:
            self.string(text)
        else:
            self._parts.append(b"\x00" if self.is_flexible else b"\xff\xff")

    def bytes_(self, data: bytes) -> None:
        """Bytes that are there."""
        if self.is_flexible:
            self._counted(data)
        else:
            self._parts += [_INT32(len(data)), data]

    def nullable_bytes(self, data: bytes | None) -> None:
        """Bytes, or None."""
        if data is not None:
            self.bytes_(data)
        else:
            self._no_array()

    def array(self, items: Iterable[T], write: Callable[[T], None]) -> None:
        """All of the items, each as `write` does it."""
        every = list(items)
        count = len(every)
        self._parts.append(unsigned_varint(count + 1) if self.is_flexible else _INT32(count))
        for item in every:
            write(item)

    def nullable_array(self, items: Iterable[T] | None, write: Callable[[T], None]) -> None:
        """All of the items, or None."""
        if items is not None:
            self.array(items, write)
        else:
            self._no_array()

    def nullable(self, item: T | None, write: Callable[[T], None], null: int = -1) -> None:
        """A struct, or None. In a tagged field `null` is 0."""
        self.int8(null if item is None else 1)
        if item is not None:
            write(item)

    def uuid(self, uuid: Uuid) -> None:
        """An id of sixteen bytes."""
        self._parts.append(base64.urlsafe_b64decode(uuid + "=="))

    def tags(self, fields: Mapping[int, bytes]) -> None:
        """The tagged fields that end a flexible structure; nothing in another one."""
        if not self.is_flexible:
            return
        self._parts.append(unsigned_varint(len(fields)))
        for number in sorted(fields):
            field = fields[number]
            self._parts += [unsigned_varint(number), unsigned_varint(len(field)), field]

    def _no_array(self) -> None:
        self._parts.append(b"\x00" if self.is_flexible else b"\xff\xff\xff\xff")

    def _counted(self, data: bytes) -> None:
        self._parts += [unsigned_varint(len(data) + 1), data]
