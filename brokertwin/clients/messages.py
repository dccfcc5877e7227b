"""A record to produce, without an offset, and its size.

Source: `ProducerRecord`, `DefaultRecord` in Kafka.
"""

from typing import NamedTuple

RECORD_OVERHEAD = 21
"""Maximum overhead of a record (`DefaultRecord`)."""


class ProducerRecord(NamedTuple):
    """A record; `timestamp` in ms since 1970, key and value may be None."""

    key: bytes | None
    value: bytes | None
    timestamp: int = -1
    headers: tuple[tuple[str, bytes | None], ...] = ()


def size_of(message: ProducerRecord) -> int:
    """Maximum uncompressed size of a record in a batch, in bytes."""
    size = RECORD_OVERHEAD + len(message.key or b"") + len(message.value or b"")
    return size + sum(10 + len(name) * 4 + len(value or b"") for name, value in message.headers)
