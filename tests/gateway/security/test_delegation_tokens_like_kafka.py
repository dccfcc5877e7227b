"""Delegation tokens: compare the responses with Apache Kafka 4.3.1.

Times are compared as differences, ids by the token's name. The hmacs must match the ids and the
secret key on both sides.
"""

import hmac
import re
import time
import uuid
from base64 import b64decode, b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.security import credentials, scram
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from brokertwin.state.access.authorizer import CLASS_NAME, Operation, ResourceType
from tests.support import sasl
from tests.support.gateways import Client, running_gateway
from tests.support.goldens import golden, properties_of, real_broker
from tests.support.kafka_tools import ToolProcess
from tests.support.patience import growing, wait_until
from tests.support.settled import settle
from tests.support.tool_steps import CLASSES

SECRET = "only a test's"
USERS = ("admin", "alice", "bob", "carol", "broker")
PASSWORD = "secret"
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
PLAIN_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required username=broker"
    f' password="{PASSWORD}" {" ".join(f"user_{user}={PASSWORD}" for user in USERS)};'
)
SETTINGS = {
    "authorizer.class.name": CLASS_NAME,
    "super.users": "User:admin;User:broker;User:ANONYMOUS",
    "delegation.token.secret.key": SECRET,
    "delegation.token.expiry.time.ms": "3000000",
    "delegation.token.max.lifetime.ms": "10000000",
    "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "listener.name.client.plain.sasl.jaas.config": PLAIN_LOGIN,
    "listener.name.client.scram-sha-256.sasl.jaas.config": SCRAM_LOGIN,
    "listener.name.client.scram-sha-512.sasl.jaas.config": SCRAM_LOGIN,
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": sasl.PLAIN,
}
EVERY_ACL = {
    **dict.fromkeys(("resourceTypeFilter", "patternTypeFilter", "operation", "permissionType"), 1),
    **dict.fromkeys(("resourceNameFilter", "principalFilter", "hostFilter")),
}
SHORT_MS = 1_200
LIFETIME = "lifetime"
UNIT_MS = 1_000_000
"""Unit of compared times; half of one may pass between two steps."""


