"""Limits on new connections: their number and rate.

Like `ConnectionQuotas` in Kafka, for each broker:

    max.connections                     waits until another connection closes
    max.connection.creation.rate        delays this and later connections, at most by a quota window
    max.connections.per.ip, overrides   closes the connection
    connection_creation_rate            closes the connection after its throttle time, unread

A changed limit applies from the next connection on. Open connections are not closed.
"""

import asyncio
import socket
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection
from contextlib import suppress

import structlog

from brokertwin.gateway.bounded_rates import BoundedRates, RateLimit
from brokertwin.gateway.limits import GatewayLimits

WAITING_MAX = 512
"""Maximum of queued, and of throttled, connections: the size of a port's backlog."""

ALL_ADDRESSES = ""
"""Key of the rate of all addresses."""

LimitOf = Callable[[int, str], RateLimit | None]
"""Return a broker's `connection_creation_rate` for an address, if any."""

_log = structlog.get_logger("brokertwin.gateway")


class Arrival(asyncio.Protocol):
    """Accepted connection that is not read until it is admitted.

    Args:
        begin: creates the protocol that serves the connection; returns None to refuse it.
        arrivals: quotas that admit it.
        place: listener that accepted it.
    """

    def __init__(
        self,
        broker: int,
        begin: "Callable[[Arrival], asyncio.Protocol | None]",
        arrivals: "ConnectionQuotas",
        place: object = None,
    ) -> None:
        self.broker = broker
        self.place = place
        self.begin = begin
        self.host = ""
        self.transport: asyncio.Transport
        self._arrivals = arrivals

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Pause reading and ask for admission."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.pause_reading()
        peer = transport.get_extra_info("peername")
        self.host = str(peer[0]) if peer else ""
        with suppress(OSError):  # the peer may have closed it
            raw = transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Before Python 3.11.4 the event loop starts to read after connection_made, even if paused.
        asyncio.get_running_loop().call_soon(self._pause_again)
        self._arrivals.arrived(self)

    def _pause_again(self) -> None:
        if self._arrivals.is_pending(self):
            self.transport.resume_reading()
            self.transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._arrivals.departed(self)

    def refuse(self, reason: str) -> None:
        _log.warning("connection refused", host=self.host, broker=self.broker, reason=reason)
        self.transport.abort()


class ConnectionQuotas:
    """Counts the connections of each broker and queues those over a limit.

    Args:
        limits_of: returns a broker's current limits.
        limit_of: returns the rate limit of an address.

    Attributes:
        held: throttled connections and their timers; each is closed when its timer fires.
    """

    def __init__(self, limits_of: Callable[[int], GatewayLimits], limit_of: LimitOf) -> None:
        self.held: dict[Arrival, asyncio.TimerHandle] = {}
        self._limits_of = limits_of
        self._limit_of = limit_of
        self._doors: defaultdict[int, _AdmittedConnections] = defaultdict(_AdmittedConnections)
        self._rates = BoundedRates()
        self._has_ended = False

    @property
    def waiting(self) -> list[Arrival]:
        return [each for door in self._doors.values() for each in door.waiting]

    def arrived(self, arrival: Arrival) -> None:
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
        return arrival in self.held or arrival in self._doors[arrival.broker].waiting

    def departed(self, arrival: Arrival) -> None:
        """Remove a connection that closed before it was admitted."""
        held = self.held.pop(arrival, None)
        if held is not None:
            held.cancel()
        door = self._doors[arrival.broker]
        if door.waiting and door.waiting[0] is arrival:
            door.is_counted = False
        with suppress(ValueError):
            door.waiting.remove(arrival)

    def ended(self, broker: int, host: str) -> None:
        """Free the place of an admitted connection and admit queued ones."""
        self._doors[broker].ended(host)
        self._advance(broker)

    def limits_changed(self) -> None:
        """Admit queued connections that the new limits allow."""
        for broker in list(self._doors):
            self._advance(broker)

    def abort(self, brokers: Collection[int], place: object = None) -> None:
        """Close the pending connections of brokers, or of one of their listeners."""
        for arrival in [each for each in (*self.waiting, *self.held) if each.broker in brokers]:
            if place in (None, arrival.place):
                self.departed(arrival)
                arrival.transport.abort()

    def end(self) -> None:
        """Close all pending connections and refuse later ones."""
        self._has_ended = True
        self.abort({arrival.broker for arrival in (*self.waiting, *self.held)})
        for door in self._doors.values():
            if door.opens is not None:
                door.opens.cancel()

    def _advance(self, broker: int) -> None:
        """Admit queued connections while the limits allow."""
        door, limits = self._doors[broker], self._limits_of(broker)
        while door.waiting and door.opens is None:
            if not door.is_counted:
                door.is_counted = True
                wait_ms = self._rates.wait_ms(broker, ALL_ADDRESSES, 1, limits.rate, _now_ms())
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
        """Throttle a connection over its address's rate; it is never served."""
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

    def _begin(self, door: "_AdmittedConnections", arrival: Arrival, limits: GatewayLimits) -> None:
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


class _AdmittedConnections:
    """Connections of a broker.

    Attributes:
        count: number of admitted connections.
        by_host: the same for each address.
        waiting: queued connections, in order of arrival.
        is_counted: whether the rate already includes the first queued connection.
        opens: timer of the next admission if the rate is exceeded.
    """

    def __init__(self) -> None:
        self.count = 0
        self.by_host: Counter[str] = Counter()
        self.waiting: deque[Arrival] = deque()
        self.is_counted = False
        self.opens: asyncio.TimerHandle | None = None

    def begun(self, host: str) -> None:
        self.count += 1
        self.by_host[host] += 1

    def ended(self, host: str) -> None:
        self.count -= 1
        self.by_host[host] -= 1
        if not self.by_host[host]:
            del self.by_host[host]


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
