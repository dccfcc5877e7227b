"""What rows of `__consumer_offsets` are made of, whatever kind of group they are of.

Keys, values, tagged fields.

Source: `GroupCoordinatorRecordHelpers` in Kafka's group-coordinator.
"""

import struct
from collections.abc import Callable, Iterable, Mapping

from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.wire.primitives import Writer

Row = tuple[bytes, bytes | None]
"""Key and value."""

FIRST_TAG = 0


def row_key(kind: int, *names: str) -> bytes:
    """A row's key: its kind and what it names."""
    writer = Writer()
    writer.int16(kind)
    for name in names:
        writer.string(name)
    return writer.encoded()


def flexible_value() -> Writer:
    """The beginning of a value of version 0."""
    writer = Writer(is_flexible=True)
    writer.int16(0)
    return writer


def ended(writer: Writer, field: bytes | None = None) -> bytes:
    """The value, with its one tagged field where that has not its default."""
    writer.tags({FIRST_TAG: field} if field is not None else {})
    return writer.encoded()


def int32_of(writer: Writer) -> Callable[[int], None]:
    """Writes a number to a writer."""
    return lambda number: writer.int32(number)


def int64(number: int) -> bytes | None:
    """A tagged number; None where it is 0, which is left out."""
    return struct.pack(">q", number) if number else None


def target_epoch(kind: int, group_id: str, epoch: int | None, timestamp: int) -> Row:
    """The row of a target assignment's epoch, and of when it was computed; None takes it back."""
    key = row_key(kind, group_id)
    if epoch is None:
        return key, None
    writer = flexible_value()
    writer.int32(epoch)
    return key, ended(writer, int64(timestamp))


def target(
    kind: int, group_id: str, member_id: str, topics: Mapping[Uuid, Iterable[int]] | None
) -> Row:
    """The row of a member's part of a target assignment; None takes it back."""
    key = row_key(kind, group_id, member_id)
    if topics is None:
        return key, None
    writer = flexible_value()
    by_topic(writer, topics)
    return key, ended(writer)


def current(member_epoch: int, previous_member_epoch: int, state: int) -> Writer:
    """The beginning of the value of what a member has."""
    writer = flexible_value()
    writer.int32(member_epoch)
    writer.int32(previous_member_epoch)
    writer.int8(state)
    return writer


def by_topic(writer: Writer, topics: Mapping[Uuid, Iterable[int]]) -> None:
    """Partitions by topic id, each with the epoch of who got it where that is known.

    Those with epochs are in order: Kafka has them in a map by number.
    """

    def write(topic: tuple[Uuid, Iterable[int]]) -> None:
        topic_id, partitions = topic
        writer.uuid(topic_id)
        epochs = Writer(is_flexible=True)
        if isinstance(partitions, Mapping):
            partitions = dict(sorted(partitions.items()))
            epochs.array(partitions.values(), int32_of(epochs))
        writer.array(partitions, int32_of(writer))
        writer.tags({FIRST_TAG: epochs.encoded()} if epochs.encoded() else {})

    writer.array(topics.items(), write)
