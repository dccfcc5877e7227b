"""The job and the live audit on a standalone Spark cluster: a master and two worker JVMs.

The workers' Python has the libraries in docs/clusters.md and no brokertwin.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest

from brokertwin.kafka_io import jars
from brokertwin.kafka_io.topic_reader import read_all
from brokertwin.settings import default_home
from brokertwin.state.core import outputs
from brokertwin.streaming.checkpoint import checkpoint_log
from brokertwin.streaming.job.session import COMPILE_ONCE
from tests.support.commands import Commands
from tests.support.documents import the_command
from tests.support.environments import environment_with
from tests.support.example_live import halves, in_partitions, send
from tests.support.jobs import JobBench, capture
from tests.support.live import LiveTopics
from tests.support.patience import wait_until
from tests.support.standalone_clusters import WORKERS, standalone

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SUBMIT_TIMEOUT_S = 600
MASTER, OPTION = "spark://HOST:7077", "--executor-memory 4g"
"""Placeholders in docs/clusters.md."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of the cluster; each worker has a subdirectory."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def workers_python(directory: Path) -> str:
    python = environment_with(directory / "python", ["msgspec", "pandas", "pyarrow"])
    done = subprocess.run([python, "-c", "import brokertwin"], capture_output=True, cwd="/")
    assert done.returncode != 0
    return str(python)


@pytest.fixture(scope="module")
def cluster(directory: Path) -> Iterator[str]:
    """The URL of the master; each worker has one core."""
    with standalone(directory) as running:
        yield running.url


@pytest.fixture
def bench(kafka: str, tmp_path: Path) -> JobBench:
    made = JobBench(kafka, tmp_path)
    made.send("a", capture("fetch_session_assign", made.edge("a")))
    return made


def applications(directory: Path) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for worker in WORKERS:
        for shipped in (directory / worker).glob("app-*/*/packages.zip"):
            found.setdefault(shipped.parent.parent.name, set()).add(worker)
    return found


def executor_heaps(directory: Path, application: str) -> set[str]:
    log = (directory / "cluster.log").read_text(errors="replace")
    lines = [line for line in log.splitlines() if "Launch command" in line and application in line]
    return {heap for line in lines for heap in re.findall(r"-Xmx\w+", line)}


def assert_completed(bench: JobBench) -> None:
    events = capture("fetch_session_assign", bench.edge("a"))
    assert {row.id for row in bench.rows(outputs.RESPONSES)} == {event.id for event in events}
    bench.assert_live_run_equals_replay("a")


def test_executors_get_the_packages_and_respond_like_one_process(
    bench: JobBench, cluster: str, directory: Path, workers_python: str
) -> None:
    before = applications(directory)
    typed = the_command("docs/clusters.md", "brokertwin run --master spark").text
    words = shlex.split(typed.replace(MASTER, cluster).removeprefix("brokertwin "))
    commands = Commands(bench)
    try:
        code, _, errors = commands.call(*words, "--available-now", PYSPARK_PYTHON=workers_python)
    finally:
        commands.close()
    assert code == 0, errors
    assert_completed(bench)
    (ran,) = applications(directory).keys() - before.keys()
    assert applications(directory)[ran] == set(WORKERS)
    assert executor_heaps(directory, ran) == {"-Xmx512M"}, "what --spark-conf asks for"


def test_the_other_worker_goes_on_after_one_is_killed(
    bench: JobBench, workers_python: str, tmp_path: Path
) -> None:
    """A worker and its executor end in the middle of the micro-batches."""
    commands = Commands(bench)
    with standalone(tmp_path) as own:
        words = ("run", "--master", own.url, "--available-now")
        small = {"BROKERTWIN_MAX_OFFSETS_PER_TRIGGER": "60"}
        try:
            job = commands.start(*words, PYSPARK_PYTHON=workers_python, **small)
            commands.wait_for(job, planned=1, committed=0)
            wait_until(lambda: len(own.executors()) == len(WORKERS))
            killed = own.kill_worker(0)
            _, errors = job.communicate(timeout=SUBMIT_TIMEOUT_S)
        finally:
            commands.close()
    assert len(killed) == 1
    assert job.returncode == 0, errors
    assert checkpoint_log.committed(bench.checkpoint) > 2, "it was not near the end"
    assert_completed(bench)


