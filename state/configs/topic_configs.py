"""Topic settings: names, defaults, broker settings behind them, validation.

A topic's own value applies before the broker's, static or dynamic, and Kafka's default. With
eligible leader replicas (KIP-966), `min.insync.replicas` is a setting of the cluster: its source is
never the broker's file.

Not implemented: Kafka's checks of tiered storage, except that it is enabled.

Sources: `LogConfig`, `ServerTopicConfigSynonyms`, `KafkaConfigSchema` in Kafka.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from brokertwin.state.configs.config_keys import (
    BOOLEAN,
    DOUBLE,
    INT,
    LIST,
    LONG,
    STRING,
    ConfigKey,
    InvalidConfigError,
    Value,
)
from brokertwin.state.configs.config_keys import parse as parse_key
from brokertwin.state.core.bounded_cache import bounded_cache
from brokertwin.state.core.java_hashes import hash_order
from brokertwin.state.core.settings import BrokerSettings

VALUES_KEPT = 1_024
"""Cached parsed values; most topics have the same few."""

_LONG_MAX = "9223372036854775807"
_MINUTE_MS = 60_000
_HOUR_MS = 3_600_000
MIN_IN_SYNC = "min.insync.replicas"
TAKES_DEAD_LETTERS = "errors.deadletterqueue.group.enable"


class ConfigSource(IntEnum):
    """Source of a setting's value: `configSource` in responses."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    CLUSTER = 3
    BROKER = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigSynonym(NamedTuple):
    """A broker setting that is a topic setting's default, multiplied by `scale`."""

    name: str
    scale: int = 1


class TopicSetting(NamedTuple):
    """A topic setting; the first given synonym is its default."""

    key: ConfigKey
    synonyms: tuple[ConfigSynonym, ...] = ()


class EffectiveConfig(NamedTuple):
    """Value of a setting as text, and its source."""

    name: str
    value: str
    source: ConfigSource


def _config(key: ConfigKey, *synonyms: str | ConfigSynonym) -> TopicSetting:
    return TopicSetting(key, tuple(ConfigSynonym(s) if isinstance(s, str) else s for s in synonyms))


_THROTTLED = ConfigKey(LIST, "", is_throttled=True)
_COMPRESSIONS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

