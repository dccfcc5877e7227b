"""The parts of a request or a response about one partition, for all APIs.

Bodies say topic and partition in the same few ways in all APIs: an object with the topic's name or
id, and below it objects with the partition's number.
"""

from collections.abc import Collection, Iterator
from typing import Any

TOPICS = ("name", "topic", "topicName", "topicId")
NUMBERS = ("index", "partitionIndex", "partition", "partitionId")


def parts_of(body: Any, topics: Collection[str], number: int) -> Iterator[dict[str, Any]]:
    """The objects of a body that are about a partition.

    Args:
        body: a request or a response.
        topics: what names the topic: its name, its id.
        number: the partition's.
    """
    for each in _objects(body):
        if any(isinstance(each.get(name), str) and each[name] in topics for name in TOPICS):
            yield from (part for part in _objects(list(each.values())) if _number(part) == number)


def errors_of(body: Any, topics: Collection[str], number: int) -> Iterator[int]:
    """The errors of a partition, and those of its topic as a whole; not those of nothing."""
    for each in _objects(body):
        if any(isinstance(each.get(name), str) and each[name] in topics for name in TOPICS):
            yield from _codes(each)
    for part in parts_of(body, topics, number):
        yield from _codes(part)


def _codes(part: dict[str, Any]) -> Iterator[int]:
    for name, value in part.items():
        if name.lower().endswith("errorcode") and value:
            yield value


def _number(part: dict[str, Any]) -> int | None:
    return next((part[name] for name in NUMBERS if isinstance(part.get(name), int)), None)


def _objects(body: Any) -> Iterator[dict[str, Any]]:
    """All objects in a body, at any depth."""
    if isinstance(body, list):
        for each in body:
            yield from _objects(each)
    elif isinstance(body, dict):
        yield body
        for each in body.values():
            yield from _objects(each)