def submit(bench: JobBench, cluster: str, *given: str, **environment: str) -> tuple[int, str]:
    """Type what docs/clusters.md says; its exit code and all that it said.

    Args:
        bench: the job.
        cluster: the master's URL.
        given: further options of spark-submit, in the place of the document's one.
        environment: variables.
    """
    text = f"{the_command('docs/clusters.md', 'spark-submit').text} --available-now"
    for placeholder, value in ((MASTER, cluster), (OPTION, shlex.join(given))):
        assert placeholder in text
        text = text.replace(placeholder, value)
    scripts = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-c", text],
        env={
            **Commands(bench).environment,
            "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_SUBMIT_OPTS": COMPILE_ONCE,
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=SUBMIT_TIMEOUT_S,
    )
    return done.returncode, done.stdout + done.stderr  # it puts a program's errors in its output


def test_spark_submit_sets_master_and_configuration(
    bench: JobBench, cluster: str, directory: Path, workers_python: str
) -> None:
    """They go before BROKERTWIN_MASTER, which is local here."""
    before = applications(directory)
    code, output = submit(
        bench,
        cluster,
        *("--total-executor-cores", "1"),
        *("--conf", f"spark.pyspark.python={workers_python}"),
        *("--conf", f"spark.pyspark.driver.python={sys.executable}"),
        BROKERTWIN_MASTER="local[2]",
    )
    assert code == 0, output[-8000:]
    assert "all committed" in output
    assert "Traceback" not in output
    assert_completed(bench)
    (ran,) = applications(directory).keys() - before.keys()
    assert len(applications(directory)[ran]) == 1, "of the two cores one was asked for"


def test_spark_submit_may_bring_the_connector(
    bench: JobBench, cluster: str, directory: Path, workers_python: str, tmp_path: Path
) -> None:
    """As `--packages` does after its download: then no other is fetched."""
    before = applications(directory)
    connector = jars.fetch(jars.connector_jars(), default_home())
    home = tmp_path / "home"
    code, output = submit(
        bench,
        cluster,
        *("--jars", ",".join(map(str, connector))),
        BROKERTWIN_HOME=str(home),
        PYSPARK_PYTHON=workers_python,
        PYSPARK_DRIVER_PYTHON=sys.executable,
    )
    assert code == 0, output[-8000:]
    assert "all committed" in output
    assert not (home / "jars").exists()
    assert_completed(bench)
    (ran,) = applications(directory).keys() - before.keys()
    assert applications(directory)[ran] == set(WORKERS)


def test_a_live_audit_finds_what_one_process_finds(
    bench: JobBench, cluster: str, directory: Path, tmp_path: Path
) -> None:
    libraries = [*(requires("brokertwin") or ()), "pandas", "pyarrow"]
    python = environment_with(directory / "python-of-live", libraries)
    lines = [each for half in halves() for each in half]
    send(bench.client, "exchanges", lines, 2)
    before = applications(directory)
    commands = Commands(bench)
    places = ("--checkpoint", str(bench.checkpoint), "--tables", str(tmp_path / "tables"))
    heap = ("--spark-conf", "spark.executor.memory=512m")
    words = ("live", "--topic", "exchanges", *places, "--master", cluster, *heap)
    try:
        code, _, errors = commands.call(*words, "--available-now", PYSPARK_PYTHON=str(python))
    finally:
        commands.close()
    assert code == 0, errors
    alone = LiveTopics()
    alone.batch(in_partitions("exchanges", lines, 2))
    alone.end()
    found = [json.loads(row.value or b"") for row in read_all(bench.client, "live.findings")]
    assert by_id(alone.findings)
    assert by_id(found) == by_id(alone.findings)
    (ran,) = applications(directory).keys() - before.keys()
    assert applications(directory)[ran] == set(WORKERS)


def by_id(findings: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in findings}