TOPIC_CONFIGS: dict[str, TopicSetting] = {
    "segment.bytes": _config(ConfigKey(INT, "1073741824", 1048576), "log.segment.bytes"),
    "segment.ms": _config(
        ConfigKey(LONG, "604800000", 1), "log.roll.ms", ConfigSynonym("log.roll.hours", _HOUR_MS)
    ),
    "segment.jitter.ms": _config(
        ConfigKey(LONG, "0", 0),
        "log.roll.jitter.ms",
        ConfigSynonym("log.roll.jitter.hours", _HOUR_MS),
    ),
    "segment.index.bytes": _config(ConfigKey(INT, "10485760", 4), "log.index.size.max.bytes"),
    "flush.messages": _config(ConfigKey(LONG, _LONG_MAX, 1), "log.flush.interval.messages"),
    "flush.ms": _config(
        ConfigKey(LONG, _LONG_MAX, 0), "log.flush.interval.ms", "log.flush.scheduler.interval.ms"
    ),
    "retention.bytes": _config(ConfigKey(LONG, "-1"), "log.retention.bytes"),
    "retention.ms": _config(
        ConfigKey(LONG, "604800000", -1),
        "log.retention.ms",
        ConfigSynonym("log.retention.minutes", _MINUTE_MS),
        ConfigSynonym("log.retention.hours", _HOUR_MS),
    ),
    "max.message.bytes": _config(ConfigKey(INT, "1048588", 0), "message.max.bytes"),
    "max.decompressed.message.bytes": _config(
        ConfigKey(INT, "2147483639", 1, 2147483639, is_of_4_4=True),
        "max.decompressed.message.bytes",
    ),
    "index.interval.bytes": _config(ConfigKey(INT, "4096", 0), "log.index.interval.bytes"),
    "delete.retention.ms": _config(
        ConfigKey(LONG, "86400000", 0), "log.cleaner.delete.retention.ms"
    ),
    "min.compaction.lag.ms": _config(ConfigKey(LONG, "0", 0), "log.cleaner.min.compaction.lag.ms"),
    "max.compaction.lag.ms": _config(
        ConfigKey(LONG, _LONG_MAX, 1), "log.cleaner.max.compaction.lag.ms"
    ),
    "file.delete.delay.ms": _config(ConfigKey(LONG, "60000", 0), "log.segment.delete.delay.ms"),
    "min.cleanable.dirty.ratio": _config(
        ConfigKey(DOUBLE, "0.5", 0, 1), "log.cleaner.min.cleanable.ratio"
    ),
    "cleanup.policy": _config(
        ConfigKey(LIST, "delete", choices=("compact", "delete")), "log.cleanup.policy"
    ),
    "unclean.leader.election.enable": _config(
        ConfigKey(BOOLEAN, "false"), "unclean.leader.election.enable"
    ),
    MIN_IN_SYNC: _config(ConfigKey(INT, "1", 1), MIN_IN_SYNC),
    "compression.type": _config(
        ConfigKey(STRING, "producer", choices=_COMPRESSIONS), "compression.type"
    ),
    "compression.gzip.level": _config(
        ConfigKey(INT, "-1", 1, 9, also=(-1,)), "compression.gzip.level"
    ),
    "compression.lz4.level": _config(ConfigKey(INT, "9", 1, 17), "compression.lz4.level"),
    "compression.zstd.level": _config(ConfigKey(INT, "3", -131072, 22), "compression.zstd.level"),
    "preallocate": _config(ConfigKey(BOOLEAN, "false"), "log.preallocate"),
    "message.timestamp.type": _config(
        ConfigKey(STRING, "CreateTime", choices=("CreateTime", "LogAppendTime")),
        "log.message.timestamp.type",
    ),
    "message.timestamp.before.max.ms": _config(
        ConfigKey(LONG, _LONG_MAX, 0), "log.message.timestamp.before.max.ms"
    ),
    "message.timestamp.after.max.ms": _config(
        ConfigKey(LONG, "3600000", 0), "log.message.timestamp.after.max.ms"
    ),
    "leader.replication.throttled.replicas": _config(_THROTTLED),
    "follower.replication.throttled.replicas": _config(_THROTTLED),
    "remote.storage.enable": _config(ConfigKey(BOOLEAN, "false")),
    "local.retention.ms": _config(ConfigKey(LONG, "-2", -2), "log.local.retention.ms"),
    "local.retention.bytes": _config(ConfigKey(LONG, "-2", -2), "log.local.retention.bytes"),
    "remote.log.copy.disable": _config(ConfigKey(BOOLEAN, "false")),
    "remote.copy.lag.ms": _config(
        ConfigKey(LONG, "0", -1, is_of_4_4=True), "log.remote.copy.lag.ms"
    ),
    "remote.copy.lag.bytes": _config(
        ConfigKey(LONG, "-1", -1, is_of_4_4=True), "log.remote.copy.lag.bytes"
    ),
    "remote.log.delete.on.disable": _config(ConfigKey(BOOLEAN, "false")),
    TAKES_DEAD_LETTERS: _config(ConfigKey(BOOLEAN, "false", is_of_4_4=True)),
    "internal.segment.bytes": _config(ConfigKey(INT)),
}
"""Topic settings of Kafka 4.3.1 and 4.4.0, in Kafka's order of validation.

The last one is internal: it is shown only if a topic has it.
"""

_OF_4_3 = {name: each for name, each in TOPIC_CONFIGS.items() if not each.key.is_of_4_4}


def known(settings: BrokerSettings) -> Mapping[str, TopicSetting]:
    """Return the topic settings of the brokers' release."""
    return TOPIC_CONFIGS if settings.is_4_4 else _OF_4_3


