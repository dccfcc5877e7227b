"""Connections that have come and are not served yet: who may connect, and how many.

As `ConnectionQuotas` in Kafka, at each broker: beyond `max.connections` a connection waits until
another one ends; beyond `max.connection.creation.rate` it waits for its turn, a quota window at
most, and all others behind it; one beyond `max.connections.per.ip`, or its address's entry in the
overrides, is closed. One beyond its address's `connection_creation_rate` is held for a while, and
then closed. A limit that changes holds from the next connection on; nobody is sent away for it.
"""

import asyncio
import socket
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection
from contextlib import suppress

import structlog

from brokertwin.gateway.bounded_rates import BoundedRates, RateLimit
from brokertwin.gateway.limits import Limits

WAITING_MAX = 512
"""As many wait as a port's backlog has, and as many are held; one more is closed."""

ANYBODY = ""
"""Whose rate that of all addresses is."""

LimitOf = Callable[[int, str], RateLimit | None]
"""The `connection_creation_rate` that holds at a broker for an address, if there is one."""

_log = structlog.get_logger("brokertwin.gateway")


class Arrival(asyncio.Protocol):
    """A connection that is not read from until it is begun.

    Args:
        broker: the logical broker that it came to.
        begin: makes what serves it; None where it is refused after all.
        arrivals: where it waits.
        place: by what it came.
    """

    def __init__(
        self,
        broker: int,
        begin: "Callable[[Arrival], asyncio.Protocol | None]",
        arrivals: "Arrivals",
        place: object = None,
    ) -> None:
        self.broker = broker
        self.place = place
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
        # Before Python 3.11.4 the event loop starts to read after connection_made, even if paused.
        asyncio.get_running_loop().call_soon(self._pause_again)
        self._arrivals.came(self)

    def _pause_again(self) -> None:
        if self._arrivals.is_pending(self):
            self.transport.resume_reading()
            self.transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone before it was begun."""
        self._arrivals.gone(self)

    def refuse(self, reason: str) -> None:
        """Close it, and say why in the log."""
        _log.warning("connection refused", host=self.host, broker=self.broker, reason=reason)
        self.transport.abort()


class Arrivals:
    """Counts the connections of each broker, and lets those wait that are too many or too fast.

    Args:
        limits_of: how many a broker may have now, and how fast they may come.
        limit_of: how fast they may come from an address.

    Attributes:
        held: those that came too fast from an address and will be closed, each with when.
    """

    def __init__(self, limits_of: Callable[[int], Limits], limit_of: LimitOf) -> None:
        self.held: dict[Arrival, asyncio.TimerHandle] = {}
        self._limits_of = limits_of
        self._limit_of = limit_of
        self._doors: defaultdict[int, _Door] = defaultdict(_Door)
        self._rates = BoundedRates()
        self._has_ended = False

    @property
    def waiting(self) -> list[Arrival]:
        """Those that wait, those of each broker in the order in which they came."""
        return [each for door in self._doors.values() for each in door.waiting]

    @property
    def count(self) -> int:
        """How many are served."""
        return sum(door.count for door in self._doors.values())

    def came(self, arrival: Arrival) -> None:
        """Begin a connection, let it wait, or refuse it."""
        if self._has_ended:
            arrival.transport.abort()
            return
        door = self._doors[arrival.broker]
        if len(door.waiting) >= WAITING_MAX:
            arrival.refuse(f"{WAITING_MAX} wait already")
            return
        door.waiting.append(arrival)
        self._advance(arrival.broker)
        if list(door.waiting) == [arrival]:
            _log.warning("connections are queued", broker=arrival.broker, served=door.count)

    def is_pending(self, arrival: Arrival) -> bool:
        """Whether a connection waits or is held."""
        return arrival in self.held or arrival in self._doors[arrival.broker].waiting

    def gone(self, arrival: Arrival) -> None:
        """It waits no longer."""
        held = self.held.pop(arrival, None)
        if held is not None:
            held.cancel()
        door = self._doors[arrival.broker]
        if door.waiting and door.waiting[0] is arrival:
            door.is_counted = False
        with suppress(ValueError):
            door.waiting.remove(arrival)

    def ended(self, broker: int, host: str) -> None:
        """A connection that was begun has ended: those that wait have their turn."""
        self._doors[broker].ended(host)
        self._advance(broker)

    def limits_changed(self) -> None:
        """There may be room now for those that wait."""
        for broker in list(self._doors):
            self._advance(broker)

    def abort(self, brokers: Collection[int], place: object = None) -> None:
        """Close those that wait for these brokers, or are held; of one place if it is named."""
        for arrival in [each for each in (*self.waiting, *self.held) if each.broker in brokers]:
            if place in (None, arrival.place):
                self.gone(arrival)
                arrival.transport.abort()

    def end(self) -> None:
        """Close those that wait, and whoever comes from here on."""
        self._has_ended = True
        self.abort({arrival.broker for arrival in (*self.waiting, *self.held)})
        for door in self._doors.values():
            if door.opens is not None:
                door.opens.cancel()

    def _advance(self, broker: int) -> None:
        """Let in whoever has a place, one after the other, as fast as they may come."""
        door, limits = self._doors[broker], self._limits_of(broker)
        while door.waiting and door.opens is None:
            if not door.is_counted:
                door.is_counted = True
                wait_ms = self._rates.wait_ms(broker, ANYBODY, 1, limits.rate, _now_ms())
                if wait_ms:
                    later = asyncio.get_running_loop().call_later
                    door.opens = later(wait_ms / 1000, self._opened, broker)
                    return
            if door.count >= limits.most:
                return
            door.is_counted = False
            self._begin(door, door.waiting.popleft(), limits)

    def _opened(self, broker: int) -> None:
        self._doors[broker].opens = None
        self._advance(broker)

    def _is_held(self, arrival: Arrival) -> bool:
        """Holds a connection that has come too fast; it is closed later, and is never served."""
        limit = self._limit_of(arrival.broker, arrival.host)
        if limit is None:
            return False
        held_ms = self._rates.held_ms(arrival.broker, arrival.host, limit, _now_ms())
        if not held_ms:
            return False
        reason = f"more than {limit.per_second:g} a second from this address"
        if len(self.held) >= WAITING_MAX:
            arrival.refuse(reason)
        else:
            later = asyncio.get_running_loop().call_later
            self.held[arrival] = later(held_ms / 1000, arrival.refuse, reason)
        return True

    def _begin(self, door: "_Door", arrival: Arrival, limits: Limits) -> None:
        if self._is_held(arrival):
            return
        most = limits.connections_of(arrival.host)
        if door.by_host[arrival.host] >= most:
            arrival.refuse(f"{most} from this address already")
            return
        served = arrival.begin(arrival)
        if served is None:
            return
        door.begun(arrival.host)
        arrival.transport.set_protocol(served)
        served.connection_made(arrival.transport)


class _Door:
    """A broker's connections.

    Attributes:
        count: how many are served.
        by_host: how many of each address.
        waiting: those that wait, in the order in which they came.
        is_counted: whether the first of them has been counted as one that came.
        opens: when it has its turn, where it came too fast.
    """

    def __init__(self) -> None:
        self.count = 0
        self.by_host: Counter[str] = Counter()
        self.waiting: deque[Arrival] = deque()
        self.is_counted = False
        self.opens: asyncio.TimerHandle | None = None

    def begun(self, host: str) -> None:
        """One is served."""
        self.count += 1
        self.by_host[host] += 1

    def ended(self, host: str) -> None:
        """One is not any more."""
        self.count -= 1
        self.by_host[host] -= 1
        if not self.by_host[host]:
            del self.by_host[host]


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
