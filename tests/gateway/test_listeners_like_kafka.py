"""Listeners opened and closed on a running broker, compared with Kafka."""

import json
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.security.security import GatewaySecurity
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from brokertwin.kafka_io.kafka_broker import HOST, _free_port
from tests.support.certificates import Authority, of_pkcs12
from tests.support.configs import BROKER, DELETE, SET, alter
from tests.support.gateways import Client, running_gateway
from tests.support.goldens import IS_LIVE, Tape, Track, tape
from tests.support.listening_kafkas import PROTOCOLS, ListeningKafka
from tests.support.patience import wait_until

MAP = f"{PROTOCOLS},SECOND:PLAINTEXT,THIRD:PLAINTEXT,SECURE:SSL"
TOPIC, GOLDEN = "known", "access/listeners"
STORE = re.compile(r"/[^ \"]*\.p12")
PASSWORD = "store secret"
REQUESTED: list[tuple[str, int, dict[str, Any]]] = [
    ("METADATA", 8, {"topics": [{"name": TOPIC}], "allowAutoTopicCreation": False}),
    ("DESCRIBE_CLUSTER", 1, {}),
    ("FIND_COORDINATOR", 6, {"keyType": 0, "coordinatorKeys": ["g"]}),
    ("DESCRIBE_TOPIC_PARTITIONS", 0, {"topics": [{"name": TOPIC}]}),
]
"""APIs whose responses contain broker addresses."""


class Side:
    """A broker with a PLAINTEXT listener for clients, whose listeners are altered."""

    def __init__(self, client: Client, given: str) -> None:
        self.client, self.given = client, given
        self.ports = {name: _free_port() for name in ("SECOND", "THIRD", "SECURE")}

    def listening(self, *names: str) -> str:
        """Return `listeners` as at the start, with these added."""
        return ",".join([self.given, *(f"{n}://{HOST}:{self.ports[n]}" for n in names)])

    def alter(self, **changes: str | None) -> Any:
        """Alter settings and return the result; `_` in names becomes `.`."""
        wanted = [
            (name.replace("_", "."), DELETE if text is None else SET, text)
            for name, text in changes.items()
        ]
        response = alter(self.client, "INCREMENTAL_ALTER_CONFIGS", 1, [(BROKER, "1", wanted)])
        return json.loads(STORE.sub("STORE", json.dumps(response)))

    def reported(self, name: str, tls: ssl.SSLContext | None = None) -> list[Any]:
        """Return broker addresses that a listener's client gets, without ids."""
        with Client(Address(HOST, self.ports[name]), tls=tls) as client:
            return [shown(client.call(api, version, body)) for api, version, body in REQUESTED]

    def is_open(self, name: str) -> bool:
        try:
            socket.create_connection((HOST, self.ports[name])).close()
        except OSError:
            return False
        return True


