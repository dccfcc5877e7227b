"""A test broker with TLS or SASL."""

import tempfile
from pathlib import Path
from typing import Any

import kafka
import pytest
from kafka.errors import KafkaError

from brokertwin.errors import UserError
from brokertwin.testing import KafkaBroker
from tests.support.certificates import Authority

USERS = {"alice": "secret"}


def produced(broker: KafkaBroker, **settings: Any) -> int:
    producer = kafka.KafkaProducer(bootstrap_servers=broker.bootstrap_servers, **settings)
    try:
        return int(producer.send("orders", b"one").get(timeout=20).offset)
    finally:
        producer.close(5)


@pytest.mark.clients
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_user_logs_in(mechanism: str) -> None:
    login = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
    }
    with KafkaBroker(1, ["orders"], None, "SASL_PLAINTEXT", USERS) as broker:
        assert produced(broker, **login, sasl_plain_password="secret") == 0
        assert {each["principal"] for each in broker.requests("PRODUCE")} == {"User:alice"}
        with pytest.raises(KafkaError):
            produced(broker, **login, sasl_plain_password="guessed", bootstrap_timeout_ms=1000)


@pytest.mark.clients
def test_a_client_that_trusts_the_authority_is_served(tmp_path: Path) -> None:
    authority = Authority()
    store = authority.issue("broker", "127.0.0.1").store(tmp_path / "broker.pem")
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(authority.certificate, encoding="ascii")
    config = {"ssl.keystore.location": str(store), "ssl.keystore.type": "PEM"}
    with KafkaBroker(topics=["orders"], config=config, security_protocol="SSL") as broker:
        assert produced(broker, security_protocol="SSL", ssl_cafile=str(trusted)) == 0


@pytest.mark.kafka_broker(security_protocol="SASL_PLAINTEXT", users=USERS, topics=["orders"])
def test_the_marker_takes_both(kafka_broker: KafkaBroker) -> None:
    assert kafka_broker.produce("orders", b"one") == 0


def test_the_users_are_deleted_with_the_broker() -> None:
    broker = KafkaBroker(security_protocol="SASL_PLAINTEXT", users=USERS)
    with broker:
        folder = broker._folder
        assert folder is not None
        assert Path(folder.name, "credentials").is_file()
    assert not Path(folder.name).exists()


def test_a_closed_broker_cannot_be_restarted() -> None:
    broker = KafkaBroker()
    with broker:
        pass
    with pytest.raises(UserError, match="is closed"):
        broker.start()


def test_users_of_a_rejected_broker_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(UserError, match=r"ssl\.keystore\.location"):
        KafkaBroker(security_protocol="SASL_SSL", users=USERS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"security_protocol": "TLS"}, "Use one of PLAINTEXT, SSL"),
        ({"users": USERS}, "users requires SASL"),
        ({"security_protocol": "SSL"}, "ssl.keystore.location"),
    ],
)
def test_invalid_security_arguments_are_rejected(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        KafkaBroker(**given)