class Talk:
    """The requests to a broker and its responses."""

    def __init__(self, address: Address) -> None:
        self.responses: list[tuple[str, Any]] = []
        self._address = address
        self._tokens: dict[str, dict[str, Any]] = {}
        self._clients = {user: self._logged_in(user) for user in USERS[:-1]}

    def _logged_in(self, user: str) -> Client:
        client = Client(self._address)
        assert sasl.log_in(client, user, PASSWORD)["errorCode"] == 0
        return client

    def forget(self) -> None:
        """Delete the tokens and ACLs of an earlier attempt."""
        self._clients["admin"].call("DELETE_ACLS", 3, filters=[EVERY_ACL])
        for client in self._clients.values():
            for each in client.call("DESCRIBE_DELEGATION_TOKEN", 3, owners=None)["tokens"]:
                client.call("EXPIRE_DELEGATION_TOKEN", 2, hmac=each["hmac"], expiryTimePeriodMs=-1)
        wait_until(lambda: not self._good_until())
        settle(self._clients["admin"])

    def allow(self, user: str, operation: Operation, kind: ResourceType, name: str) -> None:
        acl = {"resourceType": int(kind), "resourceName": name, "principal": f"User:{user}"}
        acl |= {"host": "*", "operation": int(operation), "permissionType": 3}
        response = self._clients["admin"].call("CREATE_ACLS", 3, creations=[acl])
        assert response["results"][0]["errorCode"] == 0
        settle(self._clients["admin"])

    def short_lived(self, user: str, name: str) -> None:
        for lasts_ms in growing(SHORT_MS):
            begun, given = time.monotonic(), len(self.responses)
            self.create(user, name, maxLifetimeMs=lasts_ms)
            ends = time.monotonic() + lasts_ms / 1000
            self.log_in(name)
            if time.monotonic() < begun + lasts_ms / 1000:
                break
            self.expire(user, name)  # the lifetime was too short for this machine
            del self.responses[given:]
        time.sleep(max(ends - time.monotonic(), 0) + 0.01)

    def create(self, user: str, name: str, version: int = 3, **request: Any) -> None:
        body = {"renewers": [], "maxLifetimeMs": -1, **request}
        response = self._clients[user].call("CREATE_DELEGATION_TOKEN", version, body)
        if response["errorCode"] == 0:
            self._tokens[name] = response
            self._wait_for(name, True)
        self._report(f"{user} creates {name} v{version}", response)

    def renew(self, user: str, name: str, period_ms: int = -1, version: int = 2) -> None:
        body = {"hmac": self._hmac(name), "renewPeriodMs": period_ms}
        response = self._clients[user].call("RENEW_DELEGATION_TOKEN", version, body)
        if response["errorCode"] == 0:
            self._wait_until_good(name, response["expiryTimestampMs"])
        self._report(f"{user} renews {name} for {period_ms}", response, time.time() * 1000)

    def expire(self, user: str, name: str, period_ms: int = -1, version: int = 2) -> None:
        body = {"hmac": self._hmac(name), "expiryTimePeriodMs": period_ms}
        response = self._clients[user].call("EXPIRE_DELEGATION_TOKEN", version, body)
        if response["errorCode"] == 0 and period_ms < 0:
            self._wait_for(name, False)
        elif response["errorCode"] == 0:
            self._wait_until_good(name, response["expiryTimestampMs"])
        self._report(f"{user} expires {name} by {period_ms}", response, time.time() * 1000)

    def describe(self, user: str, *owners: str, version: int = 3, of_all: bool = True) -> None:
        named = [{"principalType": "User", "principalName": owner} for owner in owners]
        body = {"owners": None if of_all and not owners else named}
        response = self._clients[user].call("DESCRIBE_DELEGATION_TOKEN", version, body)
        self._report(f"{user} describes {owners} v{version} {of_all}", response)

    def log_in(self, name: str, mechanism: str = sasl.SCRAM_256, password: str = "") -> None:
        """Log in with a token; return the principal, seen by its permissions."""
        token = self._tokens.get(name, {"tokenId": name, "hmac": ""})
        with Client(self._address) as client:
            try:
                sasl.handshake(client, mechanism)
                secret = password or token["hmac"]
                found = sasl.scram(client, mechanism, token["tokenId"], secret, is_token=True)
                lifetime = found.pop("sessionLifetimeMs")
                self._report(f"log in with {name}", found | {"authBytes": ""})
                self.responses.append((f"{LIFETIME} with {name}", lifetime))
                if found["errorCode"] == 0:
                    self._look(client, name)
            except ConnectionError:
                self._report(f"log in with {name}", {"closed": True})

    def _look(self, client: Client, name: str) -> None:
        response = client.call("DESCRIBE_DELEGATION_TOKEN", 3, owners=None)
        self._report(f"by {name}: its tokens", response)
        response = client.call("CREATE_DELEGATION_TOKEN", 3, renewers=[], maxLifetimeMs=-1)
        self._report(f"by {name}: another", response)
        topics = [{"name": f"of-{uuid.uuid4()}", "numPartitions": 1, "replicationFactor": 1}]
        response = client.call("CREATE_TOPICS", 6, {"topics": topics, "timeoutMs": 5000})
        self.responses.append((f"by {name}: a topic", response["topics"][0]["errorCode"]))

    def _hmac(self, name: str) -> str:
        token = self._tokens.get(name)
        return token["hmac"] if token else b64encode(name.encode()).decode()

    def _wait_for(self, name: str, is_there: bool) -> None:
        """Wait until the broker has applied the controller's records."""
        token_id = self._tokens[name]["tokenId"]
        wait_until(lambda: (token_id in self._good_until()) == is_there)

    def _wait_until_good(self, name: str, until_ms: int) -> None:
        """Wait until the broker has applied the token's new expiry."""
        token_id = self._tokens[name]["tokenId"]
        wait_until(lambda: self._good_until().get(token_id) == until_ms)

    def _good_until(self) -> dict[str, int]:
        response = self._clients["admin"].call("DESCRIBE_DELEGATION_TOKEN", 3, owners=None)
        return {each["tokenId"]: each["expiryTimestamp"] for each in response["tokens"]}

    def _report(self, what: str, response: dict[str, Any], now: float = 0.0) -> None:
        self.responses.append((what, self._plain(response, now)))

    def _plain(self, value: Any, now: float) -> Any:
        if isinstance(value, list):
            return sorted((self._plain(each, now) for each in value), key=str)
        if not isinstance(value, dict):
            return value
        issued = value.get("issueTimestampMs", value.get("issueTimestamp", now))
        result: dict[str, Any] = {}
        for key, part in value.items():
            if "imestamp" in key and part > 0:
                result[key] = "now" if part == issued else round((part - issued) / UNIT_MS)
            elif key == "hmac" and part:
                made = hmac.digest(SECRET.encode(), value["tokenId"].encode(), "sha512")
                result[key] = b64decode(part) == made
            elif key == "tokenId" and part:
                names = [n for n, token in self._tokens.items() if token["tokenId"] == part]
                result[key] = (names, len(part))
            else:
                result[key] = self._plain(part, now)
        return result


