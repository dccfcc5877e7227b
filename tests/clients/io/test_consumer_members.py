"""Our own consumer in one group with other clients, on Kafka and on a gateway."""

import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest

from brokertwin.clients.assignors.assign import AssignorName
from brokertwin.clients.consumer_config import GroupProtocol
from brokertwin.clients.io.producer import Producer
from brokertwin.clients.io.records import COMPRESSION
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import RecordAcked
from brokertwin.gateway.edge_fields import Address
from tests.gateway.test_group_clients import ConfluentMember, PythonMember, poll_until
from tests.support.batches import START
from tests.support.gateways import Client, running_gateway
from tests.support.patience import PATIENCE_S
from tests.support.socket_members import OurMember
from tests.support.socket_records import read_committed

pytestmark = pytest.mark.clients

PARTITIONS = 6
SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.min.session.timeout.ms": "500",
}
COOPERATIVE = "cooperative-sticky"


class ModernMember(ConfluentMember):
    def __init__(self, gateway: Any, topic: str) -> None:
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": gateway.bootstrap,
                "group.id": topic,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "group.protocol": "consumer",
            }
        )
        self.consumer.subscribe([topic])


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    with running_gateway(SETTINGS) as running:
        yield running.bootstrap


def topic_at(bootstrap: str, name: str) -> str:
    """A topic whose name begins so; no try before had it."""
    unique = f"{name}-{time.time_ns()}"
    make_topic(bootstrap, unique)
    return unique


def make_topic(bootstrap: str, name: str) -> None:
    host, _, port = bootstrap.rpartition(":")
    with Client(Address(host, int(port))) as client:
        client.topic(name, PARTITIONS)


def shared(members: list[Any], *sizes: int) -> list[set[int]]:
    """Return the members' partitions once each has one owner and counts equal `sizes`."""

    def is_shared(_: list[bytes]) -> bool:
        owned = [partition for member in members for partition in member.assigned()]
        counts = sorted(len(member.assigned()) for member in members)
        return sorted(owned) == list(range(PARTITIONS)) and counts == sorted(sizes)

    poll_until(members, is_shared)
    return [member.assigned() for member in members]


