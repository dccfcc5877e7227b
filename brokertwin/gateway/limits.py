"""Limits on clients, under the names of Kafka's broker settings."""

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
"""Kafka's name of a setting, and the field of `GatewayLimits`."""

DYNAMIC = {CONNECTIONS, "max.connections.per.ip", CREATION_RATE, PER_IP_OVERRIDES}
"""Settings that can be altered while a broker runs."""

_OWN = {CONNECTIONS: "own_connections", CREATION_RATE: "own_creation_rate"}
"""Settings that a listener can also have under its prefix; then both limits apply."""

_ANY = 2**31 - 1

_log = structlog.get_logger("brokertwin.gateway")


def settings_used(listener: str) -> frozenset[str]:
    return frozenset(SETTINGS) | {f"{prefix_of(listener)}{name}" for name in _OWN}


class GatewayLimits(NamedTuple):
    """Sizes in bytes, times in ms; a negative idle time means no limit.

    `requests_ahead` is the maximum number of pending requests of a connection; beyond it the
    connection is not read. `per_ip_overrides` has connection limits of single addresses.
    `creation_rate` is in connections per second over `windows`. `telemetry_bytes` limits a client's
    decompressed metrics. Fields with the prefix `own` belong to the listener.
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
    def of(cls, texts: Mapping[str, str], listener: str = "PLAINTEXT") -> "GatewayLimits":
        """Create limits from broker settings by Kafka's names.

        `texts`: validated texts; only those of the listener's prefix are not validated yet.

        Raises:
            UserError: an override has no number or an unknown host, or a setting of the listener is
                invalid.
        """
        properties = BrokerProperties(texts, listener)
        own = {n: field for n, field in _OWN.items() if properties.of_listener(n) is not None}
        fields = _numbers(texts, SETTINGS) | {own[name]: properties.value(name) for name in own}
        if PER_IP_OVERRIDES in texts:
            fields["per_ip_overrides"] = _overrides(texts[PER_IP_OVERRIDES])
        size_ms = int(texts.get("quota.window.size.seconds", "1")) * 1000
        return cls(
            **fields, windows=QuotaWindows(int(texts.get("quota.window.num", "11")), size_ms)
        )

    def changed(self, texts: Mapping[str, str], listener: str) -> "GatewayLimits":
        """Return the limits with settings altered at runtime; unknown hosts are allowed."""
        prefix = prefix_of(listener)
        own = {field: f"{prefix}{name}" for name, field in _OWN.items()}
        fields = _numbers(texts, DYNAMIC)
        fields |= {field: int(texts[name]) for field, name in own.items() if name in texts}
        if PER_IP_OVERRIDES in texts:
            fields["per_ip_overrides"] = _known_overrides(texts[PER_IP_OVERRIDES])
        return self._replace(**fields)

    @property
    def most(self) -> int:
        return min(self.connections, self.own_connections)

    @property
    def rate(self) -> RateLimit:
        return RateLimit(min(self.creation_rate, self.own_creation_rate), self.windows)

    def connections_of(self, host: str) -> int:
        return self.per_ip_overrides.get(host, self.connections_per_ip)


def _numbers(texts: Mapping[str, str], names: Iterable[str]) -> dict[str, Any]:
    numbers = [name for name in names if name != PER_IP_OVERRIDES and name in texts]
    return {SETTINGS[name]: int(texts[name]) for name in numbers}


@lru_cache(maxsize=16)
def _known_overrides(text: str) -> Mapping[str, int]:
    """Parse overrides; ignore all if a host is unknown, like Kafka."""
    try:
        return _overrides(text)
    except UserError as error:
        _log.error("a setting has no effect", reason=str(error))
        return MappingProxyType({})


def _overrides(text: str) -> dict[str, int]:
    """Parse `host:number,…`; a host name counts for all its addresses."""
    overrides: dict[str, int] = {}
    for entry in filter(None, (each.strip() for each in text.split(","))):
        host, _, number = entry.rpartition(":")
        try:
            addresses = socket.getaddrinfo(host.strip("[] "), None)
            overrides |= {str(each[4][0]): int(number) for each in addresses}
        except (OSError, ValueError):
            raise UserError(
                f"Invalid entry of {PER_IP_OVERRIDES}: {entry!r}.",
                "Pass known hosts with numbers: 127.0.0.1:200,gateway.example.org:50.",
            ) from None
    return overrides
