"""A broker with TLS, client certificates and SASL: each client reaches it with one file."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer

from brokertwin.clients.io import batch_reader
from brokertwin.kafka_io import properties
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.kafka_io.kafka_clients import ClientProperties, client_properties
from brokertwin.kafka_io.topics import login_error
from brokertwin.protocol.batch_headers import BatchPartition
from brokertwin.settings import default_home, load
from brokertwin.state.core import outputs
from tests.support.certificates import Authority, Identity
from tests.support.console import brokertwin
from tests.support.jobs import JobBench, capture
from tests.support.patience import PATIENCE_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
STORES = ("files", "inline")
TOPIC = "secured"


def broker_settings(directory: Path, authority: Authority) -> dict[str, str]:
    """SASL_SSL with PLAIN and required client certificates."""
    trust = directory / "ca.pem"
    trust.write_text(authority.certificate)
    identity = authority.issue("broker").store(directory / "broker.pem")
    return {
        "listener.security.protocol.map": "CLIENT:SASL_SSL,CONTROLLER:PLAINTEXT",
        "listener.name.client.plain.sasl.jaas.config": (
            f'{PLAIN} username="broker" password="b" user_broker="b" user_alice="wonder land";'
        ),
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(identity),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trust),
    }


def client_file(directory: Path, authority: Authority, alice: Identity, stores: str) -> Path:
    trust = directory / "ca.pem"
    values = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{PLAIN} username="alice" password="wonder land";',
        "ssl.truststore.type": "PEM",
        "ssl.keystore.type": "PEM",
    }
    if stores == "files":
        values["ssl.truststore.location"] = str(trust)
        values["ssl.keystore.location"] = str(alice.store(directory / "alice.pem"))
    else:
        values["ssl.truststore.certificates"] = authority.certificate
        values["ssl.keystore.certificate.chain"] = alice.certificate
        values["ssl.keystore.key"] = alice.key
    file = directory / f"{stores}.properties"
    file.write_text(properties.dump(values))
    return file


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ClientProperties]]:
    """A secured broker, and its client properties by location of the certificates."""
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority()
    alice = authority.issue("alice")
    broker = EmbeddedKafka(directory / "broker", default_home())
    try:
        bootstrap = broker.start(broker_settings(directory, authority))
        files = {stores: client_file(directory, authority, alice, stores) for stores in STORES}
        yield {
            stores: client_properties(load({"bootstrap": bootstrap, "kafka_config": file}).settings)
            for stores, file in files.items()
        }
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def record(secured: dict[str, ClientProperties]) -> bytes:
    configuration = secured["files"].for_confluent()
    admin = AdminClient(configuration)
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(PATIENCE_S)
    producer = Producer(configuration)
    producer.produce(TOPIC, b"hello")
    assert producer.flush(PATIENCE_S) == 0
    return b"hello"


@pytest.mark.kafka
@pytest.mark.parametrize("stores", STORES)
def test_confluent_kafka_reaches_it(
    stores: str, secured: dict[str, ClientProperties], record: bytes
) -> None:
    admin = AdminClient(secured[stores].for_confluent())
    assert TOPIC in admin.list_topics(timeout=PATIENCE_S).topics
    assert secured[stores].warnings() == []


@pytest.mark.kafka
@pytest.mark.parametrize("stores", STORES)
def test_kafka_python_reaches_it(
    stores: str, secured: dict[str, ClientProperties], record: bytes
) -> None:
    consumer = KafkaConsumer(
        TOPIC,
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_S * 1_000,
        **secured[stores].for_kafka_python(),
    )
    try:
        assert next(iter(consumer)).value == record
    finally:
        consumer.close()


@pytest.mark.kafka
@pytest.mark.parametrize("stores", STORES)
def test_batch_headers_are_read_from_it(
    stores: str, secured: dict[str, ClientProperties], record: bytes
) -> None:
    place = BatchPartition(TOPIC, 0)
    [batch] = batch_reader.read(secured[stores], {place: {0}})[place]
    assert (batch.base_offset, batch.record_count) == (0, 1)


@pytest.mark.kafka
@pytest.mark.parametrize("stores", STORES)
def test_spark_reaches_it(
    stores: str, secured: dict[str, ClientProperties], record: bytes, spark: "SparkSession"
) -> None:
    reader = spark.read.format("kafka").options(**secured[stores].for_spark())
    rows = reader.option("subscribe", TOPIC).load().select("value").collect()
    assert [bytes(row.value) for row in rows] == [record]


@pytest.mark.kafka
def test_a_job_runs_on_it(
    secured: dict[str, ClientProperties], tmp_path: Path, spark: "SparkSession"
) -> None:
    """Covers topics, events, Spark's source and sink, placement and the clock."""
    client = secured["files"]
    file = tmp_path / "client.properties"
    file.write_text(properties.dump(client.values))
    bench = JobBench(client.bootstrap, tmp_path, kafka_config=file)
    events = capture("idempotent_producer_kp", bench.edge("a"))
    bench.send("a", events)
    assert bench.run(spark).is_clean
    assert {row.id for row in bench.rows(outputs.RESPONSES)} == {event.id for event in events}
    bench.assert_live_run_equals_replay("a")


@pytest.mark.kafka
def test_a_wrong_password_is_rejected(secured: dict[str, ClientProperties]) -> None:
    values = dict(secured["files"].values)
    assert login_error(ClientProperties(values)) is None
    values["sasl.jaas.config"] = f'{PLAIN} username="alice" password="wrong";'
    message = login_error(ClientProperties(values)) or ""
    assert "Authentication failed: Invalid username or password" in message


@pytest.mark.kafka
def test_committed_offsets_are_written_to_it_and_exported_from_it(
    secured: dict[str, ClientProperties], record: bytes, tmp_path: Path
) -> None:
    client, file, source = secured["files"], tmp_path / "client.properties", tmp_path / "o.csv"
    file.write_text(properties.dump(client.values))
    source.write_text(f"g,{TOPIC},0,1\n")
    to = ("offsets", "export", source, "--to", client.bootstrap, "--to-config", file)
    saved = tmp_path / "saved.json"
    undo = f"brokertwin offsets undo {saved} {client.bootstrap} --kafka-config {file}"
    assert brokertwin(*to, "--saved", saved).stderr == (
        f"saved the former offsets to {saved} before the change\n"
        f"1 offset written, 0 refused, 1 in total\nundo it with: {undo}\n"
    )
    kept = tmp_path / "kept"
    done = brokertwin("offsets", "import", client.bootstrap, kept, "--kafka-config", file)
    assert done.returncode == 0
    (shown,) = brokertwin("offsets", "show", kept, "--json").stdout.splitlines()
    assert json.loads(shown) == {"group": "g", "topic": TOPIC, "partition": 0, "offset": 1}
