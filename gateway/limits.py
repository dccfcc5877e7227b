"""What one client may take of the gateway, under the names of Kafka's own broker settings."""

from collections.abc import Mapping
from typing import NamedTuple

SETTINGS = {
    "socket.request.max.bytes": "frame_bytes",
    "max.connections": "connections",
    "connections.max.idle.ms": "idle_ms",
    "queued.max.requests": "requests_ahead",
}
"""Kafka's name of a setting and its field here."""


class Limits(NamedTuple):
    """Sizes in bytes, times in ms; a negative idle time is none.

    `requests_ahead` counts, for each connection, the requests that were read and not answered yet;
    beyond it nothing more is read from that connection.
    """

    frame_bytes: int = 100 * 1024 * 1024
    connections: int = 1000
    idle_ms: int = 600_000
    requests_ahead: int = 64

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "Limits":
        """The limits that broker settings give, by Kafka's names; the rest is as above."""
        fields = {field: int(given[name]) for name, field in SETTINGS.items() if name in given}
        return cls(**fields)
