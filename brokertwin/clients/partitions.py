"""Topic partitions and nodes, shared by the client machines.

Source: `TopicPartition`, `TopicIdPartition`, `Node` in Kafka.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from brokertwin.protocol.bodies import Uuid

Key = TypeVar("Key")
Value = TypeVar("Value")


class TopicPartition(NamedTuple):
    topic: str
    partition: int


class TopicIdPartition(NamedTuple):
    """A partition by topic id (zero if unknown) and name."""

    topic_id: Uuid
    topic: str
    partition: int


class Node(NamedTuple):
    """A broker and its address; bootstrap addresses have negative ids."""

    id: int
    host: str
    port: int
    rack: str | None = None


def grouped(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, list[Value]]:
    """Collect the second elements of pairs by the first, for example partitions by topic."""
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups
