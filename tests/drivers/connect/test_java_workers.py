"""Java's worker of Connect and ours in one group on a gateway: one is killed, the other goes on."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.drivers.connect.test_killed_worker import ALL, running_at
from tests.drivers.test_consumer_members import topic_at
from tests.support.connect_commands import Files, Process, properties
from tests.support.gateways import running_gateway
from tests.support.kafka_tools import connect_command
from tests.support.patience import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.processes]

MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
SETTINGS = {"group.initial.rebalance.delay.ms": "100", "group.min.session.timeout.ms": "500"}
JAVAS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "config.storage.replication.factor": 1,
    "offset.storage.replication.factor": 1,
    "status.storage.replication.factor": 1,
    "offset.storage.partitions": 2,
    "plugin.discovery": "only_scan",
}


def free_port() -> int:
    with socket.create_server(("localhost", 0)) as made:
        return int(made.getsockname()[1])


def is_up(port: int) -> bool:
    """Whether the worker is in its group: before that it answers nothing."""
    try:
        with urlopen(f"http://localhost:{port}/connectors") as answer:
            return bool(answer.status == 200)
    except (URLError, ConnectionError):
        return False


@contextmanager
def java(files: Files, directory: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    ours = [each for each in files.worker.read_text().splitlines() if "file.filename" not in each]
    settings = {**JAVAS, "bootstrap.servers": files.bootstrap}
    settings["listeners"] = f"http://localhost:{port}"
    file = properties(directory / "java.properties", settings)
    file.write_text("\n".join([*ours, file.read_text()]))
    words = [*connect_command(), MAIN, str(file)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as made:
        try:
            yield made
        finally:
            made.kill()


def test_javas_worker_leads_ours_and_ours_goes_on_without_it(tmp_path: Path) -> None:
    """A connector's and its tasks' configurations, positions and offsets are each other's."""
    port = free_port()
    with running_gateway(SETTINGS) as gateway:
        files = Files(
            tmp_path,
            topic_at(gateway.bootstrap, "with-java"),
            gateway.bootstrap,
            session_timeout_ms=3_000,
            heartbeat_interval_ms=300,
            scheduled_rebalance_max_delay_ms=500,
        )
        files.grow(500)
        with java(files, tmp_path, port) as first:
            wait_until(lambda: is_up(port), "Java's worker is in its group")
            with Process(files) as second:
                both = {port, second.pid}
                wait_until(lambda: set(running_at(files).values()) == both, "both have work")
                wait_until(files.is_whole, "and do it")
                first.kill()
                files.grow(500)
                wait_until(
                    lambda: running_at(files) == dict.fromkeys(ALL, second.pid),
                    "ours has got everything",
                )
                wait_until(files.is_whole, "and copies the rest")
                code, said = second.end()
        assert code == 0, said
