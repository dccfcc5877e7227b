"""Records through unmodified Kafka clients, as produced and as read.

Values under each client's own option names override the defaults here.
"""

import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import kafka

from tests.support.patience import PATIENCE_S

PARTITIONS = 3

Records = dict[int, list[tuple[bytes, bytes]]]
"""Key and value of each record, in order, by partition."""


def records(count: int) -> Records:
    """Keys and values of every sort of bytes, some empty, some long."""
    result: Records = {partition: [] for partition in range(PARTITIONS)}
    for number in range(count):
        value = number.to_bytes(4, "big") * (number % 7) + bytes(range(number % 256))
        result[number % PARTITIONS].append((b"key %d" % number, value))
    return result


def in_turn(wanted: Records) -> Iterator[tuple[int, bytes, bytes]]:
    for place in range(max(map(len, wanted.values()))):
        for partition, entries in wanted.items():
            if place < len(entries):
                yield partition, *entries[place]


def produce_with_kafka_python(bootstrap: str, topic: str, wanted: Records, **options: Any) -> None:
    """Produce with idempotence; the offsets are those of an empty topic."""
    given = {"linger_ms": 5, "compression_type": "gzip", **options}
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, **given)
    sent = [
        producer.send(topic, value, key, partition=partition)
        for partition, key, value in in_turn(wanted)
    ]
    offsets = [future.get(PATIENCE_S).offset for future in sent]
    producer.close()
    assert sorted(offsets) == sorted(n for e in wanted.values() for n in range(len(e)))


def produce_with_confluent(bootstrap: str, topic: str, wanted: Records, **options: Any) -> None:
    """Produce with idempotence; every record is acknowledged."""
    failed: list[object] = []
    configuration = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "compression.type": "zstd",
        "queue.buffering.max.messages": max(sum(map(len, wanted.values())), 1000),
        **options,
    }
    producer = confluent_kafka.Producer(configuration)
    for partition, key, value in in_turn(wanted):
        producer.produce(
            topic,
            value,
            key,
            partition,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    assert producer.flush(PATIENCE_S) == 0
    assert failed == []


def read_with_kafka_python(bootstrap: str, topic: str, count: int, **options: Any) -> Records:
    """Read this number of records from the start, and no further ones; offsets have no gap."""
    result: Records = {partition: [] for partition in range(PARTITIONS)}
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, **options)
    consumer.assign([kafka.TopicPartition(topic, partition) for partition in result])
    consumer.seek_to_beginning()
    deadline = time.monotonic() + PATIENCE_S
    while sum(map(len, result.values())) < count and time.monotonic() < deadline:
        for batch in consumer.poll(timeout_ms=500).values():
            for record in batch:
                assert record.offset == len(result[record.partition])
                result[record.partition].append((record.key, record.value))
    assert not consumer.poll(timeout_ms=300), "there is more than was produced"
    consumer.close()
    return result


def read_with_confluent(bootstrap: str, topic: str, count: int, **options: Any) -> Records:
    """As `read_with_kafka_python`."""
    result: Records = {partition: [] for partition in range(PARTITIONS)}
    configuration = {
        "bootstrap.servers": bootstrap,
        "group.id": "unused",
        "enable.auto.commit": False,
        **options,
    }
    consumer = confluent_kafka.Consumer(configuration)
    consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in result])
    deadline = time.monotonic() + PATIENCE_S
    while sum(map(len, result.values())) < count and time.monotonic() < deadline:
        for record in consumer.consume(1000, 0.5):
            assert record.error() is None
            assert record.offset() == len(result[record.partition()])
            result[record.partition()].append((record.key(), record.value()))
    assert not consumer.consume(1, 0.3), "there is more than was produced"
    consumer.close()
    return result
