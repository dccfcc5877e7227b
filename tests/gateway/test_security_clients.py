"""Real clients over SASL_SSL and SSL: logins, and access by ACLs.

The configurations are copied from docs/security.md.
"""

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka.errors import KafkaTimeoutError
from structlog.testing import capture_logs

from brokertwin.gateway.security import credentials, scram
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from tests.support.certificates import Authority
from tests.support.gateways import HOST, Running, running_gateway
from tests.support.kafka_tools import PACKAGE, java_command
from tests.support.patience import PATIENCE_S, growing, wait_until

pytestmark = pytest.mark.clients

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "security.md").read_text()
PASSWORDS = {"alice": "wonder land", "bob": 'b"ö=b,'}
MECHANISMS = ["PLAIN", *scram.MECHANISMS]
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:alice;User:CN=alice",
}
RECORDS = [b"%d" % number for number in range(50)]


def block(language: str, beginning: str) -> str:
    blocks = re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)
    return str(next(each for each in blocks if each.startswith(beginning)))


class Secured(NamedTuple):
    """A secured gateway, with all that clients need for it."""

    running: Running
    directory: Path

    def pasted(self, beginning: str, mechanism: str, user: str, password: str) -> dict[str, Any]:
        """Return a Python client's configuration of the document, with other values."""
        text = self._replaced(block("python", beginning), mechanism)
        names: dict[str, Any] = {}
        exec(text, names)
        found: dict[str, Any] = names[beginning.split()[0]]
        passed = {"alice": user, PASSWORDS["alice"]: password}
        return {name: passed.get(value, value) for name, value in found.items()}

    def confluent(
        self, mechanism: str = "SCRAM-SHA-512", user: str = "alice", password: str | None = None
    ) -> dict[str, Any]:
        given = PASSWORDS[user] if password is None else password
        return self.pasted("confluent = ", mechanism, user, given)

    def kafka_python(
        self, mechanism: str = "SCRAM-SHA-512", user: str = "alice", password: str | None = None
    ) -> dict[str, Any]:
        given = PASSWORDS[user] if password is None else password
        return self.pasted("kafka_python = ", mechanism, user, given)

    def properties(self, mechanism: str, password: str = PASSWORDS["alice"]) -> Path:
        """Write a properties file for Kafka's tools."""
        text = self._replaced(block("properties", "security.protocol"), mechanism)
        if mechanism == "PLAIN":
            text = text.replace("scram.ScramLoginModule", "plain.PlainLoginModule")
        file = self.directory / f"{mechanism}.properties"
        file.write_text(text.replace(PASSWORDS["alice"], password))
        return file

    def _replaced(self, text: str, mechanism: str) -> str:
        text = text.replace("broker.example.com:9093", self.running.bootstrap)
        text = text.replace("SCRAM-SHA-512", mechanism)
        return text.replace("ca.pem", str(self.directory / "ca.pem"))


def with_users(directory: Path) -> Path:
    file = directory / "users.jsonl"
    entries = [
        credentials.make(user, mechanism, password, 4096)
        for user, password in PASSWORDS.items()
        for mechanism in scram.MECHANISMS.values()
    ]
    credentials.write(file, entries)
    return file


def stores(directory: Path) -> dict[str, str]:
    """Create a broker's stores, and certificates of alice and a stranger."""
    authority = Authority()
    (directory / "ca.pem").write_text(authority.certificate)
    authority.issue("broker", HOST).store(directory / "broker.pem")
    authority.issue("alice").store(directory / "alice.pem")
    Authority().issue("alice").store(directory / "stranger.pem")
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
    }


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    users = with_users(directory)
    security = GatewaySecurity.of(SecurityProtocol.SASL_SSL, stores(directory), users)
    with running_gateway(AUTHORIZER, security=security) as running:
        yield Secured(running, directory)


@pytest.fixture(scope="module")
def with_certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("certificates")
    settings = {**stores(directory), "ssl.client.auth": "required"}
    security = GatewaySecurity.of(SecurityProtocol.SSL, settings)
    with running_gateway(AUTHORIZER, security=security) as running:
        yield Secured(running, directory)


def create(configuration: dict[str, Any], topic: str) -> None:
    admin = AdminClient(configuration)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)


def produce_with_confluent(configuration: dict[str, Any], topic: str) -> None:
    failed: list[Any] = []
    producer = confluent_kafka.Producer(configuration)
    for value in RECORDS:
        producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert [error for error in failed if error] == []


