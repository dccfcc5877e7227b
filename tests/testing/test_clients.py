"""Unmodified clients in trouble retry, refresh and continue as against Kafka."""

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import confluent_kafka
import kafka
import pytest

from brokertwin.testing import KafkaBroker
from tests.support.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.clients

COUNT = 1000


class Producer(Protocol):
    """Common interface of both clients' producers."""

    def send(self, value: bytes) -> None:
        """Queue a record."""

    def flush(self) -> None:
        """Wait until all records are acknowledged. Raises if one fails."""


class KafkaPython:
    def __init__(self, broker: KafkaBroker, **config: Any) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, client_id="tested", **config
        )
        self._sent: list[Any] = []

    def send(self, value: bytes) -> None:
        self._sent.append(self._producer.send("orders", value, partition=0))

    def flush(self) -> None:
        for future in self._sent:
            future.get(PATIENCE_S)
        self._sent.clear()

    def close(self) -> None:
        self._producer.close()


class Confluent:
    """librdkafka's producer, with kafka-python's settings under other names."""

    def __init__(self, broker: KafkaBroker, **config: Any) -> None:
        given = {name.replace("_", "."): value for name, value in config.items()}
        if "request.timeout.ms" in given:
            given["socket.timeout.ms"] = given.pop("request.timeout.ms")
        idempotence = given.pop("enable.idempotence", True)
        self._failed: list[object] = []
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "client.id": "tested",
                "enable.idempotence": idempotence,
                **given,
            }
        )

    def send(self, value: bytes) -> None:
        self._producer.produce(
            "orders",
            value,
            partition=0,
            on_delivery=lambda error, _: self._failed.append(error) if error else None,
        )

    def flush(self) -> None:
        assert self._producer.flush(PATIENCE_S) == 0
        assert self._failed == []

    def close(self) -> None:
        del self._producer  # its threads end, too


Start = Callable[..., Producer]


@pytest.fixture(params=[KafkaPython, Confluent])
def start(request: pytest.FixtureRequest, kafka_broker: KafkaBroker) -> Iterator[Start]:
    started = []

    def start_one(**config: Any) -> Producer:
        started.append(request.param(kafka_broker, **config))
        producer: Producer = started[-1]
        return producer

    yield start_one
    for producer in started:
        producer.close()


def values(broker: KafkaBroker) -> list[bytes | None]:
    return [record.value for record in broker.records("orders", 0)]