def converse(address: Address) -> list[tuple[str, Any]]:
    """Send all requests to a broker and return its responses."""
    talk = Talk(address)
    talk.forget()
    bobs = {"renewers": [{"principalType": "User", "principalName": "bob"}]}
    for_carol = {"ownerPrincipalType": "User", "ownerPrincipalName": "carol"}
    talk.describe("alice")
    talk.create("alice", "own")
    for version in (1, 2):
        talk.create("alice", f"v{version}", version)
        talk.describe("alice", version=version)
        talk.expire("alice", f"v{version}", version=1)
    talk.create("alice", "shared", **bobs, maxLifetimeMs=5 * UNIT_MS)
    talk.create("alice", "group's", renewers=[{"principalType": "Group", "principalName": "g"}])
    talk.create("alice", "carol's", **for_carol)
    talk.allow("alice", Operation.CREATE_TOKENS, ResourceType.USER, "User:carol")
    talk.create("alice", "carol's", **for_carol)
    for user in USERS[:-1]:
        talk.describe(user)
        talk.describe(user, "alice")
        talk.describe(user, "bob", "carol")
        talk.describe(user, of_all=False)
    talk.renew("bob", "shared")
    talk.renew("bob", "own")
    talk.renew("bob", "nobody's")
    talk.renew("alice", "own", UNIT_MS)
    talk.renew("alice", "own", 50 * UNIT_MS, version=1)
    talk.renew("carol", "carol's", 2 * UNIT_MS)
    talk.renew("alice", "carol's", 2 * UNIT_MS)
    talk.expire("carol", "shared", UNIT_MS)
    talk.expire("bob", "shared", 4 * UNIT_MS)
    talk.expire("bob", "nobody's", 4 * UNIT_MS)
    talk.expire("bob", "shared", 50 * UNIT_MS, version=1)
    talk.log_in("own")
    talk.log_in("carol's", sasl.SCRAM_512)
    talk.log_in("own", password="wrong")
    talk.log_in("never")
    talk.short_lived("alice", "short")
    talk.renew("alice", "short")
    talk.expire("alice", "short", 1000)
    talk.describe("alice")
    talk.expire("alice", "short")
    talk.expire("bob", "shared")
    talk.log_in("shared")
    talk.renew("alice", "shared")
    talk.describe("alice")
    return talk.responses


@contextmanager
def gateway(home: Path) -> Iterator[Address]:
    file = home / "users.jsonl"
    mechanism = scram.MECHANISMS[sasl.SCRAM_256]
    credentials.write(file, [credentials.make(u, mechanism, PASSWORD, 4096) for u in USERS])
    security = GatewaySecurity.of(
        SecurityProtocol.SASL_PLAINTEXT, {"delegation.token.secret.key": SECRET}, file
    )
    with running_gateway(properties_of(SETTINGS), security=security) as running:
        yield running.addresses[1]


def are_alike(what: str, response: Any, own: Any) -> bool:
    """Compare results; remaining lifetimes may differ, as the brokers are queried in turn."""
    if what.startswith(LIFETIME):
        return (response > 0) == (own > 0) and abs(response - own) <= UNIT_MS
    return bool(response == own)


def recorded_by_kafka(home: Path) -> list[tuple[str, Any]]:
    with real_broker(home, SETTINGS) as address:
        return converse(address)


