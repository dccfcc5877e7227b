"""Connections that have come and are not served yet: who may connect, and how many.

As `ConnectionQuotas` in Kafka: beyond `max.connections` a connection waits until another one ends;
one beyond `max.connections.per.ip`, or its address's entry in the overrides, is closed. One beyond
its address's `connection_creation_rate` is held for a while, and then closed.
"""

import asyncio
import socket
from collections import Counter, deque
from collections.abc import Callable, Collection
from contextlib import suppress

import structlog

from brokerstream.gateway.bounded_rates import BoundedRates, RateLimit
from brokerstream.gateway.limits import Limits

WAITING_MAX = 512
"""As many wait as a port's backlog has, and as many are held; one more is closed."""

LimitOf = Callable[[int, str], RateLimit | None]
"""The `connection_creation_rate` that holds at a broker for an address, if there is one."""

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
        limit_of: how fast they may come.

    Attributes:
        count: how many are served.
        waiting: those that wait, in the order in which they came.
        held: those that came too fast and will be closed, each with when.
    """

    def __init__(self, limits: Limits, limit_of: LimitOf) -> None:
        self.count = 0
        self.waiting: deque[Arrival] = deque()
        self.held: dict[Arrival, asyncio.TimerHandle] = {}
        self._limits = limits
        self._limit_of = limit_of
        self._rates = BoundedRates()
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
        held = self.held.pop(arrival, None)
        if held is not None:
            held.cancel()
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
        """Close those that wait for these brokers, or are held."""
        for arrival in [each for each in (*self.waiting, *self.held) if each.broker in brokers]:
            self.gone(arrival)
            arrival.transport.abort()

    def end(self) -> None:
        """Close those that wait, and whoever comes from here on."""
        self._has_ended = True
        self.abort({arrival.broker for arrival in (*self.waiting, *self.held)})

    def _is_held(self, arrival: Arrival) -> bool:
        """Holds a connection that has come too fast; it is closed later, and is never served."""
        limit = self._limit_of(arrival.broker, arrival.host)
        if limit is None:
            return False
        loop = asyncio.get_running_loop()
        now = int(loop.time() * 1000)
        held_ms = self._rates.held_ms(arrival.broker, arrival.host, limit, now)
        if not held_ms:
            return False
        reason = f"more than {limit.per_second:g} a second from this address"
        if len(self.held) >= WAITING_MAX:
            arrival.refuse(reason)
        else:
            self.held[arrival] = loop.call_later(held_ms / 1000, arrival.refuse, reason)
        return True

    def _begin(self, arrival: Arrival) -> None:
        if self._is_held(arrival):
            return
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
