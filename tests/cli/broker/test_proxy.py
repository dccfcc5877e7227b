"""`brokertwin proxy` as a process: faults from a file and over HTTP, and the Node example."""

import json
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import kafka as kafka_python
import pytest
from typer.testing import CliRunner

from brokertwin.cli.main import app
from brokertwin.errors import UserError
from brokertwin.testing import KafkaBroker
from tests.support.console import command
from tests.support.patience import PATIENCE_S
from tests.support.sources import ROOT

FAULTS = """
[[faults]]
effect = "lose"
api = "PRODUCE"

[[faults]]
effect = "fail"
api = "PRODUCE"
error = "NOT_LEADER_OR_FOLLOWER"
nth = 3
"""


class Running(NamedTuple):
    """A proxy that listens; `control` is the URL of its control without a slash."""

    process: "subprocess.Popen[str]"
    bootstrap: str
    control: str

    def end(self) -> str:
        """Stop the proxy; return what it prints at the end."""
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=PATIENCE_S)[1]


@contextmanager
def proxy(broker: str, *words: str) -> Iterator[Running]:
    """A proxy on free ports."""
    words = ("proxy", broker, "--listen", "127.0.0.1:0", "--control-listen", "0", *words)
    environment = {**os.environ, "COLUMNS": "200"}
    with subprocess.Popen(
        command(*words), stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stderr is not None
            control = re.search(r"control at (\S+)/$", process.stderr.readline())
            listening = re.search(r"listening on (\S+),", process.stderr.readline())
            assert control is not None
            assert listening is not None
            yield Running(process, listening[1], control[1])
        finally:
            process.kill()
            process.wait(PATIENCE_S)


def write(bootstrap: str, topic: str, count: int) -> None:
    producer = kafka_python.KafkaProducer(bootstrap_servers=bootstrap, client_id="writer")
    for number in range(count):
        producer.send(topic, b"%d" % number).get(PATIENCE_S)
    producer.close()


@pytest.mark.processes
def test_faults_of_a_file_and_a_recording(tmp_path: Path) -> None:
    (tmp_path / "faults.toml").write_text(FAULTS)
    files = ("--faults", str(tmp_path / "faults.toml"), "--out", str(tmp_path / "out.jsonl"))
    with KafkaBroker(topics=["orders"]) as broker, proxy(broker.bootstrap, *files) as running:
        write(running.bootstrap, "orders", 3)
        with urllib.request.urlopen(f"{running.control}/faults") as response:
            assert [each["hits"] for each in json.load(response)] == [1, 1]
        printed = running.end()
        assert [record.value for record in broker.records("orders")] == [b"0", b"1", b"2"]
    assert "fault 1: PRODUCE response lost: 1 of 5 matching requests" in printed
    assert running.process.returncode == 0
    recorded = [json.loads(line) for line in (tmp_path / "out.jsonl").open(encoding="utf-8")]
    faults = [each["fault"] for each in recorded if "fault" in each]
    assert faults == ["PRODUCE response lost", "PRODUCE fails with NOT_LEADER_OR_FOLLOWER"]


@pytest.mark.node
@pytest.mark.full
@pytest.mark.clients
def test_the_node_example_passes_in_front_of_a_real_kafka(kafka: str, tmp_path: Path) -> None:
    (tmp_path / "orders.test.mjs").write_text(
        (ROOT / "examples/faults/orders.test.mjs").read_text()
    )
    subprocess.run(["npm", "install", "kafkajs@2"], cwd=tmp_path, check=True, timeout=PATIENCE_S)
    with proxy(kafka) as running:
        environment = {**os.environ, "CONTROL": running.control, "BROKER": running.bootstrap}
        done = subprocess.run(
            ["node", "--test", "orders.test.mjs"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE_S,
        )
        assert done.returncode == 0, done.stdout
        assert "# pass 3" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "has no faults to inject. Pass --faults FILE, --control-listen PORT"),
        (["--faults", "missing.toml"], "Cannot read the faults in missing.toml"),
        (["--control-listen", "host:"], "Invalid value of --control-listen: 'host:'"),
        (["--control-listen", "0", "--listen", "x"], "Invalid value of --listen"),
    ],
)
def test_invalid_options(empty_directory: Path, words: list[str], message: str) -> None:
    with KafkaBroker() as broker:
        arguments = [broker.bootstrap, "--listen", "127.0.0.1:0", *words]
        done = CliRunner().invoke(app, ["proxy", *arguments])
    assert isinstance(done.exception, UserError)
    assert message in str(done.exception)
