"""The control socket, and closed ports of stopped brokers."""

import socket
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from brokertwin.errors import UserError
from brokertwin.gateway.admin import control
from brokertwin.gateway.admin.control import Control
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.state.core.events import Kind
from tests.support.batches import batch
from tests.support.gateways import Client, Running, running_gateway
from tests.support.patience import wait_until

METADATA = 3
NEVER_THERE = -1


Taking = partial(LocalEngine, may_intervene=True)
"""An engine whose brokers may be stopped."""


@pytest.fixture
def gateway() -> Iterator[Running]:
    with running_gateway(brokers=3, engine_type=Taking) as found:
        yield found


@pytest.fixture
def path(gateway: Running, tmp_path: Path) -> Iterator[Path]:
    made = Control(gateway.engine, tmp_path / "control")
    gateway.run(made.open())
    yield tmp_path / "control"
    gateway.run(made.close())


def is_open(address: Address) -> bool:
    try:
        socket.create_connection(address, timeout=5).close()
    except (ConnectionRefusedError, ConnectionResetError):  # reset: the port closes at this moment
        return False
    return True


def create(client: Client, name: str, replicas: int = 3) -> None:
    topic = {"name": name, "numPartitions": 1, "replicationFactor": replicas}
    response = client.call("CREATE_TOPICS", 7, {"topics": [topic], "timeoutMs": 30_000})
    assert response["topics"][0]["errorCode"] == 0


def do(path: Path, kind: str, broker: int) -> Any:
    return control.ask(path, ask=kind, broker=broker)


def partition_of(path: Path, name: str) -> dict[str, Any]:
    (partition,) = (
        row for row in control.ask(path, ask="status")["partitions"] if row["topic"] == name
    )
    return dict(partition)


def test_stopped_broker_has_no_port_and_no_connections(gateway: Running, path: Path) -> None:
    with gateway.client(2) as client, gateway.client(1) as other:
        client.call("METADATA", 9, topics=[])
        assert do(path, "stop-broker", 2) == {"response": {}}
        assert client.is_closed()
        assert [is_open(gateway.addresses[broker]) for broker in (1, 2, 3)] == [True, False, True]
        response = other.call("METADATA", 9, topics=[])
        assert [broker["nodeId"] for broker in response["brokers"]] == [1, 3]
    do(path, "start-broker", 2)
    wait_until(lambda: is_open(gateway.addresses[2]), "its port is open")
    with gateway.client(2) as client:
        assert len(client.call("METADATA", 9, topics=[])["brokers"]) == 3


def test_repeated_stop_or_start_changes_nothing(gateway: Running, path: Path) -> None:
    for kind in ("start-broker", "stop-broker", "stop-broker"):
        assert do(path, kind, 3) == {"response": {}}
    assert not is_open(gateway.addresses[3])
    for _ in range(2):
        do(path, "start-broker", 3)
    wait_until(lambda: is_open(gateway.addresses[3]), "its port is open")


def test_broker_stopped_again_at_once_stays_closed(gateway: Running, path: Path) -> None:
    async def at_once() -> None:
        for kind in ("stop-broker", "start-broker", "stop-broker", "start-broker", "stop-broker"):
            await gateway.engine.intervene(Kind(kind), 2)

    gateway.run(at_once())
    do(path, "stop-broker", 1)  # queued behind pending actions
    wait_until(lambda: not is_open(gateway.addresses[2]), "its port is shut")
    do(path, "start-broker", 2)
    wait_until(lambda: is_open(gateway.addresses[2]), "its port is open")


def test_status_shows_leaders_and_replica_offsets(gateway: Running, path: Path) -> None:
    with gateway.client(1) as client:
        create(client, "orders")
    leader = partition_of(path, "orders")["leader"]
    follower = leader % 3 + 1
    with gateway.client(leader) as client:
        assert client.produce("orders", batch(b"a"))["errorCode"] == 0
        do(path, "isolate-broker", follower)
        assert client.produce("orders", batch(b"b"), acks=1)["errorCode"] == 0
    partition = partition_of(path, "orders")
    assert (partition["leader"], sorted(partition["isr"])) == (leader, [1, 2, 3])
    assert (partition["logEndOffset"], partition["highWatermark"], partition["lag"]) == (2, 1, 1)
    assert {row["broker"]: row["lag"] for row in partition["logs"]} == {
        each: int(each == follower) for each in (1, 2, 3)
    }
    do(path, "rejoin-broker", follower)
    partition = partition_of(path, "orders")
    assert (partition["highWatermark"], partition["lag"]) == (2, 0)
    states = [row["state"] for row in control.ask(path, ask="status")["brokers"]]
    assert states == ["running"] * 3


