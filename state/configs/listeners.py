"""A broker's listeners: parsing, validation, and changes while it runs.

The edge opens an added listener, and closes a removed one. Clients do not learn of either: the
advertised listeners are those of the start, and other listeners have no addresses in metadata. An
advertised listener cannot be removed; without `advertised.listeners` this applies to every listener
ever added. Changing the address of a listener has no effect.

With more than four listeners, Kafka's messages have another order of names.

Source: `SocketServerConfigs.listenerListToEndPoints`, `AbstractKafkaConfig`, `Csv.parseCsvMap`,
`KafkaConfig.validateValues`, `DynamicListenerConfig` in Kafka; responses of 4.3.1.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NamedTuple

from brokertwin.state.configs.config_keys import InvalidConfigError
from brokertwin.state.configs.kafka_settings import KAFKA_SETTINGS
from brokertwin.state.configs.setting_kinds import OF_ALL_LISTENERS, OF_LISTENERS
from brokertwin.state.core.settings import BrokerSettings

SETTING, ADVERTISED = "listeners", "advertised.listeners"
PROTOCOL_MAP = "listener.security.protocol.map"
_CONTROLLERS = "controller.listener.names"
_BETWEEN_BROKERS = "inter.broker.listener.name"
_PROTOCOLS = frozenset({"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"})
_ENDPOINT = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")
_ANY_ADDRESS = "0.0.0.0"
_CHECKED = (SETTING, PROTOCOL_MAP, "principal.builder.class", *sorted(OF_ALL_LISTENERS))
"""Changes of these settings make Kafka check running listeners."""


class BrokerListener(NamedTuple):
    """A listener: name in upper case, host and port."""

    name: str
    host: str
    port: int


def listed(settings: BrokerSettings, setting: str = SETTING) -> list[BrokerListener]:
    """Listeners of a setting.

    Raises:
        InvalidConfigError: invalid listener or unknown protocol, with Kafka's message.
    """
    protocols, texts = protocols_of(settings), names_of(settings, setting)
    head = f"Error creating broker listeners from '[{', '.join(texts)}]':"
    listeners = []
    for each in dict.fromkeys(texts):
        parts = _ENDPOINT.fullmatch(each)
        if not parts:
            raise InvalidConfigError(f"{head} Unable to parse {each} to a broker endpoint")
        name = parts[1].upper()
        if name not in protocols:
            raise InvalidConfigError(f"{head} No security protocol defined for listener {name}")
        listeners.append(BrokerListener(name, parts[2], int(parts[3])))
    return listeners


def opened(settings: BrokerSettings) -> list[BrokerListener]:
    """Listeners added since the start, in the order of the setting.

    Invalid ones are omitted, because validation comes before.
    """
    if settings.layers is None or SETTING not in settings.layers.of_broker:
        return []
    start = BrokerSettings(given=settings.layers.of_file)
    names = {*of_data(start), *_controllers(settings)}
    try:
        return [each for each in listed(settings) if each.name not in names]
    except InvalidConfigError:
        return []


def check(then: BrokerSettings) -> None:
    """Validate listeners. Raises InvalidConfigError with Kafka's message."""
    listeners = listed(then)
    names, controllers = [each.name for each in listeners], _controllers(then)
    is_altered = then.layers is not None and SETTING in then.layers.of_broker
    if is_altered:
        _check_distinct(listeners, names_of(then, SETTING))
    if "controller" in names_of(then, "process.roles") and controllers.isdisjoint(names):
        raise InvalidConfigError(
            f"requirement failed: {_CONTROLLERS} must contain at least one value"
            " appearing in the 'listeners' configuration when running the KRaft controller role"
        )
    if is_altered:
        _check_advertised(then, names)


def _check_distinct(found: list[BrokerListener], texts: list[str]) -> None:
    """Raises InvalidConfigError for repeated names or ports."""
    listeners = f"[{', '.join(texts)}]"
    head = f"Error creating broker listeners from '{listeners}':"
    if len({each.name for each in found}) < len(found):
        raise InvalidConfigError(
            f"{head} Each listener must have a different name, listeners: {listeners}"
        )
    by_port: defaultdict[int, list[str]] = defaultdict(list)
    for each in found:
        by_port[each.port].append(each.host)
    for port, hosts in by_port.items():
        message = _port_fault(hosts) if port and len(hosts) > 1 else None
        if message is not None:
            raise InvalidConfigError(f"{head} {message.format(listeners=listeners, port=port)}")


def _port_fault(hosts: list[str]) -> str | None:
    versions = [version for version in map(_version, hosts) if version]
    if len(hosts) - len(versions) > 1:
        return "Each listener must have a different port, listeners: {listeners}"
    if len(versions) != 2:
        return (
            "Each listener must have a different port unless exactly one listener has an IPv4"
            " address and the other IPv6 address, listeners: {listeners}, port: {port}"
        )
    if len(set(versions)) == 1 or len(hosts) > len(versions):
        return (
            "If you have two listeners on the same port then one needs to be IPv4 and the other"
            " IPv6, listeners: {listeners}, port: {port}"
        )
    return None


def _version(host: str) -> int:
    """4 or 6 for an IP address, 0 for another host."""
    for kind in (IPv4Address, IPv6Address):
        try:
            return kind(host).version
        except AddressValueError:
            continue
    return 0


