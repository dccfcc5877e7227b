"""What rows of `__consumer_offsets` are made of, whatever kind of group they are of.

Keys, values, tagged fields.

Source: `GroupCoordinatorRecordHelpers` in Kafka's group-coordinator.
"""

import struct
from collections.abc import Callable

from brokerstream.state.core.kafka_bytes import Writer

Row = tuple[bytes, bytes | None]
"""Key and value."""

FIRST_TAG = 0


def row_key(kind: int, *names: str) -> bytes:
    """A row's key: its kind and what it names."""
    writer = Writer()
    writer.number("h", kind)
    for name in names:
        writer.string(name)
    return writer.encoded()


def flexible_value() -> Writer:
    """The beginning of a value of version 0."""
    writer = Writer(is_flexible=True)
    writer.number("h", 0)
    return writer


def ended(writer: Writer, field: bytes | None = None) -> bytes:
    """The value, with its one tagged field where that has not its default."""
    writer.tags({FIRST_TAG: field} if field is not None else {})
    return writer.encoded()


def int32_of(writer: Writer) -> Callable[[int], None]:
    """Writes a number to a writer."""
    return lambda number: writer.number("i", number)


def int64(number: int) -> bytes | None:
    """A tagged number; None where it is 0, which is left out."""
    return struct.pack(">q", number) if number else None
