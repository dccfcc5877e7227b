"""Unmodified Kafka clients: everything that was produced is read once, byte for byte."""

import time
from collections.abc import Callable, Iterator

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.admin import KafkaAdminClient
from support.gateways import Running, running_gateway

COUNT = 10_000
PARTITIONS = 3
PATIENCE_S = 30

Records = dict[int, list[tuple[bytes, bytes]]]
"""Key and value of each record, in order, by partition."""


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with running_gateway(brokers=2) as running:
        yield running


def records() -> Records:
    """Keys and values of every sort of bytes, some empty, some long."""
    found: Records = {partition: [] for partition in range(PARTITIONS)}
    for number in range(COUNT):
        value = number.to_bytes(4, "big") * (number % 7) + bytes(range(number % 256))
        found[number % PARTITIONS].append((b"key %d" % number, value))
    return found


RECORDS = records()


def in_turn(wanted: Records) -> Iterator[tuple[int, bytes, bytes]]:
    for place in range(max(map(len, wanted.values()))):
        for partition, entries in wanted.items():
            if place < len(entries):
                yield partition, *entries[place]


def produce_with_kafka_python(bootstrap: str, topic: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, compression_type="gzip", linger_ms=5
    )
    sent = [
        producer.send(topic, value, key, partition=partition)
        for partition, key, value in in_turn(RECORDS)
    ]
    offsets = [future.get(PATIENCE_S).offset for future in sent]
    producer.close()
    assert sorted(offsets) == sorted(n for e in RECORDS.values() for n in range(len(e)))


def produce_with_confluent(bootstrap: str, topic: str) -> None:
    failed: list[object] = []
    configuration = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "compression.type": "zstd",
        "queue.buffering.max.messages": COUNT,
    }
    producer = confluent_kafka.Producer(configuration)
    for partition, key, value in in_turn(RECORDS):
        producer.produce(
            topic,
            value,
            key,
            partition,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(PATIENCE_S) == 0
    assert failed == []


def read_with_kafka_python(bootstrap: str, topic: str) -> Records:
    found: Records = {partition: [] for partition in range(PARTITIONS)}
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    consumer.assign([kafka.TopicPartition(topic, partition) for partition in found])
    consumer.seek_to_beginning()
    deadline = time.monotonic() + PATIENCE_S
    while sum(map(len, found.values())) < COUNT and time.monotonic() < deadline:
        for batch in consumer.poll(timeout_ms=500).values():
            for record in batch:
                assert record.offset == len(found[record.partition])
                found[record.partition].append((record.key, record.value))
    assert not consumer.poll(timeout_ms=300), "there is more than was produced"
    consumer.close()
    return found


def read_with_confluent(bootstrap: str, topic: str) -> Records:
    found: Records = {partition: [] for partition in range(PARTITIONS)}
    configuration = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
    }
    consumer = confluent_kafka.Consumer(configuration)
    consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in found])
    deadline = time.monotonic() + PATIENCE_S
    while sum(map(len, found.values())) < COUNT and time.monotonic() < deadline:
        for record in consumer.consume(1000, 0.5):
            assert record.error() is None
            assert record.offset() == len(found[record.partition()])
            found[record.partition()].append((record.key(), record.value()))
    assert not consumer.consume(1, 0.3), "there is more than was produced"
    consumer.close()
    return found


@pytest.mark.parametrize("produce", [produce_with_kafka_python, produce_with_confluent])
@pytest.mark.parametrize("read", [read_with_kafka_python, read_with_confluent])
def test_ten_thousand_records_are_read_once(
    gateway: Running, produce: Callable[[str, str], None], read: Callable[[str, str], Records]
) -> None:
    topic = f"{produce.__name__}-{read.__name__}"
    with gateway.client() as client:
        client.topic(topic, PARTITIONS)
    produce(gateway.bootstrap, topic)
    assert read(gateway.bootstrap, topic) == RECORDS


def test_kafka_pythons_admin_client(gateway: Running) -> None:
    admin = KafkaAdminClient(bootstrap_servers=gateway.bootstrap)
    admin.create_topics({"of-kafka-python": {"num_partitions": 4, "replication_factor": 1}})
    assert "of-kafka-python" in admin.list_topics()
    (described,) = admin.describe_topics(["of-kafka-python"])
    assert len(described["partitions"]) == 4
    admin.delete_topics(["of-kafka-python"])
    assert "of-kafka-python" not in admin.list_topics()
    admin.close()


def test_confluents_admin_client(gateway: Running) -> None:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    (created,) = admin.create_topics([NewTopic("of-confluent", 2, 1)]).values()
    assert created.result(PATIENCE_S) is None
    listed = admin.list_topics(timeout=PATIENCE_S)
    assert len(listed.topics["of-confluent"].partitions) == 2
    assert {(b.host, b.port) for b in listed.brokers.values()} == set(gateway.addresses.values())
    (deleted,) = admin.delete_topics(["of-confluent"]).values()
    assert deleted.result(PATIENCE_S) is None


def test_offsets_by_time_and_at_the_ends(gateway: Running) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": gateway.bootstrap, "linger.ms": 50})
    with gateway.client() as client:
        client.topic("offsets")
    for number in range(100):
        producer.produce("offsets", b"x", timestamp=1_700_000_000_000 + number * 10)
    assert producer.flush(PATIENCE_S) == 0
    consumer = confluent_kafka.Consumer({"bootstrap.servers": gateway.bootstrap, "group.id": "x"})
    place = confluent_kafka.TopicPartition("offsets", 0)
    assert consumer.get_watermark_offsets(place, PATIENCE_S) == (0, 100)
    for milliseconds, offset in [(0, 0), (405, 41), (990, 99), (991, -1)]:
        wanted = confluent_kafka.TopicPartition("offsets", 0, 1_700_000_000_000 + milliseconds)
        (found,) = consumer.offsets_for_times([wanted], PATIENCE_S)
        assert found.offset == offset
    consumer.close()
