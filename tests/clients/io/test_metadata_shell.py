"""Eight user threads and a sender share one metadata, as in the seed; a real cell answers."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import msgspec
import pytest

from brokertwin.clients.backoff import constant_backoff
from brokertwin.clients.io.metadata_shell import MetadataShell, MetadataWaitError
from brokertwin.clients.metadata import MetadataError, MetadataSettings
from brokertwin.clients.metadata_wait import Known
from brokertwin.clients.network import Connect
from brokertwin.state.apis.metadata import MetadataResponse
from brokertwin.state.core.errors import Error
from tests.support.machine import Bench
from tests.support.patience import PATIENCE_S, growing

USERS = 8
MESSAGES = 40
LATEST = 13
LONG_MS = 120_000
SETTINGS = MetadataSettings(refresh_backoff=constant_backoff(2))


class Sender(threading.Thread):
    """The one thread that talks to the broker: it polls, sends what is due and takes the answers.

    The first `losses` connections break when they are used.
    """

    def __init__(self, losses: int = 0) -> None:
        super().__init__(name="sender", daemon=True)
        self.bench = Bench(num_partitions=3)
        self.shell = MetadataShell(self.wake, SETTINGS)
        self.requests: list[list[str | None]] = []
        self.losses = losses
        self._woken = threading.Event()
        self._is_closing = False
        with self.shell.locked():
            self.shell.metadata.bootstrap([("localhost", 9092)])

    def wake(self) -> None:
        self._woken.set()

    def run(self) -> None:
        while not self._is_closing:
            self._woken.clear()
            now = time.monotonic_ns() // 1_000_000
            with self.shell.locked() as network:
                poll = network.poll(LONG_MS, now)
            for action in poll.actions:
                if isinstance(action, Connect):
                    with self.shell.locked() as network:
                        network.connected(action.node.id)
                    self.wake()
                    continue
                self.requests.append([topic.name for topic in action.sent.request.topics or []])
                if self.losses > 0:
                    self.losses -= 1
                    with self.shell.locked() as network:
                        network.disconnected(action.node.id, now)
                    continue
                body = msgspec.to_builtins(action.sent.request)
                answer = self.bench.request("METADATA", LATEST, body)
                response = msgspec.convert(answer, MetadataResponse)
                with self.shell.locked() as network:
                    network.metadata_answered(action.node.id, response, LATEST, now)
            if not poll.actions:
                self._woken.wait(poll.select_timeout_ms / 1000)

    def stop(self) -> None:
        self._is_closing = True
        self.wake()
        self.join(PATIENCE_S)
        assert not self.is_alive()


@pytest.fixture
def sender() -> Iterator[Sender]:
    running = Sender()
    running.start()
    yield running
    running.stop()


@pytest.fixture
def users() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(USERS, thread_name_prefix="user") as pool:
        yield pool


def all_users(users: ThreadPoolExecutor, act: Callable[[int], object]) -> list[Future[object]]:
    """Every user does the same, all at once."""
    barrier = threading.Barrier(USERS)

    def together(user: int) -> object:
        barrier.wait(PATIENCE_S)
        return act(user)

    return [users.submit(together, user) for user in range(USERS)]


def test_eight_users_send_to_topics_that_nobody_knew(
    sender: Sender, users: ThreadPoolExecutor
) -> None:
    """Each first message waits, each later one does not; no user sees a topic that is not there."""

    def send(user: int) -> list[Known]:
        waits = []
        for message in range(MESSAGES):
            topic = "shared" if message % 2 else f"of-{user}"
            waits.append(sender.shell.wait_on_metadata(topic, message % 3, LONG_MS))
            with sender.shell.locked():
                assert sender.shell.metadata.snapshot.partition_count(topic) == 3
        return waits

    for future in all_users(users, send):
        waits = future.result(60)
        assert isinstance(waits, list)
        assert {known.partition_count for known in waits} == {3}
        assert [known.waited_ms for known in waits[2:]] == [0] * (MESSAGES - 2)
    asked = [topic for request in sender.requests for topic in request]
    assert {f"of-{user}" for user in range(USERS)} | {"shared"} == set(asked)
    assert sender.shell.update_version == len(sender.requests) + 1
    assert len(sender.requests) < USERS * MESSAGES


def test_lost_connections_delay_the_users_and_do_no_more(users: ThreadPoolExecutor) -> None:
    sender = Sender(losses=3)
    sender.start()
    try:
        waits = all_users(
            users, lambda user: sender.shell.wait_on_metadata(f"of-{user}", None, LONG_MS)
        )
        for known in [future.result(60) for future in waits]:
            assert isinstance(known, Known) and known.partition_count == 3
        assert sender.losses == 0
        with sender.shell.locked():
            assert sender.shell.metadata.attempts == 0
    finally:
        sender.stop()


def test_one_update_releases_every_waiter_and_none_before(users: ThreadPoolExecutor) -> None:
    sender = Sender()
    version = sender.shell.request_update()
    waiting = all_users(users, lambda _: sender.shell.await_update(version, LONG_MS))
    assert wait(waiting, timeout=0.2).done == set()
    sender.start()
    try:
        released = [future.result(PATIENCE_S) for future in waiting]
        assert all(isinstance(seen, int) and seen > version for seen in released)
    finally:
        sender.stop()


def test_a_version_that_is_there_already_is_not_waited_for(sender: Sender) -> None:
    version = sender.shell.await_update(1, LONG_MS)
    again = sender.shell.await_update(sender.shell.request_update(), LONG_MS)
    assert sender.shell.await_update(version, 0) >= again


CLOCK_S = 0.001
"""The clock of a client shows whole milliseconds."""


def test_a_wait_ends_after_its_time_and_not_before(users: ThreadPoolExecutor) -> None:
    shell = MetadataShell(lambda: None, SETTINGS)

    def too_long(_: int) -> tuple[Error, float]:
        begin = time.monotonic()
        with pytest.raises(MetadataWaitError) as raised:
            shell.await_update(0, 150)
        return raised.value.code, time.monotonic() - begin

    for future in all_users(users, too_long):
        code, seconds = future.result(PATIENCE_S)  # type: ignore[misc]
        assert code is Error.REQUEST_TIMED_OUT
        assert seconds >= 0.15 - CLOCK_S


def test_a_partition_that_there_is_not_times_out_while_updates_come(sender: Sender) -> None:
    sender.shell.wait_on_metadata("topic", None, LONG_MS)
    before = sender.shell.update_version
    for milliseconds in growing(300):
        with pytest.raises(
            MetadataWaitError, match="partition 7 of topic 'topic', which has 3"
        ) as e:
            sender.shell.wait_on_metadata("topic", 7, int(milliseconds))
        assert e.value.code is Error.REQUEST_TIMED_OUT
        if sender.shell.update_version > before + 1:
            return
    pytest.fail("no updates came")


def test_an_illegal_topic_is_an_error_and_not_a_wait(sender: Sender) -> None:
    with pytest.raises(MetadataWaitError) as raised:
        sender.shell.wait_on_metadata("b@d", None, LONG_MS)
    assert raised.value.code is Error.INVALID_TOPIC_EXCEPTION


def test_closing_ends_every_wait(users: ThreadPoolExecutor) -> None:
    shell = MetadataShell(lambda: None, SETTINGS)
    by_version = all_users(users, lambda _: shell.await_update(0, LONG_MS))
    assert wait(by_version, timeout=0.1).done == set()
    shell.close()
    for future in by_version:
        with pytest.raises(MetadataWaitError, match="closed"):
            future.result(PATIENCE_S)
    with pytest.raises(MetadataWaitError, match="closed"):
        shell.wait_on_metadata("topic", None, LONG_MS)


def test_a_fatal_error_is_told_to_one_waiter_and_the_others_wait_on(
    users: ThreadPoolExecutor,
) -> None:
    shell = MetadataShell(lambda: None, SETTINGS)
    waiting = all_users(users, lambda user: shell.wait_on_metadata(f"of-{user}", None, LONG_MS))
    assert wait(waiting, timeout=0.1).done == set()
    shell.fail(MetadataError(Error.UNSUPPORTED_VERSION))
    told = wait(waiting, PATIENCE_S, FIRST_COMPLETED).done
    assert wait(waiting, timeout=0.1).done == told
    assert len(told) == 1
    with pytest.raises(MetadataWaitError) as raised:
        told.pop().result()
    assert raised.value.code is Error.UNSUPPORTED_VERSION
    shell.close()
    assert wait(waiting, timeout=PATIENCE_S).not_done == set()
