"""SCRAM credentials altered through the API, compared with Kafka's."""

import hashlib
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.security import credentials, scram_users
from brokertwin.gateway.security.credentials import Credentials, KeptUsers
from tests.gateway.security.test_security import users, with_sasl
from tests.support import sasl
from tests.support.gateways import Running, running_gateway
from tests.support.goldens import Connection, Track, connection_to
from tests.support.patience import wait_until

GOLDEN = "access/scram_users"
SALT, SALTED = b"salt" * 4, b"w" * 32
SHA_256, SHA_512 = 1, 2
AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def text(data: bytes) -> str:
    return b64encode(data).decode()


def deletion(name: str, mechanism: int = SHA_256) -> dict[str, Any]:
    return {"name": name, "mechanism": mechanism}


def upsertion(name: str, mechanism: int = SHA_256, iterations: int = 8192) -> dict[str, Any]:
    fields = {"iterations": iterations, "salt": text(SALT), "saltedPassword": text(SALTED)}
    return {"name": name, "mechanism": mechanism, **fields}


def altering(*changes: dict[str, Any]) -> dict[str, Any]:
    return {
        "deletions": [each for each in changes if "iterations" not in each],
        "upsertions": [each for each in changes if "iterations" in each],
    }


def describing(*names: str) -> dict[str, Any]:
    return {"users": [{"name": name} for name in names]}


STEPS: list[dict[str, Any]] = [
    altering(upsertion("alice", SHA_256, 4096)),
    describing(),
    describing("nobody", ""),
    altering(),
    altering(upsertion("alice", SHA_512, 4096), upsertion("bob", SHA_256, 16384)),
    describing(),
    describing("alice", "nobody"),
    describing("alice", "alice", "bob"),
    describing("nobody", "nobody"),
    *(altering(upsertion("carl", 1, iterations)) for iterations in (4095, 16385)),
    *(altering(upsertion("carl", mechanism)) for mechanism in (0, 3)),
    altering(upsertion("")),
    altering(deletion("")),
    altering(deletion("nobody")),
    *(altering(deletion("bob", mechanism)) for mechanism in (0, 2, 7)),
    altering(deletion("bob"), upsertion("bob")),
    altering(deletion("bob"), deletion("bob")),
    altering(deletion("bob"), upsertion("bob", SHA_512)),
    altering(upsertion("bob"), upsertion("bob"), upsertion("dora")),
    altering(deletion("bob"), deletion("bob"), upsertion("bob", 7)),
    altering(deletion("nobody"), deletion("nobody"), upsertion("nobody")),
    altering(deletion("carl", 7), upsertion("carl"), upsertion("carl")),
    altering(upsertion("carl", SHA_256, 1), upsertion("carl")),
    altering(deletion("bob"), upsertion("bob", 7)),
    describing(),
    altering(deletion("bob"), upsertion("eve", 1, 1), upsertion("frank", 1, 4096)),
    describing(),
    altering(deletion("alice", SHA_512), deletion("dora")),
    describing(),
]


def by_user(response: dict[str, Any]) -> dict[str, Any]:
    """Return a response with results by user; a real broker's order is that of hash maps."""
    results = {each["user"]: each for each in response["results"]}
    for each in results.values():
        each.get("credentialInfos", []).sort(key=lambda info: info["mechanism"])
    assert len(results) == len(response["results"])
    return {**response, "results": results}


def test_credentials_are_altered_and_described_like_kafkas(
    real_kafka: Address, track: Track, tmp_path: Path
) -> None:
    real = track.connection(lambda: connection_to(real_kafka))
    known, kept = Credentials(users(tmp_path)), KeptUsers(None)
    forget(real)
    for step in STEPS:
        if "users" in step:
            actual = by_user(scram_users.describe(known, step))
            assert by_user(scram_users.describe(kept, step)) == actual
            wait_until(
                lambda step=step, actual=actual: response_to(real, step) == actual,
                f"{step}: {actual}",
            )
        else:
            expected = real.call("AlterUserScramCredentials", 0, step)
            actual = by_user(scram_users.alter(known, step))
            assert actual == by_user(expected), step
            assert by_user(scram_users.alter(kept, step)) == actual
    real.close()


def response_to(real: Connection, step: dict[str, Any]) -> dict[str, Any]:
    """Return the real broker's description, once it has applied the change."""
    return by_user(real.call("DescribeUserScramCredentials", 0, step))


def forget(real: Connection) -> None:
    there = response_to(real, describing())["results"].items()
    gone = [deletion(user, e["mechanism"]) for user, each in there for e in each["credentialInfos"]]
    real.call("AlterUserScramCredentials", 0, altering(*gone))
    wait_until(lambda: not response_to(real, describing())["results"])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users.jsonl"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Running]:
    with running_gateway(security=with_sasl(tmp_path)) as running:
        yield running


def admin(gateway: Running) -> AdminClient:
    address = gateway.addresses[1]
    return AdminClient(
        {
            "bootstrap.servers": f"{address.host}:{address.port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": sasl.USER,
            "sasl.password": sasl.PASSWORD,
        }
    )


