"""Batch headers from a real broker's topics: just those that are wanted, and none but them."""

import socket
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from brokertwin.clients.io import batch_reader
from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topics import TopicSpec, admin_client, create
from brokertwin.protocol.batch_headers import BatchPartition
from brokertwin.testing import KafkaBroker
from tests.support.patience import PATIENCE_S

BATCHES = 12
RECORDS = 3
VALUE = b"x" * 500


@pytest.fixture
def client(kafka: str) -> ClientProperties:
    return ClientProperties({"bootstrap.servers": kafka})


@pytest.fixture
def place(client: ClientProperties) -> BatchPartition:
    """A partition with 12 batches of 3 records."""
    topic = f"batches-{uuid.uuid4().hex[:8]}"
    create(admin_client(client), {topic: TopicSpec(topic)})
    producer = Producer({**client.for_confluent(), "linger.ms": 10_000})
    for number in range(BATCHES * RECORDS):
        producer.produce(topic, VALUE, partition=0)
        if number % RECORDS == RECORDS - 1:
            assert producer.flush(PATIENCE_S) == 0
    return BatchPartition(topic, 0)


def starts(found: list[int]) -> set[int]:
    return {number * RECORDS for number in found}


@pytest.mark.parametrize("fetch_bytes", [100, 4000, 1_000_000])
def test_requested_batches_are_read_over_several_fetches(
    client: ClientProperties,
    place: BatchPartition,
    monkeypatch: pytest.MonkeyPatch,
    fetch_bytes: int,
) -> None:
    monkeypatch.setattr(batch_reader, "FETCH_BYTES", fetch_bytes)
    wanted = starts([1, 2, 7, 11])
    batches = batch_reader.read(client, {place: {*wanted, 4, 1000}})[place]
    assert {batch.base_offset for batch in batches} == wanted
    assert {(batch.record_count, batch.last_offset_delta) for batch in batches} == {(3, 2)}
    assert all(batch.size_in_bytes > RECORDS * len(VALUE) for batch in batches)
    assert all(batch.base_timestamp <= batch.max_timestamp for batch in batches)


def test_deleted_batches_are_skipped(client: ClientProperties, place: BatchPartition) -> None:
    admin = AdminClient(client.for_confluent())
    for future in admin.delete_records([Place(*place, 5 * RECORDS)]).values():
        future.result(PATIENCE_S)
    batches = batch_reader.read(client, {place: starts(list(range(BATCHES)))})[place]
    assert {batch.base_offset for batch in batches} == starts(list(range(5, BATCHES)))


def test_a_missing_topic_or_partition_has_no_entry(
    client: ClientProperties, place: BatchPartition
) -> None:
    nowhere = [BatchPartition("no-such-topic", 0), BatchPartition(place.topic, 9)]
    assert batch_reader.read(client, {place: {0} for place in nowhere}) == {}


def test_an_unreachable_broker_is_a_user_error() -> None:
    with pytest.raises(UserError, match="localhost:1 did not respond"):
        batch_reader.read(
            ClientProperties({"bootstrap.servers": "localhost:1"}), {BatchPartition("a", 0): {1}}
        )


def test_a_silent_server_is_a_user_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_reader, "TIMEOUT_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        at = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(UserError, match=f"Could not read batches from {at}"):
            batch_reader.read(
                ClientProperties({"bootstrap.servers": at}), {BatchPartition("a", 0): {1}}
            )


def test_a_partition_without_a_leader_is_a_user_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_reader, "TIMEOUT_S", 0.5)
    with KafkaBroker(brokers=2) as broker:
        broker.create_topic("t", 2)
        client = ClientProperties({"bootstrap.servers": broker.bootstrap})
        broker.kill(broker.leader("t", 1))
        broker.advance_time(60_000)
        with pytest.raises(UserError, match="Kafka returned 5 LEADER_NOT_AVAILABLE"):
            batch_reader.read(client, {BatchPartition("t", 1): {0}})
