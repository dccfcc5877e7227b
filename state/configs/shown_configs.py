"""DescribeConfigs of topics, groups, client metrics, brokers and the cluster.

A setting's *synonyms* are the sources of its value in order of precedence: topic, broker (dynamic),
cluster (dynamic), the broker's file, Kafka's default. As in Kafka, a synonym with another name
counts only after one with the setting's own name. If a broker's file only has
`log.retention.hours`, a topic's `retention.ms` follows it but is shown as a default.

Settings are in the order of a Java `HashMap`; those of one bucket in Kafka's order of definition.

Source: `ConfigHelper`, `DynamicBrokerConfig.brokerConfigSynonyms` in Kafka; responses of 4.3.1.
"""

from collections.abc import Mapping
from itertools import dropwhile
from typing import NamedTuple

from brokertwin.state.configs import dynamic_configs
from brokertwin.state.configs.client_metrics import CLIENT_METRICS_CONFIGS
from brokertwin.state.configs.config_keys import Type, Value
from brokertwin.state.configs.config_keys import parse as parse_key
from brokertwin.state.configs.group_configs import GROUP_CONFIGS, synonym
from brokertwin.state.configs.group_configs import known as known_group_configs
from brokertwin.state.configs.kafka_settings import KAFKA_SETTINGS
from brokertwin.state.configs.setting_kinds import AUTHORIZERS, INTERNAL
from brokertwin.state.configs.topic_configs import (
    MIN_IN_SYNC,
    TOPIC_CONFIGS,
    ConfigSource,
    is_of_cluster,
    value_of,
)
from brokertwin.state.configs.topic_configs import known as known_topic_configs
from brokertwin.state.core.java_hashes import hash_order
from brokertwin.state.core.settings import BrokerSettings, ConfigLayers

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
"""`configType` in responses."""


class SynonymValue(NamedTuple):
    """A source of a value; the value is None if it is secret."""

    name: str
    value: str | None
    source: ConfigSource


class DescribedSetting(NamedTuple):
    """A setting in a response; a secret has no value."""

    name: str
    value: str | None
    source: ConfigSource
    type_code: int
    is_sensitive: bool
    is_read_only: bool
    synonyms: list[SynonymValue]


def topic(configs: Mapping[str, str], settings: BrokerSettings) -> list[DescribedSetting]:
    """Every setting of a topic with these own settings, in Kafka's order."""
    values = {name: value_of(name, configs, settings) for name in known_topic_configs(settings)}
    texts = {name: value for name, value in values.items() if value is not None}
    shown = []
    for name in hash_order(texts, len(texts)):
        config = TOPIC_CONFIGS[name]
        text = _text(texts[name])
        synonyms = [SynonymValue(name, text, ConfigSource.TOPIC)] if name in configs else []
        if config.synonyms:
            synonyms += _synonyms(config.synonyms[0].name, _layers(settings))
        source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
        code = TYPE_CODES[config.key.type]
        shown.append(DescribedSetting(name, text, source, code, False, False, synonyms))
    return shown


def group(configs: Mapping[str, str], settings: BrokerSettings) -> list[DescribedSetting]:
    """Every setting of a group with these own settings, in Kafka's order."""
    shown = []
    group_configs = known_group_configs(settings)
    for name in hash_order(group_configs, len(group_configs)):
        key, behind = GROUP_CONFIGS[name], synonym(name)
        synonyms = []
        if name in configs:
            value = _text(parse_key(name, key, configs[name]))
            synonyms.append(SynonymValue(name, value, ConfigSource.GROUP))
        if behind is not None:
            synonyms += _synonyms(behind, _layers(settings))
        else:
            synonyms.append(SynonymValue(name, key.default, ConfigSource.DEFAULT))
        first, code = synonyms[0], TYPE_CODES[key.type]
        shown.append(
            DescribedSetting(name, first.value, first.source, code, False, False, synonyms)
        )
    return shown