def test_stopped_broker_leads_nothing_and_is_in_no_isr(gateway: Running, path: Path) -> None:
    with gateway.client(1) as client:
        create(client, "orders")
    leader = partition_of(path, "orders")["leader"]
    do(path, "stop-broker", leader)
    partition = partition_of(path, "orders")
    assert partition["leader"] not in (leader, NEVER_THERE)
    assert leader not in partition["isr"]
    row = control.ask(path, ask="status")["brokers"][leader - 1]
    assert row == {"broker": leader, "state": "stopped", "leads": 0, "replicas": 1, "inSync": 0}


def test_control_request_reaches_a_running_broker(gateway: Running, path: Path) -> None:
    do(path, "stop-broker", 1)
    body = {"apiKey": METADATA, "apiVersion": 12, "body": {"topics": []}}
    response = control.ask(path, ask="request", **body)
    assert [broker["nodeId"] for broker in response["response"]["brokers"]] == [2, 3]
    for broker in (2, 3):
        do(path, "stop-broker", broker)
    assert control.ask(path, ask="request", **body)["error"]["reason"] == "broker is stopped"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"ask": "stop-broker", "broker": 9}, "unknown broker"),
        ({"ask": "dance"}, "wrong type"),
        ({"what": 1}, "not JSON"),
    ],
)
def test_invalid_control_requests_are_refused(
    path: Path, body: dict[str, Any], reason: str
) -> None:
    assert control.ask(path, **body)["error"]["reason"] == reason


def test_only_the_owner_may_open_the_socket(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_socket_in_use_is_not_replaced(gateway: Running, path: Path) -> None:
    with pytest.raises(UserError, match="Another gateway uses the control socket"):
        gateway.run(Control(gateway.engine, path).open())
    assert "brokers" in control.ask(path, ask="status")


def test_stale_socket_is_replaced(gateway: Running, tmp_path: Path) -> None:
    path = tmp_path / "left"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(path))
    with pytest.raises(UserError, match="No gateway responds"):
        control.ask(path, ask="status")
    made = Control(gateway.engine, path)
    gateway.run(made.open())
    assert "brokers" in control.ask(path, ask="status")
    gateway.run(made.close())
    assert not path.exists()


def test_broker_stays_stopped_after_a_restart_with_a_journal(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    with running_gateway(brokers=2, journal=journal, engine_type=Taking) as gateway:
        gateway.run(settled(gateway, "stop-broker", 1))
        gateway.run(settled(gateway, "start-broker", 1))
        gateway.run(settled(gateway, "stop-broker", 2))
    with running_gateway(brokers=2, journal=journal) as gateway:
        assert [is_open(gateway.addresses[broker]) for broker in (1, 2)] == [True, False]


async def settled(gateway: Running, kind: str, broker: int) -> None:
    await gateway.engine.intervene(Kind(kind), broker)


def test_failed_log_directory_is_back_when_its_broker_starts(tmp_path: Path) -> None:
    disks = {"log.dirs": "/disk-1,/disk-2"}
    with running_gateway(brokers=2, engine_type=Taking, settings=disks) as gateway:
        made, path = Control(gateway.engine, tmp_path / "control"), tmp_path / "control"
        gateway.run(made.open())
        result = control.ask(path, ask="fail-log-dir", broker=1, directory="/nowhere")
        assert result["error"]["reason"] == "not possible"
        result = control.ask(path, ask="fail-log-dir", broker=1, directory="/disk-2")
        assert result == {"response": {}}
        states = [row["state"] for row in control.ask(path, ask="status")["brokers"]]
        assert states == ["running, without /disk-2", "running"]
        do(path, "stop-broker", 1)
        do(path, "start-broker", 1)
        assert control.ask(path, ask="status")["brokers"][0]["state"] == "running"
        control.ask(path, ask="fail-log-dir", broker=2, directory="/disk-1")
        wait_until(lambda: not is_open(gateway.addresses[2]), "it halts with its metadata")
        gateway.run(made.close())
