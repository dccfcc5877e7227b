"""A secured Kafka: TLS to the broker, logins pass, no password is recorded."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.errors import KafkaError
from structlog.testing import capture_logs

from brokertwin.errors import UserError
from brokertwin.gateway.edge_fields import Address
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.settings import default_home
from brokertwin.state.access.redaction import HIDDEN, HIDDEN_BYTES
from tests.support.certificates import Authority
from tests.support.gateways import Client
from tests.support.patience import PATIENCE_S
from tests.support.proxies import Capturing, capturing

MODULE = "org.apache.kafka.common.security"
TOPIC = "secured"
ALICES, BOBS, WRONG, STORES = "wonder-land-7", "builder-can-fix-it", "not-the-one", "key-store-pass"
PASSWORDS = (ALICES, BOBS, WRONG, STORES)


def settings(directory: Path, authority: Authority) -> dict[str, str]:
    plain = f"{MODULE}.plain.PlainLoginModule required"
    return {
        "listener.security.protocol.map": "CLIENT:SASL_SSL,CONTROLLER:PLAINTEXT",
        "listener.name.client.plain.sasl.jaas.config": (
            f'{plain} username="broker" password="b" user_broker="b" user_alice="{ALICES}";'
        ),
        "listener.name.client.scram-sha-256.sasl.jaas.config": (
            f"{MODULE}.scram.ScramLoginModule required;"
        ),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("broker").store(directory / "broker.pem")),
    }


def client(bootstrap: str, mechanism: str, user: str, password: str) -> dict[str, str]:
    """Return a client that reaches the proxy without TLS."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


def administrate(bootstrap: str) -> None:
    """Create bob and change a password of the broker, as alice."""
    admin = AdminClient(client(bootstrap, "PLAIN", "alice", ALICES))
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(PATIENCE_S)
    scram = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = UserScramCredentialUpsertion("bob", scram, BOBS.encode())
    admin.alter_user_scram_credentials([upsertion])["bob"].result(PATIENCE_S)
    entry = ConfigEntry(
        "listener.name.client.ssl.keystore.password",
        STORES,
        incremental_operation=AlterConfigOpType.SET,
    )
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    altered = admin.incremental_alter_configs([resource])[resource]
    assert altered.exception(PATIENCE_S) is not None, "Kafka takes no password for PEM stores"
    described = ConfigResource(ResourceType.BROKER, "1")
    admin.describe_configs([described])[described].result(PATIENCE_S)


def use_as_bob(bootstrap: str) -> None:
    producer = confluent_kafka.Producer(client(bootstrap, "SCRAM-SHA-256", "bob", BOBS))
    producer.produce(TOPIC, b"hello")
    assert producer.flush(PATIENCE_S) == 0
    consumer = kafka.KafkaConsumer(
        TOPIC,
        bootstrap_servers=bootstrap,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-256",
        sasl_plain_username="bob",
        sasl_plain_password=BOBS,
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_S * 1000,
    )
    assert next(iter(consumer)).value == b"hello"
    consumer.close()


def be_refused(bootstrap: str) -> None:
    with pytest.raises(KafkaError):
        kafka.KafkaAdminClient(
            bootstrap_servers=bootstrap,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username="alice",
            sasl_plain_password=WRONG,
            bootstrap_timeout_ms=1000,
        )


def log_in_without_headers(first: Address) -> None:
    """Log in like clients before Kafka 1.0: the token is a separate frame."""
    with Client(first) as client:
        assert client.call("SASL_HANDSHAKE", 0, mechanism="PLAIN")["errorCode"] == 0
        client.send_frame(f"\0alice\0{ALICES}".encode())
        assert client.receive() == b""
        client.call("LIST_GROUPS", 4)


