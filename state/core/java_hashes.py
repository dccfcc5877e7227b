"""Iteration orders of Java and Scala hash maps that clients see.

Source: `String.hashCode`, `HashMap.hash`, `HashMap.resize` in Java; `mutable.HashMap` in Scala
2.13; `Uuid.hashCode`, `TopicPartition.hashCode` in Kafka, and `BaseHashTable.findSlot` for the maps
of a coordinator's state (`TimelineHashMap`).
"""

import base64
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from brokertwin.state.core.bounded_cache import bounded_cache

CAPACITY = 16
"""Buckets of a new `HashMap`, doubled when more than three quarters are used."""

TIMELINE_CAPACITY = 2
"""Slots of a new `TimelineHashMap`."""

_FIBONACCI = -7046029254386353131

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@bounded_cache(4096)
def java_hash(text: str) -> int:
    """Java's `String.hashCode`: an int32 over UTF-16 code units."""
    units = text.encode("utf-16-be")
    result = 0
    for at in range(0, len(units), 2):
        result = (31 * result + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return result - (1 << 32) if result >= 1 << 31 else result


def hash_map_order(keys: Iterable[T], hash_code: Callable[[T], int], most: int) -> list[T]:
    """Keys in the order of a `HashMap` that has had at most `most` keys.

    Keys of one bucket keep their order of insertion. Java makes a tree of eight, with another
    order, which is not implemented.
    """
    capacity = CAPACITY
    while most > capacity * 3 // 4:
        capacity *= 2

    def bucket(key: T) -> int:
        hashed = hash_code(key) & 0xFFFFFFFF
        return (hashed ^ hashed >> 16) & (capacity - 1)

    return sorted(keys, key=bucket)


def hash_order(keys: Iterable[str], most: int) -> list[str]:
    """`hash_map_order` of strings."""
    return hash_map_order(keys, java_hash, most)


def scala_order(keys: Mapping[T, object], hash_code: Callable[[T], int]) -> list[T]:
    """Keys in the order of a mutable `HashMap` or `HashSet` of Scala.

    It grows at three quarters, and sorts each bucket by hash.
    """
    capacity = CAPACITY
    while len(keys) >= capacity * 3 // 4:
        capacity *= 2

    def place(key: T) -> tuple[int, int]:
        hashed = hash_code(key) & 0xFFFFFFFF
        mixed = hashed ^ hashed >> 16
        return mixed & (capacity - 1), mixed - (1 << 32) if mixed >= 1 << 31 else mixed

    return sorted(keys, key=place)


def partition_hash(topic: str, partition: int) -> int:
    return 31 * (31 + partition) + java_hash(topic)


def uuid_hash(uuid: str) -> int:
    """`Uuid.hashCode` of a uuid in Kafka's form.

    That is 16 bytes in base64url without padding.

    0 for other texts, which only occur in invalid events.
    """
    try:
        words = base64.urlsafe_b64decode(uuid + "==")
    except ValueError:
        return 0
    high, low = (int.from_bytes(words[at : at + 8], "big") for at in (0, 8))
    both = high ^ low
    return (both >> 32 ^ both) & 0xFFFFFFFF


def uuid_order(uuid: str) -> tuple[int, int]:
    """Sort key equal to `Uuid.compareTo`: two signed int64."""
    words = base64.urlsafe_b64decode(uuid + "==")
    return (
        int.from_bytes(words[:8], "big", signed=True),
        int.from_bytes(words[8:], "big", signed=True),
    )


def own_hash(number: int) -> int:
    """`Integer.hashCode`."""
    return number


def timeline_order(keys: Iterable[str], most: int) -> list[str]:
    """Order of a `TimelineHashMap` that has had at most `most` keys.

    A slot has its keys in reverse order of insertion. Each `put` makes room for one more key, even
    if it replaces one (`baseAddOrReplace`). A coordinator puts each member twice, with its metadata
    and its assignment.
    """
    capacity = TIMELINE_CAPACITY
    while (most + 1) * 0.75 > capacity:
        capacity *= 2
    shift = 65 - capacity.bit_length()
    latest_first = list(keys)[::-1]
    return sorted(latest_first, key=lambda key: (java_hash(key) * _FIBONACCI & 2**64 - 1) >> shift)


class JavaMap(Generic[K, V]):
    """A `HashMap`'s order; it may have a capacity and never shrinks.

    A `HashSet` is a map whose values do not matter.
    """

    def __init__(self, hash_code: Callable[[K], int], capacity: int = CAPACITY) -> None:
        self._hash_code = hash_code
        self._capacity = 1
        while self._capacity < capacity:
            self._capacity *= 2
        self._items: dict[K, V] = {}

    @classmethod
    def holding(cls, hash_code: Callable[[K], int], items: Mapping[K, V]) -> "JavaMap[K, V]":
        """The result of `new HashSet<>(collection)`."""
        result = cls(hash_code, max(int(len(items) / 0.75) + 1, CAPACITY))
        for key, value in items.items():
            result[key] = value
        return result

    @classmethod
    def copying(cls, hash_code: Callable[[K], int], items: Mapping[K, V]) -> "JavaMap[K, V]":
        """Return `new HashMap<>(map)`: its capacity fits the items."""
        made = cls(hash_code, int(len(items) / 0.75) + 1)
        for key, value in items.items():
            made[key] = value
        return made

    @classmethod
    def growing(cls, hash_code: Callable[[K], int], items: Mapping[K, V]) -> "JavaMap[K, V]":
        """Return a `new HashMap<>(0)` after all items were put into it."""
        made = cls(hash_code, 1)
        for key, value in items.items():
            made[key] = value
        return made

    def __setitem__(self, key: K, value: V) -> None:
        self._items[key] = value
        while len(self._items) > int(self._capacity * 0.75):
            self._capacity *= 2

    def compute_if_absent(self, key: K, value: V) -> V:
        """The value of a key, or `value`, which becomes the first of its bucket.

        Like in Java, the map grows before the look-up.
        """
        if len(self._items) > int(self._capacity * 0.75):
            self._capacity *= 2
        if key not in self._items:
            self._items = {key: value, **self._items}
        return self._items[key]

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __contains__(self, key: object) -> bool:
        return key in self._items

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[K]:
        hash_code, last = self._hash_code, self._capacity - 1

        def bucket(key: K) -> int:
            hashed = hash_code(key) & 0xFFFFFFFF
            return (hashed ^ hashed >> 16) & last

        return iter(sorted(self._items, key=bucket))

    def pop(self, key: K) -> None:
        """Remove a key, if it exists."""
        self._items.pop(key, None)
