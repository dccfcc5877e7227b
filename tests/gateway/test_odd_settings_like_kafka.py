"""Settings that only few brokers have: a real broker with them and ours answer alike."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from brokerstream.gateway.answers import Address
from brokerstream.gateway.protocol.frames import decode_response
from brokerstream.kafka_io.kafka_broker import EmbeddedKafka
from brokerstream.settings import default_home
from tests.gateway.test_share_sessions_like_kafka import SHARE_FETCH, Members
from tests.support.gateways import running_gateway

pytestmark = pytest.mark.kafka

SESSIONS = 10
SETTINGS = {
    "group.share.max.share.sessions": str(SESSIONS),
    "group.share.max.size": str(SESSIONS),
    "transaction.partition.verification.enable": "false",
}
FULL = 133


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Address, Address]]:
    """Ours and a real broker, with these settings."""
    home: Path = tmp_path_factory.mktemp("odd")
    broker = EmbeddedKafka(home / "broker", default_home())
    with ExitStack() as stack:
        stack.callback(broker.stop)
        host, _, port = broker.start(SETTINGS).rpartition(":")
        ours = stack.enter_context(running_gateway(SETTINGS)).addresses[1]
        yield ours, Address(host, int(port))


def full(members: Members) -> Iterator[object]:
    """As many sessions as there may be; who has one may begin it anew, or make room."""
    connection = members.connect()
    names = [f"member {at}" for at in range(SESSIONS)]
    yield [members.fetch(connection, name) for name in names]
    members.ask(connection, "late", 200)
    yield decode_response(SHARE_FETCH, 2, connection.receive())[1]
    yield members.reopen(connection, names[0]), members.fetch(connection, names[1])
    yield members.reopen(connection, "late"), members.end(connection, names[0])
    yield members.reopen(connection, "late"), members.reopen(connection, names[0])


def test_there_are_only_so_many_share_sessions(addresses: tuple[Address, Address]) -> None:
    with ExitStack() as stack:
        told = [list(full(Members(address, stack, full))) for address in addresses]
    assert told[0] == told[1]
    assert told[0][2:] == [([], []), (FULL, []), ([], FULL)]
