"""Unmodified clients and an empty Kafka through the proxy, and the replay."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from brokertwin.kafka_io.kafka_broker import DEFAULTS, EmbeddedKafka
from brokertwin.recordings.replay.comparison import AGREEING
from brokertwin.settings import default_home
from tests.support.console import brokertwin
from tests.support.patience import PATIENCE_S
from tests.support.proxies import Capturing, capturing, name_of

TOPIC = "orders"
PARTITIONS = 2
COUNT = 200
COMPARED = {"API_VERSIONS", "CREATE_TOPICS", "FETCH", "LIST_OFFSETS", "METADATA", "PRODUCE"}
"""First responses of a coordinator depend on how fast it loads."""


def record(number: int) -> bytes:
    return b"record %d" % number


def create_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "86400000"})
    admin.create_topics([new])[TOPIC].result(PATIENCE_S)


def produce_with_kafka_python(bootstrap: str) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap,
        enable_idempotence=True,
        compression_type="gzip",
        linger_ms=2,
        request_timeout_ms=PATIENCE_S * 1000,  # no request is sent twice
        delivery_timeout_ms=2 * PATIENCE_S * 1000,
    )
    sent = [producer.send(TOPIC, record(n), partition=n % PARTITIONS) for n in range(COUNT)]
    for future in sent:
        future.get(PATIENCE_S)
    producer.close()


def consume_with_kafka_python(bootstrap: str) -> list[bytes]:
    consumer = kafka.KafkaConsumer(
        TOPIC, bootstrap_servers=bootstrap, group_id="kp", auto_offset_reset="earliest"
    )
    result: list[bytes] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(result) < COUNT and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=500).values():
            result += [each.value for each in records]
    consumer.commit()
    consumer.close()
    return result


def transact_with_confluent(bootstrap: str) -> None:
    """Consume in a group, produce and commit offsets in a transaction; abort another."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "ck",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    taken = consumer.consume(10, PATIENCE_S)
    assert len(taken) == 10
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
    producer.init_transactions(PATIENCE_S)
    for ends_well in (True, False):
        producer.begin_transaction()
        producer.produce(TOPIC, b"in a transaction", partition=0)
        if ends_well:
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
            producer.commit_transaction(PATIENCE_S)
        else:
            producer.flush(PATIENCE_S)
            producer.abort_transaction(PATIENCE_S)
    consumer.close()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Capturing]:
    directory = tmp_path_factory.mktemp("recorded")
    broker = EmbeddedKafka(directory / "kafka", default_home())
    try:
        with capturing(broker.start(), directory / "recorded.jsonl") as capture:
            create_topic(capture.bootstrap)
            produce_with_kafka_python(capture.bootstrap)
            found = consume_with_kafka_python(capture.bootstrap)
            transact_with_confluent(capture.bootstrap)
        assert sorted(found) == sorted(record(n) for n in range(COUNT))
        yield capture
    finally:
        broker.stop()


@pytest.mark.kafka
def test_every_exchange_is_recorded_and_decoded(recorded: Capturing) -> None:
    documents = recorded.documents()
    assert recorded.lost.total() == 0
    assert [each for each in documents if "reason" in each] == []
    counts = Counter(map(name_of, documents))
    assert counts.total() == recorded.proxy.counts.exchanges
    assert counts.keys() >= {
        "ADD_OFFSETS_TO_TXN", "API_VERSIONS", "CREATE_TOPICS", "END_TXN", "FETCH",
        "FIND_COORDINATOR", "HEARTBEAT", "INIT_PRODUCER_ID", "JOIN_GROUP", "LEAVE_GROUP",
        "METADATA", "OFFSET_COMMIT", "OFFSET_FETCH", "PRODUCE", "SYNC_GROUP", "TXN_OFFSET_COMMIT",
    }  # fmt: skip


@pytest.mark.kafka
def test_produced_batches_are_recorded_by_their_headers(recorded: Capturing) -> None:
    batches = [
        batch
        for document in recorded.of("PRODUCE")
        for topic in document["request"]["topicData"]
        for partition in topic["partitionData"]
        for batch in partition["batches"]
    ]
    assert sum(batch["recordCount"] for batch in batches) == COUNT + 2
    assert {batch["compressionType"] for batch in batches} == {"gzip", "none"}
    assert sum(batch["isTransactional"] for batch in batches) == 2
    assert "record 1" not in recorded.file.read_text(encoding="utf-8")


@pytest.mark.kafka
def test_clients_connect_to_the_proxy_only(recorded: Capturing) -> None:
    addresses = {
        (place["host"], place["port"])
        for document in recorded.of("METADATA") + recorded.of("FIND_COORDINATOR")
        for name in ("brokers", "coordinators")
        for place in document["response"].get(name, ())
        if place["host"]
    }
    assert addresses == {tuple(recorded.first)}


BUSY = "50"
"""How much slower the machine may be than the one of the recording, in percent."""


def replayed(recorded: Capturing, out: Path) -> list[dict[str, Any]]:
    settings = [f"--set={name}={value}" for name, value in DEFAULTS.items()]
    words = ["replay", str(recorded.file), "--compare", "--out", str(out), *settings]
    words += ["--time-tolerance", BUSY]
    done = brokertwin(*words, cwd=out.parent)
    assert out.is_file(), done.stderr
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


@pytest.mark.kafka
def test_recording_replays_with_the_same_responses(
    recorded: Capturing, empty_directory: Path
) -> None:
    verdicts = replayed(recorded, empty_directory / "verdicts.jsonl")
    assert len(verdicts) == len(recorded.documents())
    compared = [each for each in verdicts if each["api"] in COMPARED]
    assert {each["api"] for each in compared} == COMPARED
    assert [each for each in compared if each["verdict"] not in AGREEING] == []
