"""The console script in separate processes, with the topics and checkpoint of one job."""

import contextlib
import json
import os
import subprocess
import time
from typing import Any

import psutil

from brokertwin.settings import default_home
from brokertwin.streaming.checkpoint import checkpoint_log
from tests.support.console import command
from tests.support.jobs import JobBench
from tests.support.patience import PATIENCE_S

WAIT_S = PATIENCE_S


class Commands:
    """Runs commands against the topics and the checkpoint of one job."""

    def __init__(self, bench: JobBench) -> None:
        self.bench = bench
        self.running: list[subprocess.Popen[str]] = []
        self.environment = {
            **os.environ,
            "BROKERTWIN_HOME": str(default_home()),
            "BROKERTWIN_BOOTSTRAP": str(bench.flags["bootstrap"]),
            "BROKERTWIN_PREFIX": bench.prefix,
            "BROKERTWIN_CHECKPOINT": str(bench.checkpoint),
            "BROKERTWIN_CLUSTERS": "a",
            "BROKERTWIN_MASTER": "local[2]",
            "BROKERTWIN_SHUFFLE_PARTITIONS": "2",
            "BROKERTWIN_REQUESTS_PARTITIONS": "3",
            "BROKERTWIN_RESPONSES_PARTITIONS": "2",
            "BROKERTWIN_RECORDS": "true",
        }

    def start(self, *arguments: str, **environment: str) -> "subprocess.Popen[str]":
        """Start `brokertwin` in a separate process."""
        process = subprocess.Popen(
            command(*arguments),
            env={**self.environment, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.running.append(process)
        return process

    def call(self, *arguments: str, text: str = "", **environment: str) -> tuple[int, str, str]:
        process = self.start(*arguments, **environment)
        out, errors = process.communicate(text, timeout=WAIT_S)
        return process.returncode, out, errors

    def close(self) -> None:
        for process in self.running:
            kill_tree(process)

    def wait_for(self, process: "subprocess.Popen[str]", planned: int, committed: int) -> None:
        """Wait until this number of micro-batches is planned and committed."""
        checkpoint = self.bench.checkpoint
        deadline = time.monotonic() + WAIT_S
        while (
            checkpoint_log.planned(checkpoint) < planned
            or checkpoint_log.committed(checkpoint) < committed
        ):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)


def lines_of(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def kill_tree(process: "subprocess.Popen[str]") -> None:
    """Kill -9 of a command, its JVM and its Python workers, all at once."""
    if process.poll() is None:
        parent = psutil.Process(process.pid)
        for one in [*parent.children(recursive=True), parent]:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
    process.communicate(timeout=WAIT_S)
