"""Validation of all settings of a broker when some of them change.

Each value is valid by itself; here it is compared with the others and with the current ones. The
messages are Kafka's.

Source: `KafkaConfig.validateValues`, `DynamicThreadPool`, `DynamicLogConfig`, `LogCleaner`,
`SocketServer` and `ConnectionQuotas` (`validateReconfiguration` of each) in Kafka.
"""

from brokertwin.state.configs import connection_checks, listeners
from brokertwin.state.configs.kafka_settings import KAFKA_SETTINGS
from brokertwin.state.core.settings import BrokerSettings

_LADDERS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
"""Synonyms; the first given one applies."""

SYNONYMS = {name: ladder for ladder in _LADDERS for name in ladder} | {
    "log.flush.interval.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms")
}

_DOUBLED_OR_HALVED = (
    "num.io.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
"""Thread counts, which may change at most by a factor of two."""

_CLEANERS = "log.cleaner.threads"
_NETWORK = "num.network.threads"
"""A setting of each listener."""


def number(name: str, settings: BrokerSettings) -> int:
    """Value of a setting, in ms for times."""
    for each in SYNONYMS.get(name, (name,)):
        if each in settings.given:
            scale = {"hours": 3_600_000, "minutes": 60_000}.get(each.rpartition(".")[2], 1)
            return int(settings.given[each]) * scale
    default = KAFKA_SETTINGS[name].default
    if default is not None:
        return int(default)
    last = KAFKA_SETTINGS[SYNONYMS[name][-1]].default
    return int(last or 0) * 3_600_000


def conflict(then: BrokerSettings, now: BrokerSettings, of_stores: str | None = None) -> str | None:
    """Kafka's message for settings that conflict with others or with current ones.

    Of the running components, key and trust stores are checked first, because listeners were
    started first.
    """
    required = _settings_error(then)
    if required is not None:
        return required
    refused = of_stores or _running_error(then, now)
    if refused is None:
        return None
    return (
        f"Invalid value org.apache.kafka.common.config.ConfigException: {refused}"
        " for configuration Invalid dynamic configuration"
    )


def _settings_error(then: BrokerSettings) -> str | None:
    """Kafka's message for a conflict between settings, as at a start."""
    if number("log.roll.ms", then) < 1:
        return "requirement failed: log.roll.ms must be greater than or equal to 1"
    if number("log.roll.jitter.ms", then) < 0:
        return "requirement failed: log.roll.jitter.ms must be greater than or equal to 0"
    if number("log.retention.ms", then) == 0:  # less than that is unlimited
        return (
            "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal"
            " to 1"
        )
    threads = number(_CLEANERS, then)
    if not threads:
        return "/ by zero"
    if number("log.cleaner.dedupe.buffer.size", then) // threads <= 1024 * 1024:
        return (
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner"
            " thread."
        )
    return connection_checks.settings_error(then)


def _running_error(then: BrokerSettings, now: BrokerSettings) -> str | None:
    """Kafka's message of a running component that rejects the change."""
    counts = [(name, number(name, then), number(name, now)) for name in _DOUBLED_OR_HALVED]
    for listener in listeners.of_data(now):
        own, current = (int(listeners.of_listener(e, listener, _NETWORK)) for e in (then, now))
        counts.append((_NETWORK, own, current))
    for name, count, current in counts:
        message = f"Dynamic thread count update validation failed for {name}={count}, value should"
        if count < current // 2:
            return f"{message} be at least half the current value {current}"
        if count > current * 2:
            return f"{message} not be greater than double the current value {current}"
    count, current = number(_CLEANERS, then), number(_CLEANERS, now)
    if count < current // 2:
        change = "reduced to less than half"
    elif count > current * 2:
        change = "increased to more than double"
    else:
        return (
            connection_checks.running_error(then, now)
            or _local_retention(then, "ms")
            or _local_retention(then, "bytes")
        )
    return f"Log cleaner threads cannot be {change} the current value {current}"


def _local_retention(then: BrokerSettings, unit: str) -> str | None:
    """Retention besides remote storage is at most the total retention."""
    name, other = f"log.local.retention.{unit}", f"log.retention.{unit}"
    local, total = number(name, then), number(other, then)
    if total < 0 or local == -2:
        return None
    if local == -1:
        reason = f"Value must not be -1 as {other} value is set as {total}."
    elif local > total:
        reason = f"Value must not be more than {other} property value: {total}"
    else:
        return None
    return f"Invalid value {local} for configuration {name}: {reason}"