@pytest.mark.compares
def test_token_requests_and_logins_get_kafkas_responses(tmp_path: Path) -> None:
    with gateway(tmp_path) as address:
        ours = converse(address)
    real = golden(
        "access/delegation_tokens",
        lambda: recorded_by_kafka(tmp_path / "kafka"),
        scenario=[what for what, _ in ours],
        settings=SETTINGS,
    )
    differing = [
        f"{what}\n  kafka {response}\n  ours  {own}"
        for (what, response), (_, own) in zip(real, ours, strict=True)
        if not are_alike(what, response, own)
    ]
    assert not differing, "\n".join(differing)
    errors = {response["errorCode"] for _, response in real if "errorCode" in str(response)}
    assert errors >= {0, 58, 62, 63, 64, 65, 66, 67}


def client_file(home: Path, name: str, login: str, mechanism: str = sasl.PLAIN) -> str:
    module = "plain.Plain" if mechanism == sasl.PLAIN else "scram.Scram"
    file = home / f"{name}.properties"
    file.write_text(
        f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
        "sasl.jaas.config=org.apache.kafka.common.security."
        f"{module}LoginModule required {login};\n"
    )
    return str(file)


def wait_until_listed(address: Address, token_id: str, is_there: bool = True) -> None:
    """Wait until a broker knows a token, or no longer; the controller knows it earlier."""
    with Client(address) as client:
        assert sasl.log_in(client, "alice", PASSWORD)["errorCode"] == 0

        def is_reported() -> bool:
            response = client.call("DESCRIBE_DELEGATION_TOKEN", 3, owners=None)
            return (token_id in {each["tokenId"] for each in response["tokens"]}) == is_there

        wait_until(is_reported)


def typed(java: ToolProcess, home: Path, address: Address) -> list[tuple[str, int, str]]:
    """Return the tool's output over a token's life, with a login; names are masked."""
    alice = client_file(home, "alice", f'username=alice password="{PASSWORD}"')
    bootstrap = f"{address.host}:{address.port}"
    printed: list[tuple[str, int, str]] = []
    aside: dict[str, str] = {}

    def run(tool: str, line: str, config: str) -> str:
        words = ["--bootstrap-server", bootstrap, *line.split(), "--command-config", config]
        done = java.run(CLASSES[tool], *words)
        text = done.out + done.err
        for own, word in aside.items():
            text = text.replace(own, word)
        text = re.sub(r"20\d\d-\d\d-\d\dT\d\d:\d\d|1[67]\d{11}", "TIME", text)
        printed.append((line.split()[0], done.status, re.sub(r" {2,}|-{3,}", " ", text)))
        return done.out

    tokens = "kafka-delegation-tokens"
    life = "--max-life-time-period -1 --renewer-principal User:bob"
    created = run(tokens, f"--create {life}", alice).splitlines()[-1]
    token_id, secret = created.split()[:2]
    wait_until_listed(address, token_id)
    aside |= {token_id: "ID", secret: "HMAC"}
    printed.clear()  # the broker did not know the id yet
    run(tokens, "--describe", alice)
    run(tokens, "--describe --owner-principal User:bob", alice)
    run(tokens, f"--renew --renew-time-period 90000 --hmac {secret}", alice)
    login = f'username="{token_id}" password="{secret}" tokenauth="true"'
    own = client_file(home, "token", login, sasl.SCRAM_512)
    topic = f"of-{address.port}"
    aside[topic] = "TOPIC"
    run("kafka-topics", f"--create --topic {topic}", own)
    run("kafka-topics", "--list", own)
    run(tokens, "--describe", own)
    run(tokens, f"--expire --expiry-time-period -1 --hmac {secret}", alice)
    wait_until_listed(address, token_id, is_there=False)
    run(tokens, f"--renew --renew-time-period -1 --hmac {secret}", alice)
    run(tokens, "--describe", alice)
    return printed


@pytest.mark.kafka
def test_tool_prints_the_same_with_a_real_broker(tmp_path: Path) -> None:
    kafka = EmbeddedKafka(tmp_path / "kafka", default_home())
    try:
        host, _, port = kafka.start(SETTINGS).rpartition(":")
        with gateway(tmp_path) as ours_at, ToolProcess() as java:
            both = (Address(host, int(port)), ours_at)
            real, ours = (typed(java, tmp_path, address) for address in both)
    finally:
        kafka.stop()
    assert ours == real
    assert [status for _, status, _ in real].count(0) >= 5, real
