"""Signed tokens of OAUTHBEARER: compare acceptance with Apache Kafka 4.3.1.

The gateway and the real broker both fetch their keys by HTTPS from a server of the test.
"""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, HMACAlgorithm, OKPAlgorithm, RSAAlgorithm

from brokertwin.errors import UserError
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from brokertwin.gateway.security.signed_tokens import VALIDATOR
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from tests.support import sasl
from tests.support.gateways import running_gateway
from tests.support.goldens import golden
from tests.support.jwks_server import JwksServer, serving
from tests.support.patience import wait_until
from tests.support.sasl_steps import (
    BEARER,
    IS_SERVED,
    PAUSE,
    SEEN,
    SHAKE_BEARER,
    Clock,
    MachineClock,
    StandingClock,
    Step,
    Token,
    bears,
    data_of,
    in_base64,
    once,
    token,
    transcripts,
    verbatim,
)

pytestmark = pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")

RSA, OTHER = (rsa.generate_private_key(65537, 2048) for _ in range(2))
EC = ec.generate_private_key(ec.SECP256R1())
EDWARDS = ed25519.Ed25519PrivateKey.generate()
WEAK = rsa.generate_private_key(65537, 1024)
SECRET, SHORT = b"s" * 64, b"s" * 16
KEYS = [
    {**RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True), "kid": "rsa", "use": "sig"},
    {**ECAlgorithm.to_jwk(EC.public_key(), as_dict=True), "kid": "ec", "alg": "ES256"},
    {**RSAAlgorithm.to_jwk(OTHER.public_key(), as_dict=True), "kid": "enc", "use": "enc"},
    {**RSAAlgorithm.to_jwk(WEAK.public_key(), as_dict=True), "kid": "weak"},
    {**OKPAlgorithm.to_jwk(EDWARDS.public_key(), as_dict=True), "kid": "edwards"},
    {**HMACAlgorithm.to_jwk(SECRET, as_dict=True), "kid": "hmac"},
    {**HMACAlgorithm.to_jwk(SHORT, as_dict=True), "kid": "short"},
]
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
NAMED = 'unsecuredLoginStringClaim_sub="broker"'
"""A broker with these options also logs in itself."""
OF_ALL = {
    "sasl.oauthbearer.expected.issuer": "https://issuer",
    "sasl.oauthbearer.expected.audience": "kafka,other",
    "sasl.oauthbearer.scope.claim.name": "scp",
    "sasl.oauthbearer.clock.skew.seconds": "5",
}
PLAIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    ' username="broker" password="b" user_broker="b";'
)


def signed(
    key: Any = RSA, algorithm: str = "RS256", kid: str | None = "rsa", **claims: object
) -> Token:
    """Return a signed token of alice; a claim of None is omitted, times are relative."""

    def made(at: float) -> str:
        now = int(at)
        held = {"sub": "alice", "exp": 600, "iat": 0, "iss": "https://issuer", "aud": "kafka"}
        kept = {k: v for k, v in (held | claims).items() if v is not None}
        for name in ("exp", "iat", "nbf"):
            if isinstance(kept.get(name), int | float):
                kept[name] += now  # type: ignore[operator]
        headers = {"kid": kid} if kid is not None else {}
        return jwt.PyJWS().encode(json.dumps(kept).encode(), key, algorithm, headers)

    return Token(["signed", type(key).__name__, algorithm, kid, claims], made)


def altered(now: float) -> str:
    """Return the token with another subject and the same signature."""
    header, claims, signature = signed().make(now).split(".")
    document = json.loads(base64.urlsafe_b64decode(claims + "=="))
    return f"{header}.{in_base64({**document, 'sub': 'bob'})}.{signature}"


