"""A topic's settings for retention, cleaning and rolling.

They are applied in `state/logs/retention.py`, `state/logs/cleaner.py`, `state/logs/rolling.py`.
"""

from collections.abc import Mapping

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.cluster import broker_configs, image
from brokertwin.state.cluster.image import INTERNAL_TOPICS, Topic
from brokertwin.state.configs.topic_configs import value_of
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import MachineTables, Table
from brokertwin.state.logs.cleaner import CleaningRules
from brokertwin.state.logs.log import RollingRules
from brokertwin.state.logs.retention import RetentionLimits

_DERIVED = "how logs are cut"


class _ParsedRules(msgspec.Struct, frozen=True):
    """Rolling rules of a topic on brokers with these static settings."""

    given: BrokerSettings
    rolling: RollingRules


def of_topic(topic: Topic, settings: BrokerSettings) -> RetentionLimits | None:
    """Retention of a topic's logs; None if there is none, or only compaction."""
    if not has_policy(topic, settings, "delete"):
        return None
    retention_ms = _number("retention.ms", topic.configs, settings)
    retention_bytes = _number("retention.bytes", topic.configs, settings)
    if retention_ms < 0 and retention_bytes < 0:
        return None
    return RetentionLimits(retention_ms, retention_bytes)


def has_policy(topic: Topic, settings: BrokerSettings, *names: str) -> bool:
    return all(_has_policy(topic.configs, settings, name) for name in names)


def cleaning_of(topic: Topic, settings: BrokerSettings) -> CleaningRules | None:
    """Settings of the log cleaner; None for topics that it does not clean."""
    if topic.name in INTERNAL_TOPICS or not has_policy(topic, settings, "compact"):
        return None
    ratio = value_of("min.cleanable.dirty.ratio", topic.configs, settings)
    assert isinstance(ratio, float), ratio
    return CleaningRules(
        _number("delete.retention.ms", topic.configs, settings),
        _number("min.compaction.lag.ms", topic.configs, settings),
        _number("max.compaction.lag.ms", topic.configs, settings),
        ratio,
        rolling_rules_of(topic.configs, settings),
    )


def rolling_rules_in(at: MachineTables, topic_id: Uuid) -> RollingRules:
    """Rolling rules of a topic on a broker, cached until a setting changes."""
    broker_settings = at.tables.given
    derived = at.tables.metadata.derived
    kept: dict[tuple[int, Uuid], _ParsedRules] | None = derived.get(_DERIVED)
    if kept is None:
        kept = derived[_DERIVED] = {}
    rules = kept.get((at.id, topic_id))
    if rules is None or rules.given is not broker_settings:
        topic = image.topic_by_id(at, topic_id)
        settings = broker_configs.settings_of(at, at.id, broker_settings)
        rolling = rolling_rules_of(topic.configs if topic else {}, settings)
        rules = _ParsedRules(broker_settings, rolling)
        kept[at.id, topic_id] = rules
    return rules.rolling


def forget_rolling_rules(table: Table) -> None:
    """Drop cached rules after a change of settings or topics."""
    table.derived.pop(_DERIVED, None)


def rolling_rules_of(configs: Mapping[str, str], settings: BrokerSettings) -> RollingRules:
    """Rolling rules; a compacted log also rolls when its first record must be cleaned."""
    own = value_of("internal.segment.bytes", configs, settings)
    segment_bytes = own if isinstance(own, int) else _number("segment.bytes", configs, settings)
    segment_ms = _number("segment.ms", configs, settings)
    if _has_policy(configs, settings, "compact"):
        segment_ms = min(segment_ms, _number("max.compaction.lag.ms", configs, settings))
    return RollingRules(
        segment_ms,
        segment_bytes,
        _number("segment.jitter.ms", configs, settings),
        _number("segment.index.bytes", configs, settings),
        _number("index.interval.bytes", configs, settings),
    )


def _has_policy(configs: Mapping[str, str], settings: BrokerSettings, name: str) -> bool:
    policy = value_of("cleanup.policy", configs, settings)
    return isinstance(policy, list) and name in policy


def _number(name: str, configs: Mapping[str, str], settings: BrokerSettings) -> int:
    value = value_of(name, configs, settings)
    assert isinstance(value, int), name
    return value
