"""Agents that ship growing log files to a topic: rsyslog, or a thread where it is not installed."""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Producer

from tests.support.patience import PATIENCE_S
from tests.support.sources import ROOT

CONFIGURATION = ROOT / "docker" / "rsyslog.conf"
OFTEN_S = 0.05


@contextmanager
def shipped(
    logs: Mapping[str, Path], bootstrap: str, topic: str, directory: Path
) -> Iterator[None]:
    """Ship the lines of files, given by the name of their host, until the end of the block."""
    with ExitStack() as stack:
        for host, log in logs.items():
            agent = _rsyslog if _has_rsyslog() else _thread
            stack.enter_context(agent(host, log, bootstrap, topic, directory / host))
        yield


def _has_rsyslog() -> bool:
    program = shutil.which("rsyslogd")
    if program is None:
        return False
    words = [program, "-N1", "-f", str(CONFIGURATION)]
    places = {
        "STATE": "/tmp",
        "REQUEST_LOG": "/tmp/x",
        "BROKER": "x",
        "BOOTSTRAP": "x",
        "TOPIC": "x",
    }
    return not subprocess.run(words, env={**os.environ, **places}, capture_output=True).returncode


@contextmanager
def _rsyslog(host: str, log: Path, bootstrap: str, topic: str, state: Path) -> Iterator[None]:
    """An rsyslogd as it runs beside a broker."""
    state.mkdir(parents=True)
    places = {"REQUEST_LOG": str(log), "BROKER": host, "BOOTSTRAP": bootstrap, "TOPIC": topic}
    words = ["rsyslogd", "-n", "-i", str(state / "pid"), "-f", str(CONFIGURATION)]
    with (state / "output").open("wb") as output:
        process = subprocess.Popen(
            words, env={**os.environ, **places, "STATE": str(state)}, stdout=output, stderr=output
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


@contextmanager
def _thread(host: str, log: Path, bootstrap: str, topic: str, _state: Path) -> Iterator[None]:
    """The same of complete lines, by a thread."""
    ended = threading.Event()

    def ship() -> None:
        writer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        with log.open(encoding="utf-8") as lines:
            rest = ""
            while not ended.wait(OFTEN_S):
                *whole, rest = (rest + lines.read()).split("\n")
                for line in whole:
                    wrapped = json.dumps({"host": {"name": host}, "message": line})
                    writer.produce(topic, wrapped, host)
                    writer.poll(0)
        assert writer.flush(PATIENCE_S) == 0

    thread = threading.Thread(target=ship)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