MADE: dict[str, Token] = {
    "RSA": signed(),
    "RSA of 512 bits of digest": signed(algorithm="RS512"),
    "RSA-PSS": signed(algorithm="PS256"),
    "an elliptic curve": signed(EC, "ES256", "ec"),
    "a secret": signed(SECRET, "HS256", "hmac"),
    "a secret for another digest": signed(SECRET, "HS512", "hmac"),
    "a secret that is too short": signed(SHORT, "HS256", "short"),
    "a key that is too short": signed(WEAK, kid="weak"),
    "Edwards' curve": signed(EDWARDS, "EdDSA", "edwards"),
    "no name of a key": signed(kid=None),
    "no name of a key, of the curve": signed(EC, "ES256", None),
    "another's name of a key": signed(kid="ec"),
    "an unknown name of a key": signed(kid="nobody"),
    "another key": signed(OTHER),
    "a key that is not for signatures": signed(OTHER, kid="enc"),
    "another name": Token(["altered"], altered),
    "no signature": token(),
    "no algorithm's signature": token({"alg": "none", "kid": "rsa"}, "c2lnbmVk"),
    "an unknown algorithm": token({"alg": "XX", "kid": "rsa"}, "c2lnbmVk"),
    "one of two audiences": signed(aud=["somebody", "other"]),
    "another audience": signed(aud="somebody"),
    "no audience": signed(aud=None),
    "another issuer": signed(iss="https://other"),
    "no issuer": signed(iss=None),
    "no name of a user": signed(sub=None),
    "an empty name": signed(sub=" "),
    "a number for a name": signed(sub=7),
    "no end": signed(exp=None),
    "an end a little before now": signed(exp=-3, iat=-60),
    "an end before now": signed(exp=-6, iat=-60),
    "an end of letters": signed(exp="tomorrow"),
    "an end with a fraction": signed(exp=600.5),
    "no beginning": signed(iat=None),
    "a beginning to come": signed(iat=60),
    "an end before its beginning": signed(exp=60, iat=120),
    "a time before which it is none": signed(nbf=60),
    "a time before that a little later": signed(nbf=3),
    "an end before it counts": signed(nbf=60, exp=30),
    "scopes": signed(scp=["read", "write"]),
    "a scope twice": signed(scp=["read", "read "]),
    "an empty scope": signed(scp=["read", ""]),
    "a text of scopes": signed(scp="read write"),
    "an empty text": signed(scp=""),
    "a number for a scope": signed(scp=7),
    "words for claims": Token(
        ["signed words"], lambda _: jwt.PyJWS().encode(b"words", RSA, "RS256", {"kid": "rsa"})
    ),
    "two parts": verbatim("abc.def"),
}
SCENARIOS: dict[str, list[Step]] = {
    **{what: [SHAKE_BEARER, bears(made), SEEN] for what, made in MADE.items()},
    "a token that ends": [SHAKE_BEARER, bears(signed(exp=-3, iat=-60)), IS_SERVED, PAUSE],
    "for another": [SHAKE_BEARER, bears(signed(), "n,a=bob,")],
    "another's token": [SHAKE_BEARER, bears(signed()), SHAKE_BEARER, bears(signed(sub="bob"))],
    "again": [SHAKE_BEARER, bears(signed()), SHAKE_BEARER, bears(signed()), IS_SERVED],
}


class Allowing(EmbeddedKafka):
    """A broker that is allowed to fetch its keys."""

    url = ""

    def _java_options(self) -> list[str]:
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.url}"
        return [*super()._java_options(), allowed]


@pytest.fixture(scope="module")
def jwks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JwksServer]:
    with serving(tmp_path_factory.mktemp("keys"), KEYS) as served:
        yield served


def of_listener(jwks: JwksServer, listener: str) -> dict[str, str]:
    own = {
        "sasl.server.callback.handler.class": VALIDATOR,
        "sasl.jaas.config": f"{MODULE} required {NAMED} {jwks.jaas_options};",
    }
    return {f"listener.name.{listener}.oauthbearer.{name}": each for name, each in own.items()}


KAFKA = {
    "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "listener.name.client.plain.sasl.jaas.config": PLAIN,
    "sasl.enabled.mechanisms": f"{sasl.PLAIN},{BEARER}",
    "sasl.mechanism.inter.broker.protocol": sasl.PLAIN,
    **OF_ALL,
}


@contextmanager
def real_broker(home: Path, jwks: JwksServer) -> Iterator[Address]:
    """Start a real broker with the server's keys."""
    broker = Allowing(home, default_home())
    broker.url = jwks.url
    place = {"sasl.oauthbearer.jwks.endpoint.url": jwks.url}
    try:
        host, _, port = broker.start({**KAFKA, **of_listener(jwks, "client"), **place}).rpartition(
            ":"
        )
        yield Address(host, int(port))
    finally:
        broker.stop()