def read_with_kafka_python(configuration: dict[str, Any], topic: str) -> list[bytes]:
    consumer = kafka.KafkaConsumer(**configuration, consumer_timeout_ms=PATIENCE_S * 1000)
    try:
        consumer.assign([kafka.TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        return [record.value for _, record in zip(RECORDS, consumer, strict=False)]
    finally:
        consumer.close()


@pytest.mark.parametrize("user", PASSWORDS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_python_clients_log_in_with_every_mechanism(
    secured: Secured, mechanism: str, user: str
) -> None:
    topic = f"{mechanism}-{user}"
    create(secured.confluent(), topic)
    if user != "alice":
        allow(secured.confluent(), user, AclOperation.ALL, topic)
    produce_with_confluent(secured.confluent(mechanism, user), topic)
    assert read_with_kafka_python(secured.kafka_python(mechanism, user), topic) == RECORDS


def errors_of(configuration: dict[str, Any], what: str) -> str:
    """Return the errors of a refused client, as soon as `what` is among them."""
    given: list[Any] = []
    admin = AdminClient({**configuration, "error_cb": given.append})
    with pytest.raises(confluent_kafka.KafkaException):
        admin.list_topics(timeout=0.2)  # it keeps trying to connect

    def is_reported() -> bool:
        admin.poll(0.1)
        return what in {error.name() for error in given}

    wait_until(is_reported, what)
    return "".join(str(error) for error in given)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("user", ["alice", "nobody"])
def test_wrong_password_is_refused_and_reported(
    secured: Secured, mechanism: str, user: str
) -> None:
    configuration = secured.confluent(mechanism, user, "wrong")
    assert "Authentication failed" in errors_of(configuration, "_AUTHENTICATION")


def test_kafka_python_reports_a_wrong_password(
    secured: Secured, caplog: pytest.LogCaptureFixture
) -> None:
    configuration = secured.kafka_python("SCRAM-SHA-256", password="wrong")
    for seconds in growing(1.5):
        with pytest.raises(KafkaTimeoutError):
            kafka.KafkaProducer(**configuration, bootstrap_timeout_ms=int(1000 * seconds))
        if "invalid credentials" in caplog.text:
            break
    assert "due to invalid credentials with SASL mechanism SCRAM-SHA-256" in caplog.text


def test_disabled_mechanism_is_reported(tmp_path: Path) -> None:
    settings = {**stores(tmp_path), "sasl.enabled.mechanisms": "SCRAM-SHA-512"}
    security = GatewaySecurity.of(SecurityProtocol.SASL_SSL, settings, with_users(tmp_path))
    with running_gateway(security=security) as running:
        only_512 = Secured(running, tmp_path)
        create(only_512.confluent(), "made")
        reported = errors_of(only_512.confluent("PLAIN"), "_AUTHENTICATION")
    assert "broker's supported mechanisms: SCRAM-SHA-512" in reported


def test_client_reauthenticates_on_the_same_connection(tmp_path: Path) -> None:
    """KIP-368: librdkafka gets the session lifetime, and authenticates again before it ends."""
    for seconds in growing(1.2):
        connections, found = connections_of_sessions(tmp_path, seconds)
        if connections == [connections[0]] * 3 and not found:
            return
    pytest.fail(f"{connections} connections, {found}")


def connections_of_sessions(directory: Path, seconds: float) -> tuple[list[int], list[Any]]:
    """Return a client's connections in three sessions, and its errors."""
    settings = {**stores(directory), "connections.max.reauth.ms": str(int(1000 * seconds))}
    security = GatewaySecurity.of(SecurityProtocol.SASL_SSL, settings, with_users(directory))
    with running_gateway(security=security) as running:
        secured = Secured(running, directory)
        create(secured.confluent(), "long")
        reported: list[Any] = []
        producer = confluent_kafka.Producer({**secured.confluent(), "error_cb": reported.append})
        connections = []
        for _ in range(3):
            producer.produce("long", b"x")
            assert producer.flush(PATIENCE_S) == 0
            connections.append(running.gateway._count)
            producer.poll(seconds * 0.85)
        return connections, reported


def test_client_without_the_authoritys_certificate_does_not_connect(secured: Secured) -> None:
    other = Authority().certificate
    configuration = {**secured.confluent(), "ssl.ca.pem": other}
    del configuration["ssl.ca.location"]
    assert "certificate verify failed" in errors_of(configuration, "_SSL")
    create(secured.confluent(), "still-served")


def allow(configuration: dict[str, Any], user: str, operation: AclOperation, topic: str) -> None:
    binding = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        f"User:{user}",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    admin = AdminClient(configuration)
    admin.create_acls([binding])[binding].result(PATIENCE_S)


def test_user_without_acl_is_denied_with_kafkas_codes(secured: Secured) -> None:
    create(secured.confluent(), "closed")
    with capture_logs() as logs:
        _denied_to_bob(secured.confluent("PLAIN", "bob"))
    denied = [each for each in logs if each["event"] == "denied"]
    assert {each["principal"] for each in denied} == {"User:bob"}
    assert {(each["api"], each["error"], each["resource"]) for each in denied} == {
        ("CREATE_TOPICS", "TOPIC_AUTHORIZATION_FAILED", "Topic:of-bob"),
        ("METADATA", "TOPIC_AUTHORIZATION_FAILED", "Topic:closed"),
        ("FIND_COORDINATOR", "GROUP_AUTHORIZATION_FAILED", "Group:unused"),
        ("CREATE_ACLS", "CLUSTER_AUTHORIZATION_FAILED", "Cluster:kafka-cluster"),
    }


def _denied_to_bob(bob: dict[str, Any]) -> None:
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        create(bob, "of-bob")
    assert refused.value.args[0].name() == "TOPIC_AUTHORIZATION_FAILED"
    assert "closed" not in AdminClient(bob).list_topics(timeout=PATIENCE_S).topics
    failed: list[Any] = []
    producer = confluent_kafka.Producer(bob)
    producer.produce("closed", b"x", on_delivery=lambda error, _: failed.append(error.name()))
    assert producer.flush(PATIENCE_S) == 0
    assert failed == ["TOPIC_AUTHORIZATION_FAILED"]
    consumer = confluent_kafka.Consumer({**bob, "group.id": "unused"})
    consumer.assign([confluent_kafka.TopicPartition("closed", 0, 0)])
    (got,) = consumer.consume(1, PATIENCE_S)
    assert got.error().name() == "GROUP_AUTHORIZATION_FAILED"
    consumer.close()
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        allow(bob, "bob", AclOperation.ALL, "closed")
    assert refused.value.args[0].name() == "CLUSTER_AUTHORIZATION_FAILED"


def certificate(secured: Secured, name: str | None) -> dict[str, Any]:
    """Return confluent-kafka's SSL configuration, with a certificate if one is named."""
    settings = {
        "bootstrap.servers": secured.running.bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": str(secured.directory / "ca.pem"),
    }
    if name is not None:
        file = str(secured.directory / f"{name}.pem")
        settings |= {"ssl.certificate.location": file, "ssl.key.location": file}
    return settings


def test_client_certificate_is_the_principal_over_ssl(with_certificates: Secured) -> None:
    alice = certificate(with_certificates, "alice")
    create(alice, "of-alice")
    produce_with_confluent(alice, "of-alice")
    file = str(with_certificates.directory / "alice.pem")
    read = read_with_kafka_python(
        {
            "bootstrap_servers": with_certificates.running.bootstrap,
            "security_protocol": "SSL",
            "ssl_cafile": str(with_certificates.directory / "ca.pem"),
            "ssl_certfile": file,
            "ssl_keyfile": file,
        },
        "of-alice",
    )
    assert read == RECORDS


@pytest.mark.parametrize("name", [None, "stranger"])
def test_client_without_a_trusted_certificate_is_refused(
    with_certificates: Secured, name: str | None
) -> None:
    admin = AdminClient(certificate(with_certificates, name))
    with pytest.raises(confluent_kafka.KafkaException):
        admin.list_topics(timeout=1)


Tool = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def tool(secured: Secured) -> Tool:
    """Run one of Kafka's tools with a properties file of the document."""

    def run(name: str, config: Path, *words: str, text: str = "") -> Any:
        command = [*java_command(), f"{PACKAGE}.{name}"]
        command += ["--bootstrap-server", secured.running.bootstrap]
        command += ["--command-config", str(config), *words]
        return subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=PATIENCE_S
        )

    return run


@pytest.mark.kafka
def test_kafkas_tools_log_in_with_every_mechanism(secured: Secured, tool: Tool) -> None:
    created = tool(
        *("TopicCommand", secured.properties("SCRAM-SHA-512"), "--create", "--topic", "tools")
    )
    assert "Created topic tools." in created.stdout, created.stderr
    lines = "".join(f"line {number}\n" for number in range(20))
    sent = tool("ConsoleProducer", secured.properties("PLAIN"), "--topic", "tools", text=lines)
    assert sent.returncode == 0, sent.stderr
    read = tool(
        *("consumer.ConsoleConsumer", secured.properties("SCRAM-SHA-256"), "--topic", "tools"),
        *("--partition", "0", "--offset", "earliest", "--max-messages", "20"),
    )
    assert read.stdout == lines, read.stderr


@pytest.mark.kafka
def test_kafkas_tools_report_a_wrong_password(secured: Secured, tool: Tool) -> None:
    config = secured.properties("SCRAM-SHA-256", "wrong")
    done = tool("TopicCommand", config, "--list")
    assert done.returncode == 1
    assert "invalid credentials with SASL mechanism SCRAM-SHA-256" in done.stdout + done.stderr
