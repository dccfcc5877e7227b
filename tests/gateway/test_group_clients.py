"""Consumer groups of unmodified clients: assignments, and stored offsets."""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import confluent_kafka
import kafka
import pytest

from tests.support.gateways import Running, running_gateway
from tests.support.kafka_tools import run_tool
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.clients

PARTITIONS = 4
RECORDS = 200
"""Records of the topic."""
SESSION_MS = 45_000
"""Longer than a busy machine delays a client's heartbeats."""
SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
}

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with running_gateway(SETTINGS, brokers=2) as running:
        yield running


def fill(gateway: Running, topic: str, partitions: int = PARTITIONS) -> list[bytes]:
    """Create a topic with records, and return their values."""
    with gateway.client() as client:
        client.topic(topic, partitions)
    producer = confluent_kafka.Producer({"bootstrap.servers": gateway.bootstrap})
    values = [b"%d" % number for number in range(RECORDS)]
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions)
    assert producer.flush(PATIENCE_S) == 0
    return values


class PythonMember:
    """A consumer of kafka-python, polled by its own thread.

    If a JoinGroup response arrives between two polls, kafka-python 3.0 sends another one;
    librdkafka joins only while it is polled. Polled in turn they would keep each other rebalancing.
    """

    def __init__(self, gateway: Running, topic: str, **options: Any) -> None:
        self.consumer = kafka.KafkaConsumer(
            topic,
            bootstrap_servers=gateway.bootstrap,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **{"heartbeat_interval_ms": 100, "session_timeout_ms": SESSION_MS, **options},
        )
        self._read: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._is_free = threading.Lock()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def _poll(self) -> None:
        while not self._is_closed.is_set():
            with self._is_free:
                found = self.consumer.poll(timeout_ms=50)
            for records in found.values():
                for record in records:
                    self._read.put(record.value)
            time.sleep(0)

    def poll(self) -> list[bytes]:
        time.sleep(0.02)
        assert self._thread.is_alive()
        return [self._read.get() for _ in range(self._read.qsize())]

    def assigned(self) -> set[int]:
        return {place.partition for place in self.consumer.assignment()}

    def commit(self) -> None:
        with self._is_free:
            self.consumer.commit()

    def close(self) -> None:
        self._is_closed.set()
        self._thread.join()
        self.consumer.close()


class ConfluentMember:
    """A consumer of librdkafka."""

    def __init__(self, gateway: Running, topic: str, **options: Any) -> None:
        settings = {
            "bootstrap.servers": gateway.bootstrap,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 100,
            "session.timeout.ms": SESSION_MS,
        }
        self.consumer = confluent_kafka.Consumer({**settings, **options})
        self.consumer.subscribe([topic])

    def poll(self) -> list[bytes]:
        return [message.value() for message in self.consumer.consume(100, 0.05)]

    def assigned(self) -> set[int]:
        return {place.partition for place in self.consumer.assignment()}

    def commit(self) -> None:
        self.consumer.commit(asynchronous=False)

    def close(self) -> None:
        self.consumer.close()


