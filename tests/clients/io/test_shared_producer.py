"""Threads that share a producer with its sender thread, in virtual time.

Source: seed 001, `awaitUpdate`, `waitOnMetadata`, wake-ups and timeouts. Opening a connection takes
120 ms and a response 180 ms, as in the seed's figure.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

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
from brokertwin.clients.io.producer import BlockedError
from brokertwin.clients.io.shared_producer import SharedProducer
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.metadata import MetadataSettings
from brokertwin.clients.network import Connect
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import RecordAcked, RecordFailed
from tests.support.bench_network import FIRST_PORT, BenchNetwork
from tests.support.machine import START, Bench
from tests.support.patience import PATIENCE_S
from tests.support.virtual_time import VirtualTime

USERS = 8
TOPIC = "test"
CONNECT_MS, RESPONSE_MS = 120, 180
TURN_MS = 1
"""The least time of a turn without an event: a select of 0 ms does not block."""

START_MS, PAUSE_MS = 10_000, 1_000
SEED = MetadataSettings(refresh_backoff=constant_backoff(), era=Era.KAFKA_0_10)
M = ProducerRecord(None, b"m", timestamp=START)


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
        """The topics of the requests of an API."""
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
    def producer(self, metadata: MetadataSettings = SEED) -> Iterator[SharedProducer]:
        made = SharedProducer(
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
        """Run each act in a thread of its own."""
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


def test_eight_threads_wait_for_one_metadata_request_and_later_messages_do_not_wait() -> None:
    users = Users(USERS)
    waits: list[tuple[int, int, int]] = []
    with users.producer() as producer:

        def send_twice(start_ms: int) -> None:
            users.time.sleep(start_ms)
            for _ in range(2):
                began = users.time.now
                waited = producer.wait_on_metadata(TOPIC).waited_ms
                assert users.time.now - began == waited
                producer.send(TOPIC, M)
                waits.append((began, users.time.now, waited))
                users.time.sleep(PAUSE_MS)

        users.run(*[lambda at=at: send_twice(START_MS + 20 * at) for at in range(USERS)])
    known_at = START_MS + CONNECT_MS + RESPONSE_MS
    first = sorted(waits)[:USERS]
    assert first == [
        (at, known_at, known_at - at) for at in range(START_MS, START_MS + 20 * USERS, 20)
    ]
    assert [waited for _, _, waited in sorted(waits)[USERS:]] == [0] * USERS
    assert users.network.requested("METADATA") == [[TOPIC]]
    assert len(users.results) == 2 * USERS
    assert all(isinstance(each, RecordAcked) for each in users.results)


def test_select_waits_for_the_shortest_of_the_poll_metadata_and_request_timeouts() -> None:
    """The seed's table: 30000 while nothing is due, 0 while metadata is due."""
    users = Users(1)
    with users.producer() as producer:

        def send() -> None:
            users.time.sleep(START_MS)
            producer.send(TOPIC, M)
            users.time.sleep(PAUSE_MS)
            with users.time:
                metadata = producer.client.metadata
                age = users.time.now - metadata.last_successful_refresh_ms
                assert metadata.time_to_next_update(users.time.now) == 300_000 - age

        users.run(send)
    selects = users.network.selects
    assert selects[0] == (0, 30_000)
    assert (START_MS, 0) in selects, "a connection is opened for the request"
    sent = START_MS + CONNECT_MS + TURN_MS
    assert (sent, 30_000) in selects, "the request is in flight"
    assert selects[-2][1] == 30_000


def test_a_wake_up_ends_the_senders_wait_at_once() -> None:
    users = Users(1)
    with users.producer() as producer:

        def send() -> None:
            users.time.sleep(START_MS + 7)
            producer.send(TOPIC, M)
            users.time.sleep(PAUSE_MS)
            producer.send(TOPIC, M)
            users.time.sleep(PAUSE_MS)

        users.run(send)
    assert users.network.selects[0] == (0, 30_000)
    assert users.network.selects[1][0] == START_MS + 7, "woken to request metadata"
    known_at = START_MS + 7 + CONNECT_MS + RESPONSE_MS
    produced = [at for at, api, _ in users.network.requests if api == "PRODUCE"]
    assert produced == [known_at + CONNECT_MS, known_at + PAUSE_MS], "woken for each new batch"


