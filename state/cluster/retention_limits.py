"""How much of a topic's logs stays (`state/logs/retention.py`), by the settings of the topic."""

from brokerstream.state.cluster.image import Topic
from brokerstream.state.configs.topic_configs import value_of
from brokerstream.state.core.settings import BrokerSettings
from brokerstream.state.logs.retention import Limits


def of_topic(topic: Topic, settings: BrokerSettings) -> Limits | None:
    """How much of a topic's logs stays; None where they are compacted alone."""

    def number(name: str) -> int:
        value = value_of(name, topic.configs, settings)
        assert isinstance(value, int), name
        return value

    policy = value_of("cleanup.policy", topic.configs, settings)
    if not isinstance(policy, list) or "delete" not in policy:
        return None
    given = value_of("internal.segment.bytes", topic.configs, settings)
    segment_bytes = given if isinstance(given, int) else number("segment.bytes")
    retention_ms, retention_bytes = number("retention.ms"), number("retention.bytes")
    if retention_ms < 0 and retention_bytes < 0:
        return None
    return Limits(retention_ms, retention_bytes, number("segment.ms"), segment_bytes)
