"""The bytes in which consumers of a classic group tell each other what they want and get.

Source: `ConsumerProtocolSubscription.json`, `ConsumerProtocolAssignment.json` (versions 0 to 3),
the user data of `StickyAssignor` (versions 0 and 1) and of `CooperativeStickyAssignor` in Kafka.
The coordinator passes these bytes on; a newer version is read as far as version 3 goes.
"""

import struct
from collections.abc import Iterable

from brokertwin.clients.assignors.group import Subscription
from brokertwin.clients.partitions import TopicPartition
from brokertwin.state.core.wire.primitives import Reader

VERSION = 3
OWNED_VERSION, GENERATION_VERSION, RACK_VERSION = 1, 2, 3
NO_GENERATION = -1


def _read_partitions(reader: Reader) -> list[TopicPartition]:
    """Topics, each with its partitions."""
    found = []
    for _ in range(reader.int32()):
        topic = reader.nullable_string() or ""
        found += [TopicPartition(topic, reader.int32()) for _ in range(reader.int32())]
    return found


def _string(text: str | None) -> bytes:
    if text is None:
        return struct.pack(">h", -1)
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _octets(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _partitions(partitions: Iterable[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    parts = [
        _string(topic) + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
        for topic, numbers in by_topic.items()
    ]
    return struct.pack(">i", len(parts)) + b"".join(parts)


def encode_subscription(said: Subscription) -> bytes:
    """Topics and what is owned in order, as Java's consumer sends them, in version 3."""
    generation = NO_GENERATION if said.generation_id is None else said.generation_id
    return b"".join(
        (
            struct.pack(">hi", VERSION, len(said.topics)),
            *(_string(topic) for topic in sorted(said.topics)),
            _octets(said.user_data),
            _partitions(sorted(said.owned)),
            struct.pack(">i", generation),
            _string(said.rack_id),
        )
    )


def decode_subscription(data: bytes, group_instance_id: str | None = None) -> Subscription:
    """What a member says. Raises ValueError for bytes that are none."""
    reader = Reader(data)
    version = reader.int16()
    topics = tuple(reader.nullable_string() or "" for _ in range(reader.int32()))
    user_data = reader.nullable_bytes()
    owned = _read_partitions(reader) if version >= OWNED_VERSION else []
    generation = reader.int32() if version >= GENERATION_VERSION else NO_GENERATION
    rack_id = reader.nullable_string() if version >= RACK_VERSION else None
    return Subscription(
        topics=topics,
        user_data=user_data,
        owned=tuple(owned),
        generation_id=generation if generation >= 0 else None,
        rack_id=rack_id or None,
        group_instance_id=group_instance_id,
    )


def encode_assignment(
    partitions: Iterable[TopicPartition], user_data: bytes | None = None
) -> bytes:
    """What a member gets, in version 3; Kafka's own assignors of consumers add nothing."""
    return struct.pack(">h", VERSION) + _partitions(partitions) + _octets(user_data)


def decode_assignment(data: bytes) -> list[TopicPartition]:
    """What a member gets; nothing where a leader left it out. Raises ValueError for other bytes."""
    if not data:
        return []
    reader = Reader(data)
    reader.int16()
    return _read_partitions(reader)


def assignment_user_data(data: bytes) -> bytes | None:
    """What an assignor added to an assignment. Raises ValueError for other bytes."""
    if not data:
        return None
    reader = Reader(data)
    reader.int16()
    _read_partitions(reader)
    return reader.nullable_bytes()


def encode_previous_assignment(partitions: Iterable[TopicPartition], generation: int) -> bytes:
    """What `sticky` adds to a subscription."""
    return _partitions(partitions) + struct.pack(">i", generation)


def decode_previous_assignment(data: bytes) -> tuple[list[TopicPartition], int | None]:
    """What `sticky` added, and the generation; None where it comes from a client without one.

    Bytes that are none count as nothing, of generation -1.
    """
    try:
        reader = Reader(data)
        partitions = _read_partitions(reader)
        return partitions, reader.int32() if reader.has_more else None
    except ValueError:
        return [], NO_GENERATION


def encode_generation(generation: int) -> bytes:
    """What `cooperative-sticky` adds to a subscription."""
    return struct.pack(">i", generation)


def decode_generation(data: bytes) -> int:
    """What `cooperative-sticky` added; -1 for bytes that are none."""
    try:
        return Reader(data).int32()
    except ValueError:
        return NO_GENERATION
