"""Key and trust stores in PKCS12 and JKS, and their exchange while running."""

import os
import socket
import ssl
import subprocess
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from brokertwin.errors import UserError
from brokertwin.gateway.admin.broker_properties import BrokerProperties
from brokertwin.gateway.security import store_checks
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from brokertwin.gateway.security.store_passwords import StorePasswords
from brokertwin.gateway.security.tls import LOOKS_EVERY_S, Tls
from brokertwin.kafka_io import key_stores
from brokertwin.kafka_io.java import java_executable
from brokertwin.protocol.errors import Error
from tests.support.certificates import Authority, Identity, hidden, of_pkcs12
from tests.support.configs import BROKER, DELETE, SET, alter
from tests.support.gateways import HOST, Client, running_gateway
from tests.support.patience import wait_until

SSL = SecurityProtocol.SSL
LIFE = timedelta(seconds=2)
SECRET, OF_KEY = "store secret", "key secret"


def served_by(context: ssl.SSLContext) -> bytes:
    """Return the certificate a server context presents, in DER. The handshake runs in memory."""
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
    result = client.getpeercert(binary_form=True)
    assert result is not None
    return result


def der(identity: Identity) -> bytes:
    return ssl.PEM_cert_to_DER_cert(identity.certificate)


def test_pkcs12_store_is_served(tmp_path: Path) -> None:
    identity = Authority().issue("broker")
    file = tmp_path / "broker.p12"
    file.write_bytes(of_pkcs12(identity, SECRET))
    settings = {"ssl.keystore.location": str(file), "ssl.keystore.password": SECRET}
    for kind in ({}, {"ssl.keystore.type": "PKCS12"}, {"ssl.keystore.type": "JKS"}):
        secured = GatewaySecurity.of(SSL, {**settings, **kind}).tls
        assert secured is not None
        assert served_by(secured.context()) == der(identity)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ssl.keystore.password": "wrong"}, "or the password is wrong"),
        ({"ssl.keystore.password": ""}, "or the password is wrong"),
        ({"ssl.keystore.type": "PEM"}, "looks like PKCS12"),
    ],
)
def test_store_with_a_wrong_password_is_reported(
    tmp_path: Path, given: dict[str, str], message: str
) -> None:
    file = tmp_path / "broker.p12"
    file.write_bytes(of_pkcs12(Authority().issue("broker"), SECRET))
    settings = {"ssl.keystore.location": str(file), "ssl.keystore.password": SECRET, **given}
    with pytest.raises(UserError) as error:
        GatewaySecurity.of(SSL, settings)
    assert message in error.value.message
    assert SECRET not in str(error.value)


