"""The response time of a gateway with a job, in micro-batches of one event.

    python bench/round_trip.py [--seconds 30] [--connections 1 25]

A real Kafka broker, a job of one cluster and a gateway in front of it, each in its own process.
Each connection sends a Produce, waits for its response, checks it (gateway_load.py), and sends the
next. `floor` is the median duration of the micro-batches with a single connection, which have one
event each. Other medians are also given as multiples of it.
"""

import argparse
import contextlib
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from gateway_load import Load

from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home

CLUSTER = "bench"
WARM_UP_S = 20.0
START_S = 300.0
POLL_S = 0.05


class Batches(threading.Thread):
    """Records the duration of each micro-batch from the job's metrics."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.seconds: dict[float, float] = {}
        self._url = url
        self._has_ended = threading.Event()

    def run(self) -> None:
        """Poll until `stop`."""
        while not self._has_ended.wait(POLL_S):
            figures = metrics(self._url)
            if "brokertwin_batch_seconds" in figures:
                number = figures["brokertwin_batch"]
                self.seconds[number] = figures["brokertwin_batch_seconds"]

    def stop(self) -> float:
        """Return the median in s."""
        self._has_ended.set()
        self.join()
        return statistics.median(self.seconds.values())


def read(url: str) -> str:
    """Return a page of the job. Raises OSError."""
    with urllib.request.urlopen(url, timeout=10) as page:
        text: str = page.read().decode()
    return text


def metrics(url: str) -> dict[str, float]:
    """Return a page of metrics; for those with labels, the last one."""
    lines = read(url).splitlines()
    pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name.partition("{")[0]: float(value) for name, value in pairs}


def connect(port: int) -> None:
    """Check that the port accepts connections. Raises OSError."""
    socket.create_connection(("127.0.0.1", port)).close()


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextlib.contextmanager
def command(*arguments: str, is_ready: Callable[[], object]) -> Iterator[None]:
    """Run a brokertwin command in a process; `is_ready` raises OSError until it is ready."""
    process = subprocess.Popen((sys.executable, "-m", "brokertwin", *arguments))
    try:
        until = time.monotonic() + START_S
        while True:
            try:
                is_ready()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.2)
        yield
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 25])
    given = parser.parse_args()
    http, port = free_port(), free_port()
    url = f"http://127.0.0.1:{http}"
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kafka = EmbeddedKafka(directory / "kafka", default_home())
        stack.callback(kafka.stop)
        job = ("--bootstrap", kafka.start(), "--prefix", CLUSTER)
        run = ("run", *job, "--cluster", CLUSTER, "--checkpoint", str(directory / "checkpoint"))
        listens = ("--http-listen", f"127.0.0.1:{http}")
        stack.enter_context(command(*run, *listens, is_ready=lambda: read(f"{url}/readyz")))
        gateway = ("gateway", *job, "--engine", "spark", "--cluster", CLUSTER)
        listens = ("--listen", f"127.0.0.1:{port}")
        stack.enter_context(command(*gateway, *listens, is_ready=lambda: connect(port)))
        Load("127.0.0.1", port, max(given.connections), 100).run("produce", WARM_UP_S)
        floor = None
        for connections in given.connections:
            load = Load("127.0.0.1", port, connections, 100)
            batches = Batches(f"{url}/metrics")
            batches.start()
            result = load.run("produce", given.seconds)
            batch = batches.stop()
            floor = floor or batch
            median = statistics.median(result.latencies)
            print(
                f"{connections:4} connections: {result.rate:7.1f} requests/s, micro-batches of"
                f" {batch:.2f} s, median {median:.2f} s, {median / floor:.1f} floors",
                flush=True,
            )


if __name__ == "__main__":
    main()
