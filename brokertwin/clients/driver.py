"""Drives a client with a given clock and network, real or simulated.

    driver = ClientDriver(client, network, clock)
    driver.turn(timeout_ms=100)       # sends due requests; waits at most this long

`clients/io/sockets.py` has the network of sockets. Source: `NetworkClient.poll`, `Selector` in
Kafka.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

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
    """Drives one client from one thread.

    Other threads may use the client while they hold `lock`. `turn` releases it for the wait.
    """

    def __init__(
        self,
        client: ClientLoop,
        network: ClientNetwork,
        clock: Clock,
        lock: AbstractContextManager[Any] | None = None,
    ) -> None:
        self.client = client
        self._network = network
        self._clock = clock
        self._lock = lock or nullcontext()

    @property
    def now(self) -> int:
        """The current time in ms."""
        return self._clock()

    def turn(self, timeout_ms: int) -> None:
        """Send due requests and handle events for at most `timeout_ms`."""
        with self._lock:
            turn = self.client.turn(self._clock())
            for action in turn.actions:
                self._network.do(action)
        events = self._network.wait(min(timeout_ms, turn.timeout_ms))
        with self._lock:
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
