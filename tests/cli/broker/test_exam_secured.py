"""`brokertwin exam` with TLS, SASL, limited rights and on shared clusters."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from brokertwin.cli.main import app
from brokertwin.testing import KafkaBroker
from brokertwin.testing.exam.model import selected
from brokertwin.testing.exam.rights import Rights, not_asked
from tests.support.certificates import Authority

USERS = {"alice": "secret"}
BY_PASSWORD = 'sasl.jaas.config=x.LoginModule required username="alice" password="secret";'
BY_TOKEN = 'sasl.jaas.config=x.LoginModule required unsecuredLoginStringClaim_sub="alice";'
WAYS = {
    "PLAIN": ("SASL_SSL", BY_PASSWORD),
    "SCRAM-SHA-256": ("SASL_SSL", BY_PASSWORD),
    "SCRAM-SHA-512": ("SASL_PLAINTEXT", BY_PASSWORD),
    "OAUTHBEARER": ("SASL_SSL", BY_TOKEN),
    "": ("SSL", ""),
}


@contextmanager
def secured(mechanism: str, home: Path, **config: str) -> Iterator[tuple[KafkaBroker, Path]]:
    """Provide a broker, and the file of a client's properties."""
    protocol, jaas = WAYS[mechanism]
    authority = Authority()
    key = authority.issue("broker", "127.0.0.1").store(home / "broker.pem")
    own = authority.issue("client", "127.0.0.1").store(home / "client.pem")
    trusted = home / "trusted.pem"
    trusted.write_text(authority.certificate, encoding="ascii")
    client = [f"security.protocol={protocol}", f"sasl.mechanism={mechanism}", jaas]
    settings = {**config}
    if protocol.endswith("SSL"):
        settings |= {"ssl.keystore.location": str(key), "ssl.keystore.type": "PEM"}
        settings |= {"ssl.client.auth": "required", "ssl.truststore.location": str(trusted)}
        settings |= {"ssl.truststore.type": "PEM"}
        client += [f"ssl.truststore.location={trusted}", "ssl.truststore.type=PEM"]
        client += [f"ssl.keystore.location={own}", "ssl.keystore.type=PEM"]
    if mechanism:
        settings["sasl.enabled.mechanisms"] = mechanism
    path = home / "client.properties"
    path.write_text("\n".join(client), encoding="utf-8")
    users = USERS if mechanism else None
    with KafkaBroker(config=settings, security_protocol=protocol, users=users) as broker:
        yield broker, path


def run(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["exam", *words])
    assert done.exit_code == code, (done.output, done.exception)
    return done.output


@pytest.mark.parametrize("mechanism", WAYS)
def test_a_secured_broker_is_examined(mechanism: str, tmp_path: Path) -> None:
    with secured(mechanism, tmp_path) as (broker, config):
        words = (broker.bootstrap, "--kafka-config", str(config), "--only", "idem_in", "--yes")
        assert "2 of 2 played scenarios agree" in run(*words)
        principals = {each["principal"] for each in broker.requests("PRODUCE")}
    assert principals == {"User:alice" if mechanism else "User:CN=client"}


def test_scenarios_of_anonymous_clients_need_plain_text(tmp_path: Path) -> None:
    words = "--only", "tokens_on_plaintext", "--yes"
    with secured("PLAIN", tmp_path) as (broker, config):
        login = "--kafka-config", str(config)
        assert "0 of 0 played" in run(broker.bootstrap, *login, *words, code=2)
    with KafkaBroker() as broker:
        assert "1 of 1 played" in run(broker.bootstrap, *words)


def test_a_wrong_password_is_reported(tmp_path: Path) -> None:
    with secured("PLAIN", tmp_path) as (broker, config):
        config.write_text(config.read_text().replace('"secret"', '"guessed"'), encoding="utf-8")
        done = CliRunner().invoke(app, ["exam", broker.bootstrap, "--kafka-config", str(config)])
    assert "The broker rejected the login of alice" in str(done.exception)


def test_what_a_user_may_not_do_is_not_asked(tmp_path: Path) -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    rules = {"authorizer.class.name": authorizer, "super.users": "User:admin"}
    with secured("PLAIN", tmp_path, **rules) as (broker, config):
        words = (broker.bootstrap, "--kafka-config", str(config), "--only", "idem_in", "--yes")
        printed = run(*words, "--rights", "user", code=2)
        assert "0 of 0 played scenarios agree" in printed
        assert "CreateTopics failed: 29 TOPIC_AUTHORIZATION_FAILED" in run(*words, code=4)


def test_a_read_only_exam_changes_nothing() -> None:
    with KafkaBroker(topics=["orders"]) as broker:
        printed = run(broker.bootstrap, "--read-only", "--only", "meta_", "--only", "describe_")
        assert "not asked" in printed
        seen = {each["requestHeader"]["requestApiKeyName"] for each in broker.requests()}
    assert seen.isdisjoint({"CREATE_TOPICS", "PRODUCE", "OFFSET_COMMIT", "DELETE_TOPICS"})
    reading = [one for _, one in selected() if not not_asked(one, Rights.ADMIN, True)]
    assert len(reading) > 30


def test_names_have_the_given_prefix() -> None:
    with KafkaBroker() as broker:
        run(broker.bootstrap, "--prefix", "team-a.", "--only", "idem_in_sequence")
        (created,) = broker.requests("CREATE_TOPICS")
    assert created["request"]["topics"][0]["name"].startswith("team-a.")
