"""A group member on sockets, with a heartbeat thread.

For one application thread. While it processes records, a second thread sends heartbeats. The member
stays in the group for `max.poll.interval.ms` (5 min) between two polls. After that it leaves, and
rejoins at the next poll (KIP-62).

Source: `KafkaConsumer`, `AbstractCoordinator.HeartbeatThread` in Kafka.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Generic, Self, TypeVar

from brokertwin.clients.consumer_client import ConsumerClient
from brokertwin.clients.consumer_events import Event
from brokertwin.clients.driver import ClientDriver, ClientNetwork, Clock
from brokertwin.clients.io.sasl import SaslAuthenticationError
from brokertwin.clients.io.security import Kafka, addresses_to
from brokertwin.clients.io.sockets import SocketNetwork
from brokertwin.clients.partitions import TopicPartition

BEAT_S = 0.1
"""Interval of the heartbeat thread; it acts only without polls in between."""

CLOSE_MS = 30_000
"""How long a closing member waits for its last responses.

Source: `DEFAULT_CLOSE_TIMEOUT_MS` in Kafka.
"""

AnyClient = TypeVar("AnyClient", bound=ConsumerClient)
Taken = TypeVar("Taken")


class ClientGroupMember(Generic[AnyClient]):
    """One member; times in ms. `network` is for tests."""

    def __init__(
        self,
        client: AnyClient,
        kafka: Kafka,
        client_id: str,
        network: ClientNetwork | None,
        clock: Clock,
    ) -> None:
        self._sockets = None if network else SocketNetwork(kafka, client_id)
        self.client = client
        self.client.metadata.bootstrap(addresses_to(kafka), clock())
        client_network = network or self._sockets
        assert client_network is not None, "network or sockets"
        self._driver = ClientDriver(self.client, client_network, clock)
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self._has_polled = False
        self._refused: SaslAuthenticationError | None = None
        self._beats: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def assigned(self) -> list[TopicPartition]:
        with self._lock:
            return self.client.subscription.assigned

    def partition_counts(self) -> dict[str, int]:
        """Partition counts of the subscribed topics; 0 if nonexistent."""
        with self._lock:
            return self.client.metadata.counts()

    def _poll(self, take: Callable[[int], Sequence[Taken]], timeout_ms: int) -> list[Taken]:
        """Turn until `take` returns something. Raises SaslAuthenticationError."""
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
        """Start the heartbeat thread, unless the caller drives the network."""
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
                except SaslAuthenticationError as refused:
                    self._refused = refused
                finally:
                    self._lock.release()

    def events(self) -> list[Event]:
        """Return the events since the last call, in order."""
        with self._lock:
            return self.client.events()

    def close(self, timeout_ms: int = CLOSE_MS) -> None:
        self._is_closed.set()
        if self._beats is not None:
            self._beats.join()
        self.client.close(self._driver.now)
        try:
            self._driver.turn(0)
            self._driver.turn_until(lambda: self.client.is_quiet, timeout_ms)
        except SaslAuthenticationError:
            """The broker rejects the client; its session will expire."""
        finally:
            if self._sockets is not None:
                self._sockets.close()
