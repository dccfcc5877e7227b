"""Reads whole topics, and creates missing ones.

Source: `KafkaBasedLog`, `TopicAdmin` in Kafka Connect.
"""

import random
from collections.abc import Iterator
from contextlib import closing

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from brokertwin.clients.connect.worker_config import WorkerConfig
from brokertwin.clients.driver import ClientDriver
from brokertwin.clients.io.security import Kafka, addresses_to, properties_of
from brokertwin.clients.io.sockets import SocketNetwork, monotonic_ms
from brokertwin.clients.log_client import LogClient
from brokertwin.clients.messages import ProducerRecord

READ_MS = 60_000
CREATE_S = 30.0
COMPACTED = {"cleanup.policy": "compact"}


class ReadError(Exception):
    """A topic could not be read to its end in time."""


def read_whole(kafka: Kafka, topic: str, *, is_committed: bool = False) -> Iterator[ProducerRecord]:
    """Read the records of a topic up to its current end. Raises ReadError."""
    return (message for _, message in read_places(kafka, topic, is_committed=is_committed))


def read_places(
    kafka: Kafka, topic: str, *, is_committed: bool = False
) -> Iterator[tuple[int, ProducerRecord]]:
    """Read records with their offsets. Raises ReadError."""
    client = LogClient(
        frozenset([topic]), random.random, isolation_level=int(is_committed), fetch_max_wait_ms=100
    )
    until = monotonic_ms() + READ_MS
    client.metadata.bootstrap(addresses_to(kafka), monotonic_ms())
    with closing(SocketNetwork(kafka, "brokertwin-connect")) as network:
        driver = ClientDriver(client, network, monotonic_ms)
        while not client.is_at_end:
            left = until - driver.now
            if left <= 0:
                raise ReadError(f"could not read {topic} to its end within {READ_MS} ms")
            records = client.poll(driver.now)
            for _, offset, message in records:
                yield offset, message
            if not client.is_at_end:
                # Do not wait for in-flight fetches if records are here already.
                driver.turn(0 if records else min(left, 100))


def create_topics(kafka: Kafka, config: WorkerConfig) -> None:
    """Create the compacted internal topics. Raises KafkaException."""
    partition_counts = {
        config.config_storage_topic: 1,
        config.offset_storage_topic: config.offset_storage_partitions,
        config.status_storage_topic: config.status_storage_partitions,
    }
    _create(
        kafka, [NewTopic(n, count, -1, config=COMPACTED) for n, count in partition_counts.items()]
    )


def create_topic(kafka: Kafka, name: str) -> None:
    """Create a topic with the broker's defaults. Raises KafkaException."""
    _create(kafka, [NewTopic(name, -1, -1)])


def _create(kafka: Kafka, topics: list[NewTopic]) -> None:
    admin = AdminClient({**properties_of(kafka).for_confluent(), "log_level": 2})
    for made in admin.create_topics(topics, request_timeout=CREATE_S).values():
        try:
            made.result(CREATE_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
