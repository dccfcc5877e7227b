"""What DescribeConfigs shows of the settings of topics, brokers and the whole cluster.

A setting's *synonyms* are the places where its value may come from, best first: the topic, the
cluster, the broker's file, Kafka's default. As in Kafka a synonym of another name counts only
behind one of the setting's own name: where a broker's file has `log.retention.hours` and nothing
else, a topic's `retention.ms` follows it, and is shown as a default.

Settings come in the order of a Java `HashMap`; those of one bucket as Kafka defines them.

Source: `ConfigHelper`, `DynamicBrokerConfig.brokerConfigSynonyms` in Kafka; answers of 4.3.1.
"""

from collections.abc import Mapping
from itertools import dropwhile
from typing import NamedTuple

from brokerstream.state.configs.config_keys import ConfigKey, Type, Value
from brokerstream.state.configs.config_keys import parse as parse_key
from brokerstream.state.configs.kafka_settings import KAFKA_SETTINGS
from brokerstream.state.configs.setting_kinds import AUTHORIZERS, DYNAMIC, INTERNAL
from brokerstream.state.configs.topic_configs import TOPIC_CONFIGS, Source, value_of
from brokerstream.state.core.java_hashes import hash_order
from brokerstream.state.core.settings import BrokerSettings

UNKNOWN_TYPE = 0
TYPE_CODES = {
    Type.BOOLEAN: 1,
    Type.STRING: 2,
    Type.INT: 3,
    Type.SHORT: 4,
    Type.LONG: 5,
    Type.DOUBLE: 6,
    Type.LIST: 7,
    Type.CLASS: 8,
    Type.PASSWORD: 9,
}
"""`configType` in answers."""

OF_CLUSTER = "min.insync.replicas"
"""The only setting that lies at the level of the cluster (KIP-966)."""

_LADDERS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
"""Settings that stand for one another, the first that was given counts."""

_SYNONYMS = {name: ladder for ladder in _LADDERS for name in ladder} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}


class SynonymValue(NamedTuple):
    """A place where a value may come from; the value is None where it is secret."""

    name: str
    value: str | None
    source: Source


class Shown(NamedTuple):
    """A setting as answers show it; a secret has no value."""

    name: str
    value: str | None
    source: Source
    type_code: int
    is_sensitive: bool
    is_read_only: bool
    synonyms: list[SynonymValue]


def topic(configs: Mapping[str, str], settings: BrokerSettings) -> list[Shown]:
    """Every setting of a topic that was given `configs`, in Kafka's order."""
    values = {name: value_of(name, configs, settings) for name in TOPIC_CONFIGS}
    known = {name: value for name, value in values.items() if value is not None}
    shown = []
    for name in hash_order(known, len(known)):
        config = TOPIC_CONFIGS[name]
        text = _text(known[name])
        synonyms = [SynonymValue(name, text, Source.TOPIC)] if name in configs else []
        if config.synonyms:
            synonyms += _synonyms(config.synonyms[0].name, settings.given)
        source = synonyms[0].source if synonyms else Source.DEFAULT
        code = TYPE_CODES[config.key.type]
        shown.append(Shown(name, text, source, code, False, False, synonyms))
    return shown


def broker(broker_id: int, settings: BrokerSettings) -> list[Shown]:
    """Every setting of a broker, in Kafka's order: first what was given and it does not know."""
    given = {**settings.given, "broker.id": str(broker_id), "node.id": str(broker_id)}
    own = [name for name in KAFKA_SETTINGS if name not in INTERNAL | AUTHORIZERS]
    unknown = hash_order(sorted(given.keys() - own), len(given))
    return [_of_broker(name, given) for name in (*unknown, *hash_order(own, len(own)))]


def cluster(settings: BrokerSettings) -> list[Shown]:
    """What lies at the level of the cluster."""
    shown = _of_broker(OF_CLUSTER, settings.given)
    return [shown._replace(synonyms=[s for s in shown.synonyms if s.source is Source.CLUSTER])]


def _of_broker(name: str, given: Mapping[str, str]) -> Shown:
    key = _key(name)
    synonyms = _synonyms(name, given)
    is_read_only = name not in DYNAMIC
    source = synonyms[0].source if synonyms else Source.DEFAULT
    if key is None or key.type is Type.PASSWORD:
        code = UNKNOWN_TYPE if key is None else TYPE_CODES[key.type]
        return Shown(name, None, source, code, True, is_read_only, synonyms)
    value = _text(parse_key(name, key, given[name])) if name in given else key.default
    return Shown(name, value, source, TYPE_CODES[key.type], False, is_read_only, synonyms)


def _key(name: str) -> ConfigKey | None:
    """The key of a setting that the broker itself knows."""
    return KAFKA_SETTINGS.get(name) if name not in AUTHORIZERS else None


def _synonyms(name: str, given: Mapping[str, str]) -> list[SynonymValue]:
    names = _SYNONYMS.get(name, (name,))
    found = []
    if name == OF_CLUSTER:
        value = given.get(name, KAFKA_SETTINGS[name].default)
        found.append(SynonymValue(name, value, Source.CLUSTER))
    found += [SynonymValue(n, _open(n, given[n]), Source.BROKER) for n in names if n in given]
    for other in names:
        key = _key(other)
        if key is not None and key.default is not None:
            found.append(SynonymValue(other, _open(other, key.default), Source.DEFAULT))
    return list(dropwhile(lambda synonym: synonym.name != name, found))


def _open(name: str, value: str) -> str | None:
    """A value that may be shown; what the broker does not know may be a secret."""
    key = _key(name)
    return None if key is None or key.type is Type.PASSWORD else value


def _text(value: Value) -> str:
    """A value in Kafka's words; an element of a list counts once."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(dict.fromkeys(value))
    return str(value)
