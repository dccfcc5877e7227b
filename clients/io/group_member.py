"""A member of a group on sockets, whatever its group's kind: it polls, and a thread beats for it.

For one thread of the application. While that works on records a thread of the member's own sends
its heartbeats, so that it stays in the group for `max.poll.interval.ms` (5 min) between two polls;
after that it leaves, and joins again with the next poll (KIP-62).

Source: `KafkaConsumer`, `AbstractCoordinator.HeartbeatThread` in Kafka.
"""

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

from brokertwin.clients.consumer_client import ConsumerClient
from brokertwin.clients.consumer_events import Event
from brokertwin.clients.driver import Clock, Driver, Network
from brokertwin.clients.io.sasl import AuthenticationError
from brokertwin.clients.io.security import Kafka, addresses_to
from brokertwin.clients.io.sockets import SocketNetwork
from brokertwin.clients.partitions import TopicPartition

BEAT_S = 0.1
"""How often the thread of heartbeats looks, and how long nobody has to poll for it to do so."""

CLOSE_MS = 30_000
"""How long a consumer that leaves waits for what it says last (`DEFAULT_CLOSE_TIMEOUT_MS`)."""

AnyClient = TypeVar("AnyClient", bound=ConsumerClient)
Taken = TypeVar("Taken")


class GroupMember(Generic[AnyClient]):
    """One member, driven by one thread and by its own; a `network` may be given. Times in ms."""

    def __init__(
        self,
        client: AnyClient,
        kafka: Kafka,
        client_id: str,
        network: Network | None,
        clock: Clock,
    ) -> None:
        self._sockets = None if network else SocketNetwork(kafka, client_id)
        self.client = client
        self.client.metadata.bootstrap(addresses_to(kafka), clock())
        given = network or self._sockets
        assert given is not None, "there is a network"
        self._driver = Driver(self.client, given, clock)
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self._has_polled = False
        self._refused: AuthenticationError | None = None
        self._beats: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def assigned(self) -> list[TopicPartition]:
        """The partitions that it has, in order."""
        with self._lock:
            return self.client.subscription.assigned

    def partition_counts(self) -> dict[str, int]:
        """Of each topic that it reads; 0 where there is none."""
        with self._lock:
            return self.client.metadata.counts()

    def _poll(self, take: Callable[[int], Sequence[Taken]], timeout_ms: int) -> list[Taken]:
        """What `take` gives at a time, as soon as that is anything. Raises AuthenticationError."""
        self._begin_beats()
        until = self._driver.now + timeout_ms
        with self._lock:
            self._has_polled = True
            if self._refused is not None:
                refused, self._refused = self._refused, None
                raise refused
            while True:
                taken = list(take(self._driver.now))
                left = until - self._driver.now
                self._driver.turn(0 if taken else max(left, 0))
                if taken or left <= 0:
                    return taken

    def _begin_beats(self) -> None:
        """On sockets of its own; who gives a network drives it, too."""
        if self._beats is None and self._sockets is not None:
            self._beats = threading.Thread(target=self._beat, name="heartbeats", daemon=True)
            self._beats.start()

    def _beat(self) -> None:
        while not self._is_closed.wait(BEAT_S) and self._refused is None:
            if self._has_polled:
                self._has_polled = False
            elif self._lock.acquire(blocking=False):
                try:
                    self._driver.turn(0)
                except AuthenticationError as refused:
                    self._refused = refused
                finally:
                    self._lock.release()

    def events(self) -> list[Event]:
        """What has happened since the last call, in order."""
        with self._lock:
            return self.client.events()

    def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """Says what is to be said last, leaves the group, and closes the connections."""
        self._is_closed.set()
        if self._beats is not None:
            self._beats.join()
        self.client.close(self._driver.now)
        try:
            self._driver.turn(0)
            self._driver.turn_until(lambda: self.client.is_quiet, timeout_ms)
        except AuthenticationError:
            """Nobody lets it in any more: its session ends by itself."""
        finally:
            if self._sockets is not None:
                self._sockets.close()
