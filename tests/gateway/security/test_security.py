"""A secured gateway over raw connections: limits, fuzzing, secrets, settings."""

import asyncio
import io
import json
import socket
import ssl
import struct
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structlog.testing import capture_logs

from brokertwin.errors import UserError
from brokertwin.gateway.engine.engine import EdgeRequest, EngineResponse
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.gateway.limits import GatewayLimits
from brokertwin.gateway.security import credentials, plain, scram, security
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from brokertwin.state.configs.broker_config import parse
from tests.support import sasl
from tests.support.certificates import Authority
from tests.support.gateways import CLUSTER, HOST, Client, Running, running_gateway, serving
from tests.support.patience import PATIENCE_S, growing, wait_until

QUICK = {"connection.failed.authentication.delay.ms": "0"}
_SIZE = struct.Struct(">i")


def users(directory: Path, *names: str, mechanism: str = sasl.SCRAM_256) -> Path:
    file = directory / "users.jsonl"
    kept = scram.MECHANISMS[mechanism]
    entries = [credentials.make(name, kept, sasl.PASSWORD, 4096) for name in names or (sasl.USER,)]
    credentials.write(file, entries)
    return file


def with_sasl(directory: Path, values: Mapping[str, str] | None = None) -> GatewaySecurity:
    settings = {**QUICK, **(values or {})}
    return GatewaySecurity.of(SecurityProtocol.SASL_PLAINTEXT, settings, users(directory))


def pem(directory: Path) -> dict[str, str]:
    """Write a broker's key store; ca.pem has the authority's certificate."""
    authority = Authority()
    (directory / "ca.pem").write_text(authority.certificate)
    store = authority.issue("broker", HOST).store(directory / "broker.pem")
    return {"ssl.keystore.location": str(store)}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("security")
    with running_gateway(security=with_sasl(directory)) as running:
        yield running


def wait_until_all_closed(running: Running) -> None:
    wait_until(lambda: not running.gateway._connections, "connections stay")


# --- without security


def test_sasl_apis_on_a_plaintext_listener_get_kafkas_responses() -> None:
    """The expected bytes are the responses of Kafka 4.3.1 on PLAINTEXT."""
    with running_gateway() as running, running.client() as client:
        software = {"clientSoftwareName": "a", "clientSoftwareVersion": "1"}
        listed = client.call("API_VERSIONS", 3, software)["apiKeys"]
        versions = {each["apiKey"]: (each["minVersion"], each["maxVersion"]) for each in listed}
        assert (versions[17], versions[36]) == ((0, 1), (0, 2))
        for version in (0, 1):
            response = sasl.handshake(client, "PLAIN", version)
            assert response == {"errorCode": 34, "mechanisms": []}
        for version in (0, 1, 2):
            response = sasl.authenticate(client, sasl.plain(), version)
            assert response.pop("sessionLifetimeMs", 0) == 0
            assert response == {
                "errorCode": 34,
                "errorMessage": "SaslAuthenticate request received after successful authentication",
                "authBytes": "",
            }
        assert client.call("METADATA", 9, topics=[])["controllerId"] == 1


# --- principals


class Noting(LocalEngine):
    principals: list[str]

    def submit(self, request: EdgeRequest) -> asyncio.Future[EngineResponse]:
        self.principals = [*getattr(self, "principals", []), request.principal]
        return super().submit(request)


def test_event_contains_the_principal(tmp_path: Path) -> None:
    security = with_sasl(tmp_path)
    users(tmp_path, "alice", "zoë, =")
    with running_gateway(security=security, engine_type=Noting) as running:
        for user in ("alice", "zoë, ="):
            with running.client() as client:
                assert sasl.log_in(client, user)["errorCode"] == 0
                client.call("METADATA", 9, topics=[])
    assert isinstance(running.engine, Noting)
    assert running.engine.principals == ["User:alice", "User:zoë, ="]


# --- unknown users


