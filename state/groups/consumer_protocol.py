"""The consumer protocol embedded in JoinGroup and SyncGroup.

Source: `ConsumerProtocol`, `ConsumerProtocolSubscription.json`, `ConsumerProtocolAssignment.json`
in Kafka. A coordinator relays these bytes and reads them only for classic members of a consumer
group. Unknown newer versions are read as the newest known one, as in Kafka.
"""

import struct
from typing import NamedTuple

from brokertwin.state.core.kafka_bytes import MalformedError, Reader

NEWEST = 3
"""The newest version of both messages.

Version 1 added owned partitions, 2 the generation, 3 the rack.
"""

Partitions = dict[str, list[int]]
"""Partitions by topic name."""


class ProtocolSubscription(NamedTuple):
    """The subscription of a member.

    Attributes:
        topics: topic names in the member's order.
        owned: partitions that the member owns.
        rack_id: the member's rack.
    """

    topics: list[str]
    owned: Partitions
    rack_id: str | None


class ProtocolAssignment(NamedTuple):
    """The assignment of a member, and whether it has user data."""

    partitions: Partitions
    has_user_data: bool


def topics_of(subscription: bytes) -> list[str]:
    """Return the topics of a subscription of any version.

    Raises MalformedError.
    """
    reader = Reader(subscription)
    reader.number("h")
    topics = reader.array(reader.string)
    reader.nullable_bytes()
    return topics


def version_of(data: bytes) -> int:
    """Return the version, at most NEWEST. Raises MalformedError."""
    return _version(Reader(data))


def subscription_of(data: bytes) -> ProtocolSubscription:
    """Decode a ConsumerProtocolSubscription. Raises MalformedError."""
    reader = Reader(data)
    version = _version(reader)
    topics = reader.array(reader.string)
    reader.nullable_bytes()
    owned = _partitions(reader) if version >= 1 else {}
    if version >= 2:
        reader.number("i")
    return ProtocolSubscription(topics, owned, reader.nullable_string() if version >= 3 else None)


def assignment_of(data: bytes) -> ProtocolAssignment:
    """Decode a ConsumerProtocolAssignment. Raises MalformedError."""
    reader = Reader(data)
    _version(reader)
    partitions = _partitions(reader)
    return ProtocolAssignment(partitions, bool(reader.nullable_bytes()))


def assignment_bytes(partitions: Partitions, version: int) -> bytes:
    """Encode a ConsumerProtocolAssignment in a version, at most NEWEST."""
    parts = [struct.pack(">hi", min(version, NEWEST), len(partitions))]
    for topic, numbers in partitions.items():
        name = topic.encode()
        parts.append(struct.pack(">h", len(name)) + name)
        parts.append(struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    return b"".join([*parts, struct.pack(">i", -1)])


def _version(reader: Reader) -> int:
    version = reader.number("h")
    if version < 0:
        raise MalformedError("a version below 0")
    return min(version, NEWEST)


def _partitions(reader: Reader) -> Partitions:
    found: Partitions = {}
    for topic, numbers in reader.array(
        lambda: (reader.string(), reader.array(lambda: reader.number("i")))
    ):
        found.setdefault(topic, numbers)
    return found