@pytest.mark.parametrize("cut", [4, 12, 30, -1])
@pytest.mark.parametrize("begins", [b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1", b"\x30\x82\x0a\x0b"])
def test_damaged_store_is_reported(begins: bytes, cut: int) -> None:
    kind = key_stores.JKS if begins[0] == 0xFE else key_stores.PKCS12
    with pytest.raises(UserError, match=r"Cannot (open|decrypt)"):
        key_stores.read(kind, (begins + bytes(60))[:cut], "ssl.keystore", "x", None)


def test_exchanged_store_applies_to_the_next_connection(tmp_path: Path) -> None:
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
    events = [each["event"] for each in logs]
    not_exchanged = "certificates not replaced"
    assert events == ["certificates replaced", *[not_exchanged] * 2, "certificates replaced"]


def test_expired_certificate_refuses_new_connections_until_exchanged(
    tmp_path: Path,
) -> None:
    """Open connections stay; a client that trusts the authority fails in the handshake."""
    authority, file = Authority(), tmp_path / "broker.pem"
    authority.issue("broker", HOST, LIFE).store(file)
    trusting = ssl.create_default_context(cadata=authority.certificate)
    security = GatewaySecurity.of(SSL, {"ssl.keystore.location": str(file)})
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


def test_listener_gets_another_store_while_running(tmp_path: Path) -> None:
    """Each broker has its own store, as in Kafka; one that does not load is refused."""
    first, second = Authority(), Authority()
    files = {name: tmp_path / f"{name}.pem" for name in ("first", "second", "missing")}
    first.issue("broker", HOST).store(files["first"])
    second.issue("broker", HOST).store(files["second"])
    trusts = {
        name: ssl.create_default_context(cadata=authority.certificate)
        for name, authority in (("first", first), ("second", second))
    }
    security = GatewaySecurity.of(SSL, {"ssl.keystore.location": str(files["first"])})

    def shows(broker: int) -> list[str]:
        """Return the issuer of the certificate that a new connection gets."""
        result = []
        for name, trusting in trusts.items():
            with suppress(ssl.SSLCertVerificationError):
                Client(running.addresses[broker], tls=trusting).close()
                result.append(name)
        return result

    def alter(name: str | None) -> int:
        setting = "listener.name.ssl.ssl.keystore.location"
        value = None if name is None else str(files[name])
        change = {"name": setting, "configOperation": int(name is None), "value": value}
        resource = {"resourceType": BROKER, "resourceName": "1", "configs": [change]}
        body = {"resources": [resource]}
        response = connected.call("INCREMENTAL_ALTER_CONFIGS", 1, body)
        return int(response["responses"][0]["errorCode"])

    with (
        running_gateway(brokers=2, security=security) as running,
        Client(running.addresses[1], tls=trusts["first"]) as connected,
    ):
        assert shows(1) == ["first"]
        for name, error, shown in (
            ("second", Error.NONE, "second"),
            ("missing", Error.INVALID_REQUEST, "second"),
            (None, Error.NONE, "first"),
        ):
            assert alter(name) == error
            assert (shows(1), shows(2)) == ([shown], ["first"])
        assert connected.call("METADATA", 12)["brokers"], "who is connected is answered"


def altered(client: Client, **changes: str | None) -> int:
    """Alter settings of listener SSL of broker 1; `_` in names becomes `.`."""
    named = {f"listener.name.ssl.ssl.{key.replace('_', '.')}": changes[key] for key in changes}
    wanted = [(BROKER, "1", [(name, int(text is None), text) for name, text in named.items()])]
    response = alter(client, "INCREMENTAL_ALTER_CONFIGS", 1, wanted)
    return int(response["responses"][0]["errorCode"])


def test_altered_password_applies_is_stored_once_and_survives_a_restart(
    tmp_path: Path,
) -> None:
    authority = Authority()
    first, second = (authority.issue("broker", HOST) for _ in range(2))
    (tmp_path / "first.p12").write_bytes(of_pkcs12(first, "geheim-1"))
    (tmp_path / "second.p12").write_bytes(of_pkcs12(second, "geheim-2"))
    trust = ssl.create_default_context(cadata=authority.certificate)
    settings = {
        "ssl.keystore.location": str(tmp_path / "first.p12"),
        "ssl.keystore.password": "geheim-1",
    }
    passwords, journal = tmp_path / "passwords.json", tmp_path / "journal"

    def served() -> list[bool]:
        running_at = running.addresses[1]
        actual = ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(running_at))
        return [actual == der(each) for each in (first, second)]

    security = GatewaySecurity.of(SSL, settings, secrets=passwords)
    with running_gateway(security=security, journal=journal) as running:
        with Client(running.addresses[1], tls=trust) as client:
            wanted = {"keystore_location": str(tmp_path / "second.p12")}
            assert altered(client, **wanted, keystore_password="wrong") == Error.INVALID_REQUEST
            assert not passwords.exists()
            assert altered(client, **wanted, keystore_password="geheim-2") == Error.NONE
        assert served() == [False, True]
    assert passwords.stat().st_mode & 0o777 == 0o600
    assert b"geheim-2" in passwords.read_bytes()
    kept = [each for each in journal.parent.rglob("journal*") if each.is_file()]
    assert kept
    assert not any(b"geheim" in each.read_bytes() or b"wrong" in each.read_bytes() for each in kept)
    security = GatewaySecurity.of(SSL, settings, secrets=passwords)
    with running_gateway(security=security, journal=journal) as running:
        assert served() == [False, True]
    security = GatewaySecurity.of(SSL, settings)
    with running_gateway(security=security, journal=journal) as running:
        assert served() == [True, False], "without the password it is the store of the start"


def test_store_passwords_are_deleted_with_their_settings_and_others_not_stored(
    tmp_path: Path,
) -> None:
    identity = Authority().issue("broker", HOST)
    (tmp_path / "first.p12").write_bytes(of_pkcs12(identity, SECRET))
    settings = {"ssl.keystore.location": str(tmp_path / "first.p12")}
    settings["ssl.keystore.password"] = SECRET
    passwords = tmp_path / "passwords.json"
    security = GatewaySecurity.of(SSL, settings, secrets=passwords)
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    name = "listener.name.ssl.ssl.key.password"
    with (
        running_gateway(security=security) as running,
        Client(running.addresses[1], tls=trust) as client,
    ):
        for api in ("INCREMENTAL_ALTER_CONFIGS", "ALTER_CONFIGS"):
            changes = [(name, SET, SECRET), ("listener.name.ssl.plain.sasl.jaas.config", SET, "x")]
            alter(client, api, 1, [(BROKER, "1", changes)], validate_only=True)
            assert running.gateway._passwords.of(1) == {}
            alter(client, api, 1, [(BROKER, "1", changes)])
            assert StorePasswords(passwords).of(1) == {name: SECRET}
            gone = [(name, DELETE, None)] if api.startswith("INCREMENTAL") else []
            alter(client, api, 1, [(BROKER, "1", gone)])
            assert StorePasswords(passwords).of(1) == {}


@pytest.mark.parametrize("place", ["/dev/zero", "pipe", "large"])
def test_special_file_is_not_read_as_a_store(tmp_path: Path, place: str) -> None:
    """A client that names a device does not make the gateway read endlessly."""
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "large").open("wb") as file:
        file.truncate(key_stores.STORE_BYTES_MAX + 1)
    settings = {"ssl.keystore.password": SECRET}
    for kind in ("PEM", "JKS"):
        options = {"ssl.keystore.location": str(tmp_path / place), "ssl.keystore.type": kind}
        properties = BrokerProperties(options if kind == "PEM" else {**settings, **options}, SSL)
        assert "SSL keystore" in (store_checks.fault(None, properties) or "")
        with pytest.raises(UserError, match="Cannot read"):
            GatewaySecurity.of(SSL, {**settings, **options})


