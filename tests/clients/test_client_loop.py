"""The loop that joins metadata, coordinator, fetcher and sender, against the broker's machines."""

import pytest

from brokertwin.clients.client_loop import Connected, Disconnected, ResponseReceived, Send
from brokertwin.clients.consumer_client import COORDINATOR_NODE, ConsumerClient
from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.consumer_coordinator import ClientMemberState
from brokertwin.clients.consumer_events import PartitionsAssigned
from brokertwin.clients.fetcher import FetchSettings
from brokertwin.clients.network import Connect
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_client import ProducerClient
from brokertwin.clients.producer_events import RecordAcked, RecordFailed
from brokertwin.protocol.errors import Error
from tests.support.bench_network import BenchNetwork, World

TOPIC = "orders"
PARTITIONS = 3
NOW = 1_000


def world(brokers: tuple[int, ...] = (1, 2)) -> World:
    made = World(brokers)
    made.bench.topic(TOPIC, PARTITIONS)
    return made


def send(made: World, producer: ProducerClient, count: int) -> None:
    for number in range(count):
        producer.send(made.now, TopicPartition(TOPIC, number % PARTITIONS), 10)


def test_two_members_read_a_producers_records_once() -> None:
    made = world()
    producer = made.producer()
    first, second = (made.consumer("billing", TOPIC) for _ in range(2))
    send(made, producer, 12)
    made.run(8_000)
    events = producer.events()
    assert [type(event) for event in events] == [RecordAcked] * 12
    read = made.read[first] + made.read[second]
    assert sorted((at.partition, offset) for at, offset, _ in read) == sorted(
        (event.topic_partition.partition, event.offset)
        for event in events
        if isinstance(event, RecordAcked)
    )
    assert first.subscription.assigned + second.subscription.assigned
    assert {first.coordinator.state, second.coordinator.state} == {ClientMemberState.STABLE}


def test_a_leaving_member_commits_and_the_next_continues() -> None:
    made = world()
    producer = made.producer()
    member = made.consumer("billing", TOPIC)
    send(made, producer, 6)
    made.run(5_000)
    member.close(made.now)
    made.turn()
    made.turn()
    assert member.is_quiet
    made.remove(member)
    again = made.consumer("billing", TOPIC)
    send(made, producer, 3)
    made.run(5_000)
    assert sorted(offset for _, offset, _ in made.read[again]) == [2, 2, 2]


def test_disconnects_lose_no_records() -> None:
    """Each connection of each client is closed twice; each record is written once and read."""
    made = world()
    producer = made.producer()
    member = made.consumer("billing", TOPIC)
    made.run(3_000)
    for _ in range(2):
        for client in (producer, member):
            for node in made.networks[client].nodes:
                send(made, producer, 3)
                made.turn(1)
                made.networks[client].cut(node)
                made.run(1_500)
    made.run(5_000)
    events = producer.events()
    assert events
    assert all(isinstance(event, RecordAcked) for event in events)
    read = [(at, offset) for at, offset, _ in made.read[member]]
    assert sorted(read) == sorted(
        (event.topic_partition, event.offset) for event in events if isinstance(event, RecordAcked)
    )


def test_an_unavailable_broker_is_retried() -> None:
    made = world((1,))
    producer = made.producer()
    made.networks[producer].is_down.add(1)
    send(made, producer, 1)
    made.run(3_000)
    assert producer.events() == []
    made.networks[producer].is_down.clear()
    made.run(3_000)
    assert [type(event) for event in producer.events()] == [RecordAcked]


def test_the_coordinator_has_a_separate_connection() -> None:
    made = world((1,))
    member = made.consumer("billing", TOPIC)
    made.run(3_000)
    assert made.networks[member].nodes == [-1, 1, COORDINATOR_NODE - 1]
    assert [event for event in member.events() if isinstance(event, PartitionsAssigned)]


def test_a_partition_without_leader_waits_and_a_missing_topic_has_none() -> None:
    made = World((1,), auto_create_topics_enable=False)
    member = made.consumer("billing", TOPIC)
    made.run(3_000)
    assert member.metadata.counts() == {TOPIC: 0}
    assert member.coordinator.state is ClientMemberState.STABLE
    made.bench.topic(TOPIC, PARTITIONS)
    made.run(310_000)
    assert len(member.subscription.assigned) == PARTITIONS


# One client and the test as its network


def client() -> ConsumerClient:
    made = ConsumerClient(
        ConsumerConfig(group_id="g"), FetchSettings(), frozenset({TOPIC}), lambda: 0.5
    )
    made.metadata.bootstrap([("localhost", 9092)], NOW)
    return made


def offered(*versions: tuple[int, int, int], error: int = 0) -> dict[str, object]:
    keys = [{"apiKey": key, "minVersion": low, "maxVersion": high} for key, low, high in versions]
    return {"errorCode": error, "apiKeys": keys}


def greeted(made: ConsumerClient, body: dict[str, object], now: int = NOW) -> list[Send]:
    """Requests after the first connection's ApiVersions was answered with this."""
    made.poll(now)
    (connect,) = made.turn(now).actions
    assert isinstance(connect, Connect)
    made.take(now, Connected(-1))
    (hello,) = made.turn(now).actions
    assert isinstance(hello, Send)
    assert (hello.api, hello.version) == ("API_VERSIONS", 4)
    made.take(now, ResponseReceived(-1, hello.request_id, body))
    return [action for action in made.turn(now).actions if isinstance(action, Send)]


