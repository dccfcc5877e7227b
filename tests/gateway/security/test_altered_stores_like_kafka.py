"""Key and trust stores altered at a running listener, compared with Kafka."""

import json
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from tests.gateway.security.test_key_stores import keytool
from tests.support.certificates import Authority, hidden, of_pkcs12
from tests.support.configs import BROKER, alter
from tests.support.gateways import Client, running_gateway
from tests.support.goldens import IS_LIVE, Tape, Track, tape
from tests.support.listening_kafkas import ListeningKafka
from tests.support.patience import wait_until

pytestmark = pytest.mark.compares

PREFIX = "listener.name.ssl.ssl."
SECRET, OTHER = "store secret", "another secret"
Changes = Mapping[str, str | None]

JAVA_TEXTS = re.compile(
    r"(?<=existing=)(?:[^\"\\]|\\.)*"  # names as X500Principal.toString writes them
    r"|(?<=KafkaException: )(?:java\.security\.UnrecoverableKeyException|Failed to load SSL)"
    r"[^\"]*"  # Java's reason why a store or its key cannot be decrypted
)
"""Parts of error messages that the gateway does not reproduce, removed before comparing."""


class Files:
    """Stores in a directory; texts name them by `@NAME`."""

    def __init__(self, directory: Path, recording: Tape) -> None:
        self.directory = directory
        self.authority = Authority()
        broker = self.authority.issue("broker")
        self.names = {
            "first": broker,
            "again": self.authority.issue("broker"),
            "dn": self.authority.issue("someone, else"),
            "san": self.authority.issue("broker", "127.0.0.1"),
        }
        for name, identity in self.names.items():
            (directory / f"{name}.p12").write_bytes(of_pkcs12(identity, SECRET))
            identity.store(directory / f"{name}.pem")
        again = self.names["again"]
        (directory / "other.p12").write_bytes(of_pkcs12(again, OTHER))
        (directory / "hidden.pem").write_text(hidden(again, SECRET) + again.certificate)
        (directory / "keyless.pem").write_text(again.certificate)
        (directory / "bare.pem").write_text(again.key)
        (directory / "ca.pem").write_text(self.authority.certificate)
        (directory / "garbage").write_bytes(b"nonsense")
        (directory / "empty").write_bytes(b"")
        for name, make in {"made.jks": self._made, "trust.jks": self._trust}.items():
            (directory / name).write_bytes(recording.drawn(name, make))

    def _made(self) -> bytes:
        pair = ("-genkeypair", "-keyalg", "EC", "-alias", "Broker", "-keypass", "key secret")
        names = ("-dname", "CN=broker", "-ext", "SAN=DNS:localhost", "-validity", "36500")
        keytool(self.directory, *pair, *names, "-storetype", "JKS", "-keystore", "made.jks")
        return (self.directory / "made.jks").read_bytes()

    def _trust(self) -> bytes:
        trusted = ("-importcert", "-alias", "ca", "-file", "ca.pem", "-keystore", "trust.jks")
        keytool(self.directory, *trusted, "-storetype", "JKS")
        return (self.directory / "trust.jks").read_bytes()

    def text(self, text: str | None) -> str | None:
        """Return a setting's value with the names replaced by file paths."""
        if text is None or not text.startswith("@"):
            return text
        return str(self.directory / text[1:])

    def settings(self, changes: Changes) -> dict[str, str | None]:
        """Return the listener's settings under their full names."""
        return {
            name if name.startswith("+") else PREFIX + name: self.text(text)
            for name, text in changes.items()
        }


