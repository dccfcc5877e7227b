"""Validation of listener, connection and class settings when they change.

The messages are Kafka's. Only Kafka's own classes are on the class path, so others are not found.

Source: `KafkaConfig.validateValues`, `ConnectionQuotas`, `DynamicMetricsReporters` in Kafka.
"""

import re

from brokertwin.state.configs import listeners, log_dirs
from brokertwin.state.configs.config_keys import InvalidConfigError, Type
from brokertwin.state.configs.kafka_settings import KAFKA_SETTINGS
from brokertwin.state.configs.listeners import names_of, pairs_of, text_of
from brokertwin.state.core.settings import BrokerSettings

PER_IP_OVERRIDES = "max.connections.per.ip.overrides"
_BUILDER = "principal.builder.class"
_REPORTERS = "metric.reporters"
_OF_KAFKA = ("org.apache.kafka.", "java.")
_HOST = re.compile(r"[0-9a-zA-Z\-%._:]*")
_POSITIVE = ("max.connections", "max.connection.creation.rate")
"""Listener settings that must be positive."""


def class_fault(name: str, text: str) -> str | None:
    """Kafka's message for a class setting when it is parsed."""
    if KAFKA_SETTINGS[name].type is Type.CLASS and text and not text.startswith(_OF_KAFKA):
        return f"Invalid value {text} for configuration {name}: Class {text} could not be found."
    if name == listeners.SETTING and not text:
        return (
            "Configuration 'listeners' must not be empty. Valid values include: any non-empty value"
        )
    if name == listeners.SETTING and not all(each.strip() for each in text.split(",")):
        return "Configuration 'listeners' values must not be empty."
    return None


def settings_error(then: BrokerSettings) -> str | None:
    """Kafka's message for a conflict between settings, as at a start."""
    try:
        overrides = parse_overrides(text_of(then, PER_IP_OVERRIDES))
        if int(text_of(then, "max.connections.per.ip")) == 0 and not overrides:
            return (
                "requirement failed: max.connections.per.ip can be set to zero only if"
                f" {PER_IP_OVERRIDES} property is set."
            )
        invalid = [host for host in overrides if not _HOST.fullmatch(host)]
        if invalid:
            return f"{PER_IP_OVERRIDES} contains invalid addresses : {','.join(invalid)}"
        listeners.check(then)
    except InvalidConfigError as error:
        return str(error)
    names = {log_dirs.ALL, *log_dirs.of(then)}
    missing = [each for each in names_of(then, log_dirs.CORDONED) if each not in names]
    if missing:
        return (
            f"requirement failed: All entries in {log_dirs.CORDONED} must be present in log.dirs or"
            f" log.dir. Missing entries : {', '.join(missing)}"
        )
    builder = text_of(then, _BUILDER)
    if not builder.startswith("org.apache.kafka.common.security.authenticator."):
        return f"requirement failed: {_BUILDER} must implement KafkaPrincipalSerde"
    return None


def running_error(then: BrokerSettings, now: BrokerSettings) -> str | None:
    """Kafka's message of running listeners or metrics reporters that reject the change."""
    message = listeners.running_error(then, now)
    if message is not None:
        return message
    for listener in listeners.of_data(now):
        for name in _POSITIVE:
            if not int(listeners.of_listener(then, listener, name)):
                return f"Invalid {name} 0"
    if any(each != KAFKA_SETTINGS[_REPORTERS].default for each in names_of(then, _REPORTERS)):
        return (
            f"Validation of dynamic config update of Set({_REPORTERS}) failed with class class"
            " kafka.server.DynamicMetricsReporters"
        )
    return None


def parse_overrides(text: str) -> dict[str, int]:
    """Connection limits of single hosts, from `host:number,…`.

    Raises:
        InvalidConfigError: invalid text; with Java's message.
    """
    return {host: _int(number) for host, number in pairs_of(PER_IP_OVERRIDES, text)}


def _int(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text) or not -(2**31) <= int(text) < 2**31:
        raise InvalidConfigError(f'For input string: "{text}"')
    return int(text)
