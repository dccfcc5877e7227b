"""The order in which Java goes through a `HashMap`, where Kafka shows it to clients.

Source: `String.hashCode`, `HashMap.hash`, `HashMap.resize` in Java.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

CAPACITY = 16
"""Buckets of a new `HashMap`; they double when three quarters of them are used."""

T = TypeVar("T")


def java_hash(text: str) -> int:
    """Java's `String.hashCode`: an int32, over UTF-16 code units."""
    units = text.encode("utf-16-be")
    result = 0
    for at in range(0, len(units), 2):
        result = (31 * result + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return result - (1 << 32) if result >= 1 << 31 else result


def hash_map_order(keys: Iterable[T], hash_code: Callable[[T], int], most: int) -> list[T]:
    """Keys as a `HashMap` goes through them that has held `most` of them at once.

    Those of one bucket stay in the order given, which is that in which they were put in.
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