def client_metrics(configs: Mapping[str, str]) -> list[DescribedSetting]:
    """Every setting of a subscription; a default has no source."""
    shown = []
    for name in hash_order(CLIENT_METRICS_CONFIGS, len(CLIENT_METRICS_CONFIGS)):
        key = CLIENT_METRICS_CONFIGS[name]
        value, source, code = key.default, ConfigSource.DEFAULT, TYPE_CODES[key.type]
        if name in configs:
            value, source = _text(parse_key(name, key, configs[name])), ConfigSource.CLIENT_METRICS
        synonyms = [SynonymValue(name, value, source)] if name in configs else []
        shown.append(DescribedSetting(name, value, source, code, False, False, synonyms))
    return shown


def broker(broker_id: int, settings: BrokerSettings) -> list[DescribedSetting]:
    """Every setting of a broker in Kafka's order, unknown ones first."""
    own_id = {"broker.id": str(broker_id), "node.id": str(broker_id)}
    texts, layers = {**settings.given, **own_id}, _layers(settings)
    layers = ConfigLayers(layers.of_broker, layers.of_cluster, {**layers.of_file, **own_id})
    own = [
        name
        for name, key in KAFKA_SETTINGS.items()
        if name not in INTERNAL | AUTHORIZERS and (settings.is_4_4 or not key.is_of_4_4)
    ]
    unknown = hash_order(sorted(texts.keys() - own), len(texts))
    return [_of_broker(n, texts, layers) for n in (*unknown, *hash_order(own, len(own)))]


def cluster(settings: BrokerSettings) -> list[DescribedSetting]:
    """Settings of the cluster, with their given texts."""
    layers, shown = _layers(settings), []
    for name in hash_order(sorted(layers.of_cluster), len(layers.of_cluster)):
        found = _of_broker(name, layers.of_cluster, layers)
        synonyms = [each for each in found.synonyms if each.source is ConfigSource.CLUSTER]
        value = None if found.is_sensitive else layers.of_cluster[name]
        shown.append(found._replace(value=value, source=ConfigSource.CLUSTER, synonyms=synonyms))
    return shown


def _layers(settings: BrokerSettings) -> ConfigLayers:
    """Sources of settings; one that must be at the cluster level has its value there."""
    layers = settings.layers or ConfigLayers({}, {}, settings.given)
    if MIN_IN_SYNC in layers.of_cluster or not is_of_cluster(MIN_IN_SYNC, settings):
        return layers
    value = layers.of_file.get(MIN_IN_SYNC, str(KAFKA_SETTINGS[MIN_IN_SYNC].default))
    return ConfigLayers(layers.of_broker, {MIN_IN_SYNC: value, **layers.of_cluster}, layers.of_file)


def _of_broker(name: str, texts: Mapping[str, str], layers: ConfigLayers) -> DescribedSetting:
    key = dynamic_configs.key_of(name)
    synonyms = _synonyms(name, layers)
    is_read_only = not dynamic_configs.is_dynamic(name)
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    if key is None or key.type is Type.PASSWORD:
        code = UNKNOWN_TYPE if key is None else TYPE_CODES[key.type]
        return DescribedSetting(name, None, source, code, True, is_read_only, synonyms)
    value = texts.get(name, key.default)
    if name in texts and name in KAFKA_SETTINGS:
        value = _text(parse_key(name, key, texts[name]))
    return DescribedSetting(
        name, value, source, TYPE_CODES[key.type], False, is_read_only, synonyms
    )


def _synonyms(name: str, layers: ConfigLayers) -> list[SynonymValue]:
    names = dynamic_configs.synonyms(name)
    synonyms = [
        SynonymValue(each, _open(each, layer[each]), source)
        for layer, source in (
            (layers.of_broker, ConfigSource.DYNAMIC_BROKER),
            (layers.of_cluster, ConfigSource.CLUSTER),
            (layers.of_file, ConfigSource.BROKER),
        )
        for each in names
        if each in layer
    ]
    for other in names:
        key = KAFKA_SETTINGS.get(other) if other not in AUTHORIZERS else None
        if key is not None and key.default is not None:
            synonyms.append(SynonymValue(other, _open(other, key.default), ConfigSource.DEFAULT))
    return list(dropwhile(lambda synonym: synonym.name != name, synonyms))


def _open(name: str, value: str) -> str | None:
    """The value, unless it may be secret."""
    return None if dynamic_configs.is_secret(name) else value


def _text(value: Value) -> str:
    """A value as Kafka writes it, without repeated elements of a list."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(dict.fromkeys(value))
    return str(value)
