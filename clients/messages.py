"""A record as applications see it, without an offset, and how large it is.

Source: `ProducerRecord`, `DefaultRecord` in Kafka.
"""

from typing import NamedTuple

RECORD_OVERHEAD = 21
"""The most that a record has beside key, value and headers (`DefaultRecord`)."""


class ProducerRecord(NamedTuple):
    """A record: `timestamp` in ms since 1970; key and value are None where there is none."""

    key: bytes | None
    value: bytes | None
    timestamp: int = -1
    headers: tuple[tuple[str, bytes | None], ...] = ()


def size_of(message: ProducerRecord) -> int:
    """The most bytes that a message takes in a batch, before compression."""
    size = RECORD_OVERHEAD + len(message.key or b"") + len(message.value or b"")
    return size + sum(10 + len(name) * 4 + len(value or b"") for name, value in message.headers)
