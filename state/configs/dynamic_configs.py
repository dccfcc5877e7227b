"""Settings of brokers that change while they run: which may, with which values, what then holds.

A broker has a setting of its own, else that of all brokers, else what it was given at the start,
else Kafka's default (KIP-226). Names that Kafka does not know are taken as they are. The words of
the errors are Kafka's; those about several settings together are in `broker_checks`.

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
"""What a listener may have for each mechanism, whose name then stands before it."""

_CHECKED = {
    **DYNAMIC_ONLY,
    **{name: key for name, key in KAFKA_SETTINGS.items() if name in DYNAMIC},
}


def key_of(name: str) -> ConfigKey | None:
    """The key of a setting that a broker itself knows, also of one that is a listener's own."""
    if name in AUTHORIZERS:
        return None
    return KAFKA_SETTINGS.get(_base(name)) or DYNAMIC_ONLY.get(name)


def is_secret(name: str) -> bool:
    """Whether nobody can tell that the value of a setting may be shown."""
    key = key_of(name)
    return key is None or key.type is Type.PASSWORD


def is_of_store(name: str) -> bool:
    """Whether a setting is about the key or trust store of a listener."""
    return _base(name) != name and _base(name) in OF_LISTENERS


def is_dynamic(name: str) -> bool:
    """Whether a setting can be changed without a restart, as DescribeConfigs has it."""
    return name in _CHECKED


def synonyms(name: str) -> tuple[str, ...]:
    """The names by which a setting may be given, the one that counts first."""
    base = _base(name)
    if base == name:
        return SYNONYMS.get(name, (name,))
    return name, next((each for each in _MECHANISMS if base.endswith(each)), base)


def _base(name: str) -> str:
    """The name without the listener that it is for."""
    found = _LISTENER.fullmatch(name)
    return found[1] if found else name


def layered(
    given: BrokerSettings, of_cluster: Mapping[str, str], of_broker: Mapping[str, str]
) -> BrokerSettings:
    """What holds for a broker that was `given` these settings, with what has changed since."""
    texts = dict(given.given)
    typed: dict[str, Value] = {}
    for name, text in (*of_cluster.items(), *of_broker.items()):
        for other in SYNONYMS.get(name, (name,)):
            texts.pop(other, None)
        texts[name] = text
        if name in TYPED and name in _CHECKED:
            typed[TYPED[name]] = parse_key(name, _CHECKED[name], text)
    layers = ConfigLayers(dict(of_broker), dict(of_cluster), given.given)
    return msgspec.structs.replace(given, **typed, given=texts, layers=layers)


def fault(
    asked: Mapping[str, str],
    is_of_broker: bool,
    given: BrokerSettings,
    now: BrokerSettings,
    of_stores: str | None = None,
) -> str | None:
    """What Kafka would say against these settings of a broker, or of all; None: it takes them.

    Args:
        asked: all settings of that resource, as they would be.
        is_of_broker: whether they are for one broker.
        given: the settings that the broker was given at the start.
        now: those that hold for it now.
        of_stores: what the edge has against the key and trust stores that it would have.
    """
    names = hash_order(asked, len(asked))
    fixed = [name for name in names if name in SETTINGS and not _may_change(name)]
    if fixed:
        return f"Cannot update these configs dynamically: [{', '.join(fixed)}]"
    bare = [name for name in names if name in OF_LISTENERS]
    if bare:
        return (
            "These security configs can be dynamically updated only per-listener using the"
            f" listener prefix: [{', '.join(bare)}]"
        )
    texts = {_base(name): text for name, text in asked.items()}
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
    wanted = (of_cluster, asked) if is_of_broker else (asked, of_broker)
    return broker_checks.conflict(layered(given, *wanted), now, of_stores)


def _check_class(name: str, text: str) -> None:
    said = connection_checks.class_fault(name, text.strip()) if name in DYNAMIC else None
    if said is not None:
        raise InvalidConfigError(said)


def _may_change(name: str) -> bool:
    return name in _CHECKED or name in AUTHORIZERS  # those Kafka's broker does not know


def _is_of_one_listener(name: str) -> bool:
    return _base(name) != name and _base(name) not in OF_ALL_LISTENERS
