"""`run`, `send`, `state` and `dead-letters` as a user calls them, with a real broker and Spark."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.jobs import CAPTURES, JobBench

from brokerstream.state import outputs
from brokerstream.streaming import checkpoint_log, placement
from brokerstream.streaming.settings import default_home

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

CAPTURE = "fetch_session_assign"
WAIT_S = 120
SMALL_BATCHES = {"BROKERSTREAM_MAX_OFFSETS_PER_TRIGGER": "120"}


class Commands:
    """Runs commands against the topics and the checkpoint of one job."""

    def __init__(self, bench: JobBench) -> None:
        self.bench = bench
        self.running: list[subprocess.Popen[str]] = []
        self.environment = {
            **os.environ,
            "BROKERSTREAM_HOME": str(default_home()),
            "BROKERSTREAM_BOOTSTRAP": str(bench.flags["bootstrap"]),
            "BROKERSTREAM_PREFIX": bench.prefix,
            "BROKERSTREAM_CHECKPOINT": str(bench.checkpoint),
            "BROKERSTREAM_CLUSTERS": "a",
            "BROKERSTREAM_MASTER": "local[2]",
            "BROKERSTREAM_SHUFFLE_PARTITIONS": "2",
            "BROKERSTREAM_REQUESTS_PARTITIONS": "3",
            "BROKERSTREAM_RESPONSES_PARTITIONS": "2",
        }

    def start(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        """Start `brokerstream` in a process of its own."""
        command = [sys.executable, "-c", "from brokerstream.cli.main import main; main()"]
        process = subprocess.Popen(
            [*command, *arguments],
            env={**self.environment, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        return process

    def call(self, *arguments: str, text: str = "", **environment: str) -> tuple[int, str, str]:
        """Exit code, output and errors of a command."""
        process = self.start(*arguments, **environment)
        out, errors = process.communicate(text, timeout=WAIT_S)
        return process.returncode, out, errors

    def wait_for(self, process: "subprocess.Popen[str]", planned: int, committed: int) -> None:
        """Wait until so many micro-batches are planned and committed."""
        checkpoint = self.bench.checkpoint
        deadline = time.monotonic() + WAIT_S
        while (
            checkpoint_log.planned(checkpoint) < planned
            or checkpoint_log.committed(checkpoint) < committed
        ):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.fixture
def commands(kafka: str, tmp_path: Path) -> Iterator[Commands]:
    made = Commands(JobBench(kafka, tmp_path))
    try:
        yield made
    finally:
        for process in made.running:
            kill_tree(process)


def kill_tree(process: "subprocess.Popen[str]") -> None:
    """Kill -9 of a command, its JVM and its Python workers, all at once."""
    if process.poll() is None:
        parent = psutil.Process(process.pid)
        for one in [*parent.children(recursive=True), parent]:
            one.kill()
    process.communicate(timeout=30)


def lines_of(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_a_job_that_is_stopped_and_killed_loses_nothing_and_shows_nothing_twice(
    commands: Commands,
) -> None:
    bench = commands.bench
    placement.write(bench.client, bench.prefix, placements_of(bench))
    code, out, _ = commands.call("send", str(CAPTURES / f"{CAPTURE}.jsonl.gz"), "--json")
    sent = json.loads(out)["sent"]
    assert (code, sent) == (0, 513)

    stopped = commands.start("run", **SMALL_BATCHES)
    commands.wait_for(stopped, planned=1, committed=0)
    stopped.send_signal(signal.SIGTERM)
    _, errors = stopped.communicate(timeout=WAIT_S)
    assert stopped.returncode == 0, errors
    assert "SIGTERM: waiting for the running micro-batch" in errors
    planned = checkpoint_log.planned(bench.checkpoint)
    assert planned == checkpoint_log.committed(bench.checkpoint)

    killed = commands.start("run", **SMALL_BATCHES)
    commands.wait_for(killed, planned=planned + 1, committed=planned)
    kill_tree(killed)
    assert killed.returncode == -signal.SIGKILL
    answered = {row.id for row in bench.rows(outputs.RESPONSES)}
    assert 0 < len(answered) < sent

    code, _, errors = commands.call("run", "--available-now", **SMALL_BATCHES)
    assert code == 0, errors
    assert "all committed" in errors
    answers = bench.rows(outputs.RESPONSES)
    assert {row.id for row in answers} == {
        f"{CAPTURE}.jsonl:{number}" for number in range(1, sent + 1)
    }
    assert len(answers) == sent
    bench.assert_live_run_equals_replay("a")


def placements_of(bench: JobBench) -> list[placement.Placement]:
    from brokerstream.streaming import job

    return job.placements(bench.settings)


def test_what_is_refused_at_the_edge_and_in_the_job(commands: Commands) -> None:
    bench = commands.bench
    code, _, errors = commands.call("send", "-", text="{}")
    assert code == 2
    assert "Start `brokerstream run` first" in errors

    bench.produce([b"nonsense"], b"a")
    started = commands.start("run")
    commands.wait_for(started, planned=0, committed=0)
    code, _, errors = commands.call("run", "--available-now")
    assert code == 2
    assert "Another job runs on the checkpoint" in errors

    code, out, _ = commands.call("state", "--json")
    assert code == 0
    assert [row["cell"] for row in lines_of(out)] == ["a"]
    code, _, errors = commands.call("state", "--batch", "99")
    assert (code, "have committed; 99 has not" in errors) == (2, True)

    header = {"requestApiKey": 18, "requestApiVersion": 0}
    good = json.dumps({"requestHeader": header, "request": {}})
    text = f'{good}\nnonsense\n{{"kind": "tick"}}\n{good}\n'
    code, out, _ = commands.call("send", "-", text=text)
    assert code == 1
    assert "sent 2 events" in out
    assert "stdin:2" in out
    assert "internal kind from outside" in out

    started.send_signal(signal.SIGINT)
    _, errors = started.communicate(timeout=WAIT_S)
    assert started.returncode == 0, errors

    code, out, _ = commands.call("dead-letters", "list", "--json")
    [letter] = lines_of(out)
    assert (code, letter["reason"], letter["input"]) == (0, "not JSON", "nonsense")
    place = f"{letter['partition']}/{letter['offset']}"
    code, out, _ = commands.call("dead-letters", "show", place)
    assert code == 0
    assert "nonsense" in out
    code, _, errors = commands.call("dead-letters", "show", "9/9")
    assert code == 2
    assert "no dead letter" in errors


def test_a_second_signal_ends_at_once(commands: Commands) -> None:
    """The batch cannot commit: its worker is held."""
    commands.bench.produce([b"{}"] * 10, b"a")
    running = commands.start("run")
    commands.wait_for(running, planned=0, committed=-1)
    frozen = [
        child
        for child in psutil.Process(running.pid).children(recursive=True)
        if "java" in child.name()
    ]
    for java in frozen:
        java.suspend()
    try:
        running.send_signal(signal.SIGTERM)
        time.sleep(1)
        assert running.poll() is None
        running.send_signal(signal.SIGTERM)
        running.wait(10)
        assert running.returncode == 1
    finally:
        for java in frozen:
            java.kill()
    assert checkpoint_log.committed(commands.bench.checkpoint) == checkpoint_log.NONE