class Secured(NamedTuple):
    capture: Capturing
    logs: str

    def of(self, api: str) -> list[dict[str, Any]]:
        return self.capture.of(api)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority()
    trust = directory / "ca.pem"
    trust.write_text(authority.certificate)
    broker = EmbeddedKafka(directory / "kafka", default_home())
    options = {"security.protocol": "SASL_SSL", "ssl.truststore.location": str(trust)}
    tls = ClientProperties(options).ssl_context()
    try:
        real = broker.start(settings(directory, authority))
        with (
            capture_logs() as logs,
            capturing(real, directory / "recorded.jsonl", tls=tls) as capture,
        ):
            administrate(capture.bootstrap)
            use_as_bob(capture.bootstrap)
            be_refused(capture.bootstrap)
            log_in_without_headers(capture.first)
        yield Secured(capture, str(logs))
    finally:
        broker.stop()


@pytest.mark.kafka
def test_no_password_is_recorded_or_logged(secured: Secured) -> None:
    recorded = secured.capture.file.read_text(encoding="utf-8")
    assert secured.capture.lost.total() == 0
    for password in PASSWORDS:
        encoded = base64.b64encode(password.encode()).decode().rstrip("=")[:-1]
        for text in (recorded, secured.logs):
            assert password not in text
            assert encoded not in text


@pytest.mark.kafka
def test_tokens_salts_and_passwords_are_masked(secured: Secured) -> None:
    tokens = secured.of("SASL_AUTHENTICATE")
    assert {each["request"]["authBytes"] for each in tokens} == {HIDDEN_BYTES}
    assert {each["response"]["authBytes"] for each in tokens} == {HIDDEN_BYTES}
    (upserted,) = secured.of("ALTER_USER_SCRAM_CREDENTIALS")
    (upsertion,) = upserted["request"]["upsertions"]
    assert (upsertion["name"], upsertion["saltedPassword"]) == ("bob", HIDDEN_BYTES)
    (altered,) = secured.of("INCREMENTAL_ALTER_CONFIGS")
    assert altered["request"]["resources"][0]["configs"][0]["value"] == HIDDEN


@pytest.mark.kafka
def test_documents_have_the_principals_of_their_logins(secured: Secured) -> None:
    principals = {each["principal"] for each in secured.of("PRODUCE") + secured.of("FETCH")}
    assert principals == {"User:bob"}
    assert {each["principal"] for each in secured.of("CREATE_TOPICS")} == {"User:alice"}
    assert {each["principal"] for each in secured.of("SASL_HANDSHAKE")} == {"User:ANONYMOUS"}
    refused = [each for each in secured.of("SASL_AUTHENTICATE") if each["response"]["errorCode"]]
    assert {each["principal"] for each in refused} == {"User:ANONYMOUS"}
    assert refused


@pytest.mark.kafka
def test_token_without_header_is_recorded_as_a_token(secured: Secured) -> None:
    (token,) = [each for each in secured.capture.documents() if "requestHeader" not in each]
    assert token["reason"] == "request: a SASL token without header"
    assert (token["request"], token["principal"]) == (None, "User:ANONYMOUS")
    (after,) = secured.of("LIST_GROUPS")
    assert (after["connection"], after["principal"]) == (token["connection"], "User:alice")


@pytest.mark.kafka
def test_untrusted_broker_gets_no_requests(secured: Secured, tmp_path: Path) -> None:
    stranger = tmp_path / "other.pem"
    stranger.write_text(Authority().certificate)
    options = {"security.protocol": "SSL", "ssl.truststore.location": str(stranger)}
    tls = ClientProperties(options).ssl_context()
    real = secured.capture.proxy._first.address
    with capturing(real, tmp_path / "f", tls=tls) as capture:
        with Client(capture.first) as connection:
            assert connection.is_closed()
        (reason,) = capture.proxy.counts.refused
    assert "CERTIFICATE_VERIFY_FAILED" in reason


def test_unreadable_certificates_are_reported() -> None:
    options = {"security.protocol": "SSL", "ssl.truststore.location": "/nowhere/trust.pem"}
    with pytest.raises(UserError, match=r"Cannot read ssl\.truststore\.location .*: No such file"):
        ClientProperties(options).ssl_context()
    assert ClientProperties({}).ssl_context() is None