class NewProtocolMember(ConfluentMember):
    """A consumer of librdkafka in a consumer group (KIP-848).

    `subscription` is a regular expression in place of the topic if it begins with ^.
    """

    def __init__(
        self, gateway: Running, topic: str, subscription: str | None = None, **options: Any
    ) -> None:
        settings = {
            "bootstrap.servers": gateway.bootstrap,
            "group.id": topic,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        self.consumer = confluent_kafka.Consumer({**settings, **options})
        self.consumer.subscribe([subscription or topic])


Member = PythonMember | ConfluentMember
KINDS = [PythonMember, ConfluentMember, NewProtocolMember]
CLASSIC_KINDS = [PythonMember, ConfluentMember]


def poll_until(members: list[Member], is_done: Callable[[list[bytes]], bool]) -> list[bytes]:
    """Poll members in turn until enough was read, or the assignment is as expected."""
    read: list[bytes] = []
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        for member in members:
            read += member.poll()
        if is_done(read):
            return read
    raise AssertionError(f"{len(read)} records, {[member.assigned() for member in members]}")


@pytest.mark.parametrize("kind", KINDS)
def test_group_continues_at_its_committed_offsets(gateway: Running, kind: type[Member]) -> None:
    topic = f"resumed-{kind.__name__}-{time.time_ns()}"
    values = fill(gateway, topic)
    first = kind(gateway, topic)
    read = poll_until([first], lambda read: len(read) == RECORDS)
    assert sorted(read, key=int) == values
    first.commit()
    first.close()
    producer = confluent_kafka.Producer({"bootstrap.servers": gateway.bootstrap})
    producer.produce(topic, b"later", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    second = kind(gateway, topic)
    assert poll_until([second], bool) == [b"later"]
    second.close()


@pytest.mark.parametrize("kind", KINDS)
def test_members_share_the_partitions_and_take_over(gateway: Running, kind: type[Member]) -> None:
    topic = f"shared-{kind.__name__}-{time.time_ns()}"
    fill(gateway, topic)
    members: list[Member] = [kind(gateway, topic)]
    poll_until(members, lambda _: members[0].assigned() == set(range(PARTITIONS)))
    members.append(kind(gateway, topic))
    poll_until(members, lambda _: [len(member.assigned()) for member in members] == [2, 2])
    assert members[0].assigned() | members[1].assigned() == set(range(PARTITIONS))
    members.pop(0).close()
    poll_until(members, lambda _: members[0].assigned() == set(range(PARTITIONS)))
    members[0].close()


@pytest.mark.parametrize("kind", CLASSIC_KINDS)
def test_static_member_gets_its_partitions_back(gateway: Running, kind: type[Member]) -> None:
    topic = f"static-{kind.__name__}-{time.time_ns()}"
    fill(gateway, topic)
    option = "group_instance_id" if kind is PythonMember else "group.instance.id"
    member = kind(gateway, topic, **{option: "i"})
    poll_until([member], lambda _: len(member.assigned()) == PARTITIONS)
    again = kind(gateway, topic, **{option: "i"})
    poll_until([again], lambda _: len(again.assigned()) == PARTITIONS)
    again.close()
    member.close()  # or its thread keeps retrying


def test_static_member_of_a_consumer_group_gets_its_partitions_back(
    gateway: Running,
) -> None:
    topic = f"static-new-{time.time_ns()}"
    fill(gateway, topic)
    other = NewProtocolMember(gateway, topic)
    member = NewProtocolMember(gateway, topic, **{"group.instance.id": "i"})
    members: list[Member] = [other, member]
    poll_until(members, lambda _: [len(each.assigned()) for each in members] == [2, 2])
    owned = member.assigned()
    member.close()
    again = NewProtocolMember(gateway, topic, **{"group.instance.id": "i"})
    poll_until([other, again], lambda _: bool(again.assigned()))
    assert again.assigned() == owned
    assert len(other.assigned()) == 2
    again.close()
    other.close()


@pytest.mark.kafka
def test_kafka_consumer_groups_tool(gateway: Running) -> None:
    topic = f"tooled-{time.time_ns()}"
    fill(gateway, topic)
    tool: Tool = partial(run_tool, gateway.bootstrap, "consumer.group.ConsumerGroupCommand")
    member = ConfluentMember(gateway, topic)
    poll_until([member], lambda read: len(read) == RECORDS)
    member.commit()
    assert topic in tool("--list").split()
    described = tool("--describe", "--group", topic)
    rows = [line.split() for line in described.splitlines() if line.startswith(topic)]
    assert sorted((int(row[2]), row[3], row[4], row[5]) for row in rows) == [
        (number, "50", "50", "0") for number in range(PARTITIONS)
    ]
    assert "Stable" in tool("--describe", "--group", topic, "--state")
    member.close()
    reset = ("--reset-offsets", "--to-offset", "10", "--execute", "--group", topic)
    tool(*reset, "--topic", topic)
    described = tool("--describe", "--group", topic)
    assert sum(1 for line in described.splitlines() if " 10 " in line) == PARTITIONS
    deleted = tool("--delete", "--group", topic)
    assert "was successful" in deleted
    assert topic not in tool("--list").split()
