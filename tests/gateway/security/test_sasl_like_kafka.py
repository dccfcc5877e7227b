"""SASL: compare the gateway step by step with Apache Kafka 4.3.1.

The same requests go over raw connections to a real broker and to a gateway, and the transcripts
must be equal. Sessions of PLAIN expire, those of SCRAM do not.
"""

import struct
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.security import credentials, scram
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from tests.support import sasl
from tests.support.gateways import Client, running_gateway
from tests.support.goldens import golden, real_broker
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.sasl_steps import (
    A_SECOND,
    BEARER,
    IS_SERVED,
    LIFETIME_MS,
    PAUSE,
    SEEN,
    SHAKE_BEARER,
    VERSIONS,
    MachineClock,
    StandingClock,
    Step,
    bare,
    bears,
    data_of,
    exchange,
    prove,
    request,
    sends,
    shake,
    token,
    transcripts,
    verbatim,
)

SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
PLAIN_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required"
    f' username="broker" password="b" user_broker="b" user_{sasl.USER}="{sasl.PASSWORD}";'
)
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


GOOD, WRONG = prove(sasl.plain()), prove(sasl.plain(password="wrong"))
METADATA = request("METADATA", 9, {"topics": []})
UNKNOWN_VERSION = struct.pack(">hhihb", 18, 99, 7, -1, 0)
NOT_A_HEADER = b"\x00\x00\x00\x03\x60\x01\x02"

TOKENS: dict[str, list[Step]] = {
    "a token": [VERSIONS, SHAKE_BEARER, bears(token()), IS_SERVED],
    "a token for itself": [SHAKE_BEARER, bears(token(), "n,a=alice,"), IS_SERVED],
    "a token for another": [SHAKE_BEARER, bears(token(), "n,a=bob,")],
    "a token with extensions": [SHAKE_BEARER, bears(token(), after="key=value\x01"), IS_SERVED],
    "a token without what is not needed": [SHAKE_BEARER, bears(token(iat=None))],
    "a token, then SCRAM": [SHAKE_BEARER, bears(token()), shake("SCRAM-SHA-256"), prove(b"x")],
    "a token that ends": [SHAKE_BEARER, bears(token(lasts_s=1.2)), IS_SERVED, PAUSE, METADATA],
    "a token again": [SHAKE_BEARER, bears(token()), SHAKE_BEARER, bears(token()), IS_SERVED],
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
    "half a token": [SHAKE_BEARER, bears(verbatim("abc.def")), SEEN],
    "a token of dots": [SHAKE_BEARER, bears(verbatim("a..b")), SEEN],
    "a token twice": [SHAKE_BEARER, bears(token(sub=None)), bears(token()), IS_SERVED],
    "a token and something else": [SHAKE_BEARER, bears(token(sub=None)), prove(b"x")],
    "basic": [SHAKE_BEARER, prove(b"n,,\x01auth=Basic abc\x01\x01")],
    "no auth": [SHAKE_BEARER, prove(b"n,,\x01key=value\x01\x01")],
    "OAUTHBEARER garbage": [SHAKE_BEARER, prove(b"hello")],
    "seen before anything": [SHAKE_BEARER, SEEN],
}

