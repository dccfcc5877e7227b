"""Java's workers of Connect in separate processes, called over HTTP."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from tests.support.connect_commands import properties
from tests.support.kafka_tools import connect_command
from tests.support.patience import PATIENCE_S
from tests.support.typed_commands import free_port

MAIN = "org.apache.kafka.connect.cli.ConnectDistributed"
RESPONSE_S = 120
"""Timeout of a worker for a response over HTTP; Kafka's own limit is 90 s."""


class JavaWorker:
    """One `ConnectDistributed`; its output is in a file beside its properties.

    Args:
        directory: where both files are.
        settings: the worker's, by Kafka's names, but for `listeners`.
    """

    def __init__(self, directory: Path, settings: Mapping[str, object]) -> None:
        self.port = free_port()
        listeners = {"listeners": f"http://localhost:{self.port}"}
        file = properties(directory / f"java-{self.port}.properties", {**settings, **listeners})
        self._output_path = file.with_suffix(".txt")
        with self._output_path.open("w") as given:
            self._java = subprocess.Popen(
                [*connect_command(), MAIN, str(file)], stdout=given, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def is_up(self) -> bool:
        """Whether it is in its group: before that it answers nothing."""
        return self.requested("/connectors") is not None

    def put(self, path: str, document: object) -> None:
        """A PUT. Raises HTTPError, URLError, ConnectionError."""
        body = json.dumps(document).encode()
        headers = {"Content-Type": "application/json"}
        request = Request(self._url(path), data=body, headers=headers, method="PUT")
        with urlopen(request, timeout=RESPONSE_S):
            pass

    def requested(self, path: str) -> Any:
        """Return the result of a GET; None if it does not exist yet."""
        try:
            with urlopen(self._url(path), timeout=RESPONSE_S) as response:
                return json.load(response)
        except (HTTPError, URLError, ConnectionError):
            return None

    def tasks(self, connector: str) -> list[tuple[str, int]]:
        """The tasks of a connector by number: the state, and the port of the worker."""
        found = self.requested(f"/connectors/{connector}/status") or {"tasks": []}
        tasks = sorted(found["tasks"], key=lambda each: int(each["id"]))
        return [(each["state"], int(each["worker_id"].rpartition(":")[2])) for each in tasks]

    def kill(self) -> None:
        """It dies (kill -9)."""
        with self._java:
            self._java.kill()

    def end(self) -> int:
        """Send SIGTERM; return the exit code.

        Raises TimeoutExpired after it has printed the output and the stacks of the threads.
        """
        self._java.terminate()
        try:
            return self._java.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._java.send_signal(signal.SIGQUIT)  # it tells where its threads are
            time.sleep(5)
            sys.stdout.write(self._output_path.read_text(encoding="utf-8"))
            raise

    def _url(self, path: str) -> str:
        return f"http://localhost:{self.port}{path}"
