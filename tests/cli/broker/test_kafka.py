"""`brokertwin kafka start|status|stop` with the real broker."""

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from brokertwin.kafka_io import kafka_tools
from tests.support.console import command
from tests.support.patience import wait_until

NOT_RUNNING = 3


def kafka(*words: str, data_dir: Path) -> subprocess.CompletedProcess[str]:
    """Run the command like a user, in a separate process."""
    return subprocess.run(
        command("kafka", *words, "--data-dir", data_dir),
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
        timeout=120,
    )


def document_of(*words: str, data_dir: Path) -> dict[str, Any]:
    return dict(json.loads(kafka(*words, "--json", data_dir=data_dir).stdout))


@pytest.mark.kafka
def test_start_status_stop(tmp_path: Path) -> None:
    data_dir = tmp_path / "k"
    assert kafka("status", data_dir=data_dir).returncode == NOT_RUNNING
    try:
        started = document_of("start", "--property", "num.partitions=2", data_dir=data_dir)
        assert started["running"] is True
        assert psutil.pid_exists(started["pid"])
        assert "num.partitions=2" in (data_dir / "server.properties").read_text()
        table = kafka("status", data_dir=data_dir)
        assert table.returncode == 0
        assert f"bootstrap  {started['bootstrap']}" in table.stdout
        assert document_of("status", data_dir=data_dir) == started
        other = kafka("stop", data_dir=tmp_path / "other")
        assert other.stdout == "was not running\n"
        assert document_of("status", data_dir=data_dir) == started
    finally:
        stopped = kafka("stop", data_dir=data_dir)
    assert stopped.stdout == "stopped\n"
    assert not psutil.pid_exists(started["pid"])
    assert document_of("status", data_dir=data_dir)["running"] is False


@pytest.mark.kafka
def test_request_log_and_tools(tmp_path: Path) -> None:
    data_dir = tmp_path / "k"
    try:
        address = document_of("start", "--request-log", data_dir=data_dir)["bootstrap"]
        create = ("--create", "--topic", "scans", "--partitions", "2")
        words = ("kafka", "tools", "topics", "--bootstrap-server", address)
        created = subprocess.run(command(*words, *create), capture_output=True, text=True)
        assert created.stdout == "Created topic scans.\n"
        refused = subprocess.run(command(*words, *create), capture_output=True, text=True)
        assert refused.returncode == 1
        configs = ("kafka", "tools", "kafka-configs", *words[3:], "--describe", "--topic", "scans")
        described = subprocess.run(command(*configs), capture_output=True, text=True)
        assert described.stdout.startswith("Dynamic configs for topic scans")
        assert described.stderr == "", "SLF4J has one binding"
        log = data_dir / "kafka-request.log"
        audit = command("audit", log, "--json", "--fail-on", "never")
        found = subprocess.run(audit, capture_output=True, text=True).stdout.splitlines()
        assert {json.loads(each)["error"] for each in found} == {"TOPIC_ALREADY_EXISTS"}
    finally:
        kafka("stop", data_dir=data_dir)


@pytest.mark.kafka
def test_ctrl_c_stops_the_broker_that_is_starting(tmp_path: Path) -> None:
    words = command("kafka", "start", "--data-dir", tmp_path)
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as starting:
        wait_until((tmp_path / "kafka.pid").exists, "the broker has a process")
        pid = json.loads((tmp_path / "kafka.pid").read_text())["pid"]
        starting.send_signal(signal.SIGINT)
        assert starting.stderr is not None
        assert "the broker that was starting is stopped" in starting.stderr.read()
    assert not psutil.pid_exists(pid)


def test_directory_that_cannot_be_written_is_named() -> None:
    done = kafka("start", data_dir=Path("/proc/x"))
    assert done.returncode == 2
    assert done.stderr == (
        "The broker's directory /proc/x cannot be written: No such file or directory.\n"
        "Name another one with --data-dir.\n"
    )


@pytest.mark.parametrize("name", ["topics", "kafka-topics", "kafka-topics.sh"])
def test_tools_are_known_by_the_names_of_their_scripts(name: str) -> None:
    assert kafka_tools.class_of(name) == "org.apache.kafka.tools.TopicCommand"
    assert kafka_tools.class_of("kafka-configs") == "kafka.admin.ConfigCommand"


def test_unknown_tools_are_refused_and_known_ones_listed() -> None:
    done = subprocess.run(command("kafka", "tools", "kafka-topic"), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (
        2,
        "Kafka has no tool kafka-topic.\nDid you mean kafka-topics?\n",
    )
    listed = subprocess.run(command("kafka", "tools"), capture_output=True, text=True)
    assert "kafka-consumer-groups\n" in listed.stdout


@pytest.mark.kafka
def test_a_refused_property_is_explained(tmp_path: Path) -> None:
    done = kafka("start", "--property", "node.id=7", data_dir=tmp_path)
    assert done.returncode == 2
    assert (
        done.stderr
        == "Cannot set node.id: the embedded broker sets it itself.\nLeave it out of --property.\n"
    )
