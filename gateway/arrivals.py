"""Connections that have come and are not served yet: who may connect, and how many.

As `ConnectionQuotas` in Kafka: beyond `max.connections` a connection waits until another one ends;
one beyond `max.connections.per.ip`, or its address's entry in the overrides, is closed.
"""

import asyncio
import socket
from collections import Counter, deque
from collections.abc import Callable, Collection
from contextlib import suppress

import structlog

from brokerstream.gateway.limits import Limits

WAITING_MAX = 512
"""As many wait as a port's backlog has; one more is closed."""

_log = structlog.get_logger("brokerstream.gateway")


class Arrival(asyncio.Protocol):
    """A connection that is not read from until it is begun.

    Args:
        broker: the logical broker that it came to.
        begin: makes what serves it; None where it is refused after all.
        arrivals: where it waits.
    """

    def __init__(
        self,
        broker: int,
        begin: "Callable[[Arrival], asyncio.Protocol | None]",
        arrivals: "Arrivals",
    ) -> None:
        self.broker = broker
        self.begin = begin
        self.host = ""
        self.transport: asyncio.Transport
        self._arrivals = arrivals

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait to be begun."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.pause_reading()
        peer = transport.get_extra_info("peername")
        self.host = str(peer[0]) if peer else ""
        with suppress(OSError):  # it has ended already
            raw = transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._arrivals.came(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone before it was begun."""
        self._arrivals.gone(self)

    def refuse(self, reason: str) -> None:
        """Close it, and say why in the log."""
        _log.warning("connection refused", host=self.host, broker=self.broker, reason=reason)
        self.transport.abort()


class Arrivals:
    """Counts connections, and lets those wait that are too many.

    Args:
        limits: how many there may be.

    Attributes:
        count: how many are served.
        waiting: those that wait, in the order in which they came.
    """

    def __init__(self, limits: Limits) -> None:
        self.count = 0
        self.waiting: deque[Arrival] = deque()
        self._limits = limits
        self._by_host: Counter[str] = Counter()
        self._has_ended = False

    def came(self, arrival: Arrival) -> None:
        """Begin a connection, let it wait, or refuse it."""
        if self._has_ended:
            arrival.transport.abort()
        elif self.count < self._limits.connections:
            self._begin(arrival)
        elif len(self.waiting) >= WAITING_MAX:
            arrival.refuse(f"{WAITING_MAX} wait already")
        else:
            if not self.waiting:
                _log.warning("connections wait", reason=f"there are {self.count} already")
            self.waiting.append(arrival)

    def gone(self, arrival: Arrival) -> None:
        """It waits no longer."""
        with suppress(ValueError):
            self.waiting.remove(arrival)

    def ended(self, host: str) -> None:
        """A connection that was begun has ended: those that wait have their turn."""
        self.count -= 1
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
        while self.waiting and self.count < self._limits.connections:
            self._begin(self.waiting.popleft())

    def abort(self, brokers: Collection[int]) -> None:
        """Close those that wait for these brokers."""
        for arrival in [each for each in self.waiting if each.broker in brokers]:
            self.waiting.remove(arrival)
            arrival.transport.abort()

    def end(self) -> None:
        """Close those that wait, and whoever comes from here on."""
        self._has_ended = True
        self.abort({arrival.broker for arrival in self.waiting})

    def _begin(self, arrival: Arrival) -> None:
        most = self._limits.connections_of(arrival.host)
        if self._by_host[arrival.host] >= most:
            arrival.refuse(f"{most} from this address already")
            return
        served = arrival.begin(arrival)
        if served is None:
            return
        self.count += 1
        self._by_host[arrival.host] += 1
        arrival.transport.set_protocol(served)
        served.connection_made(arrival.transport)
