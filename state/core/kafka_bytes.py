"""Kafka's primitive types taken off bytes, as its records in internal topics have them.

Source: Kafka's protocol guide, "Protocol Primitive Types"; KIP-482 for the compact ones and tags.
Numbers are big-endian, strings UTF-8.
"""

import base64
import struct
from collections.abc import Callable
from typing import TypeVar

from brokerstream.state.core.schema import Uuid

T = TypeVar("T")

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
