"""What Kafka asks of a broker's settings of listeners, connections and classes while it runs.

The words of the errors are Kafka's. A class of another name than those that Kafka brings is not
found: nothing but Kafka's own is on the class path.

Source: `SocketServerConfigs.listenerListToEndPoints`, `AbstractKafkaConfig`, `Csv.parseCsvMap`,
`KafkaConfig.validateValues`, `ConnectionQuotas`, `DynamicListenerConfig`, `DynamicMetricsReporters`
in Kafka.
"""

import re
from collections.abc import Iterator, Mapping

from brokerstream.state.configs.config_keys import InvalidConfigError, Type
from brokerstream.state.configs.kafka_settings import KAFKA_SETTINGS
from brokerstream.state.core.settings import BrokerSettings

PER_IP_OVERRIDES = "max.connections.per.ip.overrides"
_PROTOCOL_MAP = "listener.security.protocol.map"
_BUILDER = "principal.builder.class"
_REPORTERS = "metric.reporters"
_CORDONED = "cordoned.log.dirs"
_PROTOCOLS = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_OF_KAFKA = ("org.apache.kafka.", "java.")
_HOST = re.compile(r"[0-9a-zA-Z\-%._:]*")
_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_POSITIVE = ("max.connections", "max.connection.creation.rate")
"""What a listener may not have none of."""


def class_fault(name: str, text: str) -> str | None:
    """What Kafka says of the class that a setting names, as it reads it."""
    if KAFKA_SETTINGS[name].type is Type.CLASS and text and not text.startswith(_OF_KAFKA):
        return f"Invalid value {text} for configuration {name}: Class {text} could not be found."
    if name == "listeners" and not text:
        return (
            "Configuration 'listeners' must not be empty. Valid values include: any non-empty value"
        )
    return None


def required(then: BrokerSettings) -> str | None:
    """What Kafka asks of all settings of a broker, as at its start."""
    try:
        overrides = parse_overrides(_text(then, PER_IP_OVERRIDES))
        if int(_text(then, "max.connections.per.ip")) == 0 and not overrides:
            return (
                "requirement failed: max.connections.per.ip can be set to zero only if"
                f" {PER_IP_OVERRIDES} property is set."
            )
        invalid = [host for host in overrides if not _HOST.fullmatch(host)]
        if invalid:
            return f"{PER_IP_OVERRIDES} contains invalid addresses : {','.join(invalid)}"
        _endpoints(then)
    except InvalidConfigError as error:
        return str(error)
    missing = [each for each in _names(then, _CORDONED) if each not in {"*", *_log_dirs(then)}]
    if missing:
        return (
            f"requirement failed: All entries in {_CORDONED} must be present in log.dirs or"
            f" log.dir. Missing entries : {', '.join(missing)}"
        )
    builder = _text(then, _BUILDER)
    if not builder.startswith("org.apache.kafka.common.security.authenticator."):
        return f"requirement failed: {_BUILDER} must implement KafkaPrincipalSerde"
    return None


def refused(then: BrokerSettings, now: BrokerSettings) -> str | None:
    """What the listeners of a broker that runs do not take, nor its reporters of metrics."""
    before, after = _protocols(now), _protocols(then)
    for listener in data_listeners(now):
        if listener in after and before.get(listener) != after[listener]:
            return (
                "Security protocol cannot be updated for existing listener"
                f" ListenerName({listener})"
            )
        for name in _POSITIVE:
            if not int(of_listener(then, listener, name)):
                return f"Invalid {name} 0"
    if any(each != KAFKA_SETTINGS[_REPORTERS].default for each in _names(then, _REPORTERS)):
        return (
            f"Validation of dynamic config update of Set({_REPORTERS}) failed with class class"
            " kafka.server.DynamicMetricsReporters"
        )
    return None


def of_listener(settings: BrokerSettings, listener: str, name: str) -> str:
    """The text of a setting that a listener may have for itself."""
    own = settings.given.get(f"listener.name.{listener.lower()}.{name}")
    return _text(settings, name) if own is None else own.strip()


def data_listeners(settings: BrokerSettings) -> list[str]:
    """The names of the listeners that are not the controllers'."""
    controllers = _names(settings, "controller.listener.names")
    found = (each.partition("://")[0].strip().upper() for each in _names(settings, "listeners"))
    return [each for each in found if each not in controllers]


def parse_overrides(text: str) -> dict[str, int]:
    """How many connections single hosts may have, from `host:number,…`.

    Raises:
        InvalidConfigError: it is no such list; in Java's words.
    """
    return {host: _int(number) for host, number in _pairs(PER_IP_OVERRIDES, text)}


def _pairs(name: str, text: str) -> Iterator[tuple[str, str]]:
    """The pairs of a list of `key:value`; Java drops what is empty at its end."""
    for entry in re.split(r"\s*,\s*", text.strip().rstrip(", ")) if text.strip() else ():
        key, colon, value = entry.rpartition(":")
        if not colon:
            reason = f"begin 0, end -1, length {len(entry)}"
            raise InvalidConfigError(f"Error parsing configuration property '{name}': {reason}")
        yield key.strip(), value.strip()


def _int(text: str) -> int:
    if not re.fullmatch(r"[+-]?[0-9]+", text) or not -(2**31) <= int(text) < 2**31:
        raise InvalidConfigError(f'For input string: "{text}"')
    return int(text)


def _endpoints(then: BrokerSettings) -> None:
    """Raises InvalidConfigError where listeners are none, or nobody knows what they speak."""
    protocols, listeners = _protocols(then), _names(then, "listeners")
    head = f"Error creating broker listeners from '[{', '.join(listeners)}]':"
    for each in listeners:
        found = _ENDPOINT.fullmatch(each)
        if not found:
            raise InvalidConfigError(f"{head} Unable to parse {each} to a broker endpoint")
        name = found[1].upper()
        if name not in protocols:
            raise InvalidConfigError(f"{head} No security protocol defined for listener {name}")
    names = {each.partition("://")[0].upper() for each in listeners}
    controllers = _names(then, "controller.listener.names")
    if "controller" in _names(then, "process.roles") and not names.intersection(controllers):
        raise InvalidConfigError(
            "requirement failed: controller.listener.names must contain at least one value"
            " appearing in the 'listeners' configuration when running the KRaft controller role"
        )


def _protocols(settings: BrokerSettings) -> dict[str, str]:
    """What the listeners speak, by their names."""
    found = {}
    for name, protocol in _pairs(_PROTOCOL_MAP, _text(settings, _PROTOCOL_MAP)):
        if protocol.upper() not in _PROTOCOLS:
            raise InvalidConfigError(
                f"Invalid security protocol `{protocol}` defined in {_PROTOCOL_MAP}"
            )
        found[name.upper()] = protocol.upper()
    return found


def _log_dirs(settings: BrokerSettings) -> list[str]:
    return _names(settings, "log.dirs") or _names(settings, "log.dir")


def _names(settings: BrokerSettings, name: str) -> list[str]:
    return [each.strip() for each in _text(settings, name).split(",") if each.strip()]


def _text(settings: BrokerSettings, name: str) -> str:
    given: Mapping[str, str] = settings.given
    return given.get(name, KAFKA_SETTINGS[name].default or "").strip()
