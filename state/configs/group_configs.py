"""Settings of groups: names, types, broker defaults, validation.

A group without its own value has the broker's `group.` setting. A value outside of the broker's
current bounds counts as the nearest bound.

Source: `GroupConfig`, `GroupConfigManager` in Kafka; responses of 4.3.1.
"""

from collections.abc import Mapping

from brokertwin.state.configs import durations
from brokertwin.state.configs.config_keys import (
    BOOLEAN,
    INT,
    LIST,
    STRING,
    ConfigKey,
    InvalidConfigError,
    parse,
)
from brokertwin.state.configs.kafka_settings import KAFKA_SETTINGS
from brokertwin.state.core.java_hashes import hash_order
from brokertwin.state.core.settings import BrokerSettings

SESSION = "consumer.session.timeout.ms"
HEARTBEAT = "consumer.heartbeat.interval.ms"
ASSIGNMENT = "consumer.assignment.interval.ms"
_OFFSET_RESET = "share.auto.offset.reset"
_STANDBY = "streams.num.standby.replicas"
_ASSIGNOR = "streams.assignor.name"
DEAD_LETTERS = "errors.deadletterqueue.topic.name"
BY_DURATION = "by_duration:"

GROUP_CONFIGS: dict[str, ConfigKey] = {
    SESSION: ConfigKey(INT, "45000", 1),
    HEARTBEAT: ConfigKey(INT, "5000", 1),
    ASSIGNMENT: ConfigKey(INT, "1000", 0),
    "share.session.timeout.ms": ConfigKey(INT, "45000", 1),
    "share.heartbeat.interval.ms": ConfigKey(INT, "5000", 1),
    "share.record.lock.duration.ms": ConfigKey(INT, "30000", 1000),
    "share.delivery.count.limit": ConfigKey(INT, "5", 2),
    "share.partition.max.record.locks": ConfigKey(INT, "2000", 100),
    _OFFSET_RESET: ConfigKey(STRING, "latest"),
    "share.assignment.interval.ms": ConfigKey(INT, "1000", 0),
    "share.isolation.level": ConfigKey(
        STRING, "read_uncommitted", choices=("read_committed", "read_uncommitted")
    ),
    "share.renew.acknowledge.enable": ConfigKey(BOOLEAN, "true"),
    "streams.session.timeout.ms": ConfigKey(INT, "45000", 1),
    "streams.heartbeat.interval.ms": ConfigKey(INT, "5000", 1),
    _STANDBY: ConfigKey(INT, "0", 0),
    "streams.initial.rebalance.delay.ms": ConfigKey(INT, "3000", 0),
    "streams.assignment.interval.ms": ConfigKey(INT, "1000", 0),
    "streams.rack.aware.assignment.tags": ConfigKey(LIST, "", is_of_4_4=True),
    _ASSIGNOR: ConfigKey(STRING, "sticky", is_of_4_4=True),
    DEAD_LETTERS: ConfigKey(STRING, "", is_of_4_4=True),
    "errors.deadletterqueue.copy.record.enable": ConfigKey(BOOLEAN, "false", is_of_4_4=True),
}
"""Every setting of a group."""

_OF_4_3 = {name: key for name, key in GROUP_CONFIGS.items() if not key.is_of_4_4}

_BOUNDED = (
    *(HEARTBEAT, SESSION, ASSIGNMENT, "share.heartbeat.interval.ms", "share.session.timeout.ms"),
    *("share.record.lock.duration.ms", "share.delivery.count.limit"),
    *("share.partition.max.record.locks", "share.assignment.interval.ms"),
    *("streams.heartbeat.interval.ms", "streams.session.timeout.ms", _STANDBY),
    "streams.assignment.interval.ms",
)
"""Settings bounded by the broker's, in Kafka's order of validation."""


def known(settings: BrokerSettings) -> Mapping[str, ConfigKey]:
    """Return the settings of groups of the brokers' release."""
    return GROUP_CONFIGS if settings.is_4_4 else _OF_4_3


