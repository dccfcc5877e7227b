"""Java's worker of Connect and ours in one group on a gateway: one is killed, the other goes on."""

from pathlib import Path

import pytest

from brokertwin.kafka_io.properties import read
from tests.clients.io.connect.test_killed_worker import ALL, running_at
from tests.clients.io.test_consumer_members import topic_at
from tests.support.connect_commands import Files, Process
from tests.support.gateways import running_gateway
from tests.support.java_connect import JavaWorker
from tests.support.patience import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.processes]

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


def java(files: Files, directory: Path) -> JavaWorker:
    """A worker of the same group."""
    ours = read(files.worker)
    del ours["offset.storage.file.filename"]
    return JavaWorker(directory, {**ours, **JAVAS, "bootstrap.servers": files.bootstrap})


def test_a_java_worker_leads_ours_until_it_leaves(tmp_path: Path) -> None:
    """A connector's and its tasks' configurations, positions and offsets are each other's."""
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
        with java(files, tmp_path) as first:
            wait_until(first.is_up, "Java's worker is in its group")
            with Process(files) as second:
                both = {first.port, second.pid}
                wait_until(lambda: set(running_at(files).values()) == both, "both have work")
                wait_until(files.is_whole, "and do it")
                first.kill()
                files.grow(500)
                wait_until(
                    lambda: running_at(files) == dict.fromkeys(ALL, second.pid),
                    "ours has got everything",
                )
                wait_until(files.is_whole, "and copies the rest")
                code, output = second.end()
        assert code == 0, output
