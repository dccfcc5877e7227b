"""The job on a real standalone Spark cluster: a master and a worker in JVMs of their own."""

import importlib.util
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.commands import Commands
from support.jobs import JobBench, capture

from brokerstream.state.core import outputs

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

DEPLOY = "org.apache.spark.deploy"
WAIT_S = 180


def spark_home() -> Path:
    found = importlib.util.find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The URL of the master; its worker has two cores."""
    url = f"spark://127.0.0.1:{free_port()}"
    command = [str(spark_home() / "bin" / "spark-class")]
    port = url.rpartition(":")[2]
    node = ["--host", "127.0.0.1", "--webui-port", "0"]
    starts = [
        [f"{DEPLOY}.master.Master", *node, "--port", port],
        [f"{DEPLOY}.worker.Worker", *node, "-c", "2", "-m", "1g", "-d", str(tmp_path / "w"), url],
    ]
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    log = tmp_path / "cluster.log"
    with log.open("wb") as out:
        nodes = [
            subprocess.Popen([*command, *start], stdout=out, stderr=out, env=environment)
            for start in starts
        ]
        try:
            deadline = time.monotonic() + WAIT_S
            while "Successfully registered with master" not in log.read_text(errors="replace"):
                assert time.monotonic() < deadline, log.read_text(errors="replace")
                time.sleep(0.2)
            yield url
        finally:
            for one in nodes:
                one.terminate()
            for one in nodes:
                one.wait(WAIT_S)


@pytest.fixture
def bench(kafka: str, tmp_path: Path) -> JobBench:
    """A job with a recording in its requests."""
    made = JobBench(kafka, tmp_path)
    made.send("a", capture("fetch_session_assign", made.edge("a")))
    return made


def assert_the_cluster_answered(bench: JobBench, directory: Path) -> None:
    """Every request as one process answers it, and not here."""
    events = capture("fetch_session_assign", bench.edge("a"))
    assert {row.id for row in bench.rows(outputs.RESPONSES)} == {event.id for event in events}
    bench.assert_live_run_equals_replay("a")
    assert list((directory / "w").rglob("packages.zip")), "the packages were sent to the worker"


def test_the_executors_get_the_packages_and_answer_as_one_process_does(
    bench: JobBench, cluster: str, tmp_path: Path
) -> None:
    commands = Commands(bench)
    try:
        code, _, errors = commands.call("run", "--available-now", "--master", cluster)
    finally:
        commands.close()
    assert code == 0, errors
    assert_the_cluster_answered(bench, tmp_path)