@pytest.mark.parametrize(
    "error", ["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "KAFKA_STORAGE_ERROR"]
)
@pytest.mark.kafka_broker(topics=["orders"])
def test_a_producer_retries(kafka_broker: KafkaBroker, start: Start, error: str) -> None:
    trouble = kafka_broker.fail_next("PRODUCE", error, times=2)
    producer = start(retry_backoff_ms=20)
    producer.send(b"one")
    producer.flush()
    assert trouble.hits == 2
    assert values(kafka_broker) == [b"one"]


@pytest.mark.kafka_broker(topics=["orders"])
def test_a_producer_fails_on_a_permanent_error(kafka_broker: KafkaBroker) -> None:
    kafka_broker.fail_next("PRODUCE", "MESSAGE_TOO_LARGE", times=None)
    producer = kafka.KafkaProducer(bootstrap_servers=kafka_broker.bootstrap_servers)
    with pytest.raises(kafka.errors.MessageSizeTooLargeError):
        producer.send("orders", b"one").get(PATIENCE_S)
    producer.close()
    assert values(kafka_broker) == []


@pytest.mark.parametrize("closes", [True, False])
@pytest.mark.kafka_broker(topics=["orders"])
def test_an_idempotent_producer_writes_once_despite_a_lost_response(
    kafka_broker: KafkaBroker, start: Start, closes: bool
) -> None:
    trouble = kafka_broker.lose_response("PRODUCE", closes=closes)
    producer = start(request_timeout_ms=1000, retry_backoff_ms=20)
    for number in range(3):
        producer.send(b"%d" % number)
        producer.flush()
    assert trouble.hits == 1
    assert values(kafka_broker) == [b"0", b"1", b"2"]
    repeated = kafka_broker.requests("PRODUCE", client="tested")
    assert len(repeated) == 4, "the first one came twice"


@pytest.mark.kafka_broker(topics=["orders"])
def test_without_idempotence_a_lost_response_leads_to_a_duplicate(
    kafka_broker: KafkaBroker, start: Start
) -> None:
    kafka_broker.lose_response("PRODUCE")
    producer = start(enable_idempotence=False, retries=5, retry_backoff_ms=20, acks=1)
    producer.send(b"one")
    producer.flush()
    assert values(kafka_broker) == [b"one", b"one"]


@pytest.mark.kafka_broker(topics=["orders"])
def test_a_dropped_connection_is_reopened(kafka_broker: KafkaBroker, start: Start) -> None:
    trouble = kafka_broker.drop_connection("PRODUCE", client="tested")
    producer = start(retry_backoff_ms=20)
    producer.send(b"one")
    producer.flush()
    assert (trouble.hits, values(kafka_broker)) == (1, [b"one"])


@pytest.mark.kafka_broker(topics=["orders"])
def test_a_client_waits_for_a_delayed_response(kafka_broker: KafkaBroker, start: Start) -> None:
    producer = start()
    producer.send(b"warm")
    producer.flush()
    with kafka_broker.delay("PRODUCE", 300, times=None) as trouble:
        before = time.monotonic()
        producer.send(b"one")
        producer.flush()
        assert time.monotonic() - before >= 0.3
    producer.send(b"two")
    producer.flush()
    assert trouble.hits == 1, "it has ended with its block"
    assert values(kafka_broker) == [b"warm", b"one", b"two"]


@pytest.mark.kafka_broker(brokers=3, topics=["orders"])
def test_a_thousand_records_survive_a_moving_leader_once_and_in_order(
    kafka_broker: KafkaBroker, start: Start
) -> None:
    producer = start(linger_ms=0, batch_size=200, retry_backoff_ms=20)
    leaders = [kafka_broker.leader("orders")]
    for number in range(COUNT):
        producer.send(b"%d" % number)
        if number % 250 == 125:
            wait_until(lambda: last_epoch(kafka_broker) == len(leaders) - 1)
            leaders.append(kafka_broker.move_leader("orders"))
    producer.flush()
    assert values(kafka_broker) == [b"%d" % number for number in range(COUNT)]
    assert (last_epoch(kafka_broker), kafka_broker.leader("orders")) == (4, leaders[-1])


def last_epoch(broker: KafkaBroker) -> int:
    """Return the leader epoch of the newest record; -1 if there is none."""
    return max((record.leader_epoch for record in broker.records("orders")), default=-1)


def consume_with_kafka_python(broker: KafkaBroker, count: int) -> Iterator[bytes]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        client_id="reader",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        retry_backoff_ms=20,
        metadata_max_age_ms=1000,
    )
    consumer.assign([kafka.TopicPartition("orders", 0)])
    deadline = time.monotonic() + PATIENCE_S
    try:
        while count and time.monotonic() < deadline:
            for batch in consumer.poll(timeout_ms=100).values():
                for record in batch:
                    count -= 1
                    yield record.value
    finally:
        consumer.close()


def consume_with_confluent(broker: KafkaBroker, count: int) -> Iterator[bytes]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": "reader",
            "group.id": "unused",
            "enable.auto.commit": False,
            "fetch.error.backoff.ms": 20,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    deadline = time.monotonic() + PATIENCE_S
    try:
        while count and time.monotonic() < deadline:
            record = consumer.poll(0.1)
            if record is not None:
                assert record.error() is None
                count -= 1
                yield record.value()
    finally:
        consumer.close()


Consume = Callable[[KafkaBroker, int], Iterator[bytes]]
CONSUMERS = [consume_with_kafka_python, consume_with_confluent]


