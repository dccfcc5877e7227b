"""`brokertwin gateway --security-protocol …` in a separate process."""

from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from brokertwin.cli import logs
from brokertwin.gateway.security import credentials, scram
from brokertwin.kafka_io import properties
from brokertwin.settings import Settings
from tests.support import sasl
from tests.support.certificates import Authority
from tests.support.gateway_processes import gateway
from tests.support.gateways import HOST, Client

pytestmark = pytest.mark.processes

PASSWORDS = {"admin": "over the moon", "alice": "wonder land"}
WRONG = "hunter two"
KEY_PASSWORD = "key to the key"


@pytest.fixture
def users(tmp_path: Path) -> Path:
    file = tmp_path / "users.jsonl"
    entries = [
        credentials.make(user, mechanism, password, 4096)
        for user, password in PASSWORDS.items()
        for mechanism in scram.MECHANISMS.values()
    ]
    credentials.write(file, entries)
    return file


def broker_config(directory: Path) -> Path:
    """A broker's properties: TLS with an encrypted key, SASL, ACLs."""
    from cryptography.hazmat.primitives import serialization

    authority = Authority()
    (directory / "ca.pem").write_text(authority.certificate)
    identity = authority.issue("broker", HOST)
    key = serialization.load_pem_private_key(identity.key.encode(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(KEY_PASSWORD.encode()),
    )
    store = directory / "broker.pem"
    store.write_bytes(encrypted + identity.certificate.encode())
    settings = {
        "listener.name.sasl_ssl.ssl.keystore.location": str(store),
        "ssl.keystore.type": "PEM",
        "ssl.key.password": KEY_PASSWORD,
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
    }
    file = directory / "broker.properties"
    file.write_text(properties.dump(settings))
    return file


@pytest.mark.parametrize("further", [(), ("--control-listen", "0")], ids=["alone", "for tests"])
def test_users_get_in_and_acls_count(tmp_path: Path, users: Path, further: tuple[str, ...]) -> None:
    config = str(broker_config(tmp_path))
    words = ("--security-protocol", "SASL_SSL", "--credentials", str(users))
    with gateway(*words, *further, "--broker-config", config) as (_, addresses):
        refusals = {}
        for user, password in PASSWORDS.items():
            admin = AdminClient(
                {
                    "bootstrap.servers": f"{HOST}:{addresses[1].port}",
                    "security.protocol": "SASL_SSL",
                    "sasl.mechanism": "SCRAM-SHA-512",
                    "sasl.username": user,
                    "sasl.password": password,
                    "ssl.ca.location": str(tmp_path / "ca.pem"),
                }
            )
            (created,) = admin.create_topics([NewTopic(f"of-{user}", 1, 1)]).values()
            error = created.exception(20)
            refusals[user] = error.args[0].name() if error is not None else None
    assert refusals == {"admin": None, "alice": "TOPIC_AUTHORIZATION_FAILED"}


def test_no_output_has_a_password(tmp_path: Path, users: Path) -> None:
    """Standard error, standard output and the journal, after what went well and what did not."""
    journal = tmp_path / "journal"
    words = ("--security-protocol", "SASL_PLAINTEXT", "--credentials", str(users))
    words += ("--journal", str(journal), "--set", f"ssl.key.password={KEY_PASSWORD}")
    with gateway(*words) as (process, addresses):
        for password in (PASSWORDS["alice"], WRONG):
            with Client(addresses[1]) as client, suppress(ConnectionError):
                sasl.log_in(client, password=password)
                client.topic("made")
            with Client(addresses[1]) as client, suppress(ConnectionError):
                sasl.handshake(client, sasl.SCRAM_256)
                sasl.scram(client, password=password)
            with Client(addresses[1]) as client:
                client.send_frame(b"\0\x24\0\2" + sasl.plain(password=password))
                assert client.is_closed()
        process.terminate()
        assert process.stderr is not None
        output = process.stderr.read()
    kept = journal.read_text(errors="replace")
    assert "Invalid username or password" in output
    assert "User:alice" in kept
    for secret in (PASSWORDS["alice"], WRONG, KEY_PASSWORD):
        assert secret not in output + kept


def test_a_failed_login_is_logged_though_the_client_hangs_up_at_once(users: Path) -> None:
    words = ("--security-protocol", "SASL_PLAINTEXT", "--credentials", str(users))
    with gateway(*words) as (process, addresses):
        with Client(addresses[1]) as client:
            assert sasl.log_in(client, password=WRONG)["errorCode"]
        with Client(addresses[1]) as client:
            sasl.handshake(client, sasl.SCRAM_256)
            assert sasl.scram(client, password=WRONG)["errorCode"]
        with Client(addresses[1]) as client:
            assert sasl.handshake(client, "GSSAPI")["errorCode"]
        process.terminate()
        assert process.stderr is not None
        output = [line for line in process.stderr if "authentication failed" in line]
    assert "host=127.0.0.1" in output[0]
    assert "mechanism=PLAIN reason='Authentication failed: Invalid username" in output[0]
    assert "mechanism=SCRAM-SHA-256" in output[1]
    assert all("user=alice" in line for line in output[:2])
    assert "mechanism=GSSAPI reason='a SASL mechanism that is not enabled'" in output[2]
    assert "user=" not in output[2]


@pytest.mark.parametrize("form", ["console", "json"])
def test_a_traceback_in_the_log_shows_no_values(
    form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import structlog

    before = structlog.get_config()
    try:
        logs.configure(Settings.model_validate({"log_format": form}))
        try:
            _fail(WRONG)
        except ZeroDivisionError as error:
            structlog.get_logger("test").error("fault", exc_info=error)
    finally:
        logs.configure(Settings())
        structlog.configure(**before)
    output = capsys.readouterr().err
    assert "ZeroDivisionError" in output
    assert WRONG not in output


def _fail(password: str) -> float:
    return len(password) / 0
