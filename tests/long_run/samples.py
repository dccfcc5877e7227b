"""Measurements of a run: processes, files, the state, micro-batches."""

import contextlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil

from tests.faults.processes import Server
from tests.faults.stand import JAVA, WORKERS, Stand

MIB = 1024 * 1024
EXPLAINED = {
    "kafka.log_mib": "the topic requests is the truth and is kept; gc frees what logs have let go",
}
"""What grows with the load, and why."""


def of_processes(name: str, processes: Iterable[psutil.Process]) -> dict[str, float]:
    """Return memory and open files of some processes in total; ended ones do not count."""
    memory = files = threads = 0
    for one in processes:
        with contextlib.suppress(psutil.Error):
            memory += one.memory_info().rss
            files += one.num_fds()
            threads += one.num_threads()
    return {f"{name}.mib": memory / MIB, f"{name}.files": files, f"{name}.threads": threads}


def of_directory(name: str, directory: Path) -> dict[str, float]:
    """How many files are below a directory, and how large they are."""
    count = size = 0
    for file in directory.rglob("*"):
        with contextlib.suppress(OSError):
            if file.is_file():
                count += 1
                size += file.stat().st_size
    return {f"{name}.count": count, f"{name}_mib": size / MIB}


class Batches:
    """Micro-batches in the job's output, read on from the last position."""

    def __init__(self, job: Server) -> None:
        self._job = job
        self._read = 0

    def newer(self) -> dict[str, float]:
        """The mean of those since the last time; nothing where there was none."""
        with self._job.log.open("rb") as log:
            log.seek(self._read)
            lines = log.read().split(b"\n")
        self._read += sum(len(line) + 1 for line in lines[:-1])
        reported = [found for line in lines[:-1] if (found := _progress(line))]
        if not reported:
            return {}
        return {
            "batch.s": sum(each["seconds"] for each in reported) / len(reported),
            "batch.events": sum(each["events"] for each in reported) / len(reported),
            "batch.lag": max(each["lag"] for each in reported),
            "state.mib": reported[-1]["state_bytes"] / MIB,
        }


def _progress(line: bytes) -> dict[str, Any] | None:
    with contextlib.suppress(ValueError):
        document = json.loads(line)
        if isinstance(document, dict) and document.get("event") == "progress":
            return document
    return None


def sample(stand: Stand, batches: Batches) -> dict[str, float]:
    jvm = stand.job.below(JAVA)
    return {
        **of_processes("driver", [stand.job.process]),
        **of_processes("jvm", jvm),
        **of_processes("workers", [one for one in stand.job.below(WORKERS) if one not in jvm]),
        **of_processes("gateway", [stand.gateway.process]),
        **of_processes("kafka", [stand.kafka_process]),
        **of_directory("checkpoint", stand.bench.checkpoint),
        **of_directory("kafka.log", stand.kafka.home / "data"),
        **batches.newer(),
    }