def secured(url: str, **other: str) -> GatewaySecurity:
    own = {"listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": VALIDATOR}
    place = {"sasl.enabled.mechanisms": BEARER, "sasl.oauthbearer.jwks.endpoint.url": url}
    place["connection.failed.authentication.delay.ms"] = "1"
    return GatewaySecurity.of(SecurityProtocol.SASL_PLAINTEXT, {**own, **place, **OF_ALL, **other})


@pytest.fixture(scope="module")
def clock() -> StandingClock:
    return StandingClock()


@pytest.fixture(scope="module")
def ours(jwks: JwksServer, clock: StandingClock) -> Iterator[Address]:
    security = secured(jwks.url, **of_listener(jwks, "sasl_plaintext"))
    with clock.of_gateway(), running_gateway(security=security) as running:
        yield running.addresses[1]


def recorded_by_kafka(home: Path, jwks: JwksServer) -> dict[str, list[object]]:
    clock = MachineClock()
    with real_broker(home, jwks) as address:
        result = transcripts(address, SCENARIOS, clock)
        fetch_new_key(jwks, address, clock)
        return result


@pytest.fixture(scope="module")
def kafka_responses(
    jwks: JwksServer, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[object]]:
    home = tmp_path_factory.mktemp("signed")
    scenario = data_of(SCENARIOS)
    send = partial(recorded_by_kafka, home, jwks)
    return golden("sasl/signed_tokens", send, scenario=scenario, settings=KAFKA)


@pytest.fixture(scope="module")
def gateway_responses(ours: Address, clock: StandingClock) -> dict[str, list[object]]:
    return transcripts(ours, SCENARIOS, clock)


@pytest.mark.compares
@pytest.mark.parametrize("name", SCENARIOS)
def test_token_is_accepted_or_refused_as_by_kafka(
    name: str, kafka_responses: dict[str, list[object]], gateway_responses: dict[str, list[object]]
) -> None:
    actual, wanted = (
        [without_names(each) for each in given[name]]
        for given in (gateway_responses, kafka_responses)
    )
    assert actual == wanted


def without_names(response: object) -> object:
    """Return a response without the mechanisms; the real broker has an extra one."""
    if isinstance(response, dict):
        return {name: value for name, value in response.items() if name != "mechanisms"}
    return response


@pytest.mark.compares
def test_some_tokens_are_accepted_and_some_are_refused(
    kafka_responses: dict[str, list[object]],
) -> None:
    taken = [name for name in MADE if is_taken(kafka_responses[name])]
    assert 10 < len(taken) < len(MADE) - 15


@pytest.mark.usefixtures("gateway_responses")
def test_token_with_a_new_key_id_makes_the_gateway_fetch_the_key(
    jwks: JwksServer, ours: Address, clock: StandingClock
) -> None:
    fetch_new_key(jwks, ours, clock)


def fetch_new_key(jwks: JwksServer, address: Address, clock: Clock) -> None:
    """Log in until the key is fetched: the first attempt fails, with one request for keys."""
    newer = rsa.generate_private_key(65537, 2048)
    kid = token_hex(4)
    steps = [SHAKE_BEARER, bears(signed(newer, kid=kid))]
    of_newer = {**RSAAlgorithm.to_jwk(newer.public_key(), as_dict=True), "kid": kid}
    jwks.serve([*KEYS, of_newer])
    fetches = jwks.requested
    assert not is_taken(once(address, steps, clock)[0]), "that token does not wait for its key"
    wait_until(lambda: is_taken(once(address, steps, clock)[0]), "the new key is there")
    assert jwks.requested == fetches + 1


def is_taken(given: list[object]) -> bool:
    return not given[1]["authBytes"]  # type: ignore[index]


def test_only_kafkas_own_validator_class_is_accepted() -> None:
    name = "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class"
    with pytest.raises(UserError, match=r"org\.example\.Handler"):
        secured("https://localhost/keys", **{name: "org.example.Handler"})
