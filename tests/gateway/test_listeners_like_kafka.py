"""Listeners that are opened and closed while a broker runs, at a gateway and at a real broker."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from brokertwin.gateway.answers import Address
from brokertwin.gateway.security import Security
from brokertwin.gateway.security_protocol import SecurityProtocol
from brokertwin.kafka_io.kafka_broker import HOST, _free_port
from tests.support.certificates import Authority, of_pkcs12
from tests.support.configs import BROKER, DELETE, SET, alter
from tests.support.gateways import Client, running_gateway
from tests.support.listening_kafkas import PROTOCOLS, ListeningKafka
from tests.support.patience import wait_until

MAP = f"{PROTOCOLS},SECOND:PLAINTEXT,THIRD:PLAINTEXT,SECURE:SSL"
TOPIC = "known"
PASSWORD = "store secret"
ASKED: list[tuple[str, int, dict[str, Any]]] = [
    ("METADATA", 8, {"topics": [{"name": TOPIC}], "allowAutoTopicCreation": False}),
    ("DESCRIBE_CLUSTER", 1, {}),
    ("FIND_COORDINATOR", 6, {"keyType": 0, "coordinatorKeys": ["g"]}),
    ("DESCRIBE_TOPIC_PARTITIONS", 0, {"topics": [{"name": TOPIC}]}),
]
"""What tells a client where brokers are."""


class Side:
    """A broker that clients reach by a listener of PLAINTEXT, and whose listeners are altered."""

    def __init__(self, client: Client, given: str) -> None:
        self.client, self.given = client, given
        self.ports = {name: _free_port() for name in ("SECOND", "THIRD", "SECURE")}

    def listening(self, *names: str) -> str:
        """`listeners` as at the start, with these beside."""
        return ",".join([self.given, *(f"{n}://{HOST}:{self.ports[n]}" for n in names)])

    def alter(self, **changes: str | None) -> Any:
        """What is said to a change of settings, whose names have `_` for `.`."""
        wanted = [
            (name.replace("_", "."), DELETE if text is None else SET, text)
            for name, text in changes.items()
        ]
        return alter(self.client, "INCREMENTAL_ALTER_CONFIGS", 1, [(BROKER, "1", wanted)])

    def told(self, name: str, tls: ssl.SSLContext | None = None) -> list[Any]:
        """What a client that comes by a listener is told of brokers, without ids."""
        with Client(Address(HOST, self.ports[name]), tls=tls) as client:
            return [shown(client.call(api, version, body)) for api, version, body in ASKED]

    def is_open(self, name: str) -> bool:
        """Whether somebody listens there."""
        try:
            socket.create_connection((HOST, self.ports[name])).close()
        except OSError:
            return False
        return True


def shown(value: Any) -> Any:
    """An answer without what is drawn."""
    if isinstance(value, dict):
        return {k: shown(v) for k, v in value.items() if k not in ("clusterId", "topicId")}
    return [shown(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """A gateway and a real broker, both with the listener PLAINTEXT, advertised, and a topic."""
    with ExitStack() as stack:
        settings = {"listener.security.protocol.map": MAP, "listeners": "PLAINTEXT://:9092"}
        settings |= {"advertised.listeners": "PLAINTEXT://localhost:9092"}
        security = Security.of(SecurityProtocol.PLAINTEXT, settings)
        running = stack.enter_context(running_gateway(settings, security=security))
        given = {"listener.security.protocol.map": MAP}
        kafka = ListeningKafka(tmp_path_factory.mktemp("listening"), "PLAINTEXT", given)
        stack.callback(kafka.stop)
        kafka.start()
        at = Address(HOST, kafka.port)
        sides = (
            Side(stack.enter_context(running.client()), settings["listeners"]),
            Side(stack.enter_context(Client(at)), kafka.given["listeners"]),
        )
        for side in sides:
            side.client.topic(TOPIC)
        yield sides


def of_both(both: tuple[Side, Side], ask: Callable[[Side], Any]) -> Any:
    """What both say alike."""
    ours, theirs = map(ask, both)
    assert ours == theirs
    return ours


def wait_for(both: tuple[Side, Side], *names: str) -> None:
    """These listeners are open, and no others."""
    for side in both:
        wait_until(lambda side=side: {n for n in side.ports if side.is_open(n)} == set(names))


@pytest.mark.kafka
def test_listeners_open_and_close_as_those_of_the_real_broker(both: tuple[Side, Side]) -> None:
    wait_for(both)
    of_both(both, lambda side: side.alter(listeners=side.listening("SECOND")))
    wait_for(both, "SECOND")
    of_both(both, lambda side: side.told("SECOND"))
    with ExitStack() as stack:
        places = [Address(HOST, side.ports["SECOND"]) for side in both]
        connected = [stack.enter_context(Client(place)) for place in places]
        assert [each.call("METADATA", 12)["brokers"] for each in connected] == [[], []]
        of_both(both, lambda side: side.alter(listeners=side.listening("SECOND", "THIRD")))
        wait_for(both, "SECOND", "THIRD")
        assert [each.call("METADATA", 12)["brokers"] for each in connected] == [[], []]
        of_both(both, lambda side: side.alter(listeners=side.listening("THIRD")))
        wait_for(both, "THIRD")
        assert all(each.is_closed() for each in connected)
    of_both(both, lambda side: side.told("THIRD"))
    brokers = [side.client.call("METADATA", 12)["brokers"] for side in both]
    assert [len(each) for each in brokers] == [1, 1], "who comes by the advertised one is told"
    of_both(both, lambda side: side.alter(listeners=None))
    wait_for(both)


@pytest.mark.kafka
def test_a_port_that_is_taken_is_not_opened_and_the_change_holds(both: tuple[Side, Side]) -> None:
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        for side in both:
            side.ports["THIRD"] = taken.getsockname()[1]
        of_both(both, lambda side: side.alter(listeners=side.listening("SECOND", "THIRD")))
        wait_for(both, "SECOND", "THIRD")  # another one has THIRD's port
        of_both(both, lambda side: side.told("SECOND"))
    wait_for(both, "SECOND")
    of_both(both, lambda side: side.alter(listeners=None))
    wait_for(both)


@pytest.mark.kafka
def test_a_listener_of_tls_is_opened_with_stores_of_its_own(
    both: tuple[Side, Side], authority: Authority, tmp_path: Path
) -> None:
    store, prefix = tmp_path / "broker.p12", "listener.name.secure.ssl."
    trust = ssl.create_default_context(cadata=authority.certificate)
    store.write_bytes(of_pkcs12(authority.issue("broker"), PASSWORD))
    own = {"location": str(store), "password": PASSWORD, "type": "PKCS12"}
    stores = {f"{prefix}keystore.{name}": text for name, text in own.items()}
    of_both(both, lambda side: side.alter(listeners=side.listening("SECURE"), **stores))
    wait_for(both, "SECURE")
    of_both(both, lambda side: side.told("SECURE", trust))
    said = of_both(both, lambda side: side.alter(**{f"{prefix}keystore.password": "wrong"}))
    assert said["responses"][0]["errorCode"]
    store.with_name("dn.p12").write_bytes(of_pkcs12(authority.issue("someone"), PASSWORD))
    other = {f"{prefix}keystore.location": str(store.with_name("dn.p12"))}
    said = of_both(both, lambda side: side.alter(**other))
    assert "DistinguishedName" in said["responses"][0]["errorMessage"]
    of_both(both, lambda side: side.told("SECURE", trust))
    said = of_both(both, lambda side: side.alter(listeners=None, **dict.fromkeys(stores)))
    assert said["responses"][0]["errorCode"], "its key store stays as long as it is there"
    of_both(both, lambda side: side.alter(listeners=None))
    wait_for(both)
    ours = both[0].alter(**dict.fromkeys(stores))
    assert not ours["responses"][0]["errorCode"], "Kafka still has the stores of what it closed"