def test_librdkafka_adds_and_describes_a_user(gateway: Running) -> None:
    client = admin(gateway)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 8192)
    added = UserScramCredentialUpsertion("bob", info, b"rabbit hole", b"salt")
    client.alter_user_scram_credentials([added])["bob"].result(timeout=60)
    found = client.describe_user_scram_credentials(["bob"])["bob"].result(timeout=60)
    assert [(each.mechanism, each.iterations) for each in found.scram_credential_infos] == [
        (ScramMechanism.SCRAM_SHA_512, 8192)
    ]
    with gateway.client() as body:
        sasl.handshake(body, sasl.SCRAM_512)
        assert sasl.scram(body, sasl.SCRAM_512, "bob", "rabbit hole")["errorCode"] == 0


def test_altered_credential_is_in_effect_at_once(gateway: Running, file: Path) -> None:
    salted = hashlib.pbkdf2_hmac("sha256", b"rabbit hole", SALT, 4096)
    added = upsertion("bob", SHA_256, 4096) | {"saltedPassword": text(salted)}
    with gateway.client() as client:
        sasl.log_in(client)
        connection = altering(added)
        assert (
            client.call("ALTER_USER_SCRAM_CREDENTIALS", 0, connection)["results"][0]["errorCode"]
            == 0
        )
        assert {each.user for each in credentials.read(file)} == {"alice", "bob"}
        assert file.stat().st_mode & 0o777 == credentials.FOR_OWNER_ONLY
        with gateway.client() as bob:
            sasl.handshake(bob, sasl.SCRAM_256)
            assert sasl.scram(bob, sasl.SCRAM_256, "bob", "rabbit hole")["errorCode"] == 0
        client.call("ALTER_USER_SCRAM_CREDENTIALS", 0, altering(deletion("bob")))
        with gateway.client() as bob:
            assert sasl.log_in(bob, "bob", "rabbit hole")["errorCode"] == 58


def test_last_credential_cannot_be_deleted(gateway: Running, file: Path) -> None:
    with gateway.client() as client:
        sasl.log_in(client)
        response = client.call("ALTER_USER_SCRAM_CREDENTIALS", 0, altering(deletion("alice")))
    assert response["results"][0]["errorCode"] == 93
    assert [each.user for each in credentials.read(file)] == ["alice"]


def test_unauthorized_alteration_is_refused_and_changes_nothing(tmp_path: Path, file: Path) -> None:
    settings = {"authorizer.class.name": AUTHORIZER, "super.users": "User:root"}
    security = with_sasl(tmp_path)
    with running_gateway(settings, security=security) as running, running.client() as client:
        sasl.log_in(client)
        described = client.call("DESCRIBE_USER_SCRAM_CREDENTIALS", 0, describing())
        body = altering(upsertion("bob"))
        altered = client.call("ALTER_USER_SCRAM_CREDENTIALS", 0, body)
    nobody = {"user": "", "errorCode": 31, "errorMessage": None, "credentialInfos": []}
    assert (described["errorCode"], described["results"]) == (31, [nobody])
    assert [(each["user"], each["errorCode"]) for each in altered["results"]] == [("bob", 31)]
    assert [each.user for each in credentials.read(file)] == ["alice"]


def test_plaintext_gateway_stores_users_like_kafka() -> None:
    software = {"clientSoftwareName": "a", "clientSoftwareVersion": "1"}
    with running_gateway() as plain, plain.client() as client:
        listed = [each["apiKey"] for each in client.call("API_VERSIONS", 4, software)["apiKeys"]]
        wanted = altering(upsertion("bob"), upsertion("eve", 9), deletion("carl"))
        altered = client.call("ALTER_USER_SCRAM_CREDENTIALS", 0, wanted)
        described = client.call("DESCRIBE_USER_SCRAM_CREDENTIALS", 0, describing())
        deleted = client.call("ALTER_USER_SCRAM_CREDENTIALS", 0, altering(deletion("bob")))
        left = client.call("DESCRIBE_USER_SCRAM_CREDENTIALS", 0, describing())
    assert listed == sorted(listed)
    assert {50, 51} <= set(listed)
    codes = {each["user"]: each["errorCode"] for each in altered["results"]}
    assert codes == {"bob": 0, "eve": 33, "carl": 91}
    (bob,) = described["results"]
    assert (bob["user"], bob["credentialInfos"]) == ("bob", [{"mechanism": 1, "iterations": 8192}])
    assert deleted["results"][0]["errorCode"] == 0, "also the last user"
    assert left["results"] == []


def test_users_of_a_plaintext_gateway_are_stored_beside_the_journal(tmp_path: Path) -> None:
    journal = tmp_path / "events"
    with running_gateway(journal=journal) as running, running.client() as client:
        body = altering(upsertion("bob"))
        client.call("ALTER_USER_SCRAM_CREDENTIALS", 0, body)
    assert (tmp_path / "events.users").stat().st_mode & 0o777 == credentials.FOR_OWNER_ONLY
    with running_gateway(journal=journal) as running, running.client() as client:
        described = client.call("DESCRIBE_USER_SCRAM_CREDENTIALS", 0, describing())
    assert [each["user"] for each in described["results"]] == ["bob"]
