"""Transactions of unmodified clients, with readers of committed records."""

from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.support.gateways import Running, running_gateway
from tests.support.kafka_tools import run_tool
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.clients

LONGEST_TRANSACTION_MS = 900_000
"""Maximum of a broker, so that a transaction stays open however slowly a tool starts."""
READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
ROUNDS = 4


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with running_gateway(brokers=2) as running:
        yield running


def create(gateway: Running, topic: str) -> None:
    with gateway.client() as client:
        client.topic(topic, 2)


def sent(number: int, is_aborted: bool) -> bytes:
    return f"{'aborted' if is_aborted else 'committed'}-{number}".encode()


def write_with_confluent(gateway: Running, topic: str) -> None:
    settings = {"bootstrap.servers": gateway.bootstrap, "transactional.id": f"tx-{topic}"}
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(PATIENCE_S)
    for number in range(ROUNDS):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce(topic, sent(number, number % 2 == 1), partition=partition)
        if number % 2:
            producer.flush(PATIENCE_S)
            producer.abort_transaction(PATIENCE_S)
        else:
            producer.commit_transaction(PATIENCE_S)


def write_with_kafka_python(gateway: Running, topic: str) -> None:
    producer = KafkaProducer(bootstrap_servers=gateway.bootstrap, transactional_id=f"tx-{topic}")
    producer.init_transactions()
    for number in range(ROUNDS):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.send(topic, sent(number, number % 2 == 1), partition=partition)
        if number % 2:
            producer.flush(PATIENCE_S)
            producer.abort_transaction()
        else:
            producer.commit_transaction()
    producer.close()


def read_with_confluent(gateway: Running, topic: str, isolation_level: str) -> set[bytes]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": gateway.bootstrap,
            "group.id": "readers",
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    beginning = confluent_kafka.OFFSET_BEGINNING
    consumer.assign([confluent_kafka.TopicPartition(topic, p, beginning) for p in (0, 1)])
    read, ended = set(), set()
    while len(ended) < 2:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, "the end was not reached in time"
        if message.error() is None:
            read.add(message.value())
        else:
            assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF
            ended.add(message.partition())
    consumer.close()
    return read


def read_with_kafka_python(gateway: Running, topic: str, isolation_level: str) -> set[bytes]:
    places = [TopicPartition(topic, partition) for partition in (0, 1)]
    consumer: Any = KafkaConsumer(
        bootstrap_servers=gateway.bootstrap,
        isolation_level=isolation_level,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.assign(places)
    ends = consumer.end_offsets(places)
    read: set[bytes] = set()
    while any(consumer.position(place) < ends[place] for place in places):
        for records in consumer.poll(timeout_ms=1000).values():
            read.update(record.value for record in records)
    consumer.close()
    return read


@pytest.mark.parametrize("write", [write_with_confluent, write_with_kafka_python])
@pytest.mark.parametrize("read", [read_with_confluent, read_with_kafka_python])
def test_read_committed_consumers_skip_aborted_records(
    gateway: Running, write: Any, read: Any
) -> None:
    topic = f"{write.__name__}-{read.__name__}"
    create(gateway, topic)
    write(gateway, topic)
    committed = {sent(number, False) for number in range(0, ROUNDS, 2)}
    aborted = {sent(number, True) for number in range(1, ROUNDS, 2)}
    assert read(gateway, topic, READ_COMMITTED) == committed
    assert read(gateway, topic, READ_UNCOMMITTED) == committed | aborted


def test_open_transaction_is_read_once_committed(gateway: Running) -> None:
    create(gateway, "open")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": gateway.bootstrap, "transactional.id": "tx-open"}
    )
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("open", b"x", partition=0)
    producer.flush(PATIENCE_S)
    assert read_with_confluent(gateway, "open", READ_COMMITTED) == set()
    producer.commit_transaction(PATIENCE_S)
    assert read_with_confluent(gateway, "open", READ_COMMITTED) == {b"x"}


def test_returning_producer_fences_its_predecessor(gateway: Running) -> None:
    create(gateway, "fenced")
    settings = {"bootstrap.servers": gateway.bootstrap, "transactional.id": "tx-fenced"}
    old, new = confluent_kafka.Producer(settings), confluent_kafka.Producer(settings)
    old.init_transactions(PATIENCE_S)
    old.begin_transaction()
    old.produce("fenced", b"old", partition=0)
    old.flush(PATIENCE_S)
    new.init_transactions(PATIENCE_S)
    with pytest.raises(confluent_kafka.KafkaException) as failure:
        old.commit_transaction(PATIENCE_S)
    assert failure.value.args[0].fatal()
    new.begin_transaction()
    new.produce("fenced", b"new", partition=0)
    new.commit_transaction(PATIENCE_S)
    assert read_with_confluent(gateway, "fenced", READ_COMMITTED) == {b"new"}


@pytest.mark.kafka
def test_kafkas_producer_adds_partitions_when_writing(gateway: Running) -> None:
    """Transactions V2: no AddPartitionsToTxn, and a new epoch for each transaction."""
    create(gateway, "java")
    printed = run_tool(
        gateway.bootstrap,
        "ProducerPerformance",
        *("--topic", "java", "--num-records", "60", "--record-size", "50", "--throughput", "100"),
        *("--transactional-id", "tx-java", "--transaction-duration-ms", "100"),
    )
    assert "60 records sent" in printed
    active = []
    for broker in (1, 2):
        with gateway.client(broker) as client:
            body = {"topics": [{"name": "java", "partitionIndexes": [0, 1]}]}
            described = client.call("DESCRIBE_PRODUCERS", 0, body)["topics"][0]["partitions"]
        active += [each for partition in described for each in partition["activeProducers"]]
    assert active
    assert {each["currentTxnStartOffset"] for each in active} == {-1}
    assert max(each["producerEpoch"] for each in active) > 1
    assert len(read_with_confluent(gateway, "java", READ_COMMITTED)) > 0


@pytest.mark.kafka
def test_kafka_transactions_tool_lists_and_describes(gateway: Running) -> None:
    create(gateway, "listed")
    settings = {
        "bootstrap.servers": gateway.bootstrap,
        "transactional.id": "tx-listed",
        "transaction.timeout.ms": LONGEST_TRANSACTION_MS,
    }
    producer = confluent_kafka.Producer(settings)
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce("listed", b"x", partition=1)
    assert producer.flush(PATIENCE_S) == 0
    tool = "TransactionsCommand"
    described = run_tool(gateway.bootstrap, tool, "describe", "--transactional-id", "tx-listed")
    assert {"Ongoing", "listed-1"} <= set(described.split())
    producer.abort_transaction(PATIENCE_S)
    (row,) = [
        line.split()
        for line in run_tool(gateway.bootstrap, tool, "list").splitlines()
        if line.startswith("tx-listed")
    ]
    assert row[-1] == "CompleteAbort"