def test_await_update_waits_again_after_an_update_without_the_topic() -> None:
    """Each update ends one `awaitUpdate`; `waitOnMetadata` requests the next one."""
    users = Users(2, partitions=0)
    waited: list[int] = []
    with users.producer() as producer:

        def wait() -> None:
            waited.append(producer.wait_on_metadata(TOPIC).waited_ms)

        def create() -> None:
            users.time.sleep(1_000)
            with users.time:
                users.bench.topic(TOPIC, 1)

        users.run(wait, create)
        versions = producer.client.metadata.update_version
    requests = [at for at, api, _ in users.network.requests if api == "METADATA"]
    assert versions == 1 + len(requests)
    first, *later = requests
    retry_ms = RESPONSE_MS + 100
    second = first + retry_ms + CONNECT_MS
    assert later == [second, second + retry_ms, second + 2 * retry_ms], "the second to node 0"
    assert waited == [requests[-1] + RESPONSE_MS]


@pytest.mark.parametrize(
    ("partition", "partitions", "error"),
    [(None, 0, "topic 'test' is not in the metadata"), (5, 3, "partition 5 of topic 'test'")],
)
def test_a_wait_for_an_unknown_topic_or_partition_ends_after_max_block_ms(
    partition: int | None, partitions: int, error: str
) -> None:
    users = Users(1, partitions=partitions, max_block_ms=2_000)
    with users.producer() as producer:

        def send() -> None:
            users.time.sleep(START_MS)
            with pytest.raises(BlockedError, match=error):
                producer.send(TOPIC, M, partition)
            assert users.time.now == START_MS + 2_000

        users.run(send)


def test_a_wait_without_any_broker_ends_after_max_block_ms() -> None:
    users = Users(1, max_block_ms=2_000)
    users.network.is_down = True
    with users.producer() as producer:

        def send() -> None:
            with pytest.raises(BlockedError, match="after 2000 ms"):
                producer.send(TOPIC, M)
            assert users.time.now == 2_000

        users.run(send)


def test_a_thread_waits_for_room_until_the_sender_has_a_result() -> None:
    users = Users(1, buffer_memory=200, batch_size=100)
    times: list[int] = []
    with users.producer() as producer:

        def send() -> None:
            producer.wait_on_metadata(TOPIC)
            for _ in range(4):
                producer.send(TOPIC, M, partition=0)
                times.append(users.time.now)
            producer.flush(60_000)

        users.run(send)
    assert len(users.results) == 4
    first, *_, last = times
    assert last - first >= RESPONSE_MS


def test_closing_ends_the_waits_of_all_threads() -> None:
    users = Users(2, partitions=0)
    with users.producer() as producer:

        def wait() -> None:
            with pytest.raises(BlockedError, match="closed"):
                producer.wait_on_metadata(TOPIC)

        def close() -> None:
            users.time.sleep(500)
            producer.close()

        users.run(wait, close)


def test_an_error_of_the_sender_reaches_the_waiting_threads() -> None:
    class BrokenNetwork(SlowNetwork):
        def wait(self, timeout_ms: int) -> list[NetworkEvent]:
            if self._time.now >= 1_000:
                raise RuntimeError("not trusted")
            return super().wait(min(timeout_ms, 1_000))

    users = Users(1, partitions=0)
    users.network = BrokenNetwork(users.time, users.bench)
    with users.producer() as producer:

        def wait() -> None:
            for act in (lambda: producer.send(TOPIC, M), lambda: producer.flush(1_000)):
                with pytest.raises(RuntimeError, match="not trusted"):
                    act()

        users.run(wait)
