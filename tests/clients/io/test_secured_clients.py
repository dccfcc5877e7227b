"""Our own clients over TLS and SASL: a gateway and a real Kafka let them in, or say why not."""

import json
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.fetcher import FetchSettings, OffsetReset
from brokertwin.clients.io.access import check_access
from brokertwin.clients.io.connect.logs import create_topic
from brokertwin.clients.io.consumer import Consumer
from brokertwin.clients.io.producer import Producer
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.errors import UserError
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from brokertwin.kafka_io.kafka_clients import ClientProperties
from tests.support.connect_commands import Files
from tests.support.console import brokertwin
from tests.support.gateways import running_gateway
from tests.support.patience import PATIENCE_S
from tests.support.secured_kafkas import (
    MECHANISMS,
    SCRAM_MODULE,
    STORE_PASSWORD,
    Secured,
    secured_gateway,
    secured_kafka,
    stores,
)

pytestmark = pytest.mark.clients

RECORDS = [b"%d" % number for number in range(20)]
NUMBERS = count(1)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_gateway(tmp_path_factory.mktemp("gateway")) as running:
        yield running


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured_kafka(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture(params=["gateway", pytest.param("real", marks=pytest.mark.kafka)])
def secured(request: pytest.FixtureRequest) -> Secured:
    result: Secured = request.getfixturevalue(request.param)
    return result


def copied(kafka: ClientProperties, topic: str) -> list[bytes]:
    """Return the records that a group member reads from a topic with a transaction."""
    create_topic(kafka, topic)
    with Producer(kafka, ProducerConfig(transactional_id=topic)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for value in RECORDS:
            producer.send(topic, ProducerRecord(None, value), 0)
        producer.commit_transaction()
    fetches = FetchSettings(auto_offset_reset=OffsetReset.EARLIEST, isolation_level=1)
    read: list[bytes] = []
    until = time.monotonic() + PATIENCE_S
    with Consumer(kafka, ConsumerConfig(group_id=topic), [topic], fetches) as consumer:
        while len(read) < len(RECORDS) and time.monotonic() < until:
            read += [message.value or b"" for _, _, message in consumer.poll(200)]
    return read


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_records_are_transferred_with_every_mechanism(secured: Secured, mechanism: str) -> None:
    kafka = secured.client(mechanism)
    check_access(kafka)
    assert copied(kafka, f"t{next(NUMBERS)}") == RECORDS


def test_commands_accept_a_properties_file(secured: Secured, tmp_path: Path) -> None:
    topic, to_kafka = f"t{next(NUMBERS)}", ("--kafka-config", secured.file("SCRAM-SHA-256"))
    create_topic(secured.client(), topic)
    sent = brokertwin("produce", topic, *to_kafka, text="a b\nb\n")
    assert sent.returncode == 0, sent.stderr
    counting = ("streams", "wordcount", topic, f"{topic}-counts", "--application-id", topic)
    counted = brokertwin(*counting, "--create", 1, "--timeout", 1, *to_kafka)
    assert counted.returncode == 0, counted.stderr
    reading = ("--group", topic, "--from-beginning", "-n", 3, "--json", *to_kafka)
    read = brokertwin("consume", f"{topic}-counts", *reading)
    documents = [json.loads(line) for line in read.stdout.splitlines()]
    assert [(each["key"], each["value"]) for each in documents] == [
        ("a", "1"),
        ("b", "1"),
        ("b", "2"),
    ]
    files = Files(tmp_path, f"{topic}-moved", secured.bootstrap)
    files.grow(50)
    moved = brokertwin(*files.words("--timeout", 2), *to_kafka)
    assert moved.returncode == 0, moved.stderr
    assert files.is_whole()


def test_a_worker_file_configures_worker_and_task_logins(secured: Secured, tmp_path: Path) -> None:
    of_worker = secured.properties("PLAIN")
    login = secured.properties("SCRAM-SHA-512")["sasl.jaas.config"]
    of_worker["producer.sasl.jaas.config"] = of_worker["consumer.sasl.jaas.config"] = login
    of_worker["producer.sasl.mechanism"] = of_worker["consumer.sasl.mechanism"] = "SCRAM-SHA-512"
    files = Files(tmp_path, f"t{next(NUMBERS)}", secured.bootstrap, **of_worker)
    files.grow(50)
    moved = brokertwin(*files.words("--worker", "distributed", "--timeout", 2))
    assert (moved.returncode, "properties without effect" in moved.stderr) == (0, False), (
        moved.stderr
    )
    assert files.is_whole()


def refused(kafka: ClientProperties) -> str:
    with pytest.raises(UserError) as error:
        check_access(kafka, 5_000)
    return str(error.value)


def test_authentication_failures_state_the_reason(secured: Secured, tmp_path: Path) -> None:
    wrong = [refused(ClientProperties(secured.properties(each, "wrong"))) for each in MECHANISMS]
    assert all(
        "rejected the login of ali" in each and "Authentication failed" in each for each in wrong
    )
    stranger = tmp_path / "stranger.pem"
    stores(tmp_path)
    (tmp_path / "ca.pem").rename(stranger)
    untrusted = refused(secured.client(ssl_truststore_location=str(stranger)))
    assert f"TLS with {secured.bootstrap} failed: " in untrusted
    assert "certificate" in untrusted
    unencrypted = refused(secured.client(security_protocol="SASL_PLAINTEXT"))
    assert "does not respond to SASL_PLAINTEXT: it closed the connection" in unencrypted
    host, _, port = secured.bootstrap.rpartition(":")
    other = {"127.0.0.1": "localhost", "localhost": "127.0.0.1"}[host]
    elsewhere = secured.client(bootstrap_servers=f"{other}:{port}")
    assert "mismatch" in refused(elsewhere)
    unchecked = {**elsewhere.values, "ssl.endpoint.identification.algorithm": ""}
    check_access(ClientProperties(unchecked))


def test_a_command_reports_a_wrong_password(gateway: Secured) -> None:
    wrong = gateway.file("SCRAM-SHA-512", "wrong")
    output = brokertwin("consume", "t", "--group", "g", "--kafka-config", wrong)
    assert (output.returncode, output.stdout) == (2, "")
    assert "The broker rejected the login of ali=ce,1: Authentication failed" in output.stderr
    assert '"wrong"' not in output.stderr


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            {"security.protocol": "TLS"},
            "Invalid security.protocol TLS. Use one of: PLAINTEXT, SSL, ",
        ),
        (
            {"sasl.mechanism": "GSSAPI"},
            "Unsupported sasl.mechanism GSSAPI; supported are PLAIN, SCRAM-SHA-256",
        ),
        ({"sasl.jaas.config": f'{SCRAM_MODULE} required username="a";'}, "has no password"),
        ({"ssl.truststore.location": "/none.pem"}, "Cannot read ssl.truststore.location /none.pem"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, "Use TLSv1.2 and TLSv1.3"),
    ],
)
def test_invalid_properties_are_named(gateway: Secured, changed: dict[str, str], text: str) -> None:
    given = {**gateway.properties("SCRAM-SHA-256"), **changed}
    assert text in refused(ClientProperties(given))


