"""What clients may take of the gateway, under the names of Kafka's own broker settings."""

import socket
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from brokerstream.errors import UserError

PER_IP_OVERRIDES = "max.connections.per.ip.overrides"
SETTINGS = {
    "socket.request.max.bytes": "frame_bytes",
    "max.connections": "connections",
    "max.connections.per.ip": "connections_per_ip",
    PER_IP_OVERRIDES: "per_ip_overrides",
    "connections.max.idle.ms": "idle_ms",
    "queued.max.requests": "requests_ahead",
}
"""Kafka's name of a setting and its field here."""


class Limits(NamedTuple):
    """Sizes in bytes, times in ms; a negative idle time is none.

    `requests_ahead` counts, for each connection, the requests that were read and not answered yet;
    beyond it nothing more is read from that connection. `per_ip_overrides` has the number of
    connections for single addresses.
    """

    frame_bytes: int = 100 * 1024 * 1024
    connections: int = 1000
    connections_per_ip: int = 2**31 - 1
    per_ip_overrides: Mapping[str, int] = MappingProxyType({})
    idle_ms: int = 600_000
    requests_ahead: int = 64

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "Limits":
        """The limits that broker settings give, by Kafka's names; the rest is as above.

        Raises:
            UserError: the overrides do not say a number for a host that is known.
        """
        fields = {name: given[name].strip() for name in SETTINGS if name in given}
        overrides = _overrides(fields.pop(PER_IP_OVERRIDES, ""))
        numbers = {SETTINGS[name]: int(text) for name, text in fields.items()}
        return cls(**numbers, per_ip_overrides=overrides)

    def connections_of(self, host: str) -> int:
        """How many connections an address may have."""
        return self.per_ip_overrides.get(host, self.connections_per_ip)


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
                f"{PER_IP_OVERRIDES}: {entry} is not a host that is known and a number.",
                "Write it as in 127.0.0.1:200,gateway.example.org:50.",
            ) from None
    return found
