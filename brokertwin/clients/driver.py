"""Drives a client with a given clock and network, real or simulated.

    driver = ClientDriver(client, network, clock)
    driver.turn(timeout_ms=100)       # sends due requests; waits at most this long

`clients/io/sockets.py` has the network of sockets. Source: `NetworkClient.poll`, `Selector` in
Kafka.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from brokertwin.clients.client_loop import Action, ClientLoop, NetworkEvent

Clock = Callable[[], int]
"""A monotonic clock in ms."""


class ClientNetwork(Protocol):
    """Connections to nodes by id."""

    def do(self, action: Action) -> None:
        """Open or close a connection, or send on an open one."""

    def wait(self, timeout_ms: int) -> Iterable[NetworkEvent]:
        """Wait for events at most this long; returns them in order."""


class ClientDriver:
    def __init__(self, client: ClientLoop, network: ClientNetwork, clock: Clock) -> None:
        self.client = client
        self._network = network
        self._clock = clock

    @property
    def now(self) -> int:
        """The current time in ms."""
        return self._clock()

    def turn(self, timeout_ms: int) -> None:
        """Send due requests and handle events for at most `timeout_ms`."""
        self.take(self._network.wait(min(timeout_ms, self.send())))

    def send(self) -> int:
        """Send due requests; returns how long to wait for events, in ms."""
        turn = self.client.turn(self._clock())
        for action in turn.actions:
            self._network.do(action)
        return turn.timeout_ms

    def take(self, events: Iterable[NetworkEvent]) -> None:
        for event in events:
            self.client.take(self._clock(), event)

    def turn_until(self, is_done: Callable[[], bool], timeout_ms: int) -> bool:
        """Turn until a condition holds; returns whether it does."""
        until = self._clock() + timeout_ms
        while not is_done():
            left = until - self._clock()
            if left <= 0:
                return False
            self.turn(left)
        return True
