"""Groups with members, and transactions, in trouble."""

import time
from collections.abc import Callable, Iterator
from typing import Protocol

import confluent_kafka
import kafka
import pytest

from brokertwin.testing import KafkaBroker
from tests.support.patience import PATIENCE_S

GROUP = "billing"
pytestmark = [pytest.mark.kafka_broker(brokers=2, topics={"orders": 2}), pytest.mark.clients]


class Member(Protocol):
    """A consumer subscribed to `orders`."""

    def read(self) -> list[bytes]:
        """Read available records, with a short timeout."""

    def commit(self) -> None:
        """Commit the offsets of read records."""


class KafkaPython:
    """kafka-python's consumer."""

    def __init__(self, broker: KafkaBroker) -> None:
        self._consumer = kafka.KafkaConsumer(
            "orders",
            bootstrap_servers=broker.bootstrap_servers,
            client_id="member",
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=100,
            retry_backoff_ms=20,
            metadata_max_age_ms=1000,
        )

    def read(self) -> list[bytes]:
        found = self._consumer.poll(timeout_ms=200)
        return [record.value for records in found.values() for record in records]

    def commit(self) -> None:
        self._consumer.commit()

    def close(self) -> None:
        self._consumer.close()


class Confluent:
    """librdkafka's consumer."""

    def __init__(self, broker: KafkaBroker) -> None:
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "client.id": "member",
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 100,
            }
        )
        self._consumer.subscribe(["orders"])

    def read(self) -> list[bytes]:
        return [r.value() for r in self._consumer.consume(10, 0.2) if r.error() is None]

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture(params=[KafkaPython, Confluent])
def member(request: pytest.FixtureRequest, kafka_broker: KafkaBroker) -> Iterator[Member]:
    consumer = request.param(kafka_broker)
    yield consumer
    consumer.close()


def until_read(member: Member, *wanted: bytes) -> None:
    found: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while not set(wanted) <= set(found):
        assert time.monotonic() < deadline, found
        found += member.read()


def until(member: Member, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        member.read()


def test_a_member_reads_and_commits(kafka_broker: KafkaBroker, member: Member) -> None:
    kafka_broker.produce("orders", "a", partition=0)
    kafka_broker.produce("orders", "b", partition=1)
    until_read(member, b"a", b"b")
    member.commit()
    assert kafka_broker.committed_offsets(GROUP) == {("orders", 0): 1, ("orders", 1): 1}


def test_a_member_follows_its_coordinator(kafka_broker: KafkaBroker, member: Member) -> None:
    kafka_broker.produce("orders", "a")
    until_read(member, b"a")
    old, joined = kafka_broker.coordinator(GROUP), len(kafka_broker.requests("JOIN_GROUP"))
    new = kafka_broker.move_coordinator(GROUP)
    assert new != old
    until(member, lambda: heartbeats_at(kafka_broker, new))
    kafka_broker.produce("orders", "b")
    until_read(member, b"b")
    member.commit()
    assert kafka_broker.committed_offsets(GROUP)["orders", 0] == 2
    assert len(kafka_broker.requests("JOIN_GROUP")) == joined, "it did not have to join again"


def errors_of(broker: KafkaBroker, api: str) -> set[int]:
    responses = [request["response"] for request in broker.requests(api)]
    return {response["errorCode"] for response in responses if response} - {0}


def heartbeats_at(broker: KafkaBroker, number: int) -> bool:
    responses = [r for r in broker.requests("HEARTBEAT") if r["broker"] == number and r["response"]]
    return any(r["response"]["errorCode"] == 0 for r in responses)


def test_an_expired_member_rejoins(kafka_broker: KafkaBroker, member: Member) -> None:
    kafka_broker.produce("orders", "a")
    until_read(member, b"a")
    (expired,) = kafka_broker.expire_members(GROUP, client="member")
    kafka_broker.produce("orders", "b")
    until_read(member, b"b")
    until(member, lambda: 25 in errors_of(kafka_broker, "HEARTBEAT"))
    until(member, lambda: kafka_broker.expire_members(GROUP) not in ([], [expired]))


def test_advancing_the_time_expires_a_members_session(
    kafka_broker: KafkaBroker, member: Member
) -> None:
    kafka_broker.produce("orders", "a")
    until_read(member, b"a")
    joined = len(kafka_broker.requests("JOIN_GROUP"))
    kafka_broker.advance_time(3600_000)
    kafka_broker.produce("orders", "b")
    until_read(member, b"b")
    until(member, lambda: len(kafka_broker.requests("JOIN_GROUP")) > joined)


def test_a_transaction_is_complete_although_its_end_response_was_lost(
    kafka_broker: KafkaBroker,
) -> None:
    lost = kafka_broker.lose_response("END_TXN")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka_broker.bootstrap, "transactional.id": "t"}
    )
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("orders", "a", partition=0)
    producer.produce("orders", "b", partition=1)
    producer.commit_transaction(PATIENCE_S)
    assert lost.hits == 1
    assert [record.value for record in kafka_broker.records("orders")] == [b"a", b"b"]
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=kafka_broker.bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    consumer.assign([kafka.TopicPartition("orders", 0)])
    assert next(consumer).value == b"a"
    consumer.close()
