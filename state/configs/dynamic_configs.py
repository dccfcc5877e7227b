"""Dynamic broker settings: which may change, validation, precedence (KIP-226).

A broker's own value applies before the cluster's, the static one, and Kafka's default. Names
unknown to Kafka are stored without checks. The messages are Kafka's; those about several settings
are in `broker_checks`.

Source: `DynamicBrokerConfig`, `DynamicConfig` in Kafka.
"""

import re
from collections.abc import Mapping

import msgspec

from brokertwin.state.configs import broker_checks, connection_checks
from brokertwin.state.configs.broker_checks import SYNONYMS
from brokertwin.state.configs.broker_config import SETTINGS, TYPED
from brokertwin.state.configs.config_keys import ConfigKey, InvalidConfigError, Type, Value
from brokertwin.state.configs.config_keys import parse as parse_key
from brokertwin.state.configs.kafka_settings import KAFKA_SETTINGS
from brokertwin.state.configs.setting_kinds import (
    AUTHORIZERS,
    DYNAMIC,
    DYNAMIC_ONLY,
    OF_ALL_LISTENERS,
    OF_LISTENERS,
    OF_ONE_BROKER,
)
from brokertwin.state.core.java_hashes import hash_order
from brokertwin.state.core.settings import BrokerSettings, ConfigLayers

_LISTENER = re.compile(r"listener\.name\.[^.]*\.(.*)")
_MECHANISMS = (
    *("sasl.jaas.config", "sasl.login.callback.handler.class", "sasl.login.class"),
    *("sasl.server.callback.handler.class", "connections.max.reauth.ms"),
)
"""Listener settings for each mechanism, whose name is then a prefix."""

_CHECKED = {
    **DYNAMIC_ONLY,
    **{name: key for name, key in KAFKA_SETTINGS.items() if name in DYNAMIC},
}


def key_of(name: str) -> ConfigKey | None:
    """Key of a setting that the broker knows, including listeners' own settings."""
    if name in AUTHORIZERS:
        return None
    return KAFKA_SETTINGS.get(_base(name)) or DYNAMIC_ONLY.get(name)


def is_secret(name: str) -> bool:
    """True if the value may be secret, or is unknown to the broker."""
    key = key_of(name)
    return key is None or key.type is Type.PASSWORD


def is_of_store(name: str) -> bool:
    """True for settings of a listener's key or trust store."""
    return _base(name) != name and _base(name) in OF_LISTENERS


def is_dynamic(name: str) -> bool:
    """True if a setting can change without a restart, as in DescribeConfigs."""
    return name in _CHECKED


def synonyms(name: str) -> tuple[str, ...]:
    """Names by which a setting can be given, in order of precedence."""
    base = _base(name)
    if base == name:
        return SYNONYMS.get(name, (name,))
    return name, next((each for each in _MECHANISMS if base.endswith(each)), base)


def _base(name: str) -> str:
    match = _LISTENER.fullmatch(name)
    return match[1] if match else name


def layered(
    broker_settings: BrokerSettings, of_cluster: Mapping[str, str], of_broker: Mapping[str, str]
) -> BrokerSettings:
    """Settings in effect at a broker with these static and dynamic settings."""
    texts = dict(broker_settings.given)
    typed: dict[str, Value] = {}
    for name, text in (*of_cluster.items(), *of_broker.items()):
        for other in SYNONYMS.get(name, (name,)):
            texts.pop(other, None)
        texts[name] = text
        if name in TYPED and name in _CHECKED:
            typed[TYPED[name]] = parse_key(name, _CHECKED[name], text)
    layers = ConfigLayers(dict(of_broker), dict(of_cluster), broker_settings.given)
    return msgspec.structs.replace(broker_settings, **typed, given=texts, layers=layers)


def fault(
    changed: Mapping[str, str],
    is_of_broker: bool,
    broker_settings: BrokerSettings,
    now: BrokerSettings,
    of_stores: str | None = None,
) -> str | None:
    """Kafka's message if it rejects these settings of a broker or the cluster, or None.

    Args:
        changed: all settings of the resource after the change.
        is_of_broker: true for one broker, false for the cluster.
        broker_settings: the broker's static settings.
        now: its current settings.
        of_stores: the edge's message about the key and trust stores.
    """
    names = hash_order(changed, len(changed))
    fixed = [name for name in names if name in SETTINGS and not _may_change(name)]
    if fixed:
        return f"Cannot update these configs dynamically: [{', '.join(fixed)}]"
    bare = [name for name in names if name in OF_LISTENERS]
    if bare:
        return (
            "These security configs can be dynamically updated only per-listener using the"
            f" listener prefix: [{', '.join(bare)}]"
        )
    texts = {_base(name): text for name, text in changed.items()}
    try:
        for name, key in _CHECKED.items():
            if name in texts:
                parse_key(name, key, texts[name])
                _check_class(name, texts[name])
    except InvalidConfigError as error:
        return str(error)
    alone = [name for name in names if name in OF_ONE_BROKER]
    alone += [name for name in names if _is_of_one_listener(name)]
    if alone and not is_of_broker:
        return (
            "Cannot update these configs at default cluster level, broker id must be specified:"
            f" [{', '.join(alone)}]"
        )
    layers = now.layers or ConfigLayers({}, {}, {})
    of_cluster, of_broker = layers.of_cluster, layers.of_broker
    wanted = (of_cluster, changed) if is_of_broker else (changed, of_broker)
    return broker_checks.conflict(layered(broker_settings, *wanted), now, of_stores)


def _check_class(name: str, text: str) -> None:
    message = connection_checks.class_fault(name, text.strip()) if name in DYNAMIC else None
    if message is not None:
        raise InvalidConfigError(message)


def _may_change(name: str) -> bool:
    return name in _CHECKED or name in AUTHORIZERS  # Kafka's broker does not know the latter


def _is_of_one_listener(name: str) -> bool:
    return _base(name) != name and _base(name) not in OF_ALL_LISTENERS
