"""Settings of brokers that change while they run: which may, with which values, what then holds.

A broker has a setting of its own, else that of all brokers, else what it was given at the start,
else Kafka's default (KIP-226). Names that Kafka does not know are taken as they are; so are, here,
classes, listeners and whatever else the edge decides. The words of the errors are Kafka's.

Source: `DynamicBrokerConfig`, `DynamicConfig`, `KafkaConfig.validateValues` in Kafka.
"""

import re
from collections.abc import Mapping

import msgspec

from brokerstream.state.configs.broker_config import SETTINGS, TYPED
from brokerstream.state.configs.config_keys import ConfigKey, InvalidConfigError, Type, Value
from brokerstream.state.configs.config_keys import parse as parse_key
from brokerstream.state.configs.kafka_settings import KAFKA_SETTINGS
from brokerstream.state.configs.setting_kinds import (
    AUTHORIZERS,
    DYNAMIC,
    DYNAMIC_ONLY,
    OF_ALL_LISTENERS,
    OF_LISTENERS,
    OF_ONE_BROKER,
)
from brokerstream.state.core.java_hashes import hash_order
from brokerstream.state.core.settings import BrokerSettings, Layers

_LADDERS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
"""Settings that stand for one another, the first that was given counts."""

_SYNONYMS = {name: ladder for ladder in _LADDERS for name in ladder} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}

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

_DOUBLED_OR_HALVED = (
    "num.io.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    "num.network.threads",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
"""Counts of threads, which change by a factor of two at most."""

_CLEANERS = "log.cleaner.threads"


def key_of(name: str) -> ConfigKey | None:
    """The key of a setting that a broker itself knows, also of one that is a listener's own."""
    if name in AUTHORIZERS:
        return None
    return KAFKA_SETTINGS.get(_base(name)) or DYNAMIC_ONLY.get(name)


def is_secret(name: str) -> bool:
    """Whether nobody can tell that the value of a setting may be shown."""
    key = key_of(name)
    return key is None or key.type is Type.PASSWORD


def is_dynamic(name: str) -> bool:
    """Whether a setting can be changed without a restart, as DescribeConfigs has it."""
    return name in _CHECKED


def synonyms(name: str) -> tuple[str, ...]:
    """The names by which a setting may be given, the one that counts first."""
    base = _base(name)
    if base == name:
        return _SYNONYMS.get(name, (name,))
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
        for other in _SYNONYMS.get(name, (name,)):
            texts.pop(other, None)
        texts[name] = text
        if name in TYPED and name in _CHECKED:
            typed[TYPED[name]] = parse_key(name, _CHECKED[name], text)
    layers = Layers(dict(of_broker), dict(of_cluster), given.given)
    return msgspec.structs.replace(given, **typed, given=texts, layers=layers)


def fault(
    asked: Mapping[str, str], is_of_broker: bool, given: BrokerSettings, now: BrokerSettings
) -> str | None:
    """What Kafka would say against these settings of a broker, or of all; None: it takes them.

    Args:
        asked: all settings of that resource, as they would be.
        is_of_broker: whether they are for one broker.
        given: the settings that the broker was given at the start.
        now: those that hold for it now.
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
    except InvalidConfigError as error:
        return str(error)
    alone = [name for name in names if name in OF_ONE_BROKER]
    alone += [name for name in names if _is_of_one_listener(name)]
    if alone and not is_of_broker:
        return (
            "Cannot update these configs at default cluster level, broker id must be specified:"
            f" [{', '.join(alone)}]"
        )
    layers = now.layers or Layers({}, {}, {})
    of_cluster, of_broker = layers.of_cluster, layers.of_broker
    wanted = (of_cluster, asked) if is_of_broker else (asked, of_broker)
    return _conflict(layered(given, *wanted), now)


def _may_change(name: str) -> bool:
    return name in _CHECKED or name in AUTHORIZERS  # those Kafka's broker does not know


def _is_of_one_listener(name: str) -> bool:
    return _base(name) != name and _base(name) not in OF_ALL_LISTENERS


def _number(name: str, settings: BrokerSettings) -> int:
    """The value of a setting, in ms where its name has them."""
    for each in _SYNONYMS.get(name, (name,)):
        if each in settings.given:
            scale = {"hours": 3_600_000, "minutes": 60_000}.get(each.rpartition(".")[2], 1)
            return int(settings.given[each]) * scale
    default = KAFKA_SETTINGS[name].default
    if default is not None:
        return int(default)
    last = KAFKA_SETTINGS[_SYNONYMS[name][-1]].default
    return int(last or 0) * 3_600_000


def _conflict(then: BrokerSettings, now: BrokerSettings) -> str | None:
    """What is right by itself, but not beside the other settings, or those that hold now."""
    required = _required(then)
    if required is not None:
        return required
    refused = _refused(then, now)
    if refused is None:
        return None
    return (
        f"Invalid value org.apache.kafka.common.config.ConfigException: {refused}"
        " for configuration Invalid dynamic configuration"
    )


def _required(then: BrokerSettings) -> str | None:
    """What Kafka asks of all settings of a broker, as at its start."""
    if _number("log.roll.ms", then) < 1:
        return "requirement failed: log.roll.ms must be greater than or equal to 1"
    if _number("log.roll.jitter.ms", then) < 0:
        return "requirement failed: log.roll.jitter.ms must be greater than or equal to 0"
    if _number("log.retention.ms", then) == 0:  # less than that is unlimited
        return (
            "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal"
            " to 1"
        )
    threads = _number(_CLEANERS, then)
    if not threads:
        return "/ by zero"
    if _number("log.cleaner.dedupe.buffer.size", then) // threads <= 1024 * 1024:
        return (
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner"
            " thread."
        )
    return None


def _refused(then: BrokerSettings, now: BrokerSettings) -> str | None:
    """What the parts of a broker that runs do not take."""
    for name in _DOUBLED_OR_HALVED:
        wanted, current = _number(name, then), _number(name, now)
        said = f"Dynamic thread count update validation failed for {name}={wanted}, value should"
        if wanted < current // 2:
            return f"{said} be at least half the current value {current}"
        if wanted > current * 2:
            return f"{said} not be greater than double the current value {current}"
    wanted, current = _number(_CLEANERS, then), _number(_CLEANERS, now)
    if wanted < current // 2:
        change = "reduced to less than half"
    elif wanted > current * 2:
        change = "increased to more than double"
    else:
        return _local_retention(then, "ms") or _local_retention(then, "bytes")
    return f"Log cleaner threads cannot be {change} the current value {current}"


def _local_retention(then: BrokerSettings, unit: str) -> str | None:
    """What is kept beside remote storage is at most what is kept at all."""
    name, other = f"log.local.retention.{unit}", f"log.retention.{unit}"
    local, total = _number(name, then), _number(other, then)
    if total < 0 or local == -2:
        return None
    if local == -1:
        reason = f"Value must not be -1 as {other} value is set as {total}."
    elif local > total:
        reason = f"Value must not be more than {other} property value: {total}"
    else:
        return None
    return f"Invalid value {local} for configuration {name}: {reason}"
