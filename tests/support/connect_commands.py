"""`brokertwin connect` in separate processes, and the files that they read and write."""

import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from brokertwin.kafka_io.properties import dump
from tests.support.console import command
from tests.support.patience import PATIENCE_S


def properties(path: Path, values: Mapping[str, object]) -> Path:
    path.write_text(dump({name: str(value) for name, value in values.items()}))
    return path


class Files:
    """A source, a sink, and the settings of workers of one group, in a directory."""

    def __init__(self, directory: Path, topic: str, bootstrap: str, **worker: object) -> None:
        self.source, self.copy = directory / "in.txt", directory / "out.txt"
        self.bootstrap = bootstrap
        self.lines = 0
        connectors = [
            {"name": "lines", "connector.class": "FileStreamSource", "topic": topic},
            {
                "name": "copy",
                "connector.class": "FileStreamSink",
                "topics": topic,
                "tasks.max": 2,
                "consumer.override.session.timeout.ms": 6_000,
            },
        ]
        files = (self.source, self.copy)
        self.connectors = [
            properties(directory / f"{each['name']}.properties", {**each, "file": file})
            for each, file in zip(connectors, files, strict=True)
        ]
        self.worker = properties(
            directory / "worker.properties",
            {
                "group.id": f"{topic}-workers",
                "config.storage.topic": f"{topic}-configs",
                "offset.storage.topic": f"{topic}-offsets",
                "status.storage.topic": f"{topic}-status",
                "offset.flush.interval.ms": 200,
                "offset.storage.file.filename": directory / "positions",
                **{name.replace("_", "."): value for name, value in worker.items()},
            },
        )
        self.grow(0)

    def grow(self, lines: int) -> None:
        with self.source.open("a") as file:
            file.writelines(f"line {self.lines + at}\n" for at in range(lines))
        self.lines += lines

    @property
    def expected(self) -> list[str]:
        return sorted(f"line {at}" for at in range(self.lines))

    def copied(self) -> list[str]:
        return sorted(self.copy.read_text().splitlines()) if self.copy.exists() else []

    def is_whole(self) -> bool:
        return set(self.copied()) == set(self.expected)

    def words(self, *more: object) -> list[object]:
        """Arguments after `brokertwin`."""
        named = (self.worker, *self.connectors)
        return ["connect", "--bootstrap", self.bootstrap, *more, *named]


class Process:
    """One `brokertwin connect --worker distributed`."""

    def __init__(self, files: Files, *more: object) -> None:
        words = files.words("--worker", "distributed", *more)
        self._process = subprocess.Popen(
            command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """As kill -9."""
        self._process.kill()
        self._process.communicate(timeout=PATIENCE_S)

    def end(self) -> tuple[int, str]:
        """Interrupt it like Ctrl-C; return its exit code and its output."""
        self._process.send_signal(signal.SIGINT)
        _, output = self._process.communicate(timeout=PATIENCE_S)
        return self._process.returncode, output
