"""One file of Java client properties lets every client reach a secured broker."""

import socket
import threading
from pathlib import Path

import pytest

from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import (
    ClientProperties,
    check_reachable,
    client_properties,
    parse_jaas,
    pem,
)
from brokertwin.settings import load
from tests.support.certificates import Authority, of_pkcs12, trust_store

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
JAAS = f'{PLAIN} username="alice" password="s=c r;e\\"t";'


def client(**values: str) -> ClientProperties:
    names = {name.replace("_", "."): value for name, value in values.items()}
    return ClientProperties({"bootstrap.servers": "b:9092", **names})


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (JAAS, {"username": "alice", "password": 's=c r;e"t'}),
        (f"{PLAIN} username='a b' password=bare ;", {"username": "a b", "password": "bare"}),
        (f"{PLAIN} ;", {}),
        (f'{PLAIN}\n  username="a"\n  password=""\n;\n', {"username": "a", "password": ""}),
    ],
)
def test_jaas_credentials_are_parsed(text: str, options: dict[str, str]) -> None:
    assert parse_jaas(text) == options


@pytest.mark.parametrize("text", ["", "x", f"{PLAIN} password=secret", f"{PLAIN} secret;"])
def test_other_credentials_are_rejected_without_repeating_them(text: str) -> None:
    with pytest.raises(UserError) as refused:
        parse_jaas(text)
    assert "secret" not in refused.value.message + refused.value.hint


def test_spark_gets_the_names_of_kafka() -> None:
    options = client(security_protocol="SSL", sasl_jaas_config=JAAS).for_spark()
    assert options == {
        "kafka.bootstrap.servers": "b:9092",
        "kafka.security.protocol": "SSL",
        "kafka.sasl.jaas.config": JAAS,
    }


def test_scram_for_confluent_and_kafka_python() -> None:
    given = client(
        security_protocol="SASL_SSL", sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=JAAS
    )
    assert given.for_confluent() == {
        "bootstrap.servers": "b:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": 's=c r;e"t',
    }
    assert given.for_kafka_python() == {
        "bootstrap_servers": "b:9092",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "alice",
        "sasl_plain_password": 's=c r;e"t',
    }
    assert given.warnings() == []


def test_oauthbearer_with_client_credentials() -> None:
    given = ClientProperties(
        {
            "bootstrap.servers": "b:9092",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
            "sasl.jaas.config": 'x.Login required clientId="me" clientSecret="x" scope="kafka";',
        }
    )
    assert given.for_confluent() == {
        "bootstrap.servers": "b:9092",
        "sasl.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "me",
        "sasl.oauthbearer.client.secret": "x",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.token.endpoint.url": "https://idp/token",
    }
    assert given.warnings() == []
    assert given.for_kafka_python()["sasl_mechanism"] == "OAUTHBEARER"


