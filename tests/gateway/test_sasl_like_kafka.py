"""What a gateway says during SASL is what Apache Kafka 4.3.1 says, step by step.

The same requests go over raw connections to a real broker and to a gateway, and the transcripts
have to be equal. PLAIN has sessions that end, SCRAM has not.
"""

import json
import struct
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from brokertwin.gateway import credentials, scram
from brokertwin.gateway.answers import Address
from brokertwin.gateway.security import Security
from brokertwin.gateway.security_protocol import SecurityProtocol
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from tests.support import sasl
from tests.support.gateways import Client, running_gateway
from tests.support.patience import PATIENCE_S, wait_until

Step = Callable[[Client], object]
LIFETIME_MS = 1500
AT_ONCE_S = 0.4
"""Within it no end comes that scenarios have: of a session, of a token, of a second."""
SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
PLAIN_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    f' username="broker" password="b" user_broker="b" user_{sasl.USER}="{sasl.PASSWORD}";'
)
BEARER = "OAUTHBEARER"
BEARER_LOGIN = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    ' unsecuredLoginStringClaim_sub="broker" unsecuredValidatorRequiredScope="read write";'
)
MECHANISMS = (sasl.PLAIN, sasl.SCRAM_256, sasl.SCRAM_512, BEARER)
KAFKA = {
    "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "listener.name.client.plain.sasl.jaas.config": PLAIN_LOGIN,
    "listener.name.client.scram-sha-256.sasl.jaas.config": SCRAM_LOGIN,
    "listener.name.client.scram-sha-512.sasl.jaas.config": SCRAM_LOGIN,
    "listener.name.client.oauthbearer.sasl.jaas.config": BEARER_LOGIN,
    "listener.name.client.plain.connections.max.reauth.ms": str(LIFETIME_MS),
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "sasl.mechanism.inter.broker.protocol": sasl.PLAIN,
}
GATEWAY = {
    "listener.name.sasl_plaintext.plain.connections.max.reauth.ms": str(LIFETIME_MS),
    "listener.name.sasl_plaintext.oauthbearer.sasl.jaas.config": BEARER_LOGIN,
    "connection.failed.authentication.delay.ms": "1",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
}


def shake(mechanism: str, version: int = 1) -> Step:
    def step(client: Client) -> object:
        answer = sasl.handshake(client, mechanism, version)
        return {**answer, "mechanisms": sorted(answer["mechanisms"])}  # Kafka's order is a hash's

    return step


def prove(message: bytes, version: int = 2) -> Step:
    return lambda client: sasl.authenticate(client, message, version)


def exchange(mechanism: str, password: str = sasl.PASSWORD) -> Step:
    """SCRAM with kafka-python's client; without the last message, which is never the same."""

    def step(client: Client) -> object:
        return {**sasl.scram(client, mechanism, password=password), "authBytes": "checked"}

    return step


def bare(message: bytes) -> Step:
    """A frame without a header."""

    def step(client: Client) -> object:
        client.send_frame(message)
        return client.receive()

    return step


def sends(data: bytes) -> Step:
    return lambda client: client.send_bytes(data)


def ask(api: str, version: int, body: Mapping[str, object] | None = None) -> Step:
    return lambda client: client.call(api, version, dict(body or {}))


def in_base64(document: object) -> str:
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    return urlsafe_b64encode(text).decode().rstrip("=")


def token(
    header: object = {"alg": "none"}, signature: str = "", lasts_s: float = 600, **claims: object
) -> Callable[[], str]:
    """A token of alice, who may do all; a claim None is left out."""

    def made() -> str:
        now = time.time()
        held = {
            "sub": "alice",
            "exp": now + lasts_s,
            "iat": now - 1,
            "scope": ["read", "write", "more"],
        }
        kept = {name: value for name, value in (held | claims).items() if value is not None}
        return f"{in_base64(header)}.{in_base64(kept)}.{signature}"

    return made


def bears(made: Callable[[], str], before: str = "n,,", after: str = "") -> Step:
    """OAUTHBEARER's first message; of the session's length tens of seconds."""

    def step(client: Client) -> object:
        message = f"{before}\x01auth=Bearer {made()}\x01{after}\x01"
        answer = sasl.authenticate(client, message.encode())
        return {**answer, "sessionLifetimeMs": round(answer["sessionLifetimeMs"], -4)}

    return step