FIRST = {"keystore.type": "PKCS12", "keystore.location": "@first.p12", "keystore.password": SECRET}
OF_PEM = {"keystore.type": "PEM", "keystore.location": "@first.pem"}
TRUSTING = {"truststore.type": "PEM", "truststore.location": "@ca.pem", "client.auth": "requested"}
STARTS: dict[str, dict[str, str]] = {
    "PKCS12": FIRST,
    "PEM": {**OF_PEM, **TRUSTING},
    "allowing": {**FIRST, "allow.dn.changes": "true", "allow.san.changes": "true"},
}
REFUSED_OR_NOT: list[Changes] = [
    *({"keystore.location": f"@{name}"} for name in ("missing", "", "garbage", "empty")),
    *(
        {"keystore.location": f"@{name}"}
        for name in ("again.p12", "other.p12", "dn.p12", "san.p12", "again.pem", "dn.pem")
    ),
    *({"keystore.location": f"@{name}.pem"} for name in ("san", "keyless", "bare", "hidden")),
    {"keystore.location": ""},
    {"keystore.location": "@hidden.pem", "key.password": OTHER},
    {"keystore.location": "@again.pem", "key.password": SECRET},
    {"keystore.location": "@other.p12", "keystore.password": OTHER},
    {"keystore.location": "@other.p12", "keystore.password": OTHER, "keystore.type": "PKCS12"},
    {"keystore.location": "@other.p12", "keystore.password": OTHER, "key.password": SECRET},
    {"keystore.location": "@made.jks", "keystore.type": "JKS", "key.password": "key secret"},
    {
        "keystore.location": "@made.jks",
        "keystore.type": "JKS",
        "key.password": "key secret",
        "keystore.password": SECRET,
    },
    {"keystore.location": "@made.jks", "keystore.type": "JKS", "keystore.password": SECRET},
    {"keystore.location": "@made.jks", "keystore.password": OTHER, "keystore.type": "JKS"},
    {"keystore.location": "@again.p12", "keystore.type": "PEM"},
    {"keystore.location": "@again.pem", "keystore.type": "PEM"},
    *({"keystore.type": kind} for kind in ("JKS", "PKCS12", "pkcs12", "PEM", "nope", "")),
    *({"keystore.password": text} for text in (OTHER, SECRET)),
    *({"key.password": text} for text in (OTHER, SECRET)),
    {"keystore.key": "x"},
    {"keystore.certificate.chain": "x"},
    {"keystore.key": "x", "keystore.certificate.chain": "x", "keystore.type": "PEM"},
    {"truststore.location": "@ca.pem", "truststore.type": "PEM"},
    {"truststore.location": "@ca.pem", "truststore.type": "PEM", "truststore.password": "x"},
    {"truststore.location": "@bare.pem", "truststore.type": "PEM"},
    {"truststore.location": "@missing"},
    {"truststore.location": "@missing", "truststore.type": "PEM"},
    {"truststore.location": "@trust.jks", "truststore.type": "JKS"},
    {"truststore.location": "@trust.jks", "truststore.type": "JKS", "truststore.password": SECRET},
    {"truststore.location": "@trust.jks", "truststore.type": "JKS", "truststore.password": OTHER},
    {"truststore.password": SECRET},
    {"truststore.certificates": "x"},
    {"truststore.certificates": "x", "truststore.type": "PEM"},
    {"keystore.location": None},
    {"keystore.location": "@dn.p12", "+num.io.threads": "1"},
    {"keystore.location": "@missing", "+num.io.threads": "x"},
    {"keystore.location": "@missing", "+log.roll.ms": "0"},
    {"keystore.location": "@missing", "+metric.reporters": "java.lang.String"},
    {"keystore.location": "@missing", "+listeners": "x"},
    {"+listener.name.other.ssl.keystore.location": "@missing"},
    {"+listener.name.SSL.ssl.keystore.location": "@missing"},
    {"allow.dn.changes": "true", "keystore.location": "@dn.p12"},
    {"client.auth": "required"},
]
"""Settings that are sent as they are, to see the response."""


TAKEN: dict[str, list[tuple[Changes, str]]] = {
    "PKCS12": [
        ({"keystore.location": "@dn.p12"}, "first"),
        ({"keystore.location": "@again.p12"}, "again"),
        ({"keystore.location": "@first.p12"}, "first"),
        ({"keystore.location": "@other.p12"}, "first"),
        ({"keystore.location": "@other.p12", "keystore.password": OTHER}, "again"),
        ({"keystore.password": SECRET}, "again"),
        ({"keystore.location": None}, "again"),
        ({"keystore.location": None, "keystore.password": None}, "first"),
        ({"keystore.location": "@other.p12", "keystore.password": OTHER}, "again"),
    ],
    "PEM": [
        ({"keystore.location": "@san.pem"}, "first"),
        ({"keystore.location": "@again.pem"}, "again"),
        ({"truststore.location": "@missing"}, "again"),
        ({"truststore.location": "@first.pem"}, "again"),
        ({"keystore.location": None}, "first"),
    ],
    "allowing": [
        ({"keystore.location": "@dn.p12"}, "dn"),
        ({"keystore.location": "@san.p12"}, "san"),
        ({"keystore.location": "@missing"}, "san"),
    ],
}
"""Alterations in order; after each one a handshake is compared."""


