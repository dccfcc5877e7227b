"""Listeners added to a running gateway, without a real broker."""

import asyncio
import ssl
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from structlog.testing import capture_logs

from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.engine.engine import BrokerEngine
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.gateway.listeners import AddedListeners, GatewayListener, _Wanted
from brokertwin.gateway.security import credentials, scram
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from brokertwin.gateway.security.store_passwords import StorePasswords
from brokertwin.kafka_io.kafka_broker import _free_port
from brokertwin.state.configs import listeners as of_settings
from brokertwin.state.core.events import Kind
from tests.support.certificates import Authority, of_pkcs12
from tests.support.configs import BROKER, DELETE, SET, alter
from tests.support.gateways import HOST, Client, Running, running_gateway
from tests.support.patience import wait_until
from tests.support.sasl import PASSWORD as OF_USER
from tests.support.sasl import USER, log_in

MAP = "PLAINTEXT:PLAINTEXT,SSL:SSL,SECOND:PLAINTEXT,SECURE:SSL"
GIVEN = {
    "listeners": "PLAINTEXT://:9092",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
    "listener.security.protocol.map": MAP,
}
SECOND = "PLAINTEXT://:9092,SECOND://127.0.0.1:{}"
PASSWORD = "geheim"


def altered(client: Client, broker: int = 1, **changes: str | None) -> int:
    """Alter settings and return the result; `_` in names becomes `.`."""
    wanted = [
        (name.replace("_", "."), DELETE if text is None else SET, text)
        for name, text in changes.items()
    ]
    response = alter(client, "INCREMENTAL_ALTER_CONFIGS", 1, [(BROKER, str(broker), wanted)])
    return int(response["responses"][0]["errorCode"])


def is_served(port: int) -> bool:
    try:
        with Client(Address(HOST, port)) as client:
            return client.call("METADATA", 12)["brokers"] == []
    except OSError:
        return False


def stop(running: Running, kind: Kind) -> None:
    async def intervene() -> None:
        await running.engine.intervene(kind, 1)

    running.run(intervene())


def test_added_listener_survives_a_restart_and_closes_with_its_broker(
    tmp_path: Path,
) -> None:
    port, journal = _free_port(), tmp_path / "journal"
    with running_gateway(GIVEN, brokers=2, journal=journal) as running:
        with running.client() as client:
            assert altered(client, listeners=SECOND.format(port)) == 0
            wait_until(lambda: is_served(port))
        with running.client(2) as client:
            assert len(client.call("METADATA", 12)["brokers"]) == 2, "of broker 2 nothing changes"
    assert not is_served(port)
    engine_type = partial(LocalEngine, may_intervene=True)
    with running_gateway(GIVEN, 2, journal, engine_type=engine_type) as running:
        wait_until(lambda: is_served(port))
        with Client(Address(HOST, port)) as client:
            stop(running, Kind.STOP_BROKER)
            wait_until(lambda: not is_served(port))
            assert client.is_closed()
        stop(running, Kind.START_BROKER)
        wait_until(lambda: is_served(port))


def test_listener_without_a_key_store_opens_when_it_gets_one(tmp_path: Path) -> None:
    port, store = _free_port(), tmp_path / "broker.p12"
    authority = Authority()
    store.write_bytes(of_pkcs12(authority.issue("broker", HOST), PASSWORD))
    trust = ssl.create_default_context(cadata=authority.certificate)
    stores = {"location": str(store), "password": PASSWORD}
    own = {f"listener.name.secure.ssl.keystore.{name}": text for name, text in stores.items()}
    listeners = f"PLAINTEXT://:9092,SECURE://127.0.0.1:{port}"
    with running_gateway(GIVEN) as running, running.client() as client:
        with capture_logs() as logs:
            assert altered(client, listeners=listeners) == 0
            wait_until(lambda: [each for each in logs if each["log_level"] == "error"] != [])
            assert altered(client, max_connections="77") == 0
            running.run(running.gateway._added.settle())
        failed = [each["reason"] for each in logs if each["event"] == "cannot open a listener"]
        assert failed == ["TLS requires the broker's certificate and private key."], (
            "it is not tried again"
        )
        assert altered(client, **own) == 0
        wait_until(lambda: running.gateway._added.of(1) != [])
        with Client(Address(HOST, port), tls=trust) as secured:
            assert secured.call("METADATA", 12)["brokers"] == []


