"""Kafka's primitive types taken off bytes and put into them, as internal topics have them.

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

    def number(self, kind: str) -> int:
        """An integer: `b` int8, `h` int16, `i` int32, `q` int64."""
        number: int = struct.unpack(f">{kind}", self._take(struct.calcsize(kind)))[0]
        return number

    def string(self) -> str:
        """A string that is there."""
        return self._text(self._length("h"))

    def nullable_string(self) -> str | None:
        """A string, or None."""
        length = self._length("h")
        return None if length < 0 else self._text(length)

    def bytes_(self) -> bytes:
        """Bytes that are there."""
        return self._take(self._length("i"))

    def nullable_bytes(self) -> bytes | None:
        """Bytes, or None."""
        length = self._length("i")
        return None if length < 0 else self._take(length)

    def array(self, item: Callable[[], T]) -> list[T]:
        """As many items as the array says that it has."""
        count = self._length("i")
        if not 0 <= count <= len(self._encoded):
            raise MalformedError(f"an array of {count} items in {len(self._encoded)} bytes")
        return [item() for _ in range(count)]

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

    def _length(self, kind: str) -> int:
        return self._unsigned_varint() - 1 if self.is_flexible else self.number(kind)

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

    def number(self, kind: str, number: int) -> None:
        """An integer: `b` int8, `h` int16, `i` int32, `q` int64."""
        self._parts.append(struct.pack(f">{kind}", number))

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
            self._parts.append(struct.pack(">i", len(data)) + data)

    def array(self, items: Iterable[T], write: Callable[[T], None]) -> None:
        """All of the items, each as `write` does it."""
        every = list(items)
        count = unsigned_varint(len(every) + 1) if self.is_flexible else b""
        self._parts.append(count or struct.pack(">i", len(every)))
        for item in every:
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

    def _counted(self, data: bytes) -> None:
        self._parts += [unsigned_varint(len(data) + 1), data]