def versions(client: Client) -> object:
    """ApiVersions; of its answer what concerns SASL."""
    software = {"clientSoftwareName": "tester", "clientSoftwareVersion": "1"}
    listed = client.call("API_VERSIONS", 3, software)["apiKeys"]
    return [each for each in listed if each["apiKey"] in (17, 18, 36)]


def is_served(client: Client) -> object:
    return sorted(client.call("METADATA", 9, {"topics": []}))


def pause(client: Client) -> object:
    """Until a session has ended."""
    time.sleep(LIFETIME_MS / 1000 + 0.1)


def a_second(client: Client) -> object:
    time.sleep(1.05)


GOOD, WRONG = prove(sasl.plain()), prove(sasl.plain(password="wrong"))
METADATA = ask("METADATA", 9, {"topics": []})
UNKNOWN_VERSION = struct.pack(">hhihb", 18, 99, 7, -1, 0)
NOT_A_HEADER = b"\x00\x00\x00\x03\x60\x01\x02"

SHAKE_BEARER, SEEN = shake(BEARER), prove(b"\x01")
TOKENS: dict[str, list[Step]] = {
    "a token": [versions, SHAKE_BEARER, bears(token()), is_served],
    "a token for itself": [SHAKE_BEARER, bears(token(), "n,a=alice,"), is_served],
    "a token for another": [SHAKE_BEARER, bears(token(), "n,a=bob,")],
    "a token with extensions": [SHAKE_BEARER, bears(token(), after="key=value\x01"), is_served],
    "a token without what is not needed": [SHAKE_BEARER, bears(token(iat=None))],
    "a token, then SCRAM": [SHAKE_BEARER, bears(token()), shake("SCRAM-SHA-256"), prove(b"x")],
    "a token that ends": [SHAKE_BEARER, bears(token(lasts_s=1.2)), is_served, pause, METADATA],
    "a token again": [SHAKE_BEARER, bears(token()), SHAKE_BEARER, bears(token()), is_served],
    "another's token": [SHAKE_BEARER, bears(token()), SHAKE_BEARER, bears(token(sub="bob"))],
    **{
        f"a token with {what}": [SHAKE_BEARER, bears(made), SEEN]
        for what, made in {
            "too little scope": token(scope="read"),
            "no scope": token(scope=None),
            "a text of scopes": token(scope="read write"),
            "a number for a scope": token(scope=7),
            "no name": token(sub=None),
            "a number for a name": token(sub=7),
            "no end": token(exp=None),
            "an end of letters": token(exp="tomorrow"),
            "an end before now": token(lasts_s=-1, iat=None),
            "an end before its beginning": token(exp=4e9, iat=5e9),
            "a beginning to come": token(iat=4e9, exp=5e9),
            "a signature": token(signature="c2lnbmVk"),
            "an algorithm": token({"alg": "RS256"}),
            "a header of words": token(b"words"),
        }.items()
    },
    "no token": [SHAKE_BEARER, prove(b"n,,\x01auth=Bearer \x01\x01")],
    "half a token": [SHAKE_BEARER, bears(lambda: "abc.def"), SEEN],
    "a token of dots": [SHAKE_BEARER, bears(lambda: "a..b"), SEEN],
    "a token twice": [SHAKE_BEARER, bears(token(sub=None)), bears(token()), is_served],
    "a token and something else": [SHAKE_BEARER, bears(token(sub=None)), prove(b"x")],
    "basic": [SHAKE_BEARER, prove(b"n,,\x01auth=Basic abc\x01\x01")],
    "no auth": [SHAKE_BEARER, prove(b"n,,\x01key=value\x01\x01")],
    "OAUTHBEARER garbage": [SHAKE_BEARER, prove(b"hello")],
    "seen before anything": [SHAKE_BEARER, SEEN],
}