def test_pem_stores_in_files(tmp_path: Path) -> None:
    trust, own = str(tmp_path / "ca.pem"), str(tmp_path / "me.pem")
    for file in (trust, own):
        Path(file).write_text("-----BEGIN CERTIFICATE-----")
    given = ClientProperties(
        {
            "bootstrap.servers": "b:9092",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": trust,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": own,
            "ssl.key.password": "x",
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert given.for_confluent() == {
        "bootstrap.servers": "b:9092",
        "ssl.ca.location": trust,
        "ssl.certificate.location": own,
        "ssl.key.location": own,
        "ssl.key.password": "x",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert given.for_kafka_python() == {
        "bootstrap_servers": "b:9092",
        "ssl_cafile": trust,
        "ssl_certfile": own,
        "ssl_keyfile": own,
        "ssl_password": "x",
        "ssl_check_hostname": False,
    }
    assert given.warnings() == []


def test_properties_without_effect_are_named_in_a_warning() -> None:
    given = client(ssl_cipher_suites="x", group_id="g")
    assert given.warnings() == [
        "not about the connection, left out: group.id",
        "confluent-kafka has nothing like ssl.cipher.suites",
        "kafka-python has nothing like ssl.cipher.suites",
    ]
    assert "kafka.group.id" not in given.for_spark()


@pytest.mark.parametrize("store", ["ssl.truststore", "ssl.keystore"])
@pytest.mark.parametrize("kind", ["PEM", "JKS"])
def test_a_missing_store_is_named(store: str, kind: str) -> None:
    values = {f"{store}.location": "/x/none", f"{store}.type": kind, "security.protocol": "SSL"}
    for convert in (ClientProperties.for_confluent, ClientProperties.for_kafka_python):
        with pytest.raises(UserError) as refused:
            convert(ClientProperties(values))
        assert refused.value.message == (
            f"Cannot read {store}.location /x/none: No such file or directory."
        )


@pytest.mark.parametrize(
    ("store", "message"),
    [
        ("truststore", "has no certificate of an authority"),
        ("keystore", "has no private key"),
    ],
)
def test_a_store_without_what_it_is_for_is_rejected(
    store: str, message: str, tmp_path: Path
) -> None:
    """OpenSSL would trust the system's authorities, or log in without a certificate."""
    file, authority = tmp_path / "store", Authority()
    content = of_pkcs12(authority.issue("alice"), "secret")
    if store == "keystore":
        content = trust_store(authority, "secret")
    file.write_bytes(content)
    values = {f"ssl.{store}.location": str(file), f"ssl.{store}.password": "secret"}
    values["security.protocol"] = "SSL"
    for convert in (ClientProperties.for_confluent, ClientProperties.for_kafka_python):
        with pytest.raises(UserError, match=message):
            convert(ClientProperties(values))


def test_stores_are_not_read_without_tls() -> None:
    values = {"security.protocol": "SASL_PLAINTEXT", "ssl.truststore.location": "/x/none"}
    assert ClientProperties(values).for_confluent()


def test_secrets_are_not_shown() -> None:
    shown = repr(client(sasl_jaas_config=JAAS, ssl_key_password="hidden"))
    assert shown == "ClientProperties(bootstrap.servers, sasl.jaas.config, ssl.key.password)"


def test_an_invalid_number_is_rejected() -> None:
    with pytest.raises(UserError, match=r"request\.timeout\.ms: 'x' is not a number"):
        client(request_timeout_ms="x").for_kafka_python()


def test_blanks_in_pem_become_line_ends() -> None:
    block = "-----BEGIN PRIVATE KEY-----\nAB\nCD\n-----END PRIVATE KEY-----\n"
    assert pem(block.replace("\n", " ") + block.replace("\n", "  ")) == block + block


def test_the_address_of_the_option_precedes_that_of_the_file(empty_directory: Path) -> None:
    file = empty_directory / "client.properties"
    file.write_text("bootstrap.servers=file:1\n")
    flags = {"kafka_config": file, "home": empty_directory}
    assert client_properties(load(flags).settings).bootstrap == "file:1"
    with_flag = load({**flags, "bootstrap": "flag:1"}).settings
    assert client_properties(with_flag).bootstrap == "flag:1"


def test_a_missing_broker_has_a_helpful_error_message(empty_directory: Path) -> None:
    with pytest.raises(UserError, match="There is no Kafka broker") as refused:
        client_properties(load({"home": empty_directory}).settings)
    assert "brokertwin kafka start" in refused.value.hint


def test_one_address_that_accepts_is_enough() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        check_reachable(f"localhost:1, PLAINTEXT://127.0.0.1:{port}", patience_s=0)


@pytest.mark.parametrize(
    ("addresses", "text"),
    [
        ("localhost:1", "Kafka at localhost:1 did not respond: Connection refused."),
        ("127.0.0.1:1,[::1]:1", "Kafka at 127.0.0.1:1,[::1]:1 did not respond"),
        ("no-such-host.invalid:9092", "Kafka at no-such-host.invalid:9092 did not respond"),
        ("localhost:99999", "Invalid Kafka address 'localhost:99999'."),
        ("localhost:http", "Invalid Kafka address 'localhost:http'."),
    ],
)
def test_an_unreachable_broker_is_reported(addresses: str, text: str) -> None:
    with pytest.raises(UserError) as refused:
        check_reachable(addresses, patience_s=0)
    assert refused.value.message.startswith(text)
    assert refused.value.hint


def test_a_starting_broker_is_awaited() -> None:
    with socket.socket() as late:
        late.bind(("127.0.0.1", 0))
        timer = threading.Timer(0.5, late.listen)
        timer.start()
        check_reachable(f"127.0.0.1:{late.getsockname()[1]}", patience_s=30)
        timer.join()
