"""Java's Admin at two brokers, driven by `AdminCalls.java` beside this file."""

import json
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tests.support.admin_sides import Act, Call, call
from tests.support.kafka_tools import java_command

DRIVER = Path(__file__).with_name("AdminCalls.java")


class AdminProcess:
    """One JVM with an Admin for each broker.

    Args:
        bootstraps: where the brokers are.
        acts: actions of other clients in the table, by name.
    """

    def __init__(self, bootstraps: Sequence[str], acts: Mapping[str, Act]) -> None:
        command = [*java_command(), "-Dlog4j2.level=OFF", str(DRIVER), *bootstraps]
        self._java = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )
        self._turn = threading.Lock()
        names, methods = self._read()
        self.methods = set(methods)
        self.steps: list[Call | Act] = [
            call(method, about, number) if method else acts[about]
            for number, (method, about) in enumerate(names)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._java:
            self._java.kill()

    def _read(self) -> Any:
        assert self._java.stdout is not None
        line = self._java.stdout.readline()
        assert line, "Java has ended"
        return json.loads(line)

    def send(self, side: int, number: int) -> Any:
        """Return the result of a call of the table at one of the brokers."""
        with self._turn:
            assert self._java.stdin is not None
            self._java.stdin.write(f"{side} {number}\n")
            self._java.stdin.flush()
            return self._read()


class JavaAdmin:
    """An Admin of such a process: its methods take the number of a call in the table."""

    def __init__(self, process: AdminProcess, side: int) -> None:
        self._process, self._side = process, side

    def __getattr__(self, method: str) -> Callable[[int], Any]:
        return lambda number: self._process.send(self._side, number)