def test_unknown_user_gets_a_challenge_and_the_same_failure(gateway: Running) -> None:
    responses = []
    for user in ("alice", "nobody", "nobody"):
        with gateway.client() as client:
            sasl.handshake(client, sasl.SCRAM_256)
            first = sasl.authenticate(client, b"n,,n=%b,r=abc" % user.encode())
            parts = dict(part.split(b"=", 1) for part in sasl.token(first).split(b","))
            responses.append((len(parts[b"r"]), len(parts[b"s"]), parts[b"i"], first["errorCode"]))
        with gateway.client() as client:
            sasl.handshake(client, sasl.SCRAM_256)
            last = sasl.scram(client, user=user, password="wrong")
            responses[-1] += (last["errorCode"], last["errorMessage"])
    assert responses[0] == responses[1] == responses[2]
    assert responses[0][-2] == 58


def test_plain_login_of_an_unknown_user_hashes_as_much(
    gateway: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread of the event loop does not hash."""
    hashed: list[tuple[str, int, bool]] = []

    def noting(credential: scram.Credential, password: bytes) -> bool:
        is_beside = threading.current_thread().name != "gateway"
        hashed.append((credential.mechanism, credential.iterations, is_beside))
        return scram.matches(credential, password)

    monkeypatch.setattr(plain, "matches", noting)
    for user in ("alice", "nobody"):
        with gateway.client() as client:
            assert sasl.log_in(client, user, "wrong")["errorCode"] == 58
    assert hashed == [(sasl.SCRAM_256, 4096, True)] * 2


# --- limits before authentication


@pytest.mark.parametrize("size", [524_289, 2**31 - 1, -1, 0])
def test_frame_size_is_limited_before_authentication(gateway: Running, size: int) -> None:
    with capture_logs() as logged, gateway.client() as client:
        client.send_bytes(_SIZE.pack(size))
        assert client.is_closed()
    assert f"invalid frame size {size}; the limit is 524288" in [e.get("reason") for e in logged]


def test_larger_frames_are_accepted_after_authentication(tmp_path: Path) -> None:
    security = with_sasl(tmp_path, {"sasl.server.max.receive.size": "100"})
    names = [{"name": f"topic-{number}"} for number in range(100)]
    with running_gateway(security=security) as running:
        with running.client() as client:
            sasl.log_in(client)
            assert len(client.call("METADATA", 9, topics=names)["topics"]) == 100
        with running.client() as client:
            client.send("METADATA", 9, topics=names)
            assert client.is_closed()


def test_frames_sent_before_the_login_completes_wait(gateway: Running) -> None:
    """Handshake, proof and a request in one write; the request is alice's."""
    with gateway.client() as client:
        client.send("SASL_HANDSHAKE", 1, mechanism="PLAIN")
        client.send("SASL_AUTHENTICATE", 2, authBytes=sasl.plain())
        client.send("METADATA", 9, topics=[])
        responses = [client.receive() for _ in range(3)]
    assert [int.from_bytes(response[:4], "big") for response in responses] == [1, 2, 3]


@pytest.mark.parametrize("protocol", [SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SSL])
def test_connection_without_authentication_is_closed_after_a_time(
    tmp_path: Path, protocol: SecurityProtocol
) -> None:
    """Also if it keeps sending requests."""
    file = users(tmp_path) if protocol.has_sasl else None
    secured = GatewaySecurity.of(protocol, pem(tmp_path) if protocol.has_tls else {}, file)
    with running_gateway(security=secured._replace(time_max_s=0.2)) as running:
        begin = time.monotonic()
        with running.client() as client:
            with suppress(ConnectionError):
                while protocol.has_sasl:
                    client.send_frame(struct.pack(">hhihb", 18, 99, 7, -1, 0))
                    client.receive()
            assert client.is_closed()
            assert time.monotonic() - begin >= 0.2
        wait_until_all_closed(running)


def test_authenticated_connection_has_no_such_time_limit(tmp_path: Path) -> None:
    for seconds in growing(0.2):
        secured = with_sasl(tmp_path)._replace(time_max_s=seconds)
        with (
            running_gateway(security=secured) as running,
            running.client() as client,
            suppress(ConnectionError),
        ):
            sasl.log_in(client)
            time.sleep(2 * seconds)
            client.call("METADATA", 9, topics=[])
            return
    pytest.fail("closed though it is authenticated")


def test_failed_tls_handshakes_free_their_connection_slots(tmp_path: Path) -> None:
    secured = GatewaySecurity.of(SecurityProtocol.SSL, pem(tmp_path))
    trusting = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    with running_gateway(security=secured, limits=GatewayLimits(connections=5)) as running:
        for _ in range(20):
            with running.client() as client:
                client.send_bytes(b"GET / HTTP/1.1\r\n\r\n")
                while not client.is_closed():
                    pass  # the TLS error does not matter
        address = running.addresses[1]
        with socket.create_connection(address, PATIENCE_S) as plain_socket:
            secured_socket = trusting.wrap_socket(plain_socket, server_hostname=HOST)
            secured_socket.sendall(_SIZE.pack(10) + struct.pack(">hhih", 18, 0, 7, -1))
            assert secured_socket.recv(4)
            secured_socket.close()


def test_connections_in_their_handshake_close_with_the_gateway(tmp_path: Path) -> None:
    secured = GatewaySecurity.of(SecurityProtocol.SSL, pem(tmp_path))
    with running_gateway(security=secured) as running:
        client = running.client()
        wait_until(lambda: running.gateway._handshakes)
    with client:
        assert client.is_closed()


# --- fuzzing


@settings(deadline=None)
@given(
    before=st.lists(st.sampled_from(["versions", "PLAIN", "SCRAM-SHA-256", "bare"]), max_size=3),
    frames=st.lists(st.binary(max_size=60), max_size=3),
    key=st.sampled_from([None, 17, 18, 36]),
)
def test_random_bytes_during_sasl_end_in_time(
    gateway: Running, before: list[str], frames: list[bytes], key: int | None
) -> None:
    """Each frame gets a response or closes the connection; no fault is logged."""
    with capture_logs() as logged, gateway.client() as client, suppress(ConnectionError):
        for step in before:
            if step == "versions":
                client.call("API_VERSIONS", 0)
            else:
                version = 0 if step == "bare" else 1
                sasl.handshake(client, "PLAIN" if step == "bare" else step, version)
        for frame in frames:
            head = struct.pack(">hhih", key, 0, 1, -1) if key is not None else b""
            client.send_frame(head + frame)
            client.receive()
    assert [entry for entry in logged if entry["event"] == "fault"] == []


def test_clients_log_in_after_the_fuzzing(gateway: Running) -> None:
    wait_until_all_closed(gateway)
    with gateway.client() as client:
        assert sasl.log_in(client)["errorCode"] == 0


# --- secrets


def test_journal_and_log_contain_no_sasl_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right and wrong passwords, with every mechanism, with and without headers, and a fault."""
    secured = with_sasl(tmp_path)
    journal = tmp_path / "journal"
    written = io.StringIO()
    passwords = (sasl.PASSWORD, "hunter two")
    with running_gateway(security=secured, journal=journal) as running, capture_logs() as logged:
        for password in passwords:
            for mechanism in (sasl.SCRAM_256, sasl.SCRAM_512):
                with running.client() as client, suppress(ConnectionError):
                    sasl.handshake(client, mechanism)
                    sasl.scram(client, mechanism, password=password)
                    client.topic(f"{mechanism}-made")
            with running.client() as client, suppress(ConnectionError):
                sasl.log_in(client, password=password)
                client.topic("made")
            with running.client() as client, suppress(ConnectionError):
                sasl.handshake(client, "PLAIN", 0)
                client.send_frame(sasl.plain(password=password))
                client.receive()
            with running.client() as client:  # a malformed request that contains a password
                client.send_frame(b"\0\x24\0\2" + sasl.plain(password=password))
                assert client.is_closed()
        monkeypatch.setattr(credentials.Credentials, "find_any", _broken)
        with running.client() as client, suppress(ConnectionError):
            sasl.log_in(client)
    for entry in logged:
        written.write(json.dumps(entry, default=repr))
        if isinstance(entry.get("exc_info"), Exception):
            written.write("".join(traceback.format_exception(entry["exc_info"])))
    written.write(journal.read_text(errors="replace"))
    text = written.getvalue()
    assert "OSError: no more" in text
    assert "User:alice" in text
    for password in passwords:
        assert password not in text
        assert password.encode().hex() not in text
        assert json.dumps(password).strip('"') not in text


def _broken(self: object, user: str) -> None:
    raise OSError("no more")


def test_repr_of_gateway_objects_shows_no_secret(tmp_path: Path) -> None:
    secured = with_sasl(tmp_path)
    (entry,) = credentials.read(tmp_path / "users.jsonl")
    shown = repr(secured) + repr(entry) + repr(secured.sasl)
    assert "Credential" in shown
    assert repr(entry.stored_key) not in shown
    assert repr(entry.server_key) not in shown


# --- settings


SASL_SSL, SASL, SSL = (
    SecurityProtocol.SASL_SSL,
    SecurityProtocol.SASL_PLAINTEXT,
    SecurityProtocol.SSL,
)


@pytest.mark.parametrize(
    ("protocol", "given", "message"),
    [
        (
            SSL,
            {"ssl.keystore.location": None},
            "TLS requires the broker's certificate and private key.",
        ),
        (
            SSL,
            {"ssl.keystore.type": "BKS"},
            "Unknown ssl.keystore.type BKS. Use one of: PEM, PKCS12, JKS.",
        ),
        (SSL, {"ssl.keystore.type": "PKCS12"}, "broker.pem looks like PEM."),
        (SSL, {"ssl.keystore.location": "/none"}, ": No such file or directory."),
        (SSL, {"ssl.enabled.protocols": "TLSv1.1"}, "Use TLSv1.2 and TLSv1.3."),
        (SSL, {"ssl.client.auth": "required"}, "the certificates of the clients' authorities"),
        (SSL, {"ssl.client.auth": "maybe"}, "String must be one of"),
        (
            SSL,
            {"ssl.client.auth": "required", "ssl.truststore.location": "/none"},
            "Cannot read ssl.truststore.location /none",
        ),
        (
            SSL,
            {"ssl.client.auth": "required", "ssl.truststore.certificates": "x"},
            "ssl.truststore.certificates has no certificate of an authority.",
        ),
        (
            SSL,
            {"ssl.keystore.key": "x", "ssl.keystore.certificate.chain": "x"},
            "Cannot read a PEM certificate",
        ),
        (SASL, {"sasl.enabled.mechanisms": "PLAIN,GSSAPI"}, "Use: PLAIN, SCRAM-SHA-256"),
        (SASL, {"listener.name.sasl_plaintext.connections.max.reauth.ms": "x"}, "Not a number"),
    ],
)
def test_invalid_settings_are_refused_with_a_reason(
    tmp_path: Path, protocol: SecurityProtocol, given: dict[str, str | None], message: str
) -> None:
    merged = {**pem(tmp_path), **given}
    settings = {name: value for name, value in merged.items() if value is not None}
    file = users(tmp_path) if protocol.has_sasl else None
    with pytest.raises(UserError) as error:
        GatewaySecurity.of(protocol, settings, file)
    assert message in str(error.value)


def test_sasl_and_a_credentials_file_need_each_other(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="requires --credentials"):
        GatewaySecurity.of(SASL, {})
    with pytest.raises(UserError, match="--credentials has no effect with --security-protocol SSL"):
        GatewaySecurity.of(SSL, pem(tmp_path), users(tmp_path))


def test_weak_settings_are_warned_about(tmp_path: Path) -> None:
    file = users(tmp_path)
    file.chmod(0o644)
    (in_the_clear, mode) = GatewaySecurity.of(SASL, {}, file).warnings
    assert "passwords can be read on the network" in in_the_clear
    assert "open to others (mode 644)" in mode
    file.chmod(0o600)
    options = {**pem(tmp_path), "ssl.client.auth": "required"}
    secured = GatewaySecurity.of(SASL_SSL, options, file)
    assert secured.tls is not None
    assert secured.tls.context().verify_mode is ssl.CERT_NONE
    (without_effect,) = secured.warnings
    assert "listener.name.sasl_ssl.ssl.client.auth has" in without_effect


def test_settings_of_the_listener_have_precedence(tmp_path: Path) -> None:
    options = {
        **pem(tmp_path),
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "ssl.client.auth": "none",
        "listener.name.sasl_ssl.ssl.client.auth": "required",
        "connections.max.reauth.ms": "3000",
        "listener.name.sasl_ssl.plain.connections.max.reauth.ms": "1000",
        "listener.name.other.connections.max.reauth.ms": "7",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
    }
    secured = GatewaySecurity.of(SASL_SSL, options, users(tmp_path))
    assert secured.tls is not None
    assert secured.tls.context().verify_mode is ssl.CERT_REQUIRED
    assert secured.sasl is not None
    assert secured.sasl.mechanisms == ("PLAIN", "SCRAM-SHA-512")
    assert secured.sasl.lifetimes_ms == {"PLAIN": 1000, "SCRAM-SHA-512": 3000}
    names = security.settings_used(SASL_SSL)
    assert {*options} - names == {"listener.name.other.connections.max.reauth.ms"}


def test_stores_inside_the_settings_may_have_an_encrypted_key(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    identity = Authority().issue("broker")
    key = serialization.load_pem_private_key(identity.key.encode(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    ).decode()
    options = {
        "ssl.keystore.key": encrypted,
        "ssl.keystore.certificate.chain": identity.certificate,
        "ssl.key.password": "secret",
    }
    assert GatewaySecurity.of(SSL, options).tls is not None
    for password in ("wrong", ""):
        with pytest.raises(UserError) as error:
            GatewaySecurity.of(SSL, {**options, "ssl.key.password": password})
        assert "Cannot read a PEM certificate with its private key" in error.value.message


def test_certificate_without_a_matching_rule_gets_no_response(tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "ca.pem").write_text(authority.certificate)
    authority.issue("broker", HOST).store(tmp_path / "broker.pem")
    client_file = authority.issue("alice").store(tmp_path / "alice.pem")
    options = {
        "ssl.keystore.location": str(tmp_path / "broker.pem"),
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "ssl.client.auth": "requested",
        "ssl.principal.mapping.rules": "RULE:^CN=b(.*)$/$1/",
    }
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    request = _SIZE.pack(10) + struct.pack(">hhih", 18, 0, 7, -1)
    with running_gateway(security=GatewaySecurity.of(SSL, options)) as running:

        def first_byte() -> bytes:
            with socket.create_connection(running.addresses[1], PATIENCE_S) as raw:
                secured = context.wrap_socket(raw, server_hostname=HOST)
                secured.sendall(request)
                return secured.recv(1)

        assert first_byte() == b"\0"  # anonymous without a certificate
        context.load_cert_chain(client_file)
        assert first_byte() == b""


def test_unauthenticated_connection_sends_no_event_to_the_engine(tmp_path: Path) -> None:
    typed, _ = parse({})
    engine = Noting(CLUSTER, [1], typed, None)
    with serving(engine, security=with_sasl(tmp_path)) as running, running.client() as client:
        client.send("METADATA", 9, topics=[])
        assert client.is_closed()
        with Client(running.addresses[1]) as another:
            sasl.handshake(another, "PLAIN")
            another.send("CREATE_TOPICS", 7, topics=[], timeoutMs=1)
            another.receive()
    assert not hasattr(engine, "principals")