def parse(name: str, text: str) -> Value:
    """Parse a topic's setting. Raises InvalidConfigError if Kafka would reject it."""
    config = TOPIC_CONFIGS.get(name)
    if config is None:
        raise InvalidConfigError(f"Unknown topic config name: {name}")
    return parse_key(name, config.key, text)


def validate(configs: Mapping[str, str | None], settings: BrokerSettings) -> str | None:
    """Kafka's message if it rejects these settings of a topic, or None."""
    nulls = [name for name, value in configs.items() if value is None]
    if nulls:
        return f"Null value not supported for topic configs: {','.join(nulls)}"
    texts = {name: value for name, value in configs.items() if value is not None}
    for name in hash_order(texts, len(texts)):
        if name not in known(settings):
            return f"Unknown topic config name: {name}"
    try:
        for name in TOPIC_CONFIGS:
            if name in texts:
                parse(name, texts[name])
    except InvalidConfigError as error:
        return str(error)
    return _conflict(texts, settings)


def value_of(name: str, configs: Mapping[str, str], settings: BrokerSettings) -> Value:
    """Value in effect for a topic with these own settings.

    Bounds are not checked, because a broker's setting may be outside of the topic's bounds.
    """
    effective = _effective(name, configs, settings)
    return _unbounded(name, effective.value) if effective is not None else None


@bounded_cache(VALUES_KEPT)
def _unbounded(name: str, text: str) -> Value:
    """A value without checking bounds. Do not change it."""
    return parse_key(name, TOPIC_CONFIGS[name].key._replace(least=None, most=None), text)


def effective(configs: Mapping[str, str], settings: BrokerSettings) -> list[EffectiveConfig]:
    found = (_effective(name, configs, settings) for name in sorted(known(settings)))
    return [each for each in found if each is not None]


def _effective(
    name: str, configs: Mapping[str, str], settings: BrokerSettings
) -> EffectiveConfig | None:
    if name in configs:
        return EffectiveConfig(name, configs[name], ConfigSource.TOPIC)
    config = TOPIC_CONFIGS[name]
    for synonym in config.synonyms:
        text = settings.given.get(synonym.name)
        if text is not None:
            value = text if synonym.scale == 1 else str(int(text) * synonym.scale)
            return EffectiveConfig(name, value, _source(synonym.name, settings))
    if config.key.default is None:
        return None
    source = ConfigSource.CLUSTER if is_of_cluster(name, settings) else ConfigSource.DEFAULT
    return EffectiveConfig(name, config.key.default, source)


def _source(name: str, settings: BrokerSettings) -> ConfigSource:
    if settings.layers is not None and name in settings.layers.of_broker:
        return ConfigSource.DYNAMIC_BROKER
    if settings.layers is not None and name in settings.layers.of_cluster:
        return ConfigSource.CLUSTER
    return ConfigSource.CLUSTER if is_of_cluster(name, settings) else ConfigSource.BROKER


def is_of_cluster(name: str, settings: BrokerSettings) -> bool:
    return name == MIN_IN_SYNC and settings.has_eligible_replicas


def _conflict(texts: Mapping[str, str], settings: BrokerSettings) -> str | None:
    """Kafka's message for settings that conflict with each other."""
    if value_of("remote.storage.enable", texts, settings) is True:
        enabled = settings.given.get("remote.log.storage.system.enable", "false")
        if enabled.strip().lower() != "true":
            return (
                "Tiered Storage functionality is disabled in the broker."
                " Topic cannot be configured with remote log storage."
            )
    least = value_of("min.compaction.lag.ms", texts, settings)
    most = value_of("max.compaction.lag.ms", texts, settings)
    if isinstance(least, int) and isinstance(most, int) and least > most:
        return (
            f"conflict topic config setting min.compaction.lag.ms ({least})"
            f" > max.compaction.lag.ms ({most})"
        )
    return None
