"""What consumers of the classic protocol say and are told inside joins and syncs.

Source: `ConsumerProtocol`, `ConsumerProtocolSubscription.json`, `ConsumerProtocolAssignment.json`
in Kafka. A coordinator hands these bytes on; it looks into them where classic members are in a
consumer group. A version above the newest one is read as the newest, as Kafka does.
"""

import struct
from typing import NamedTuple

NEWEST = 3
"""The newest version of both. With 1 come owned partitions, with 2 a generation, with 3 a rack."""

Partitions = dict[str, list[int]]
"""Partitions by topic name."""


class MalformedError(ValueError):
    """Bytes that are not what they should be."""


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
    reader = _Reader(subscription)
    reader.int16()
    return reader.strings()


def version_of(data: bytes) -> int:
    """The version that some bytes have, as far as Kafka knows it. Raises MalformedError."""
    return _Reader(data).version()


def subscription_of(data: bytes) -> Subscription:
    """Reads a ConsumerProtocolSubscription. Raises MalformedError."""
    reader = _Reader(data)
    version = reader.version()
    topics = reader.strings()
    reader.nullable_bytes()
    owned = reader.partitions() if version >= 1 else {}
    if version >= 2:
        reader.int32()
    return Subscription(topics, owned, reader.nullable_string() if version >= 3 else None)


def assignment_of(data: bytes) -> Assigned:
    """Reads a ConsumerProtocolAssignment. Raises MalformedError."""
    reader = _Reader(data)
    reader.version()
    partitions = reader.partitions()
    return Assigned(partitions, bool(reader.nullable_bytes()))


def assignment_bytes(partitions: Partitions, version: int) -> bytes:
    """A ConsumerProtocolAssignment in a version, the newest where that one is newer still."""
    parts = [struct.pack(">hi", min(version, NEWEST), len(partitions))]
    for topic, numbers in partitions.items():
        name = topic.encode()
        parts.append(struct.pack(">h", len(name)) + name)
        parts.append(struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    return b"".join([*parts, struct.pack(">i", -1)])


class _Reader:
    """Goes through bytes in Kafka's old encoding."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def version(self) -> int:
        version = self.int16()
        if version < 0:
            raise MalformedError("a version below 0")
        return min(version, NEWEST)

    def int16(self) -> int:
        return int.from_bytes(self._take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        return None if length < 0 else self._take(length)

    def nullable_string(self) -> str | None:
        length = self.int16()
        if length < 0:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise MalformedError("a string that is not UTF-8") from error

    def strings(self) -> list[str]:
        return [self._string() for _ in range(self._count())]

    def partitions(self) -> Partitions:
        found: Partitions = {}
        for _ in range(self._count()):
            topic = self._string()
            numbers = [self.int32() for _ in range(self._count())]
            found.setdefault(topic, numbers)
        return found

    def _string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise MalformedError("a string that is null")
        return text

    def _count(self) -> int:
        count = self.int32()
        if not 0 <= count <= len(self._data):
            raise MalformedError(f"a count of {count}")
        return count

    def _take(self, length: int) -> bytes:
        taken = self._data[self._at : self._at + length]
        if len(taken) < length:
            raise MalformedError("bytes that are cut off")
        self._at += length
        return taken