SCENARIOS: dict[str, list[Step]] = {
    **TOKENS,
    "plain": [versions, shake("PLAIN"), GOOD, is_served, versions],
    "plain, oldest versions": [shake("PLAIN", 1), prove(sasl.plain(), 0), is_served],
    "plain without headers": [shake("PLAIN", 0), bare(sasl.plain()), is_served],
    "wrong password": [shake("PLAIN"), WRONG],
    "wrong password, oldest version": [shake("PLAIN"), prove(sasl.plain(password="wrong"), 0)],
    "wrong password without headers": [shake("PLAIN", 0), bare(sasl.plain(password="wrong"))],
    "unknown user": [shake("PLAIN"), prove(sasl.plain("nobody"))],
    "one part": [shake("PLAIN"), prove(b"alice")],
    "no part": [shake("PLAIN"), prove(b"")],
    "five parts": [shake("PLAIN"), prove(b"a\0b\0c\0d\0e")],
    "no user": [shake("PLAIN"), prove(sasl.plain(""))],
    "no password": [shake("PLAIN"), prove(sasl.plain(password=""))],
    "for itself": [shake("PLAIN"), prove(sasl.plain(authorization="alice")), is_served],
    "for another": [shake("PLAIN"), prove(sasl.plain(authorization="bob"))],
    "for another, wrong": [shake("PLAIN"), prove(sasl.plain(authorization="bob", password="x"))],
    "SCRAM-SHA-256": [versions, shake("SCRAM-SHA-256"), exchange("SCRAM-SHA-256"), is_served],
    "SCRAM-SHA-512": [shake("SCRAM-SHA-512"), exchange("SCRAM-SHA-512"), is_served],
    "SCRAM, wrong": [shake("SCRAM-SHA-256"), exchange("SCRAM-SHA-256", "x")],
    "SCRAM garbage": [shake("SCRAM-SHA-256"), prove(b"hello")],
    "SCRAM nothing": [shake("SCRAM-SHA-256"), prove(b"")],
    "SCRAM binding": [shake("SCRAM-SHA-256"), prove(b"p=tls-unique,,n=alice,r=abc")],
    "SCRAM possible binding": [shake("SCRAM-SHA-256"), prove(b"y,,n=alice,r=abc")],
    "SCRAM for another": [shake("SCRAM-SHA-256"), prove(b"n,a=bob,n=alice,r=abc")],
    "SCRAM bad escape": [shake("SCRAM-SHA-256"), prove(b"n,,n=al=ice,r=abc")],
    "unknown mechanism": [shake("OTHER")],
    "unknown mechanism, oldest version": [shake("OTHER", 0)],
    "metadata first": [METADATA],
    "metadata after versions": [versions, METADATA],
    "metadata in place of a proof": [shake("PLAIN"), METADATA],
    "metadata in place of a bare proof": [shake("PLAIN", 0), METADATA],
    "groups in place of a proof": [shake("PLAIN"), ask("LIST_GROUPS", 4)],
    "versions in place of a proof": [shake("PLAIN"), ask("API_VERSIONS", 0)],
    "handshake in place of a proof": [shake("PLAIN"), shake("PLAIN")],
    "proof first": [GOOD],
    "versions twice": [versions, versions],
    "versions again after an unknown one": [bare(UNKNOWN_VERSION), versions, shake("PLAIN"), GOOD],
    "versions with no software": [ask("API_VERSIONS", 3), versions, shake("PLAIN"), GOOD],
    "a header cut short": [sends(NOT_A_HEADER), bare(b"")],
    "an unknown version of the handshake": [bare(struct.pack(">hhihh", 17, 9, 7, -1, 0))],
    "an unknown version of the proof": [
        shake("PLAIN"),
        bare(struct.pack(">hhihh", 36, 9, 7, -1, 0)),
    ],
    "too long": [sends(struct.pack(">i", 524_289)), bare(b"")],
    "negative": [sends(struct.pack(">i", -5)), bare(b"")],
    "handshake afterwards": [
        shake("SCRAM-SHA-256"),
        exchange("SCRAM-SHA-256"),
        shake("SCRAM-SHA-256"),
        prove(b"x"),
        prove(b"x", 0),
        is_served,
    ],
    "again": [shake("PLAIN"), GOOD, shake("PLAIN"), GOOD, is_served],
    "again without headers": [shake("PLAIN"), GOOD, shake("PLAIN", 0), bare(sasl.plain())],
    "again too soon": [shake("PLAIN"), GOOD, shake("PLAIN"), GOOD, shake("PLAIN"), is_served],
    "again after a second": [shake("PLAIN"), GOOD, shake("PLAIN"), GOOD, a_second, shake("PLAIN")],
    "again, wrong": [shake("PLAIN"), GOOD, shake("PLAIN"), WRONG],
    "again as another": [shake("PLAIN"), GOOD, shake("PLAIN"), prove(sasl.plain("broker", "b"))],
    "again with another mechanism": [
        shake("PLAIN"),
        GOOD,
        shake("SCRAM-SHA-256"),
        prove(b"n,,n=alice,r=abc"),
    ],
    "metadata in place of a second proof": [shake("PLAIN"), GOOD, shake("PLAIN"), METADATA],
    "versions in place of a second proof": [
        shake("PLAIN"),
        GOOD,
        shake("PLAIN"),
        ask("API_VERSIONS", 0),
    ],
    "too late": [shake("PLAIN"), GOOD, pause, METADATA],
    "too late with an old version": [shake("PLAIN"), prove(sasl.plain(), 0), pause, METADATA],
    "too late for versions": [shake("PLAIN"), GOOD, pause, versions],
    "too late for a proof": [shake("PLAIN"), GOOD, pause, GOOD],
    "late, but again": [shake("PLAIN"), GOOD, pause, shake("PLAIN"), GOOD, is_served],
}