@pytest.mark.parametrize(("newest", "version"), [(20, 13), (9, 9)])
def test_requests_use_the_newest_common_version(newest: int, version: int) -> None:
    sent = greeted(client(), offered((3, 0, newest), (10, 0, 6)))
    assert {each.api: each.version for each in sent} == {
        "FIND_COORDINATOR": 6,
        "METADATA": version,
    }


@pytest.mark.parametrize(
    ("result", "level"),
    [
        ([(-1, 0)], None),
        ([(5, 2)], 2),
        ([(5, 2), (4, 1)], 2),
        ([(5, 2), (-1, 0)], 2),
        ([(5, 1), (6, 2)], 2),
        ([(0, 2), (0, 1)], 1),
    ],
)
def test_the_newest_reported_features_apply(
    result: list[tuple[int, int]], level: int | None
) -> None:
    """By the epoch of the cluster's metadata; a broker that has none to tell changes nothing."""
    made = client()
    for at, (epoch, known) in enumerate(result):
        features = [{"name": "transaction.version", "maxVersionLevel": known, "minVersionLevel": 1}]
        body = offered((3, 0, 12)) | {
            "finalizedFeaturesEpoch": epoch,
            "finalizedFeatures": features if epoch >= 0 else [],
        }
        greeted(made, body, NOW + at * 10_000)
        made.take(NOW + at * 10_000, Disconnected(-1))
    assert made.features.get("transaction.version") == level


def test_an_older_broker_receives_a_second_api_versions_request() -> None:
    body = offered((18, 0, 2), error=Error.UNSUPPORTED_VERSION)
    (again,) = greeted(client(), body)
    assert (again.api, again.version) == ("API_VERSIONS", 2)


def test_an_unsupported_api_is_reported_and_not_sent() -> None:
    made = client()
    sent = greeted(made, offered((3, 0, 12), (10, 0, 2)))
    assert {each.api for each in sent} == {"METADATA"}
    assert made.unsupported == "FIND_COORDINATOR"


def test_a_connection_attempt_times_out() -> None:
    made = client()
    made.poll(NOW)
    made.turn(NOW)
    later = NOW + 10_001
    actions = made.turn(later).actions
    assert [type(action).__name__ for action in actions] == ["Close"]
    made.take(later, Connected(-1))
    assert made.turn(later).actions == []


def test_a_producer_closes_a_connection_without_responses() -> None:
    made = world((1,))
    producer = made.producer(request_timeout_ms=2_000, delivery_timeout_ms=5_000, linger_ms=0)
    made.run(1_000)
    network = made.networks[producer]
    send(made, producer, 1)
    made.run(500)
    assert [type(event) for event in producer.events()] == [RecordAcked]
    network.is_mute = True
    send(made, producer, 1)
    made.run(2_600)
    network.is_mute = False
    made.run(1_000)
    assert network.requested["PRODUCE"] >= 2
    assert [type(event) for event in producer.events()] == [RecordAcked]


def test_unsent_records_fail_after_the_delivery_timeout() -> None:
    made = world((1,))
    producer = made.producer(request_timeout_ms=1_000, delivery_timeout_ms=2_000)
    made.networks[producer].is_down.add(1)
    send(made, producer, 1)
    made.run(2_500)
    (failed,) = producer.events()
    assert isinstance(failed, RecordFailed)
    assert (failed.error, failed.may_be_written) == (Error.REQUEST_TIMED_OUT, False)


def test_a_turn_returns_the_time_to_the_next_work() -> None:
    made = world((1,))
    member = made.consumer("billing", TOPIC, heartbeat_interval_ms=3_000)
    made.run(4_000)
    member.turn(made.now)
    turn = member.turn(made.now)
    assert turn.actions == []
    assert 0 < turn.timeout_ms <= 3_000


def throttle(network: BenchNetwork, throttle_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the throttle time of all further responses."""
    reported = network._respond

    def throttled(event_id: str) -> ResponseReceived:
        responded = reported(event_id)
        body = {**responded.body, "throttleTimeMs": throttle_ms}
        return ResponseReceived(responded.node, responded.request_id, body, responded.records)

    monkeypatch.setattr(network, "_respond", throttled)


def test_a_throttled_node_receives_nothing_until_the_throttle_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """KIP-219: it reads nothing from this client meanwhile."""
    made = world((1,))
    producer = made.producer()
    network = made.networks[producer]
    send(made, producer, 1)
    made.run(3_000)
    throttle(network, 2_000, monkeypatch)
    before = network.requested["PRODUCE"]
    for _ in range(10):
        send(made, producer, 1)
        made.run(300)
    assert network.requested["PRODUCE"] - before == 2
    monkeypatch.undo()
    made.run(3_000)
    assert [type(event) for event in producer.events()] == [RecordAcked] * 11


def test_a_handshake_may_throttle_too(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world((1,))
    producer = made.producer()
    network = made.networks[producer]
    throttle(network, 1_500, monkeypatch)
    send(made, producer, 1)
    made.run(1_000)
    assert network.requested == {"API_VERSIONS": 1}
    monkeypatch.undo()
    made.run(3_000)
    assert [type(event) for event in producer.events()] == [RecordAcked]
