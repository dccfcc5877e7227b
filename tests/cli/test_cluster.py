"""`brokerstream cluster` on a gateway with the engine local, each in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brokerstream.gateway.answers import Address
from tests.support.gateway_processes import PROGRAM, gateway
from tests.support.gateways import Client

REFUSED = 2
TOPIC = "orders-of-a-shop-with-a-long-name-in-a-large-town"
WIDTH = 80


class Served:
    """A gateway of three brokers, and the command on it."""

    def __init__(self, addresses: dict[int, Address], control: Path) -> None:
        self.addresses = addresses
        self._control = control

    def cluster(self, *words: str) -> "subprocess.CompletedProcess[str]":
        environment = {**os.environ, "COLUMNS": str(WIDTH)}
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, "cluster", *words, "--control", str(self._control)],
            capture_output=True,
            text=True,
            env=environment,
            timeout=120,
        )

    def status(self, *words: str) -> dict[str, Any]:
        return dict(json.loads(self.cluster("status", "--json", *words).stdout))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    control = tmp_path_factory.mktemp("gateway") / "control"
    with gateway("--brokers", "3", "--control", str(control)) as (_, addresses):
        with Client(addresses[1]) as client:
            topic = {"name": TOPIC, "numPartitions": 2, "replicationFactor": 3}
            client.call("CREATE_TOPICS", 7, {"topics": [topic], "timeoutMs": 30_000})
            client.call("FIND_COORDINATOR", 4, {"keyType": 0, "coordinatorKeys": ["readers"]})
        yield Served(addresses, control)


def test_the_status_fits_a_narrow_terminal(served: Served) -> None:
    done = served.cluster("status")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert "50 partitions of internal topics are left out; --all shows them, too" in lines
    for header in ("state", "leader", "ISR", "LEO", "HW", "lag"):
        assert header in done.stdout


def test_internal_topics_are_shown_when_asked_for(served: Served) -> None:
    named = {row["topic"] for row in served.status()["partitions"]}
    assert named == {TOPIC}
    named = {row["topic"] for row in served.status("--all")["partitions"]}
    assert named == {TOPIC, "__consumer_offsets"}


def test_a_broker_is_stopped_and_started(served: Served) -> None:
    assert served.cluster("stop", "2").stderr == "broker 2 is stopped\n"
    found = served.status()
    assert [row["state"] for row in found["brokers"]] == ["running", "stopped", "running"]
    assert all(2 not in row["isr"] and row["leader"] != 2 for row in found["partitions"])
    with pytest.raises(ConnectionRefusedError):
        Client(served.addresses[2])
    assert served.cluster("start", "2").stderr == "broker 2 runs\n"
    found = served.status()
    assert all(sorted(row["isr"]) == [1, 2, 3] for row in found["partitions"])


def test_a_broker_is_cut_off_and_reached_again(served: Served) -> None:
    assert served.cluster("isolate", "3").returncode == 0
    assert served.status()["brokers"][2]["state"] == "isolated"
    assert served.cluster("rejoin", "3").returncode == 0
    assert served.status()["brokers"][2]["state"] == "running"


def test_a_broker_that_there_is_not_is_refused(served: Served) -> None:
    done = served.cluster("stop", "7")
    assert done.returncode == REFUSED
    assert done.stderr == "Refused, unknown broker: broker 7 is not one of [1, 2, 3].\n"


def test_without_a_gateway_it_says_how_to_start_one(tmp_path: Path) -> None:
    done = Served({}, tmp_path / "none").cluster("status")
    assert done.returncode == REFUSED
    assert f"Start one with `brokerstream gateway --control {tmp_path / 'none'}`." in done.stderr
