"""Key and trust stores in PKCS12 and JKS, and stores that are exchanged while a gateway serves."""

import os
import socket
import ssl
import subprocess
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from brokerstream.errors import UserError
from brokerstream.gateway import key_stores
from brokerstream.gateway.broker_properties import BrokerProperties
from brokerstream.gateway.security import Security
from brokerstream.gateway.security_protocol import SecurityProtocol
from brokerstream.gateway.tls import LOOKS_EVERY_S, Tls
from brokerstream.kafka_io.java import java_executable
from tests.support.certificates import Authority, Identity, of_pkcs12
from tests.support.configs import BROKER
from tests.support.gateways import HOST, Client, running_gateway
from tests.support.patience import wait_until

SSL = SecurityProtocol.SSL
LIFE = timedelta(seconds=2)
SECRET, OF_KEY = "store secret", "key secret"


def served_by(context: ssl.SSLContext) -> bytes:
    """The certificate that a server's context shows, in DER; the handshake goes through memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    client = trusting.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(3):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    found = client.getpeercert(binary_form=True)
    assert found is not None
    return found


def der(identity: Identity) -> bytes:
    return ssl.PEM_cert_to_DER_cert(identity.certificate)


def test_a_pkcs12_store_is_served(tmp_path: Path) -> None:
    identity = Authority().issue("broker")
    file = tmp_path / "broker.p12"
    file.write_bytes(of_pkcs12(identity, SECRET))
    given = {"ssl.keystore.location": str(file), "ssl.keystore.password": SECRET}
    for kind in ({}, {"ssl.keystore.type": "PKCS12"}, {"ssl.keystore.type": "JKS"}):
        secured = Security.of(SSL, {**given, **kind}).tls
        assert secured is not None
        assert served_by(secured.context()) == der(identity)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ssl.keystore.password": "wrong"}, "or the password is another one"),
        ({"ssl.keystore.password": ""}, "or the password is another one"),
        ({"ssl.keystore.type": "PEM"}, "looks like PKCS12"),
    ],
)
def test_a_store_that_does_not_open_is_told(
    tmp_path: Path, given: dict[str, str], message: str
) -> None:
    file = tmp_path / "broker.p12"
    file.write_bytes(of_pkcs12(Authority().issue("broker"), SECRET))
    settings = {"ssl.keystore.location": str(file), "ssl.keystore.password": SECRET, **given}
    with pytest.raises(UserError) as error:
        Security.of(SSL, settings)
    assert message in error.value.message
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("cut", [4, 12, 30, -1])
@pytest.mark.parametrize("begins", [b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1", b"\x30\x82\x0a\x0b"])
def test_a_damaged_store_is_told(begins: bytes, cut: int) -> None:
    kind = key_stores.JKS if begins[0] == 0xFE else key_stores.PKCS12
    with pytest.raises(UserError, match="cannot be opened"):
        key_stores.read(kind, (begins + bytes(60))[:cut], "ssl.keystore", "x", None)


def test_a_store_that_is_exchanged_counts_for_the_next_connection(tmp_path: Path) -> None:
    authority, file = Authority(), tmp_path / "broker.pem"
    first, second = authority.issue("broker"), authority.issue("broker")
    first.store(file)
    now = 0.0
    tls = Tls(BrokerProperties({"ssl.keystore.location": str(file)}, SSL), lambda: now)
    second.store(file)
    assert served_by(tls.context()) == der(first), "it is not looked at for every connection"
    now += LOOKS_EVERY_S
    with capture_logs() as logs:
        assert served_by(tls.context()) == der(second)
        file.write_text(second.certificate)  # the key is missing
        now += LOOKS_EVERY_S
        assert served_by(tls.context()) == der(second)
        now += LOOKS_EVERY_S
        tls.context()
        file.unlink()
        now += LOOKS_EVERY_S
        assert served_by(tls.context()) == der(second)
        first.store(tmp_path / "new.pem").rename(file)
        now += LOOKS_EVERY_S
        assert served_by(tls.context()) == der(first)
    told = [each["event"] for each in logs]
    not_exchanged = "certificates not exchanged"
    assert told == ["certificates exchanged", *[not_exchanged] * 2, "certificates exchanged"]


def test_a_certificate_that_expires_under_load_keeps_out_who_comes_until_it_is_exchanged(
    tmp_path: Path,
) -> None:
    """Who is connected goes on; a client that trusts the authority notices when it shakes hands."""
    authority, file = Authority(), tmp_path / "broker.pem"
    authority.issue("broker", HOST, LIFE).store(file)
    trusting = ssl.create_default_context(cadata=authority.certificate)
    security = Security.of(SSL, {"ssl.keystore.location": str(file)})
    with running_gateway(security=security) as running:
        address = running.addresses[1]

        def is_let_in() -> bool:
            assert connected.call("METADATA", 12)["brokers"], "who is connected is answered"
            try:
                Client(address, tls=trusting).close()
            except ssl.SSLCertVerificationError as error:
                if "certificate has expired" not in str(error):
                    raise
                return False
            return True

        with Client(address, tls=trusting) as connected:
            wait_until(lambda: not is_let_in(), "it has not expired")
            new = tmp_path / "new.pem"
            authority.issue("broker", HOST).store(new).rename(file)
            wait_until(is_let_in, "it is not exchanged")


def test_a_listener_is_given_another_store_while_it_runs(tmp_path: Path) -> None:
    """As in Kafka each broker has its own; where none can be loaded the one before it stays."""
    first, second = Authority(), Authority()
    files = {name: tmp_path / f"{name}.pem" for name in ("first", "second", "missing")}
    first.issue("broker", HOST).store(files["first"])
    second.issue("broker", HOST).store(files["second"])
    trusts = {
        name: ssl.create_default_context(cadata=authority.certificate)
        for name, authority in (("first", first), ("second", second))
    }
    security = Security.of(SSL, {"ssl.keystore.location": str(files["first"])})

    def shows(broker: int) -> list[str]:
        """Who has issued the certificate that a new connection meets."""
        found = []
        for name, trusting in trusts.items():
            with suppress(ssl.SSLCertVerificationError):
                Client(running.addresses[broker], tls=trusting).close()
                found.append(name)
        return found

    def alter(name: str | None) -> None:
        setting = "listener.name.ssl.ssl.keystore.location"
        value = None if name is None else str(files[name])
        change = {"name": setting, "configOperation": int(name is None), "value": value}
        resource = {"resourceType": BROKER, "resourceName": "1", "configs": [change]}
        body = {"resources": [resource]}
        answer = connected.call("INCREMENTAL_ALTER_CONFIGS", 1, body)
        assert answer["responses"][0]["errorCode"] == 0

    with (
        running_gateway(brokers=2, security=security) as running,
        Client(running.addresses[1], tls=trusts["first"]) as connected,
    ):
        assert shows(1) == ["first"]
        for name, shown in (("second", "second"), ("missing", "second"), (None, "first")):
            alter(name)
            assert (shows(1), shows(2)) == ([shown], ["first"])
        assert connected.call("METADATA", 12)["brokers"], "who is connected is answered"


def keytool(directory: Path, *words: str) -> None:
    """Call Java's own tool for key stores."""
    tool = Path(java_executable()).resolve().with_name("keytool")
    command = [str(tool), *words, "-storepass", SECRET, "-J-Dfile.encoding=UTF-8", "-noprompt"]
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def made_by_java(directory: Path, kind: str) -> dict[str, str]:
    """Two stores of a type, as Kafka's documents make them: a key, and what is trusted."""
    of_key = OF_KEY if kind == "JKS" else SECRET
    pair = ("-genkeypair", "-keyalg", "RSA", "-alias", "broker", "-dname", "CN=broker")
    names = ("-ext", f"SAN=IP:{HOST}", "-keypass", of_key)
    keytool(directory, *pair, *names, "-storetype", kind, "-keystore", "broker")
    made = ("-importcert", "-alias", "ca", "-file", "ca.pem")
    keytool(directory, *made, "-storetype", kind, "-keystore", "trusted")
    keytool(
        directory,
        "-exportcert",
        "-rfc",
        "-alias",
        "broker",
        "-keystore",
        "broker",
        "-file",
        "broker.pem",
    )
    return {
        "ssl.keystore.type": kind,
        "ssl.keystore.location": str(directory / "broker"),
        "ssl.keystore.password": SECRET,
        "ssl.key.password": of_key,
        "ssl.truststore.type": kind,
        "ssl.truststore.location": str(directory / "trusted"),
        "ssl.truststore.password": SECRET,
        "ssl.client.auth": "required",
    }


@pytest.mark.kafka
@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_stores_that_java_made_are_served(tmp_path: Path, kind: str) -> None:
    """Both sides show a certificate: the client's is of the authority in the trust store."""
    authority = Authority()
    (tmp_path / "ca.pem").write_text(authority.certificate)
    given = made_by_java(tmp_path, kind)
    alice = authority.issue("alice").store(tmp_path / "alice.pem")
    client = ssl.create_default_context(cafile=str(tmp_path / "broker.pem"))
    client.load_cert_chain(alice)
    with (
        running_gateway(security=Security.of(SSL, given)) as running,
        socket.create_connection(running.addresses[1]) as plain,
        client.wrap_socket(plain, server_hostname=HOST) as secured,
    ):
        found = secured.getpeercert()
    assert found is not None
    assert found["subject"] == ((("commonName", "broker"),),)
    without = {**given, "ssl.key.password": "wrong"}
    if kind == "JKS":
        with pytest.raises(UserError, match="cannot be opened"):
            Security.of(SSL, without)