@pytest.mark.parametrize("consume", CONSUMERS)
def test_a_reader_continues_after_its_fetch_session_is_dropped(
    kafka_broker: KafkaBroker, consume: Consume
) -> None:
    kafka_broker.produce("orders", "0")
    reader = consume(kafka_broker, 3)
    assert next(reader) == b"0"
    has_session = consume is consume_with_kafka_python
    assert len(kafka_broker.expire_session(client="reader")) == has_session
    kafka_broker.produce("orders", "1", "2")
    assert list(reader) == [b"1", b"2"]
    responses = [
        r["response"]["errorCode"] for r in kafka_broker.requests("FETCH") if r["response"]
    ]
    assert (70 in responses) == has_session


@pytest.mark.kafka_broker(brokers=3)
@pytest.mark.parametrize("consume", CONSUMERS)
def test_a_reader_follows_the_leader(kafka_broker: KafkaBroker, consume: Consume) -> None:
    kafka_broker.produce("orders", "0")
    reader = consume(kafka_broker, 7)
    assert next(reader) == b"0"
    for number in range(1, 7, 2):
        kafka_broker.move_leader("orders")
        kafka_broker.produce("orders", str(number), str(number + 1))
        assert [next(reader), next(reader)] == [b"%d" % number, b"%d" % (number + 1)]
    assert [record.leader_epoch for record in kafka_broker.records("orders")] == [
        0, 1, 1, 2, 2, 3, 3,
    ]  # fmt: skip
    assert list(reader) == []


@pytest.mark.parametrize("consume", CONSUMERS)
def test_a_reader_survives_a_restart(kafka_broker: KafkaBroker, consume: Consume) -> None:
    kafka_broker.produce("orders", "0")
    reader = consume(kafka_broker, 2)
    assert next(reader) == b"0"
    kafka_broker.restart()
    kafka_broker.produce("orders", "1")
    assert list(reader) == [b"1"]


@pytest.mark.kafka_broker(brokers=3, topics=["orders"])
def test_a_group_commits_at_its_new_coordinator(kafka_broker: KafkaBroker) -> None:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=kafka_broker.bootstrap_servers,
        group_id="billing",
        enable_auto_commit=False,
        retry_backoff_ms=20,
    )
    place = kafka.TopicPartition("orders", 0)
    consumer.assign([place])
    for offset in (5, 6):
        consumer.commit({place: kafka.OffsetAndMetadata(offset, "", -1)})
        assert kafka_broker.committed_offsets("billing") == {("orders", 0): offset}
        old = kafka_broker.coordinator("billing")
        assert kafka_broker.move_coordinator("billing") != old
        assert consumer.committed(place) == offset
    consumer.close()


@pytest.mark.kafka_broker(topics=["orders"])
def test_a_paused_broker_responds_after_resume(kafka_broker: KafkaBroker, start: Start) -> None:
    producer = start()
    producer.send(b"one")
    producer.flush()
    kafka_broker.pause()
    producer.send(b"two")
    producer.send(b"three")
    kafka_broker.requests("PRODUCE", at_least=2)
    assert values(kafka_broker) == [b"one"]
    kafka_broker.resume()
    producer.flush()
    assert values(kafka_broker) == [b"one", b"two", b"three"]


@pytest.mark.kafka_broker(topics=["orders"], config={"producer.id.expiration.ms": 60_000})
def test_a_producer_unknown_to_the_broker_continues(
    kafka_broker: KafkaBroker, start: Start
) -> None:
    producer = start()
    producer.send(b"one")
    producer.flush()
    assert known_producers(kafka_broker) == 1
    kafka_broker.advance_time(24 * 3600 * 1000)
    assert known_producers(kafka_broker) == 0
    producer.send(b"two")
    producer.flush()
    assert values(kafka_broker) == [b"one", b"two"]


def known_producers(broker: KafkaBroker) -> int:
    tables = broker._engine.tables
    return len(broker._call(lambda: tables.producers.keys()))
