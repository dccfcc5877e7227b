"""Threads that share a producer with its sender thread, in virtual time.

Opening a connection takes 120 ms and a response 180 ms, as in the figure of seed 001.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from brokertwin.clients.backoff import constant_backoff
from brokertwin.clients.client_loop import (
    Action,
    Connected,
    Disconnected,
    NetworkEvent,
    ResponseReceived,
    Send,
)
from brokertwin.clients.era import Era
from brokertwin.clients.io.shared_producer import SharedProducer
from brokertwin.clients.metadata import MetadataSettings
from brokertwin.clients.network import Connect
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import RecordAcked, RecordFailed
from tests.support.bench_network import FIRST_PORT, BenchNetwork
from tests.support.machine import Bench
from tests.support.patience import PATIENCE_S
from tests.support.virtual_time import VirtualTime

TOPIC = "test"
CONNECT_MS, RESPONSE_MS = 120, 180
TURN_MS = 1
"""The least time of a turn without an event: a select of 0 ms does not block."""

SEED = MetadataSettings(refresh_backoff=constant_backoff(), era=Era.KAFKA_0_10)


class SlowNetwork:
    """A network in virtual time; records requests and the timeouts of its waits."""

    def __init__(self, time: VirtualTime, bench: Bench) -> None:
        self._time = time
        self._fast = BenchNetwork(bench, "user", {})
        self._due: list[tuple[int, NetworkEvent]] = []
        self._is_woken = False
        self._handshakes: set[int] = set()
        self.requests: list[tuple[int, str, list[str]]] = []
        self.selects: list[tuple[int, int]] = []
        self.is_down = False

    def do(self, action: Action) -> None:
        if isinstance(action, Connect) and self.is_down:
            self._due.append((self._time.now + CONNECT_MS, Disconnected(action.node.id)))
            return
        if isinstance(action, Send):
            topics = getattr(action.body, "topics", None) or []
            self.requests.append((self._time.now, action.api, [each.name for each in topics]))
            if action.api == "API_VERSIONS":
                self._handshakes.add(action.request_id)
        self._fast.do(action)

    def wait(self, timeout_ms: int) -> list[NetworkEvent]:
        with self._time:
            for event in self._fast.wait(0):
                self._due.append((self._time.now + self._takes_ms(event), event))
            self.selects.append((self._time.now, timeout_ms))
            first = min((due for due, _ in self._due), default=self._time.now + timeout_ms)
            limit = min(max(timeout_ms, TURN_MS), max(first - self._time.now, 0))
            self._time.wait_for(lambda: self._is_woken, limit / 1000)
            self._is_woken = False
            come = [event for due, event in self._due if due <= self._time.now]
            self._due = [each for each in self._due if each[0] > self._time.now]
            return come

    def _takes_ms(self, event: NetworkEvent) -> int:
        if isinstance(event, Connected):
            return CONNECT_MS
        is_handshake = isinstance(event, ResponseReceived) and event.request_id in self._handshakes
        return 0 if is_handshake else RESPONSE_MS  # the seed's clients send no ApiVersions

    def wake(self) -> None:
        with self._time:
            self._is_woken = True
            self._time.notify_all()

    def close(self) -> None:
        """Nothing to close."""

    def requested(self, api: str) -> list[list[str]]:
        return [topics for _, of, topics in self.requests if of == api]


class Users:
    """Threads, the producer that they share, and its brokers; time starts at 0.

    Time passes while the users, the sender and the test's own thread wait. It stops when all users
    have ended, so the sender does nothing more before the test closes it.
    """

    def __init__(self, users: int, *, partitions: int = 3, **config: Any) -> None:
        self.time = VirtualTime(threads=users + 2)
        self.ended = 0
        self.bench = Bench(brokers=(0,))
        if partitions:
            self.bench.topic(TOPIC, partitions)
        self.network = SlowNetwork(self.time, self.bench)
        self.results: list[RecordAcked | RecordFailed] = []
        self.config = ProducerConfig(
            **{"linger_ms": 0, "acks": "1", "enable_idempotence": False, **config}
        )
        self.errors: list[Exception] = []

    @contextmanager
    def producer(
        self,
        metadata: MetadataSettings = SEED,
        make: Callable[..., SharedProducer] = SharedProducer,
    ) -> Iterator[SharedProducer]:
        made = make(
            f"localhost:{FIRST_PORT}",
            self.config,
            self.results.append,
            metadata=metadata,
            network=self.network,
            clock=self.time,
            monitor=self.time,
        )
        try:
            yield made
        finally:
            made.close()

    def run(self, *acts: Callable[[], None]) -> None:
        threads = [threading.Thread(target=self._user, args=(act,)) for act in acts]
        for each in threads:
            each.start()
        with self.time:
            assert self.time.wait_for(lambda: self.ended == len(threads))
        for each in threads:
            each.join(PATIENCE_S)
            assert not each.is_alive()
        if self.errors:
            raise self.errors[0]

    def _user(self, act: Callable[[], None]) -> None:
        with self.time.thread():
            try:
                act()
            except Exception as error:  # noqa: BLE001 - `run` raises it
                self.errors.append(error)
            with self.time:
                self.ended += 1