def test_users_can_be_altered_through_an_added_listener(tmp_path: Path) -> None:
    """Users belong to the gateway, whichever listener a client uses."""
    port, users = _free_port(), tmp_path / "users.jsonl"
    mechanism = scram.MECHANISMS["SCRAM-SHA-256"]
    made = credentials.make(USER, mechanism, OF_USER, scram.ITERATIONS_MIN)
    credentials.write(users, [made])
    security = GatewaySecurity.of(SecurityProtocol.SASL_PLAINTEXT, {}, users)
    with running_gateway(GIVEN, security=security) as running:
        with running.client() as client:
            assert log_in(client)["errorCode"] == 0
            assert altered(client, listeners=SECOND.format(port)) == 0
        wait_until(lambda: running.gateway._added.of(1) != [])
        with Client(Address(HOST, port)) as client:
            response = client.call("DESCRIBE_USER_SCRAM_CREDENTIALS", 0, users=None)
            assert [each["user"] for each in response["results"]] == [USER]


def test_added_listener_may_have_the_name_of_the_gateways_own(tmp_path: Path) -> None:
    """The initial settings name no SSL, though the gateway serves it."""
    port, authority = _free_port(), Authority()
    authority.issue("broker", HOST).store(tmp_path / "broker.pem")
    trust = ssl.create_default_context(cadata=authority.certificate)
    settings = {"ssl.keystore.location": str(tmp_path / "broker.pem")}
    security = GatewaySecurity.of(SecurityProtocol.SSL, settings)
    listeners = f"PLAINTEXT://:9092,SSL://127.0.0.1:{port}"
    with (
        running_gateway(GIVEN, security=security) as running,
        Client(running.addresses[1], tls=trust) as client,
    ):
        assert altered(client, listeners=listeners) == 0
        wait_until(lambda: running.gateway._added.of(1) != [])
        with Client(Address(HOST, port), tls=trust) as other:
            assert other.call("METADATA", 12)["brokers"] == []
        assert len(client.call("METADATA", 12)["brokers"]) == 1


class Ports:
    """Listeners on their own: `opens` has the result of each opening."""

    def __init__(self, opens: dict[str, Exception], ends: int | None = None) -> None:
        self.tried: list[tuple[int, str]] = []
        self.opens, self.ends = opens, ends
        engine = SimpleNamespace()
        passwords = StorePasswords(None)
        ports = self._open, lambda *_: None
        self.added = AddedListeners(cast(BrokerEngine, engine), GatewaySecurity(), passwords, ports)
        places = [of_settings.BrokerListener(name, "", 0) for name in ("A", "B")]
        wanted = {each.name: _Wanted(each, "PLAINTEXT", {}) for each in places}
        self.added._wanted = lambda _: wanted  # type: ignore[method-assign]

    async def _open(
        self, broker: int, listener: GatewayListener, host: str | None, port: int
    ) -> asyncio.Server:
        self.tried.append((broker, listener.name))
        if self.ends is not None:
            self.added.end(self.ends)
        if listener.name in self.opens:
            raise self.opens[listener.name]
        return await asyncio.get_running_loop().create_server(asyncio.Protocol, HOST, 0)


def test_listener_that_cannot_be_opened_does_not_affect_others() -> None:
    async def opened() -> list[str]:
        ports = Ports({"A": ValueError("embedded null byte")})
        ports.added.begin(1, GatewayListener("OWN", GatewaySecurity()))
        await ports.added.settle()
        names = [each.name for each in ports.added.of(1)]
        await ports.added.close()
        return names

    with capture_logs() as logs:
        assert asyncio.run(opened()) == ["B"]
    assert [each["reason"] for each in logs if each["log_level"] == "error"] == [
        "embedded null byte"
    ]


def test_failed_task_does_not_keep_the_others_from_closing() -> None:
    async def ended_while_it_runs() -> None:
        ports = Ports({})

        async def fails() -> None:
            await asyncio.sleep(0)
            raise KeyError("A")

        ports.added.settle = fails  # type: ignore[method-assign]
        ports.added.begin(1, GatewayListener("OWN", GatewaySecurity()))
        await ports.added.close()

    asyncio.run(ended_while_it_runs())