def fill(bootstrap: str, topic: str, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(count * PARTITIONS):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0


def places(first: int, end: int) -> list[bytes]:
    return sorted(b"%d@%d" % (p, at) for p in range(PARTITIONS) for at in range(first, end))


def test_our_member_leads_kafka_python_and_librdkafka(bootstrap: str) -> None:
    topic = topic_at(bootstrap, "range-in-one-group")
    fill(bootstrap, topic, 7)
    broker: Any = SimpleNamespace(bootstrap=bootstrap)
    ours = OurMember(bootstrap, topic, AssignorName.RANGE)
    members: list[Any] = [ours]
    shared(members, 6)
    assert ours.coordinator.is_leader
    poll_until(members, lambda _: ours.positions() == {7})
    members.append(PythonMember(broker, topic))
    members.append(ConfluentMember(broker, topic))
    shared(members, 2, 2, 2)
    assert ours.coordinator.is_leader
    assert {"PartitionsRevoked", "PartitionsAssigned", "OffsetsCommitted"} <= set(ours.events)
    stored = [confluent_kafka.TopicPartition(topic, at) for at in range(PARTITIONS)]
    committed = members[2].consumer.committed(stored, timeout=PATIENCE_S)
    assert {each.offset for each in committed} == {7}
    ours.close()
    shared(members[1:], 3, 3)
    for member in members[1:]:
        member.close()


def test_our_members_follow_and_resume_from_others_commits(bootstrap: str) -> None:
    topic = topic_at(bootstrap, "cooperative-in-one-group")
    fill(bootstrap, topic, 9)
    broker: Any = SimpleNamespace(bootstrap=bootstrap)
    strategy = {"partition.assignment.strategy": COOPERATIVE}
    other = ConfluentMember(broker, topic, **strategy)
    shared([other], 6)
    offsets = [confluent_kafka.TopicPartition(topic, at, 9) for at in range(PARTITIONS)]
    other.consumer.commit(offsets=offsets, asynchronous=False)
    ours = [OurMember(bootstrap, topic, AssignorName.COOPERATIVE_STICKY) for _ in range(2)]
    shared([other, *ours], 2, 2, 2)
    poll_until([*ours], lambda _: ours[0].positions() == {9})
    kept = [member.assigned() for member in ours]
    other.close()
    now = shared(ours, 3, 3)
    assert all(before <= after for before, after in zip(kept, now, strict=True))
    assert {offset for member in ours for offset in member.positions()} <= {9, None}
    assert all("PartitionsLost" not in member.events for member in ours)
    for member in ours:
        member.close()


def test_our_members_read_each_record_and_resume_from_commits(
    bootstrap: str,
) -> None:
    topic = topic_at(bootstrap, "read-by-ours")
    fill(bootstrap, topic, 20)
    ours = [OurMember(bootstrap, topic, AssignorName.RANGE) for _ in range(2)]
    read = poll_until([*ours], lambda read: len(set(read)) == 20 * PARTITIONS)
    assert sorted(set(read)) == places(0, 20)
    shared(ours, 3, 3)
    for member in ours:
        member.close()
    fill(bootstrap, topic, 5)
    again = OurMember(bootstrap, topic, AssignorName.RANGE)
    read = poll_until([again], lambda read: len(read) >= 5 * PARTITIONS)
    assert sorted(read) == places(20, 25)
    again.close()


def test_consumer_group_members_share_with_librdkafka(bootstrap: str) -> None:
    topic = topic_at(bootstrap, "kip-848-with-ours")
    fill(bootstrap, topic, 8)
    broker: Any = SimpleNamespace(bootstrap=bootstrap)
    protocol = {"group_protocol": GroupProtocol.CONSUMER}
    ours = [OurMember(bootstrap, topic, AssignorName.RANGE, **protocol) for _ in range(2)]
    read = poll_until([*ours], lambda read: len(set(read)) == 8 * PARTITIONS)
    assert sorted(set(read)) == places(0, 8)
    shared(ours, 3, 3)
    other = ModernMember(broker, topic)
    shared([*ours, other], 2, 2, 2)
    ours.pop().close()
    shared([*ours, other], 3, 3)
    other.close()
    shared(ours, 6)
    assert poll_until(ours, lambda _: ours[0].positions() == {8}) == []
    assert "PartitionsLost" not in ours[0].events
    ours[0].close()


def test_others_read_our_producers_records(bootstrap: str) -> None:
    topic = topic_at(bootstrap, "written-by-ours")
    sent = {b"%d" % number: number % PARTITIONS for number in range(60)}
    for compression in COMPRESSION:
        with Producer(bootstrap, ProducerConfig(), compression=compression) as producer:
            assert producer.partitions_of(topic, 30_000) == PARTITIONS
            for value, partition in sent.items():
                producer.send(topic, ProducerRecord(value, value, START), partition)
            events = producer.flush(30_000)
            assert [type(event) for event in events] == [RecordAcked] * len(sent)
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    read = [consumer.poll(PATIENCE_S) for _ in range(len(sent) * len(COMPRESSION))]
    consumer.close()
    found = [(each.value(), each.partition(), each.timestamp()[1]) for each in read if each]
    expected = [(value, partition, START) for value, partition in sent.items()]
    assert sorted(found) == sorted(expected * len(COMPRESSION))


def copy(member: OurMember, producer: Producer, sink: str) -> list[bytes]:
    read = poll_until([member], bool)
    producer.begin_transaction()
    for place in read:
        producer.send(sink, ProducerRecord(None, place))
    consumed = member.consumer.client.subscription.all_consumed()
    generation = member.coordinator.generation
    producer.send_offsets_to_transaction(member.coordinator.config.group_id, consumed, generation)
    return read


def test_each_record_is_copied_once_after_a_crash(bootstrap: str) -> None:
    """Consume, transform, produce (KIP-447): the next member aborts its open transaction."""
    source, sink = topic_at(bootstrap, "eos-in"), topic_at(bootstrap, "eos-out")
    fill(bootstrap, source, 5)
    settings = ProducerConfig(transactional_id=sink)
    no_commits = {"enable_auto_commit": False}

    first = OurMember(bootstrap, source, AssignorName.RANGE, **no_commits)
    with Producer(bootstrap, settings) as dying:
        dying.init_transactions()
        copied = copy(first, dying, sink)
        assert {type(event) for event in dying.commit_transaction()} == {RecordAcked}
        lost = copy(first, dying, sink)
        assert {type(event) for event in dying.flush(30_000)} == {RecordAcked}
        assert lost
    first.close()

    second = OurMember(bootstrap, source, AssignorName.RANGE, **no_commits)
    with Producer(bootstrap, settings) as producer:
        producer.init_transactions()
        while len(copied) < 5 * PARTITIONS:
            copied += copy(second, producer, sink)
            producer.commit_transaction()
    second.close()
    assert sorted(copied) == places(0, 5)

    values = [message.value or b"" for message in read_committed(bootstrap, sink, 5 * PARTITIONS)]
    assert sorted(values) == places(0, 5)


def working(seconds: float, other: OurMember) -> list[set[int]]:
    until = time.monotonic() + seconds
    seen = []
    while time.monotonic() < until:
        other.poll()
        seen.append(other.assigned())
    return seen


def test_heartbeats_keep_a_busy_member_in_its_group(bootstrap: str, gateway: str) -> None:
    """KIP-62: heartbeats have a separate thread."""
    topic = topic_at(bootstrap, "worked")
    session_ms = 1_000 if bootstrap == gateway else 6_000  # the least that Kafka takes
    busy = OurMember(bootstrap, topic, AssignorName.RANGE, session_timeout_ms=session_ms)
    other = OurMember(bootstrap, topic, AssignorName.RANGE)
    try:
        own, theirs = shared([busy, other], 3, 3)
        generation = busy.coordinator.generation
        seen = working(session_ms * 1.5 / 1_000, other)
        assert all(each == theirs for each in seen)
        busy.poll()
        assert (busy.coordinator.generation, busy.assigned()) == (generation, own)
    finally:
        busy.close()
        other.close()


def test_a_member_beyond_max_poll_interval_leaves_and_rejoins(gateway: str) -> None:
    topic = topic_at(gateway, "stalled")
    slow = OurMember(gateway, topic, AssignorName.RANGE, max_poll_interval_ms=1_000)
    other = OurMember(gateway, topic, AssignorName.RANGE)
    try:
        shared([slow, other], 3, 3)
        assert working(2.5, other)[-1] == set(range(PARTITIONS))
        shared([slow, other], 3, 3)
    finally:
        slow.close()
        other.close()
