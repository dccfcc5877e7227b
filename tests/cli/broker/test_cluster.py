"""`brokertwin cluster` on a gateway with the local engine, both in separate processes."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from brokertwin.gateway.edge_fields import Address
from tests.support.console import brokertwin, command
from tests.support.gateway_processes import gateway
from tests.support.gateways import Client
from tests.support.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.processes

REFUSED = 2
TOPIC = "orders-of-a-shop-with-a-long-name-in-a-large-town"
WIDTH = 80
SESSION_MS = 2000


class Served:
    """A gateway of three brokers, and the command on it."""

    def __init__(self, addresses: dict[int, Address], control: Path) -> None:
        self.addresses = addresses
        self.control = control

    def cluster(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return brokertwin("cluster", *words, "--control", self.control, COLUMNS=WIDTH)

    def status(self, *words: str) -> dict[str, Any]:
        return dict(json.loads(self.cluster("status", "--json", *words).stdout))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    control = tmp_path_factory.mktemp("gateway") / "control"
    short = ("--set", f"broker.session.timeout.ms={SESSION_MS}")
    short += ("--set", "replica.lag.time.max.ms=3000")
    with gateway("--brokers", "3", "--control", str(control), *short) as (_, addresses):
        with Client(addresses[1]) as client:
            topic = {"name": TOPIC, "numPartitions": 2, "replicationFactor": 3}
            client.call("CREATE_TOPICS", 7, {"topics": [topic], "timeoutMs": 30_000})
            client.call("FIND_COORDINATOR", 4, keyType=0, coordinatorKeys=["readers"])
        yield Served(addresses, control)


def test_the_status_fits_a_narrow_terminal(served: Served) -> None:
    done = served.cluster("status")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert "50 rows of internal topics hidden; add --all to show them" in lines
    for header in ("state", "leader", "ISR", "LEO", "HW", "lag"):
        assert header in done.stdout


def test_internal_topics_are_shown_on_request(served: Served) -> None:
    named = {row["topic"] for row in served.status()["partitions"]}
    assert named == {TOPIC}
    named = {row["topic"] for row in served.status("--all")["partitions"]}
    assert named == {TOPIC, "__consumer_offsets"}


def test_a_broker_is_stopped_and_started(served: Served) -> None:
    assert served.cluster("stop", "2").stderr == "broker 2 stopped\n"
    status = served.status()
    assert [row["state"] for row in status["brokers"]] == ["running", "stopped", "running"]
    assert all(2 not in row["isr"] and row["leader"] != 2 for row in status["partitions"])
    with pytest.raises(ConnectionRefusedError):
        Client(served.addresses[2])
    assert served.cluster("start", "2").stderr == "broker 2 starting\n"
    status = served.status()
    assert all(sorted(row["isr"]) == [1, 2, 3] for row in status["partitions"])


def test_a_broker_is_cut_off_and_reached_again(served: Served) -> None:
    assert served.cluster("isolate", "3").returncode == 0
    assert served.status()["brokers"][2]["state"] == "isolated"
    assert served.cluster("rejoin", "3").returncode == 0
    assert served.status()["brokers"][2]["state"] == "running"


def test_a_killed_broker_starts_when_its_session_is_over(served: Served) -> None:
    """The states in between last as long as the session: `tests/state/replication` has them."""
    began = time.monotonic()
    assert served.cluster("kill", "2").stderr == "broker 2 killed\n"
    with pytest.raises(ConnectionRefusedError):
        Client(served.addresses[2])
    assert served.cluster("start", "2").returncode == 0
    wait_until(lambda: served.status()["brokers"][1]["state"] == "running", "broker 2 runs")
    assert time.monotonic() - began >= SESSION_MS / 1000
    wait_until(lambda: listens(served.addresses[2]), "the port is open again, a moment later")


def listens(address: Address) -> bool:
    try:
        with Client(address) as client:
            return client.call("API_VERSIONS", 0, {})["errorCode"] == 0
    except ConnectionRefusedError:
        return False


def test_a_severed_broker_is_left_out_by_the_controller_and_rejoins(served: Served) -> None:
    assert served.cluster("sever", "3").returncode == 0
    assert served.status()["brokers"][2]["state"] == "severed"

    def in_sync() -> list[int]:
        return [row["inSync"] for row in served.status()["brokers"]]

    wait_until(lambda: in_sync()[2] == 0, "broker 3 is fenced")
    assert served.cluster("rejoin", "3").returncode == 0
    wait_until(lambda: in_sync()[2] == in_sync()[0], "broker 3 is in sync")


def leaders(served: Served) -> list[int]:
    return [row["leader"] for row in served.status()["partitions"]]


def outcomes(done: Any) -> list[tuple[int, str]]:
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    return [(each["partition"], each["error"]) for each in documents]


def test_the_preferred_leader_is_elected_when_it_is_back(served: Served) -> None:
    preferred = [row["replicas"][0] for row in served.status()["partitions"]]
    broker = preferred[0]
    served.cluster("stop", str(broker))
    refused = served.cluster("elect", f"{TOPIC}-0", "--json")
    assert (refused.returncode, outcomes(refused)) == (1, [(0, "PREFERRED_LEADER_NOT_AVAILABLE")])
    served.cluster("start", str(broker))
    assert leaders(served)[0] != broker
    done = served.cluster("elect", f"{TOPIC}-0", f"{TOPIC}-1", "--json")
    assert done.returncode == 0
    assert outcomes(done)[0] == (0, "NONE")
    assert leaders(served) == preferred
    done = served.cluster("elect", f"{TOPIC}-0")
    assert "ELECTION_NOT_NEEDED" in done.stdout
    assert done.returncode == 0


def test_a_partition_gets_other_replicas(served: Served) -> None:
    before = served.status()["partitions"][1]["replicas"]
    wanted = list(reversed(before))[:2]
    requested = f"{TOPIC}-1={','.join(map(str, wanted))}"
    assert outcomes(served.cluster("reassign", requested, "--json")) == [(1, "NONE")]
    partition = served.status()["partitions"][1]
    assert (partition["replicas"], sorted(partition["isr"])) == (wanted, sorted(wanted))
    assert [row["broker"] for row in partition["logs"]] == wanted
    assert served.cluster("reassign", f"{TOPIC}-1={','.join(map(str, before))}").returncode == 0
    refused = served.cluster("reassign", f"{TOPIC}-1", "--cancel", "--json")
    assert (refused.returncode, outcomes(refused)) == (1, [(1, "NO_REASSIGNMENT_IN_PROGRESS")])


def test_a_reassignment_to_a_broker_that_is_cut_off_is_shown_and_cancelled(served: Served) -> None:
    assert served.cluster("reassign", f"{TOPIC}-1=1,2").returncode == 0
    served.cluster("isolate", "3")
    served.cluster("reassign", f"{TOPIC}-1=2,3")
    assert "2,+3,-1" in served.cluster("status").stdout
    assert served.cluster("reassign", f"{TOPIC}-1", "--cancel").returncode == 0
    served.cluster("rejoin", "3")
    assert sorted(served.status()["partitions"][1]["replicas"]) == [1, 2]


@pytest.mark.parametrize(
    "words", [("elect", "orders"), ("reassign", "orders-0"), ("reassign", "orders-0=one")]
)
def test_invalid_partition_or_replica_is_refused(served: Served, words: tuple[str, ...]) -> None:
    done = served.cluster(*words)
    assert done.returncode == REFUSED
    assert "orders" in done.stderr


def test_unknown_broker_is_refused(served: Served) -> None:
    done = served.cluster("stop", "7")
    assert done.returncode == REFUSED
    assert (
        done.stderr
        == "The job refused the command (unknown broker): broker 7 is not one of [1, 2, 3].\n"
    )


def test_without_a_gateway_the_error_explains_how_to_start_one(tmp_path: Path) -> None:
    done = Served({}, tmp_path / "none").cluster("status")
    assert done.returncode == REFUSED
    assert f"Start one with: brokertwin gateway --control {tmp_path / 'none'}" in done.stderr


def test_a_log_directory_that_a_broker_does_not_have_does_not_fail(served: Served) -> None:
    done = served.cluster("fail-log-dir", "2", "/nowhere")
    assert done.returncode == REFUSED
    assert "broker 2 has no log directory '/nowhere'" in " ".join(done.stderr.split())


def test_a_log_directory_fails(tmp_path: Path) -> None:
    control = tmp_path / "control"
    disks = ("--set", "log.dirs=/disk-1,/disk-2")
    with gateway("--brokers", "2", "--control", str(control), *disks) as (_, addresses):
        alone = Served(addresses, control)
        done = alone.cluster("fail-log-dir", "2", "/disk-2")
        assert done.stderr == "failed log directory /disk-2 of broker 2\n"
        assert alone.status()["brokers"][1]["state"] == "running, without /disk-2"


def test_watched_log_end_moves_before_the_high_watermark(served: Served) -> None:
    """Seed 004: the leader appends; the high watermark waits for the follower, or for its end."""
    partition = served.status()["partitions"][0]
    leader, follower = (
        partition["leader"],
        next(each for each in partition["replicas"] if each != partition["leader"]),
    )
    words = command("cluster", "status", "--json", "--watch", "0.2", "--control", served.control)
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        seen = [_ends(watching.stdout.readline())]
        served.cluster("isolate", str(follower))
        host, port = served.addresses[leader]
        producer = Producer({"bootstrap.servers": f"{host}:{port}", "acks": 1})
        producer.produce(TOPIC, b"1", partition=0)
        assert producer.flush(PATIENCE_S) == 0
        while seen[-1] != (seen[0][0] + 1, seen[0][0] + 1):
            seen.append(_ends(watching.stdout.readline()))
        watching.terminate()
    served.cluster("rejoin", str(follower))
    assert (seen[0][0] + 1, seen[0][0]) in seen


def _ends(line: str) -> tuple[int, int]:
    [row] = [row for row in json.loads(line)["partitions"] if row["partition"] == 0]
    return row["logEndOffset"], row["highWatermark"]
