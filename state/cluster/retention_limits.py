"""How much of a topic's logs stays, by the settings of the topic.

By time and size (`state/logs/retention.py`), and what the cleaner takes (`state/logs/cleaner.py`).
"""

from brokerstream.state.cluster.image import INTERNAL_TOPICS, Topic
from brokerstream.state.configs.topic_configs import value_of
from brokerstream.state.core.settings import BrokerSettings
from brokerstream.state.logs.cleaner import Rules
from brokerstream.state.logs.retention import UNLIMITED, Limits


def of_topic(topic: Topic, settings: BrokerSettings) -> Limits | None:
    """How much of a topic's logs stays; None where they are compacted alone."""
    if not _has_policy(topic, settings, "delete"):
        return None
    retention_ms = _number("retention.ms", topic, settings)
    retention_bytes = _number("retention.bytes", topic, settings)
    if retention_ms < 0 and retention_bytes < 0:
        return None
    return _cuts(topic, settings)._replace(
        retention_ms=retention_ms, retention_bytes=retention_bytes
    )


def cleaning_of(topic: Topic, settings: BrokerSettings) -> Rules | None:
    """What the cleaner goes by; None where the topic is not compacted, or is a coordinator's."""
    if topic.name in INTERNAL_TOPICS or not _has_policy(topic, settings, "compact"):
        return None
    ratio = value_of("min.cleanable.dirty.ratio", topic.configs, settings)
    assert isinstance(ratio, float), ratio
    return Rules(
        _number("delete.retention.ms", topic, settings),
        _number("min.compaction.lag.ms", topic, settings),
        _number("max.compaction.lag.ms", topic, settings),
        ratio,
        _cuts(topic, settings),
    )


def _cuts(topic: Topic, settings: BrokerSettings) -> Limits:
    """How a log is cut; a compacted one also when its first record has to be cleaned."""
    given = value_of("internal.segment.bytes", topic.configs, settings)
    segment_bytes = given if isinstance(given, int) else _number("segment.bytes", topic, settings)
    segment_ms = _number("segment.ms", topic, settings)
    if _has_policy(topic, settings, "compact"):
        segment_ms = min(segment_ms, _number("max.compaction.lag.ms", topic, settings))
    jitter_ms = _number("segment.jitter.ms", topic, settings)
    return Limits(UNLIMITED, UNLIMITED, segment_ms, segment_bytes, jitter_ms)


def _has_policy(topic: Topic, settings: BrokerSettings, name: str) -> bool:
    policy = value_of("cleanup.policy", topic.configs, settings)
    return isinstance(policy, list) and name in policy


def _number(name: str, topic: Topic, settings: BrokerSettings) -> int:
    value = value_of(name, topic.configs, settings)
    assert isinstance(value, int), name
    return value