def transcript(address: Address, steps: list[Step]) -> list[object]:
    """What each step got, up to the end of the connection.

    Where the steps took so long that a time has come before one waited for it they are taken again.
    """
    for _ in range(20):
        found, took_s = once(address, steps)
        if took_s < AT_ONCE_S:
            break
    return found


def once(address: Address, steps: list[Step]) -> tuple[list[object], float]:
    """What each step got, and how long those took that do not wait for a time."""
    found: list[object] = []
    took_s = 0.0
    with Client(address) as client:
        for step in steps:
            began = time.monotonic()
            try:
                found.append(step(client))
            except (ConnectionError, TimeoutError) as error:
                found.append("closed" if isinstance(error, ConnectionError) else "silent")
                break
            finally:
                took_s += time.monotonic() - began if step not in (pause, a_second) else 0.0
    return found, took_s


def transcripts(address: Address) -> dict[str, list[object]]:
    """Of every scenario, some at a time."""
    with ThreadPoolExecutor(10) as pool:
        found = pool.map(lambda steps: transcript(address, steps), SCENARIOS.values())
        return dict(zip(SCENARIOS, found, strict=True))


def is_known(address: Address, mechanism: str) -> bool:
    """Whether a broker has heard from its controller of the user's credential."""
    with Client(address) as client:
        sasl.handshake(client, mechanism)
        return bool(sasl.scram(client, mechanism)["errorCode"] == 0)


@pytest.fixture(scope="module")
def kafka_said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[object]]]:
    broker = EmbeddedKafka(tmp_path_factory.mktemp("sasl"), default_home())
    try:
        bootstrap = broker.start(KAFKA)
        admin = AdminClient(
            {
                "bootstrap.servers": bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": sasl.PLAIN,
                "sasl.username": sasl.USER,
                "sasl.password": sasl.PASSWORD,
            }
        )
        password = sasl.PASSWORD.encode()
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            kept = ScramCredentialInfo(mechanism, 4096)
            added = UserScramCredentialUpsertion(sasl.USER, kept, password)
            admin.alter_user_scram_credentials([added])[sasl.USER].result(PATIENCE_S)
        host, _, port = bootstrap.rpartition(":")
        address = Address(host, int(port))
        for each in (sasl.SCRAM_256, sasl.SCRAM_512):
            wait_until(lambda name=each: is_known(address, name), "the broker knows of the user")
        yield transcripts(address)
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def gateway_said(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[object]]]:
    file = tmp_path_factory.mktemp("gateway") / "users.jsonl"
    users = [(sasl.USER, sasl.PASSWORD), ("broker", "b")]
    credentials.write(
        file,
        [
            credentials.make(user, mechanism, password, 4096)
            for user, password in users
            for mechanism in scram.MECHANISMS.values()
        ],
    )
    security = Security.of(SecurityProtocol.SASL_PLAINTEXT, GATEWAY, file)
    with running_gateway(security=security) as running:
        yield transcripts(running.addresses[1])


@pytest.mark.kafka
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_goes_as_with_kafka(
    name: str, kafka_said: dict[str, list[object]], gateway_said: dict[str, list[object]]
) -> None:
    assert gateway_said[name] == kafka_said[name]
