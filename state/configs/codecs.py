"""`compression.type` of a topic: the codec in which the edge stores its batches.

Source: `LogConfig`, `Compression` and its levels in Kafka.
"""

from collections.abc import Mapping
from typing import NamedTuple

from brokertwin.state.configs.topic_configs import value_of
from brokertwin.state.core.settings import BrokerSettings

TYPE = "compression.type"
PRODUCER = "producer"
UNCOMPRESSED = "uncompressed"


class TopicCodec(NamedTuple):
    """A codec by its name in the request log, and its level, if it has levels."""

    name: str
    level: int | None = None


def of_topic(configs: Mapping[str, str], settings: BrokerSettings) -> TopicCodec | None:
    """The codec of a topic; None if batches keep their own."""
    name = value_of(TYPE, configs, settings)
    if name == PRODUCER or not isinstance(name, str):
        return None
    if name == UNCOMPRESSED:
        return TopicCodec("none")
    if name == "snappy":
        return TopicCodec(name)
    level = value_of(f"compression.{name}.level", configs, settings)
    return TopicCodec(name, level if isinstance(level, int) else None)
