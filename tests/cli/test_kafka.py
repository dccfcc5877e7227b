"""`brokertwin kafka start|status|stop` with the real broker."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.console import command

NOT_RUNNING = 3


def kafka(*words: str, data_dir: Path) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does, in a process of its own."""
    return subprocess.run(
        command("kafka", *words, "--data-dir", data_dir),
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
        timeout=120,
    )


def answer(*words: str, data_dir: Path) -> dict[str, Any]:
    return dict(json.loads(kafka(*words, "--json", data_dir=data_dir).stdout))


@pytest.mark.kafka
def test_start_status_stop(tmp_path: Path) -> None:
    data_dir = tmp_path / "k"
    assert kafka("status", data_dir=data_dir).returncode == NOT_RUNNING
    try:
        started = answer("start", "--property", "num.partitions=2", data_dir=data_dir)
        assert started["running"] is True
        assert psutil.pid_exists(started["pid"])
        assert "num.partitions=2" in (data_dir / "server.properties").read_text()
        table = kafka("status", data_dir=data_dir)
        assert table.returncode == 0
        assert f"bootstrap  {started['bootstrap']}" in table.stdout
        assert answer("status", data_dir=data_dir) == started
        other = kafka("stop", data_dir=tmp_path / "other")
        assert other.stdout == "was not running\n"
        assert answer("status", data_dir=data_dir) == started
    finally:
        stopped = kafka("stop", data_dir=data_dir)
    assert stopped.stdout == "stopped\n"
    assert not psutil.pid_exists(started["pid"])
    assert answer("status", data_dir=data_dir)["running"] is False


@pytest.mark.kafka
def test_a_refused_property_is_explained(tmp_path: Path) -> None:
    done = kafka("start", "--property", "node.id=7", data_dir=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "Cannot set node.id: the embedded broker sets it itself.\n"