SCENARIOS: dict[str, list[Step]] = {
    **TOKENS,
    "plain": [VERSIONS, shake("PLAIN"), GOOD, IS_SERVED, VERSIONS],
    "plain, oldest versions": [shake("PLAIN", 1), prove(sasl.plain(), 0), IS_SERVED],
    "plain without headers": [shake("PLAIN", 0), bare(sasl.plain()), IS_SERVED],
    "wrong password": [shake("PLAIN"), WRONG],
    "wrong password, oldest version": [shake("PLAIN"), prove(sasl.plain(password="wrong"), 0)],
    "wrong password without headers": [shake("PLAIN", 0), bare(sasl.plain(password="wrong"))],
    "unknown user": [shake("PLAIN"), prove(sasl.plain("nobody"))],
    "one part": [shake("PLAIN"), prove(b"alice")],
    "no part": [shake("PLAIN"), prove(b"")],
    "five parts": [shake("PLAIN"), prove(b"a\0b\0c\0d\0e")],
    "no user": [shake("PLAIN"), prove(sasl.plain(""))],
    "no password": [shake("PLAIN"), prove(sasl.plain(password=""))],
    "for itself": [shake("PLAIN"), prove(sasl.plain(authorization="alice")), IS_SERVED],
    "for another": [shake("PLAIN"), prove(sasl.plain(authorization="bob"))],
    "for another, wrong": [shake("PLAIN"), prove(sasl.plain(authorization="bob", password="x"))],
    "SCRAM-SHA-256": [VERSIONS, shake("SCRAM-SHA-256"), exchange("SCRAM-SHA-256"), IS_SERVED],
    "SCRAM-SHA-512": [shake("SCRAM-SHA-512"), exchange("SCRAM-SHA-512"), IS_SERVED],
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
    "metadata after versions": [VERSIONS, METADATA],
    "metadata in place of a proof": [shake("PLAIN"), METADATA],
    "metadata in place of a bare proof": [shake("PLAIN", 0), METADATA],
    "groups in place of a proof": [shake("PLAIN"), request("LIST_GROUPS", 4)],
    "versions in place of a proof": [shake("PLAIN"), request("API_VERSIONS", 0)],
    "handshake in place of a proof": [shake("PLAIN"), shake("PLAIN")],
    "proof first": [GOOD],
    "versions twice": [VERSIONS, VERSIONS],
    "versions again after an unknown one": [bare(UNKNOWN_VERSION), VERSIONS, shake("PLAIN"), GOOD],
    "versions with no software": [request("API_VERSIONS", 3), VERSIONS, shake("PLAIN"), GOOD],
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
        IS_SERVED,
    ],
    "again": [shake("PLAIN"), GOOD, shake("PLAIN"), GOOD, IS_SERVED],
    "again without headers": [shake("PLAIN"), GOOD, shake("PLAIN", 0), bare(sasl.plain())],
    "again too soon": [shake("PLAIN"), GOOD, shake("PLAIN"), GOOD, shake("PLAIN"), IS_SERVED],
    "again after a second": [shake("PLAIN"), GOOD, shake("PLAIN"), GOOD, A_SECOND, shake("PLAIN")],
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
        request("API_VERSIONS", 0),
    ],
    "too late": [shake("PLAIN"), GOOD, PAUSE, METADATA],
    "too late with an old version": [shake("PLAIN"), prove(sasl.plain(), 0), PAUSE, METADATA],
    "too late for versions": [shake("PLAIN"), GOOD, PAUSE, VERSIONS],
    "too late for a proof": [shake("PLAIN"), GOOD, PAUSE, GOOD],
    "late, but again": [shake("PLAIN"), GOOD, PAUSE, shake("PLAIN"), GOOD, IS_SERVED],
}


def is_known(address: Address, mechanism: str) -> bool:
    """Return whether a broker has applied the user's credential."""
    with Client(address) as client:
        sasl.handshake(client, mechanism)
        return bool(sasl.scram(client, mechanism)["errorCode"] == 0)


def recorded_by_kafka(home: Path) -> dict[str, list[object]]:
    """Play all scenarios against a real broker."""
    with real_broker(home, KAFKA) as address:
        admin = AdminClient(
            {
                "bootstrap.servers": f"{address.host}:{address.port}",
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
        for each in (sasl.SCRAM_256, sasl.SCRAM_512):
            wait_until(lambda name=each: is_known(address, name), "the broker knows of the user")
        return transcripts(address, SCENARIOS, MachineClock())


@pytest.fixture(scope="module")
def kafka_responses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    home = tmp_path_factory.mktemp("sasl")
    scenario = data_of(SCENARIOS)
    return golden("sasl/steps", lambda: recorded_by_kafka(home), scenario=scenario, settings=KAFKA)


@pytest.fixture(scope="module")
def gateway_responses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
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
    security = GatewaySecurity.of(SecurityProtocol.SASL_PLAINTEXT, GATEWAY, file)
    clock = StandingClock()
    with clock.of_gateway(), running_gateway(security=security) as running:
        return transcripts(running.addresses[1], SCENARIOS, clock)


@pytest.mark.compares
@pytest.mark.parametrize("name", SCENARIOS)
def test_every_step_of_a_scenario_gets_kafkas_response(
    name: str, kafka_responses: dict[str, list[object]], gateway_responses: dict[str, list[object]]
) -> None:
    assert gateway_responses[name] == kafka_responses[name]
