"""Primitive types of Kafka's protocol that are not of one size: varints, ids, and their errors.

Source: Kafka's protocol guide, "Protocol Primitive Types"; KIP-482 (compact lengths, tags);
`ByteUtils` in Kafka.
"""

import base64
import binascii
from functools import lru_cache

from brokertwin.protocol.bodies import Uuid

STRING_BYTES_MAX = 2**15 - 1
"""Maximum size of a string, in bytes."""

UUID_BYTES = 16
UVARINT_SHIFT_MAX = 28
VARINT_SHIFT_MAX = 63


class MalformedError(ValueError):
    """The bytes are not a message of the expected kind."""


class NotEncodableError(ValueError):
    """A body does not match its schema; the text names the field."""


def uuid_of(raw: bytes) -> Uuid:
    """Encode sixteen bytes like Kafka: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


@lru_cache(maxsize=4096)
def uuid_bytes(text: Uuid) -> bytes:
    """Return the sixteen bytes of an id. Raises NotEncodableError."""
    try:
        data = base64.urlsafe_b64decode(text + "==")
    except (ValueError, TypeError, binascii.Error):
        data = b""
    if len(data) != UUID_BYTES:
        raise NotEncodableError(f"{text!r} is no uuid")
    return data


def read_uvarint(data: bytes, position: int) -> tuple[int, int]:
    """Decode an unsigned varint of at most 32 bits; return it and the next position.

    Raises MalformedError, and IndexError if the bytes end too early.
    """
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        if shift == UVARINT_SHIFT_MAX:
            raise MalformedError(f"a varint before byte {position} is longer than 5 bytes")
        shift += 7


def write_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def uvarint_size(value: int) -> int:
    """Return the number of bytes of an unsigned varint."""
    return max(1, (value.bit_length() + 6) // 7)


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """Decode a zigzag varint of at most 64 bits; return it and the next position.

    Raises MalformedError, and IndexError if the bytes end too early.
    """
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    value, shift = byte & 0x7F, 7
    while True:
        position += 1
        byte = data[position]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position + 1
        shift += 7
        if shift > VARINT_SHIFT_MAX:
            raise MalformedError("a varint of more than 10 bytes")


def write_varint(out: bytearray, value: int) -> None:
    write_uvarint(out, value << 1 if value >= 0 else (-value << 1) - 1)
