"""What consumers of the classic protocol say and are told inside joins and syncs.

Source: `ConsumerProtocol`, `ConsumerProtocolSubscription.json`, `ConsumerProtocolAssignment.json`
in Kafka. A coordinator hands these bytes on; it looks into them where classic members are in a
consumer group. A version above the newest one is read as the newest, as Kafka does.
"""

import struct
from typing import NamedTuple

from brokertwin.state.core.wire.primitives import MalformedError, Reader

NEWEST = 3
"""The newest version of both. With 1 come owned partitions, with 2 a generation, with 3 a rack."""

Partitions = dict[str, list[int]]
"""Partitions by topic name."""


class Subscription(NamedTuple):
    """What a member subscribes to.

    Attributes:
        topics: the names, in the member's order.
        owned: what it has until it is told otherwise.
        rack_id: where it is.
    """

    topics: list[str]
    owned: Partitions
    rack_id: str | None


class Assigned(NamedTuple):
    """What a member is assigned; `has_user_data` says whether an assignor has put more there."""

    partitions: Partitions
    has_user_data: bool


def topics_of(subscription: bytes) -> list[str]:
    """The topics of a subscription of any version. Raises MalformedError."""
    reader = Reader(subscription)
    reader.int16()
    topics = reader.array(reader.string)
    reader.nullable_bytes()
    return topics


def version_of(data: bytes) -> int:
    """The version that some bytes have, as far as Kafka knows it. Raises MalformedError."""
    return _version(Reader(data))


def subscription_of(data: bytes) -> Subscription:
    """Reads a ConsumerProtocolSubscription. Raises MalformedError."""
    reader = Reader(data)
    version = _version(reader)
    topics = reader.array(reader.string)
    reader.nullable_bytes()
    owned = _partitions(reader) if version >= 1 else {}
    if version >= 2:
        reader.int32()
    return Subscription(topics, owned, reader.nullable_string() if version >= 3 else None)


def assignment_of(data: bytes) -> Assigned:
    """Reads a ConsumerProtocolAssignment. Raises MalformedError."""
    reader = Reader(data)
    _version(reader)
    partitions = _partitions(reader)
    return Assigned(partitions, bool(reader.nullable_bytes()))


def assignment_bytes(partitions: Partitions, version: int) -> bytes:
    """A ConsumerProtocolAssignment in a version, the newest where that one is newer still."""
    parts = [struct.pack(">hi", min(version, NEWEST), len(partitions))]
    for topic, numbers in partitions.items():
        name = topic.encode()
        parts.append(struct.pack(">h", len(name)) + name)
        parts.append(struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    return b"".join([*parts, struct.pack(">i", -1)])


def _version(reader: Reader) -> int:
    version = reader.int16()
    if version < 0:
        raise MalformedError("a version below 0")
    return min(version, NEWEST)


def _partitions(reader: Reader) -> Partitions:
    found: Partitions = {}
    for topic, numbers in reader.array(
        lambda: (reader.string(), reader.array(lambda: reader.int32()))
    ):
        found.setdefault(topic, numbers)
    return found