def shown(value: Any) -> Any:
    """Return a response without drawn ids."""
    if isinstance(value, dict):
        return {k: shown(v) for k, v in value.items() if k not in ("clusterId", "topicId")}
    return [shown(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


class Both(NamedTuple):
    """A gateway and a real broker, or the recording of the latter on a track."""

    ours: Side
    real: Side | None
    recording: Tape
    track: Track

    @property
    def sides(self) -> list[Side]:
        return [self.ours] if self.real is None else [self.ours, self.real]

    def reported(self, name: str, tls: ssl.SSLContext | None = None) -> None:
        """Check that clients of a listener get the same addresses."""
        self._same(["told", name], lambda side: side.reported(name, tls))

    def alter(self, *names: str, **changes: str | None) -> Any:
        """Set the listeners besides the first one, and other settings."""
        request = [names, {name: bool(text) for name, text in changes.items()}]
        return self._same(
            request, lambda side: side.alter(listeners=side.listening(*names), **changes)
        )

    def set(self, **changes: str | None) -> Any:
        """Alter settings; None restores the initial value."""
        request = {name: bool(text) for name, text in changes.items()}
        return self._same(request, lambda side: side.alter(**changes))

    def _same(self, request: object, send: Callable[[Side], Any]) -> Any:
        def request_real() -> Any:
            assert self.real is not None
            return send(self.real)

        ours, theirs = send(self.ours), self.track.response(request, request_real)
        assert ours == theirs
        return ours


@pytest.fixture(scope="module")
def module_both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with ExitStack() as stack:
        recording = stack.enter_context(tape(GOLDEN, {"listener.security.protocol.map": MAP}))
        settings = {"listener.security.protocol.map": MAP, "listeners": "PLAINTEXT://:9092"}
        settings |= {"advertised.listeners": "PLAINTEXT://localhost:9092"}
        security = GatewaySecurity.of(SecurityProtocol.PLAINTEXT, settings)
        running = stack.enter_context(running_gateway(settings, security=security))
        ours = Side(stack.enter_context(running.client()), settings["listeners"])
        real = None
        if IS_LIVE:
            options = {"listener.security.protocol.map": MAP}
            kafka = ListeningKafka(tmp_path_factory.mktemp("listening"), "PLAINTEXT", options)
            stack.callback(kafka.stop)
            kafka.start()
            client = stack.enter_context(Client(Address(HOST, kafka.port)))
            real = Side(client, kafka.given["listeners"])
        both = Both(ours, real, recording, recording)
        for side in both.sides:
            side.client.topic(TOPIC)
        yield both


@pytest.fixture
def both(module_both: Both, request: pytest.FixtureRequest) -> Both:
    """Yield both; each test has its own track of real responses."""
    return module_both._replace(track=module_both.recording.track(request.node.name))


def wait_for(both: Both, *names: str) -> None:
    for side in both.sides:
        wait_until(lambda side=side: {n for n in side.ports if side.is_open(n)} == set(names))


@pytest.mark.compares
def test_listeners_open_and_close_like_kafkas(both: Both) -> None:
    wait_for(both)
    both.alter("SECOND")
    wait_for(both, "SECOND")
    both.reported("SECOND")
    with ExitStack() as stack:
        places = [Address(HOST, side.ports["SECOND"]) for side in both.sides]
        connected = [stack.enter_context(Client(place)) for place in places]
        assert not any(each.call("METADATA", 12)["brokers"] for each in connected)
        both.alter("SECOND", "THIRD")
        wait_for(both, "SECOND", "THIRD")
        assert not any(each.call("METADATA", 12)["brokers"] for each in connected)
        both.alter("THIRD")
        wait_for(both, "THIRD")
        assert all(each.is_closed() for each in connected)
    both.reported("THIRD")
    brokers = [side.client.call("METADATA", 12)["brokers"] for side in both.sides]
    assert {len(each) for each in brokers} == {1}, "the advertised listener is returned"
    both.set(listeners=None)
    wait_for(both)


@pytest.mark.compares
def test_listener_of_a_port_in_use_stays_closed_and_the_change_holds(both: Both) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        for side in both.sides:
            side.ports["THIRD"] = taken.getsockname()[1]
        both.alter("SECOND", "THIRD")
        wait_for(both, "SECOND", "THIRD")  # another socket has THIRD's port
        both.reported("SECOND")
    wait_for(both, "SECOND")
    both.set(listeners=None)
    wait_for(both)


@pytest.mark.compares
def test_tls_listener_is_opened_with_its_own_stores(
    both: Both, authority: Authority, tmp_path: Path
) -> None:
    store, prefix = tmp_path / "broker.p12", "listener.name.secure.ssl."
    trust = ssl.create_default_context(cadata=authority.certificate)
    store.write_bytes(of_pkcs12(authority.issue("broker"), PASSWORD))
    own = {"location": str(store), "password": PASSWORD, "type": "PKCS12"}
    stores = {f"{prefix}keystore.{name}": text for name, text in own.items()}
    both.alter("SECURE", **stores)
    wait_for(both, "SECURE")
    both.reported("SECURE", trust)
    response = both.set(**{f"{prefix}keystore.password": "wrong"})
    assert response["responses"][0]["errorCode"]
    store.with_name("dn.p12").write_bytes(of_pkcs12(authority.issue("someone"), PASSWORD))
    other = {f"{prefix}keystore.location": str(store.with_name("dn.p12"))}
    response = both.set(**other)
    assert "DistinguishedName" in response["responses"][0]["errorMessage"]
    both.reported("SECURE", trust)
    response = both.set(listeners=None, **dict.fromkeys(stores))
    assert response["responses"][0]["errorCode"], "its key store stays as long as it is there"
    both.set(listeners=None)
    wait_for(both)
    ours = both.ours.alter(**dict.fromkeys(stores))
    assert not ours["responses"][0]["errorCode"], "Kafka still has the stores of what it closed"
