"""A standalone cluster of Spark: a master and its workers, each in a separate JVM."""

import importlib.util
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from brokertwin.streaming.job.session import COMPILE_ONCE
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.typed_commands import free_port

HOST = "127.0.0.1"
DEPLOY = "org.apache.spark.deploy"
EXECUTOR = "CoarseGrainedExecutorBackend"
WORKERS = ("w1", "w2")


class Standalone(NamedTuple):
    """A cluster that runs.

    Attributes:
        directory: each worker has its own below it, and `cluster.log` what all of them say.
        nodes: the processes of master and workers.
    """

    url: str
    directory: Path
    nodes: Sequence["subprocess.Popen[bytes]"]

    def executors(self) -> list[psutil.Process]:
        return [each for node in self.nodes for each in _executors_of(node)]

    def kill_worker(self, number: int) -> list[psutil.Process]:
        """Kill -9 of a worker and its executors, as if its machine had failed."""
        worker = self.nodes[1 + number]
        executors = _executors_of(worker)
        worker.kill()
        worker.wait(PATIENCE_S)
        for each in executors:
            with suppress(psutil.NoSuchProcess):
                for one in [*each.children(recursive=True), each]:
                    one.kill()
        return executors


def _executors_of(node: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    processes = []
    for each in psutil.Process(node.pid).children() if node.poll() is None else ():
        with suppress(psutil.Error):
            if any(EXECUTOR in word for word in each.cmdline()):
                processes.append(each)
    return processes


@contextmanager
def standalone(directory: Path) -> Iterator[Standalone]:
    """A master and the workers, each of one core, until the end.

    They and their executors live for a minute: none of it compiles its classes twice.
    """
    port = str(free_port())
    url = f"spark://{HOST}:{port}"
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    command = [str(Path(spec.origin).parent / "bin" / "spark-class")]
    node = ["--host", HOST, "--webui-port", "0"]
    starts = [[f"{DEPLOY}.master.Master", *node, "--port", port]]
    for name in WORKERS:
        resources = ["-c", "1", "-m", "1g", "-d", str(directory / name)]
        starts.append([f"{DEPLOY}.worker.Worker", *node, *resources, url])
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": HOST,
        "SPARK_NO_DAEMONIZE": "1",
        "JAVA_TOOL_OPTIONS": COMPILE_ONCE,  # executors have a worker's environment
    }
    log = directory / "cluster.log"
    with log.open("wb") as out:
        nodes = [
            subprocess.Popen([*command, *start], stdout=out, stderr=out, env=environment)
            for start in starts
        ]
        try:
            wait_until(lambda: _registered(log) == len(WORKERS), f"no cluster, {log}")
            yield Standalone(url, directory, nodes)
        finally:
            for one in nodes:
                one.terminate()
            for one in nodes:
                one.wait(PATIENCE_S)


def _registered(log: Path) -> int:
    return log.read_text(errors="replace").count("Successfully registered with master")