class Pair:
    """A real broker and a gateway that were started with the same stores.

    Attributes:
        track: has the real broker's responses.
    """

    def __init__(self, files: Files, kind: str, stack: ExitStack, recording: Tape) -> None:
        settings = files.settings(STARTS[kind])
        assert None not in settings.values()
        started = {name: text for name, text in settings.items() if text is not None}
        self.files, self.kind, self.recording = files, kind, recording
        self.track: Track = recording
        self.trust = ssl.create_default_context(cadata=files.authority.certificate)
        self.given = {
            name.removeprefix("listener.name.ssl."): text for name, text in started.items()
        }
        self.secrets = files.directory / f"{kind}.json"
        self.security = GatewaySecurity.of(SecurityProtocol.SSL, self.given, secrets=self.secrets)
        self.running = stack.enter_context(running_gateway(security=self.security))
        self.ours = Address("localhost", self.running.addresses[1].port)
        self.client = stack.enter_context(Client(self.ours, tls=self.trust))
        if IS_LIVE:
            kafka = ListeningKafka(files.directory / kind, "SSL", started)
            stack.callback(kafka.stop)
            kafka.start()
            self.theirs = Address("localhost", kafka.port)
            self.their_client = stack.enter_context(kafka.client())

    def shown(self) -> list[str | None]:
        """Return which certificate a new connection to each broker gets."""
        theirs = self.track.response("certificate", lambda: self._shown_at(self.theirs))
        return [self._shown_at(self.ours), theirs]

    def _shown_at(self, address: Address) -> str | None:
        known = {
            ssl.PEM_cert_to_DER_cert(identity.certificate): name
            for name, identity in self.files.names.items()
        }
        return known.get(served_at(address))

    def alter(self, changes: Changes, validate_only: bool = False) -> list[Any]:
        """Alter the settings of both brokers, and return both results."""
        theirs = self.track.response(
            [changes, validate_only],
            lambda: self._altered(self.their_client, changes, validate_only),
        )
        ours = self._altered(self.client, changes, validate_only)
        return [json.loads(JAVA_TEXTS.sub("", json.dumps(each))) for each in (ours, theirs)]

    def _altered(self, client: Client, changes: Changes, validate_only: bool) -> Any:
        wanted = [
            (name.removeprefix("+"), int(text is None), text)
            for name, text in self.files.settings(changes).items()
        ]
        api = "INCREMENTAL_ALTER_CONFIGS"
        response = alter(client, api, 1, [(BROKER, "1", wanted)], validate_only)
        place = re.compile(re.escape(str(self.files.directory)) + "/?")
        return json.loads(place.sub("@", json.dumps(response)))


def served_at(address: Address) -> bytes:
    """Return the certificate that a listener presents, in DER."""
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(address) as plain, anybody.wrap_socket(plain) as secured:
        return secured.getpeercert(binary_form=True) or b""


@pytest.fixture(scope="module", params=STARTS)
def module_pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    with ExitStack() as stack:
        recording = stack.enter_context(tape(f"altered_stores/{request.param}"))
        files = Files(tmp_path_factory.mktemp("stores"), recording)
        yield Pair(files, request.param, stack, recording)


@pytest.fixture
def pair(module_pair: Pair, request: pytest.FixtureRequest) -> Pair:
    """Yield both brokers; each test has its own track of real responses."""
    module_pair.track = module_pair.recording.track(request.node.name)
    return module_pair


def test_each_change_is_accepted_or_refused_as_by_a_real_broker(pair: Pair) -> None:
    for changes in REFUSED_OR_NOT:
        ours, theirs = pair.alter(changes, validate_only=True)
        assert ours == theirs, changes


def test_an_altered_store_is_served_as_by_a_real_broker(pair: Pair) -> None:
    """After each change a new connection gets the same certificate at both."""
    assert pair.shown() == ["first", "first"]
    for changes, shown in TAKEN[pair.kind]:
        ours, theirs = pair.alter(changes)
        assert ours == theirs, changes
        wait_until(lambda shown=shown: pair.shown() == [shown, shown], f"not {shown}: {changes}")
    again = GatewaySecurity.of(SecurityProtocol.SSL, pair.given, secrets=pair.secrets)
    assert again.tls is not None