def test_a_session_is_reauthenticated_on_the_same_connection(tmp_path: Path) -> None:
    """KIP-368. The broker closes connections that are not reauthenticated."""
    with secured_gateway(tmp_path, connections_max_reauth_ms="3000") as short:
        kafka = short.client()
        create_topic(kafka, "long")
        before = short.connections()
        with Producer(kafka, ProducerConfig()) as producer:
            for number in range(35):
                producer.send("long", ProducerRecord(None, b"%d" % number), 0)
                events = producer.flush(5_000)
                assert [event.offset for event in events] == [number]  # type: ignore[union-attr]
                time.sleep(0.1)
        assert short.connections() == before + 2  # to the address, then to the broker


def test_javas_key_store_types_are_supported(tmp_path: Path) -> None:
    """A broker that wants a certificate of clients; the client's is in PKCS12."""
    settings = {**stores(tmp_path), "ssl.client.auth": "required"}
    security = GatewaySecurity.of(SecurityProtocol.SSL, settings)
    with running_gateway(security=security) as running:
        values = {
            "bootstrap.servers": running.bootstrap,
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(tmp_path / "ca.pem"),
        }
        assert "does not respond to SSL: it closed the connection" in refused(
            ClientProperties(values)
        )
        values["ssl.keystore.location"] = str(tmp_path / "alice.p12")
        values["ssl.keystore.password"] = STORE_PASSWORD
        assert copied(ClientProperties(values), "with-certificate") == RECORDS
