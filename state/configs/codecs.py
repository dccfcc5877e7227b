"""The codec that a topic asks for, `compression.type`: what the edge keeps its batches in.

Source: `LogConfig`, `Compression` and its levels in Kafka.
"""

from collections.abc import Mapping
from typing import NamedTuple

from brokertwin.state.configs.topic_configs import value_of
from brokertwin.state.core.settings import BrokerSettings

TYPE = "compression.type"
AS_IT_CAME = "producer"
UNCOMPRESSED = "uncompressed"


class TopicCodec(NamedTuple):
    """A codec by the name of the request log, and its level; None where it has none."""

    name: str
    level: int | None = None


def of_topic(configs: Mapping[str, str], settings: BrokerSettings) -> TopicCodec | None:
    """The codec that a topic asks for; None: batches stay as they came."""
    name = value_of(TYPE, configs, settings)
    if name == AS_IT_CAME or not isinstance(name, str):
        return None
    if name == UNCOMPRESSED:
        return TopicCodec("none")
    if name == "snappy":
        return TopicCodec(name)
    level = value_of(f"compression.{name}.level", configs, settings)
    return TopicCodec(name, level if isinstance(level, int) else None)
