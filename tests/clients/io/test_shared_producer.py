"""Threads that share a producer with its sender thread, in virtual time.

Source: seed 001, `awaitUpdate`, `waitOnMetadata`, wake-ups and timeouts. Opening a connection takes
120 ms and a response 180 ms, as in the seed's figure.
"""

import pytest

from brokertwin.clients.client_loop import (
    NetworkEvent,
)
from brokertwin.clients.io.producer import BlockedError
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.producer_events import RecordAcked
from tests.support.machine import START
from tests.support.shared_producers import (
    CONNECT_MS,
    RESPONSE_MS,
    TOPIC,
    TURN_MS,
    SlowNetwork,
    Users,
)

USERS = 8
START_MS, PAUSE_MS = 10_000, 1_000
M = ProducerRecord(None, b"m", timestamp=START)


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
    [(None, 0, "Topic test does not exist after 2000 ms"), (5, 3, "none of number 5")],
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
