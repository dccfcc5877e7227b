"""Primitive types of Kafka's protocol: a bounds-checking reader, and writers.

Source: `ByteBufferAccessor`, `MessageGenerator` in Kafka; KIP-482 (compact types, tagged fields).
"""

import base64
import binascii

from brokertwin.protocol.primitives import MalformedError

UVARINT_BYTES_MAX = 5
UUID_BYTES = 16


class NotEncodableError(ValueError):
    """A body does not match its schema; the text names the field."""


class FrameReader:
    """Reads a message sequentially.

    Every method raises MalformedError for truncated or invalid bytes.
    """

    __slots__ = ("data", "position")

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    @property
    def remaining(self) -> int:
        """Number of unread bytes."""
        return len(self.data) - self.position

    def uvarint(self) -> int:
        """Read an unsigned varint of at most 32 bits."""
        data, position = self.data, self.position
        if position < len(data) and data[position] < 0x80:
            self.position = position + 1
            return data[position]
        value = shift = 0
        for _ in range(UVARINT_BYTES_MAX):
            if position >= len(data):
                raise self.truncated(1)
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                self.position = position
                return value
            shift += 7
        raise MalformedError(f"a varint at byte {self.position} is longer than 5 bytes")

    def truncated(self, wanted: int) -> MalformedError:
        """Create the error for truncated bytes or a negative length."""
        return MalformedError(
            f"{wanted} bytes wanted at byte {self.position}, {self.remaining} are there"
        )


def write_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def uuid_bytes(text: str) -> bytes:
    """Return the 16 bytes of a uuid. Raises NotEncodableError."""
    try:
        data = base64.urlsafe_b64decode(text + "==")
    except (ValueError, TypeError, binascii.Error):
        data = b""
    if len(data) != UUID_BYTES:
        raise NotEncodableError(f"{text!r} is no uuid")
    return data
