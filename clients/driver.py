"""What drives a client: a clock and a network, both given, so that a test can have its own.

    driver = Driver(client, network, clock)
    driver.turn(timeout_ms=100)       # sends what is due; waits at most so long

`clients/io/sockets.py` has a network of sockets. Source: `NetworkClient.poll`, `Selector` in Kafka.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

from brokertwin.clients.client_loop import Action, ClientLoop, NetworkEvent

Clock = Callable[[], int]
"""Gives ms that never go back."""


class Network(Protocol):
    """Connections to nodes, by their ids."""

    def do(self, action: Action) -> None:
        """Opens or closes a connection, or sends on one that stands."""

    def wait(self, timeout_ms: int) -> Iterable[NetworkEvent]:
        """What has happened, in order; waits for something, at most so long."""


class Driver:
    """One client on a network. Not for several threads."""

    def __init__(self, client: ClientLoop, network: Network, clock: Clock) -> None:
        self.client = client
        self._network = network
        self._clock = clock

    @property
    def now(self) -> int:
        """The clock's time, in ms."""
        return self._clock()

    def turn(self, timeout_ms: int) -> None:
        """Sends what is due, and takes what happens within `timeout_ms` at most."""
        turn = self.client.turn(self._clock())
        for action in turn.actions:
            self._network.do(action)
        for event in self._network.wait(min(timeout_ms, turn.timeout_ms)):
            self.client.take(self._clock(), event)

    def turn_until(self, is_done: Callable[[], bool], timeout_ms: int) -> bool:
        """Turns until something holds; whether it does."""
        until = self._clock() + timeout_ms
        while not is_done():
            left = until - self._clock()
            if left <= 0:
                return False
            self.turn(left)
        return True
