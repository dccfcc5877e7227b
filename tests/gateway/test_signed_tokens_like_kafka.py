"""Signed tokens of OAUTHBEARER are taken and refused as by Apache Kafka 4.3.1, one by one.

Both fetch their keys by https, from one server.
"""

import base64
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from secrets import token_hex
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, HMACAlgorithm, OKPAlgorithm, RSAAlgorithm

from brokertwin.errors import UserError
from brokertwin.gateway.answers import Address
from brokertwin.gateway.security import Security
from brokertwin.gateway.security_protocol import SecurityProtocol
from brokertwin.gateway.signed_tokens import VALIDATOR
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from tests.gateway.test_sasl_like_kafka import (
    BEARER,
    SEEN,
    SHAKE_BEARER,
    Step,
    bears,
    in_base64,
    is_served,
    once,
    pause,
    token,
    transcript,
)
from tests.support import sasl
from tests.support.gateways import running_gateway
from tests.support.jwks_server import JwksServer, serving
from tests.support.patience import wait_until

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
"""A broker that finds options logs in itself, too."""
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
) -> Callable[[], str]:
    """A token of alice for these brokers; a claim None is left out, times are from now."""

    def made() -> str:
        now = int(time.time())
        held = {"sub": "alice", "exp": 600, "iat": 0, "iss": "https://issuer", "aud": "kafka"}
        kept = {k: v for k, v in (held | claims).items() if v is not None}
        for name in ("exp", "iat", "nbf"):
            if isinstance(kept.get(name), int | float):
                kept[name] += now  # type: ignore[operator]
        headers = {"kid": kid} if kid is not None else {}
        return jwt.PyJWS().encode(json.dumps(kept).encode(), key, algorithm, headers)

    return made


def altered() -> str:
    """Another's name under the same signature."""
    header, claims, signature = signed()().split(".")
    found = json.loads(base64.urlsafe_b64decode(claims + "=="))
    return f"{header}.{in_base64({**found, 'sub': 'bob'})}.{signature}"


MADE: dict[str, Callable[[], str]] = {
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
    "another name": altered,
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
    "words for claims": lambda: jwt.PyJWS().encode(b"words", RSA, "RS256", {"kid": "rsa"}),
    "two parts": lambda: "abc.def",
}
SCENARIOS: dict[str, list[Step]] = {
    **{what: [SHAKE_BEARER, bears(made), SEEN] for what, made in MADE.items()},
    "a token that ends": [SHAKE_BEARER, bears(signed(exp=-3, iat=-60)), is_served, pause],
    "for another": [SHAKE_BEARER, bears(signed(), "n,a=bob,")],
    "another's token": [SHAKE_BEARER, bears(signed()), SHAKE_BEARER, bears(signed(sub="bob"))],
    "again": [SHAKE_BEARER, bears(signed()), SHAKE_BEARER, bears(signed()), is_served],
}


class Allowing(EmbeddedKafka):
    """A broker that may fetch its keys."""

    url = ""

    def _java_options(self) -> list[str]:
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self.url}"
        return [*super()._java_options(), allowed]


@pytest.fixture(scope="module")
def jwks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JwksServer]:
    """Where the keys are."""
    with serving(tmp_path_factory.mktemp("keys"), KEYS) as served:
        yield served


def of_listener(jwks: JwksServer, listener: str) -> dict[str, str]:
    own = {
        "sasl.server.callback.handler.class": VALIDATOR,
        "sasl.jaas.config": f"{MODULE} required {NAMED} {jwks.jaas_options};",
    }
    return {f"listener.name.{listener}.oauthbearer.{name}": each for name, each in own.items()}


def transcripts(address: Address) -> dict[str, list[object]]:
    with ThreadPoolExecutor(10) as pool:
        found = pool.map(lambda steps: transcript(address, steps), SCENARIOS.values())
        return dict(zip(SCENARIOS, found, strict=True))


@pytest.fixture(scope="module")
def real(jwks: JwksServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    broker = Allowing(tmp_path_factory.mktemp("signed"), default_home())
    broker.url = jwks.url
    settings = {
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "listener.name.client.plain.sasl.jaas.config": PLAIN,
        **of_listener(jwks, "client"),
        "sasl.enabled.mechanisms": f"{sasl.PLAIN},{BEARER}",
        "sasl.mechanism.inter.broker.protocol": sasl.PLAIN,
        "sasl.oauthbearer.jwks.endpoint.url": jwks.url,
        **OF_ALL,
    }
    try:
        host, _, port = broker.start(settings).rpartition(":")
        yield Address(host, int(port))
    finally:
        broker.stop()


def secured(url: str, **other: str) -> Security:
    own = {"listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class": VALIDATOR}
    place = {"sasl.enabled.mechanisms": BEARER, "sasl.oauthbearer.jwks.endpoint.url": url}
    return Security.of(SecurityProtocol.SASL_PLAINTEXT, {**own, **place, **OF_ALL, **other})


@pytest.fixture(scope="module")
def ours(jwks: JwksServer) -> Iterator[Address]:
    security = secured(jwks.url, **of_listener(jwks, "sasl_plaintext"))
    with running_gateway(security=security) as running:
        yield running.addresses[1]


@pytest.fixture(scope="module")
def kafka_said(real: Address) -> dict[str, list[object]]:
    return transcripts(real)


@pytest.fixture(scope="module")
def gateway_said(ours: Address) -> dict[str, list[object]]:
    return transcripts(ours)


@pytest.mark.kafka
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_token_is_judged_as_by_kafka(
    name: str, kafka_said: dict[str, list[object]], gateway_said: dict[str, list[object]]
) -> None:
    found, wanted = (
        [without_names(each) for each in said[name]] for said in (gateway_said, kafka_said)
    )
    assert found == wanted


def without_names(answer: object) -> object:
    """An answer without the mechanisms that there are: the real broker needs one for itself."""
    if isinstance(answer, dict):
        return {name: value for name, value in answer.items() if name != "mechanisms"}
    return answer


@pytest.mark.kafka
def test_some_tokens_are_taken_and_some_are_not(kafka_said: dict[str, list[object]]) -> None:
    taken = [name for name in MADE if is_taken(kafka_said[name])]
    assert 10 < len(taken) < len(MADE) - 15


@pytest.mark.kafka
@pytest.mark.usefixtures("kafka_said", "gateway_said")
def test_a_new_key_is_fetched_after_a_token_that_names_it(
    jwks: JwksServer, real: Address, ours: Address
) -> None:
    newer = rsa.generate_private_key(65537, 2048)
    kid = token_hex(4)
    steps: list[Step] = [SHAKE_BEARER, bears(signed(newer, kid=kid))]
    of_newer = {**RSAAlgorithm.to_jwk(newer.public_key(), as_dict=True), "kid": kid}
    jwks.serve([*KEYS, of_newer])
    for address in (real, ours):
        asked = jwks.asked
        assert not is_taken(once(address, steps)[0]), "that token does not wait for its key"
        wait_until(lambda at=address: is_taken(once(at, steps)[0]), "the new key is there")
        assert jwks.asked == asked + 1


def is_taken(said: list[object]) -> bool:
    return not said[1]["authBytes"]  # type: ignore[index]


def test_only_kafkas_own_validator_is_served() -> None:
    name = "listener.name.sasl_plaintext.oauthbearer.sasl.server.callback.handler.class"
    with pytest.raises(UserError, match=r"org\.example\.Handler"):
        secured("https://localhost/keys", **{name: "org.example.Handler"})