def test_password_belongs_to_the_current_file(tmp_path: Path) -> None:
    file = tmp_path / "passwords.json"
    one, other = StorePasswords(file), StorePasswords(file)
    one.put(1, {"a": "x"})
    other.put(2, {"b": "y"})
    assert (one.of(1), one.of(2), other.of(1)) == ({"a": "x"}, {"b": "y"}, {"a": "x"})
    one.put(1, {"a": None})
    assert other.of(1) == {}
    one.put(1, {"a": "x"})
    file.write_text("no")
    assert one.of(1) == {"a": "x"}, "what cannot be read changes nothing"
    with pytest.raises(UserError, match="is not a file of store passwords"):
        StorePasswords(file)


def test_encrypted_pem_key_needs_its_password(tmp_path: Path) -> None:
    identity = Authority().issue("broker", HOST)
    file = tmp_path / "hidden.pem"
    file.write_text(hidden(identity, OF_KEY) + identity.certificate)
    settings = {"ssl.keystore.location": str(file)}
    options = {"ssl.key.password": OF_KEY}
    assert store_checks.fault(None, BrokerProperties({**settings, **options}, SSL)) is None
    message = store_checks.fault(None, BrokerProperties(settings, SSL)) or ""
    assert "Failed to load PEM SSL keystore" in message


def keytool(directory: Path, *words: str) -> None:
    """Run Java's keytool."""
    tool = Path(java_executable()).resolve().with_name("keytool")
    command = [str(tool), *words, "-storepass", SECRET, "-J-Dfile.encoding=UTF-8", "-noprompt"]
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def made_by_java(directory: Path, kind: str) -> dict[str, str]:
    """Create a key store and a trust store of a type, as Kafka's docs do."""
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
def test_stores_made_by_keytool_are_served(tmp_path: Path, kind: str) -> None:
    """Both sides present a certificate; the trust store has the client's authority."""
    authority = Authority()
    (tmp_path / "ca.pem").write_text(authority.certificate)
    given = made_by_java(tmp_path, kind)
    alice = authority.issue("alice").store(tmp_path / "alice.pem")
    client = ssl.create_default_context(cafile=str(tmp_path / "broker.pem"))
    client.load_cert_chain(alice)
    with (
        running_gateway(security=GatewaySecurity.of(SSL, given)) as running,
        socket.create_connection(running.addresses[1]) as plain,
        client.wrap_socket(plain, server_hostname=HOST) as secured,
    ):
        actual = secured.getpeercert()
    assert actual is not None
    assert actual["subject"] == ((("commonName", "broker"),),)
    without = {**given, "ssl.key.password": "wrong"}
    if kind == "JKS":
        with pytest.raises(UserError, match=r"Cannot (open|decrypt)"):
            GatewaySecurity.of(SSL, without)


@pytest.mark.parametrize("location", ["/tmp/a\0b", "/tmp/\ud800"])
def test_invalid_path_is_refused_as_a_store(location: str) -> None:
    settings = {"ssl.keystore.location": location, "ssl.keystore.password": SECRET}
    with pytest.raises(UserError, match="it is not a valid path"):
        Tls(BrokerProperties(settings, SSL))
    with pytest.raises(store_checks.StoreError, match="Failed to load SSL keystore"):
        store_checks.load(BrokerProperties(settings, SSL))
