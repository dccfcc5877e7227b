"""What clients may take of the gateway, under the names of Kafka's own broker settings."""

import socket
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

import structlog

from brokertwin.errors import UserError
from brokertwin.gateway.admin.broker_properties import BrokerProperties, prefix_of
from brokertwin.gateway.bounded_rates import RateLimit
from brokertwin.state.cluster.quota_rates import QuotaWindows

PER_IP_OVERRIDES = "max.connections.per.ip.overrides"
CONNECTIONS, CREATION_RATE = "max.connections", "max.connection.creation.rate"
SETTINGS = {
    "socket.request.max.bytes": "frame_bytes",
    CONNECTIONS: "connections",
    "max.connections.per.ip": "connections_per_ip",
    CREATION_RATE: "creation_rate",
    "connections.max.idle.ms": "idle_ms",
    "queued.max.requests": "requests_ahead",
    PER_IP_OVERRIDES: "per_ip_overrides",
    "telemetry.max.bytes": "telemetry_bytes",
}
"""Kafka's name of a setting and its field here."""

DYNAMIC = {CONNECTIONS, "max.connections.per.ip", CREATION_RATE, PER_IP_OVERRIDES}
"""Those that change while a broker runs."""

_OWN = {CONNECTIONS: "own_connections", CREATION_RATE: "own_creation_rate"}
"""What a listener may have for itself; both then hold."""

_ANY = 2**31 - 1

_log = structlog.get_logger("brokertwin.gateway")


def settings_heeded(listener: str) -> frozenset[str]:
    """The settings that have an effect, those of the listener's own included."""
    return frozenset(SETTINGS) | {f"{prefix_of(listener)}{name}" for name in _OWN}


class Limits(NamedTuple):
    """Sizes in bytes, times in ms; a negative idle time is none.

    `requests_ahead` counts, for each connection, the requests that were read and not answered yet;
    beyond it nothing more is read from that connection. `per_ip_overrides` has the number of
    connections for single addresses. `creation_rate` is how many may come in a second, over the
    samples of `windows`. `telemetry_bytes` are those of a client's metrics, decompressed. Those
    that begin with `own` are the listener's.
    """

    frame_bytes: int = 100 * 1024 * 1024
    connections: int = 1000
    connections_per_ip: int = _ANY
    per_ip_overrides: Mapping[str, int] = MappingProxyType({})
    idle_ms: int = 600_000
    requests_ahead: int = 64
    creation_rate: int = _ANY
    own_connections: int = _ANY
    own_creation_rate: int = _ANY
    windows: QuotaWindows = QuotaWindows(11, 1000)
    telemetry_bytes: int = 1024 * 1024

    @classmethod
    def of(cls, given: Mapping[str, str], listener: str = "PLAINTEXT") -> "Limits":
        """The limits that broker settings give, by Kafka's names; the rest is as above.

        Args:
            given: the texts of settings that are checked, but for those of the listener alone.
            listener: whose limits they are.

        Raises:
            UserError: the overrides do not say a number for a host that is known; a limit of the
                listener alone is none.
        """
        properties = BrokerProperties(given, listener)
        own = {n: field for n, field in _OWN.items() if properties.of_listener(n) is not None}
        fields = _numbers(given, SETTINGS) | {own[name]: properties.value(name) for name in own}
        if PER_IP_OVERRIDES in given:
            fields["per_ip_overrides"] = _overrides(given[PER_IP_OVERRIDES])
        size_ms = int(given.get("quota.window.size.seconds", "1")) * 1000
        return cls(
            **fields, windows=QuotaWindows(int(given.get("quota.window.num", "11")), size_ms)
        )

    def changed(self, given: Mapping[str, str], listener: str) -> "Limits":
        """They where a broker was given these settings while it runs; hosts may be unknown."""
        prefix = prefix_of(listener)
        own = {field: f"{prefix}{name}" for name, field in _OWN.items()}
        fields = _numbers(given, DYNAMIC)
        fields |= {field: int(given[name]) for field, name in own.items() if name in given}
        if PER_IP_OVERRIDES in given:
            fields["per_ip_overrides"] = _known_overrides(given[PER_IP_OVERRIDES])
        return self._replace(**fields)

    @property
    def most(self) -> int:
        """How many connections there may be."""
        return min(self.connections, self.own_connections)

    @property
    def rate(self) -> RateLimit:
        """How fast they may come, from wherever."""
        return RateLimit(min(self.creation_rate, self.own_creation_rate), self.windows)

    def connections_of(self, host: str) -> int:
        """How many connections an address may have."""
        return self.per_ip_overrides.get(host, self.connections_per_ip)


def _numbers(given: Mapping[str, str], names: Iterable[str]) -> dict[str, Any]:
    """The fields that are numbers, of a broker's settings."""
    numbers = [name for name in names if name != PER_IP_OVERRIDES and name in given]
    return {SETTINGS[name]: int(given[name]) for name in numbers}


@lru_cache(maxsize=16)
def _known_overrides(text: str) -> Mapping[str, int]:
    """As `_overrides`; none where a host is not known, with a line in the log, as by Kafka."""
    try:
        return _overrides(text)
    except UserError as error:
        _log.error("a setting has no effect", reason=str(error))
        return MappingProxyType({})


def _overrides(text: str) -> dict[str, int]:
    """Address to number, from `host:number,…`; a name stands for all its addresses."""
    found: dict[str, int] = {}
    for entry in filter(None, (each.strip() for each in text.split(","))):
        host, _, number = entry.rpartition(":")
        try:
            addresses = socket.getaddrinfo(host.strip("[] "), None)
            found |= {str(each[4][0]): int(number) for each in addresses}
        except (OSError, ValueError):
            raise UserError(
                f"Invalid entry of {PER_IP_OVERRIDES}: {entry!r}.",
                "Pass known hosts with numbers: 127.0.0.1:200,gateway.example.org:50.",
            ) from None
    return found
