"""A gateway and a real Kafka that speak SASL_SSL, and the files by which clients reach them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from brokertwin.gateway.security import credentials, scram
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from brokertwin.kafka_io import properties
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.settings import default_home
from tests.support.certificates import Authority, of_pkcs12
from tests.support.gateways import HOST, running_gateway
from tests.support.patience import PATIENCE_S

PASSWORD, OF_COMMA = 'wonder "land"', "½ = a, b"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
MECHANISMS = ("PLAIN", *scram.MECHANISMS)
STORE_PASSWORD = "secret"
ALICE, COMMA = "alice", "ali=ce,1"
"""For PLAIN, whose users Kafka has in properties; for SCRAM, where two characters are escaped."""

GROUPS = {"group.initial.rebalance.delay.ms": "100"}


class Secured(NamedTuple):
    """Where one listens, the directory with its authority's certificate (ca.pem).

    `connections` counts those that a gateway has had.
    """

    bootstrap: str
    directory: Path
    connections: Callable[[], int] = int

    def properties(self, mechanism: str, password: str | None = None) -> dict[str, str]:
        """A client's properties."""
        module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
        user, known = (ALICE, PASSWORD) if mechanism == "PLAIN" else (COMMA, OF_COMMA)
        quoted = (known if password is None else password).replace('"', '\\"')
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{module} required username="{user}" password="{quoted}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.directory / "ca.pem"),
        }

    def client(self, mechanism: str = "SCRAM-SHA-512", **other: str) -> ClientProperties:
        """The same, some of them otherwise (`_` for `.`)."""
        changed = {name.replace("_", "."): value for name, value in other.items()}
        return ClientProperties({**self.properties(mechanism), **changed})

    def file(self, mechanism: str, password: str | None = None) -> Path:
        file = self.directory / f"{mechanism}-{password is None}.properties"
        file.write_text(properties.dump(self.properties(mechanism, password)))
        return file


def stores(directory: Path) -> dict[str, str]:
    """A broker's key and trust stores; both authorities' certificate is in ca.pem."""
    authority = Authority()
    (directory / "ca.pem").write_text(authority.certificate)
    authority.issue("alice").store(directory / "alice.pem")
    (directory / "alice.p12").write_bytes(of_pkcs12(authority.issue("alice"), STORE_PASSWORD))
    authority.issue("broker").store(directory / "localhost.pem")
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("b", HOST).store(directory / "host.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
    }


@contextmanager
def secured_gateway(directory: Path, **settings: str) -> Iterator[Secured]:
    """A gateway; `settings` (`_` for `.`) besides."""
    users = directory / "users.jsonl"
    made = [
        credentials.make(user, each, password, scram.ITERATIONS_MIN)
        for user, password in ((ALICE, PASSWORD), (COMMA, OF_COMMA))
        for each in scram.MECHANISMS.values()
    ]
    credentials.write(users, made)
    changed = {name.replace("_", "."): value for name, value in settings.items()}
    security = GatewaySecurity.of(
        SecurityProtocol.SASL_SSL, {**stores(directory), **changed}, users
    )
    with running_gateway(GROUPS, security=security) as running:
        yield Secured(running.bootstrap, directory, lambda: running.gateway._count)


@contextmanager
def secured_kafka(directory: Path) -> Iterator[Secured]:
    settings = {**stores(directory), "ssl.keystore.location": str(directory / "localhost.pem")}
    quoted = PASSWORD.replace('"', '\\"')
    login = f'{PLAIN_MODULE} required username="broker" password="b" user_broker="b"'
    login = f'{login} user_{ALICE}="{quoted}"'
    broker = EmbeddedKafka(directory / "broker", default_home())
    try:
        bootstrap = broker.start(
            {
                **settings,
                **GROUPS,
                "listener.security.protocol.map": "CLIENT:SASL_SSL,CONTROLLER:PLAINTEXT",
                "listener.name.client.plain.sasl.jaas.config": f"{login};",
                "listener.name.client.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required;",
                "listener.name.client.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
            }
        )
        _add_user(bootstrap, directory)
        yield Secured(bootstrap, directory)
    finally:
        broker.stop()


def _add_user(bootstrap: str, directory: Path) -> None:
    admin = AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "broker",
            "sasl.password": "b",
            "ssl.ca.location": str(directory / "ca.pem"),
        }
    )
    infos = [
        ScramCredentialInfo(kind, scram.ITERATIONS_MIN)
        for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
    ]
    for info in infos:
        wanted = UserScramCredentialUpsertion(COMMA, info, OF_COMMA.encode())
        admin.alter_user_scram_credentials([wanted])[COMMA].result(PATIENCE_S)