def _check_advertised(then: BrokerSettings, names: list[str]) -> None:
    """Raises InvalidConfigError if a listener for clients or brokers does not exist."""
    advertised = _advertised(then)
    advertised_names = [each.name for each in advertised]
    if not advertised_names:
        raise InvalidConfigError(
            "requirement failed: There must be at least one broker advertised listener. Perhaps"
            f" all listeners appear in {_CONTROLLERS}?"
        )
    between = text_of(then, _BETWEEN_BROKERS) or text_of(then, "security.inter.broker.protocol")
    if between.upper() not in advertised_names:
        raise InvalidConfigError(
            f"requirement failed: {_BETWEEN_BROKERS} must be a listener name defined in"
            f" {ADVERTISED}. The valid options based on currently configured listeners are"
            f" {','.join(advertised_names)}"
        )
    if not set(advertised_names) <= set(names):
        found_names = ",".join(advertised_names)
        raise InvalidConfigError(
            f"requirement failed: {ADVERTISED} listener names must be equal to or a subset of the"
            f" ones defined in {SETTING}. Found {found_names}. The valid options based on the"
            f" current configuration are {','.join(names)}"
        )
    if any(each.host == _ANY_ADDRESS for each in advertised):
        raise InvalidConfigError(
            f"requirement failed: {ADVERTISED} cannot use the nonroutable meta-address"
            f" {_ANY_ADDRESS}. Use a routable IP address."
        )


def _advertised(settings: BrokerSettings) -> list[BrokerListener]:
    """Listeners for clients: the advertised ones, else all except the controllers'."""
    if text_of(settings, ADVERTISED):
        return listed(settings, ADVERTISED)
    controllers = _controllers(settings)
    return [each for each in listed(settings) if each.name not in controllers]


def running_error(then: BrokerSettings, now: BrokerSettings) -> str | None:
    """Kafka's message of running listeners that reject the change."""
    if all(then.given.get(each) == now.given.get(each) for each in _CHECKED):
        return None
    names = [each.name for each in listed(then)]
    advertised_names = [each.name for each in _advertised(now)]
    if not set(advertised_names) <= set(names):
        return (
            f"Advertised listeners '{_set_of(advertised_names)}' must be a subset of listeners"
            f" '{_set_of(names)}'"
        )
    before, after = protocols_of(now), protocols_of(then)
    for listener in of_data(now):
        if listener not in names:
            continue
        if _fixed(then, listener) != _fixed(now, listener):
            return (
                "Configs cannot be updated dynamically for existing listener"
                f" ListenerName({listener}), restart broker or create a new listener for update"
            )
        if before.get(listener) != after[listener]:
            return (
                "Security protocol cannot be updated for existing listener"
                f" ListenerName({listener})"
            )
    return None


def _set_of(names: Iterable[str]) -> str:
    return f"Set({', '.join(f'ListenerName({each})' for each in names)})"


def _fixed(settings: BrokerSettings, listener: str) -> dict[str, str]:
    """A listener's own settings that cannot change while it exists."""
    prefix = f"listener.name.{listener.lower()}."
    own = {n.removeprefix(prefix): t for n, t in settings.given.items() if n.startswith(prefix)}
    return {n: t for n, t in own.items() if n not in OF_LISTENERS and n not in OF_ALL_LISTENERS}


def _controllers(settings: BrokerSettings) -> frozenset[str]:
    return frozenset(each.upper() for each in names_of(settings, _CONTROLLERS))


def of_listener(settings: BrokerSettings, listener: str, name: str) -> str:
    """A setting for a listener: its own, else the broker's."""
    own = settings.given.get(f"listener.name.{listener.lower()}.{name}")
    return text_of(settings, name) if own is None else own.strip()


def of_data(settings: BrokerSettings) -> list[str]:
    controllers = _controllers(settings)
    names = (each.partition("://")[0].strip().upper() for each in names_of(settings, SETTING))
    return [each for each in names if each not in controllers]


def protocols_of(settings: BrokerSettings) -> dict[str, str]:
    protocols = {}
    for name, protocol in pairs_of(PROTOCOL_MAP, text_of(settings, PROTOCOL_MAP)):
        if protocol.upper() not in _PROTOCOLS:
            raise InvalidConfigError(
                f"Invalid security protocol `{protocol}` defined in {PROTOCOL_MAP}"
            )
        protocols[name.upper()] = protocol.upper()
    return protocols


def pairs_of(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Pairs of a list of `key:value`; Java drops empty entries at the end."""
    for entry in re.split(r"\s*,\s*", text.strip().rstrip(", ")) if text.strip() else ():
        key, colon, value = entry.rpartition(":")
        if not colon:
            reason = f"begin 0, end -1, length {len(entry)}"
            raise InvalidConfigError(f"Error parsing configuration property '{name}': {reason}")
        yield key.strip(), value.strip()


def names_of(settings: BrokerSettings, name: str) -> list[str]:
    return [each.strip() for each in text_of(settings, name).split(",") if each.strip()]


def text_of(settings: BrokerSettings, name: str) -> str:
    """A setting's text, or Kafka's default."""
    texts: Mapping[str, str] = settings.given
    return texts.get(name, KAFKA_SETTINGS[name].default or "").strip()
