"""Parts of rows of `__consumer_offsets`: keys, values, tagged fields.

Source: `GroupCoordinatorRecordHelpers` in Kafka's group-coordinator.
"""

import struct
from collections.abc import Callable, Iterable, Mapping

from brokertwin.state.core.kafka_bytes import Writer
from brokertwin.state.core.schema import Uuid

Row = tuple[bytes, bytes | None]

FIRST_TAG = 0


def row_key(kind: int, *names: str) -> bytes:
    """Encode a key: record type and names."""
    writer = Writer()
    writer.number("h", kind)
    for name in names:
        writer.string(name)
    return writer.encoded()


def flexible_value() -> Writer:
    """Start a value of version 0."""
    writer = Writer(is_flexible=True)
    writer.number("h", 0)
    return writer


def finish_value(writer: Writer, field: bytes | None = None) -> bytes:
    """Return the value with its only tagged field, unless that is None."""
    writer.tags({FIRST_TAG: field} if field is not None else {})
    return writer.encoded()


def int32_of(writer: Writer) -> Callable[[int], None]:
    return lambda number: writer.number("i", number)


def int64(number: int) -> bytes | None:
    """Encode a tagged int64; None for 0, which is omitted."""
    return struct.pack(">q", number) if number else None


def target_epoch(kind: int, group_id: str, epoch: int | None, timestamp: int) -> Row:
    """Return the row of a target assignment's epoch and time; None deletes it."""
    key = row_key(kind, group_id)
    if epoch is None:
        return key, None
    writer = flexible_value()
    writer.number("i", epoch)
    return key, finish_value(writer, int64(timestamp))


def target(
    kind: int, group_id: str, member_id: str, topics: Mapping[Uuid, Iterable[int]] | None
) -> Row:
    """Return the row of a member's target assignment; None deletes it."""
    key = row_key(kind, group_id, member_id)
    if topics is None:
        return key, None
    writer = flexible_value()
    by_topic(writer, topics)
    return key, finish_value(writer)


def current(member_epoch: int, previous_member_epoch: int, state: int) -> Writer:
    """Start a value of a member's current assignment."""
    writer = flexible_value()
    writer.number("i", member_epoch)
    writer.number("i", previous_member_epoch)
    writer.number("b", state)
    return writer


def by_topic(writer: Writer, topics: Mapping[Uuid, Iterable[int]]) -> None:
    """Write partitions by topic id, with assignment epochs if known.

    Partitions with epochs are sorted, because Kafka has them in a map by number.
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
