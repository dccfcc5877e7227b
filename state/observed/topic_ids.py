"""Names of topic ids, from every part of a body that has both."""

from collections.abc import Iterator
from typing import Any

from brokertwin.state.core.kafka_apis import Trait, keys_with
from brokertwin.state.core.schema import ZERO_UUID

NAMELESS = keys_with(Trait.BARE_TOPIC_IDS)
"""Keys of frequent APIs whose responses have topic ids without names."""

NAMES = ("name", "topicName", "topic")
"""Names of the fields with a topic's name in Kafka's schemas."""


def names_in(body: Any) -> dict[str, str]:
    """Names by topic id, from all parts of a decoded body."""
    return dict(_found(body))


def _found(part: Any) -> Iterator[tuple[str, str]]:
    if isinstance(part, list):
        for each in part:
            yield from _found(each)
    elif isinstance(part, dict):
        topic_id = part.get("topicId")
        if topic_id and topic_id != ZERO_UUID and not part.get("errorCode"):
            name = next((part[field] for field in NAMES if part.get(field)), None)
            if isinstance(name, str):
                yield topic_id, name
        for value in part.values():
            if isinstance(value, dict | list):
                yield from _found(value)