def synonym(name: str) -> str | None:
    if name == _ASSIGNOR:
        return "group.streams.assignors"
    found = f"group.{name}"
    return found if found in KAFKA_SETTINGS else None


def number(name: str, configs: Mapping[str, str], settings: BrokerSettings) -> int:
    """Value in effect for a group with these settings, within the broker's bounds."""
    if name not in configs:
        return of_broker(f"group.{name}", settings)
    value = int(configs[name])
    least, most = (_bound(name, side, settings) for side in ("min", "max"))
    value = value if most is None else min(value, most[1])
    return value if least is None else max(value, least[1])


def fault(configs: Mapping[str, str], settings: BrokerSettings) -> str | None:
    """Kafka's message if it rejects these settings of a group, or None."""
    for name in hash_order(sorted(configs), len(configs)):
        if name not in known(settings):
            return f"Unknown group config name: {name}"
    try:
        for name, key in GROUP_CONFIGS.items():
            if name in configs:
                _check(name, key, configs[name])
    except InvalidConfigError as error:
        return str(error)
    return _out_of_bounds(configs, settings) or _too_short(configs, settings)


def _check(name: str, key: ConfigKey, text: str) -> None:
    value = parse(name, key, text)
    if name == DEAD_LETTERS and str(value).startswith("__"):
        raise InvalidConfigError(f"{name}: DLQ topic name must not start with '__'")
    if name == _ASSIGNOR and value != key.default:
        raise InvalidConfigError(
            f"{name} '{value}' is not a registered task assignor."
            f" Registered assignors are: [{key.default}]."
        )
    if name == _OFFSET_RESET and not _is_reset(str(value)):
        raise InvalidConfigError(
            f"Invalid value {value} for configuration {name}: Invalid value `{value}` for"
            f" configuration {name}. The value must be either 'earliest', 'latest' or of the format"
            " 'by_duration:<PnDTnHnMn.nS>'."
        )


def _is_reset(value: str) -> bool:
    if not value.startswith(BY_DURATION):
        return value in ("earliest", "latest")
    duration = durations.nanoseconds(value.removeprefix(BY_DURATION))
    return duration is not None and duration >= 0


def _out_of_bounds(configs: Mapping[str, str], settings: BrokerSettings) -> str | None:
    for name in _BOUNDED:
        if name not in configs:
            continue
        value = int(configs[name])
        least, most = (_bound(name, side, settings) for side in ("min", "max"))
        if settings.is_4_4 and least is not None and most is not None:
            if not least[1] <= value <= most[1]:
                return f"{name} must be in the range {least[1]} to {most[1]} inclusive."
            continue
        if least is not None and value < least[1]:
            return f"{name} must be greater than or equal to {least[0]}"
        if most is not None and value > most[1]:
            return f"{name} must be less than or equal to {most[0]}"
    return None


def _too_short(configs: Mapping[str, str], settings: BrokerSettings) -> str | None:
    """A session timeout must exceed the heartbeat interval."""
    for kind in ("consumer", "share", "streams"):
        names = (f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms")
        session, heartbeat = (
            int(configs[each]) if each in configs else of_broker(f"group.{each}", settings)
            for each in names
        )
        if session <= heartbeat:
            return f"{names[0]} must be greater than {names[1]}"
    return None


def _bound(name: str, side: str, settings: BrokerSettings) -> tuple[str, int] | None:
    kind, rest = name.split(".", 1)
    bound = f"group.{kind}.{side}.{rest}"
    if name == _STANDBY:
        bound = f"group.streams.{side}.standby.replicas"
    return (bound, of_broker(bound, settings)) if bound in KAFKA_SETTINGS else None


def of_broker(name: str, settings: BrokerSettings) -> int:
    """A numeric broker setting: given, else Kafka's default."""
    return int(settings.given.get(name, KAFKA_SETTINGS[name].default or "0"))
