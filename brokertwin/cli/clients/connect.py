"""`brokertwin connect`: Kafka Connect workers that copy files to topics and topics to files."""

import signal
import threading
import time
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.clients.threads import ShowThreads, ThreadTimeline
from brokertwin.cli.options import Bootstrap, ConfigFile, KafkaConfig, settings_of
from brokertwin.cli.output import say, warn
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.clients.connect.worker_config import WorkerConfig
    from brokertwin.clients.io.connect.distributed import DistributedWorker
    from brokertwin.clients.io.connect.standalone import StandaloneWorker
    from brokertwin.clients.io.connect.threads import Threads
    from brokertwin.kafka_io.kafka_clients import ClientProperties

LOOK_S = 0.05
JOIN_S = 60.0
TRACE_LINES = 1


class ConnectMode(StrEnum):
    """Standalone, or a member of a worker group."""

    STANDALONE = "standalone"
    DISTRIBUTED = "distributed"


Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE…",
        help="Property files of connectors, and the worker's: the one without connector.class.",
    ),
]
WorkerKind = Annotated[
    ConnectMode,
    typer.Option(
        "--worker",
        help="standalone: one worker that stores positions in a file. distributed: a member of a"
        " group (group.id) that stores everything in topics.",
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        "--workers", min=1, help="Number of workers to run here, with --worker distributed."
    ),
]
Idle = Annotated[
    float | None,
    typer.Option(
        "--timeout", min=0.1, metavar="SECONDS", help="Stop if nothing was copied for SECONDS."
    ),
]


def command(
    files: Files,
    worker: WorkerKind = ConnectMode.STANDALONE,
    workers: Workers = 1,
    timeout: Idle = None,
    threads: ShowThreads = False,
    bootstrap: Bootstrap = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
) -> None:
    """Run Kafka Connect workers with FileStreamSource and FileStreamSink connectors.

    The property files are those of Kafka's connect-standalone and connect-distributed. Ctrl-C stops
    the tasks, stores their positions and leaves the group. Workers with the same group.id share
    connectors and tasks, also with Java workers. Tasks of a worker that died are reassigned after
    scheduled.rebalance.max.delay.ms. With exactly.once.source.support=enabled in the worker's file,
    read_committed consumers see each line exactly once. Exits with code 1 if tasks failed.
    """
    from brokertwin.cli.clients.client_access import accessible
    from brokertwin.clients.connect.file_stream import ConnectorConfigError
    from brokertwin.clients.connect.worker_config import connection_properties

    if worker is ConnectMode.STANDALONE and workers > 1:
        raise UserError(
            "A standalone worker has no group: --workers is not allowed.",
            "Add --worker distributed.",
        )
    connectors, properties = _read(files)
    try:
        known = _worker_config(properties)
        addresses = bootstrap or known.bootstrap_servers or None
        settings = settings_of(config, bootstrap=addresses, kafka_config=kafka_config)
        kafka = accessible(settings, connection_properties(properties))
        made = [_made(worker, kafka, known, connectors, at) for at in range(1, workers + 1)]
    except ConnectorConfigError as error:
        raise UserError(str(error)) from None
    _run_until_stopped(Working(made, threads), timeout)


def _read(files: list[Path]) -> tuple[list[dict[str, str]], dict[str, str]]:
    """Return the connectors' properties and the worker's."""
    from brokertwin.kafka_io.properties import read

    configs = [read(path) for path in files]
    of_workers = [each for each in configs if "connector.class" not in each]
    if len(of_workers) > 1:
        raise UserError(
            "Several property files have no connector.class, but only the worker's may omit it.",
            "Set connector.class=FileStreamSource or FileStreamSink in each connector's file.",
        )
    connectors = [each for each in configs if "connector.class" in each]
    names = [each.get("name", "") for each in connectors]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise UserError(
            f"Several connectors have the name {' and '.join(sorted(twice))}.",
            "Set a unique name in each connector's file.",
        )
    return connectors, of_workers[0] if of_workers else {}


def _worker_config(properties: dict[str, str]) -> "WorkerConfig":
    from brokertwin.clients.connect.worker_config import worker_config

    config, unknown = worker_config(properties)
    if unknown:
        warn(f"worker properties without effect: {', '.join(unknown)}")
    return config


def _made(
    kind: ConnectMode,
    kafka: "ClientProperties",
    config: "WorkerConfig",
    connectors: list[dict[str, str]],
    at: int,
) -> "StandaloneWorker | DistributedWorker":
    from brokertwin.clients.io.connect.distributed import DistributedWorker
    from brokertwin.clients.io.connect.standalone import StandaloneWorker

    if kind is ConnectMode.STANDALONE:
        return StandaloneWorker(kafka, config, connectors, "worker 1")
    return DistributedWorker(kafka, config, connectors, f"worker {at}")


def _run_until_stopped(working: "Working", idle_s: float | None) -> None:
    """Wait for Ctrl-C, SIGTERM, the idle timeout, or a worker's failure."""
    over = threading.Event()
    before = signal.signal(signal.SIGTERM, lambda *_: over.set())
    try:
        moved, heard = 0, time.monotonic()
        while not over.wait(LOOK_S) and not working.is_over:
            if working.moved != moved or not working.has_begun:
                moved, heard = working.moved, time.monotonic()
            if idle_s and time.monotonic() - heard >= idle_s:
                break
    except KeyboardInterrupt:
        say("stopping the tasks")
    finally:
        working.stop()
        signal.signal(signal.SIGTERM, before)
    working.show()


class Working:
    """Workers and their tasks; each worker has a thread."""

    def __init__(
        self,
        workers: "list[StandaloneWorker | DistributedWorker]",
        is_shown: bool,
    ) -> None:
        self._workers = workers
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._error: str | None = None
        self._failed: dict[str, str] = {}
        self._timeline = ThreadTimeline(is_shown, [each.name for each in workers])
        self._threads = [threading.Thread(target=self._run, args=(each,)) for each in workers]
        for thread in self._threads:
            thread.start()

    @property
    def is_over(self) -> bool:
        return self._is_over.is_set()

    @property
    def moved(self) -> int:
        """Number of lines and records that tasks have copied."""
        return sum(sum(list(each.threads.moved.values())) for each in self._workers)

    @property
    def has_begun(self) -> bool:
        busy = [each.threads for each in self._workers if not each.threads.is_empty]
        return bool(busy) and all(threads.have_begun for threads in busy)

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(JOIN_S)

    def show(self) -> None:
        """Print the counts, and the chart if requested. Raises UserError if a worker failed."""
        self._timeline.show()
        counts: dict[str, int] = {}
        for worker in self._workers:
            for item, count in list(worker.threads.moved.items()):
                counts[str(item)] = counts.get(str(item), 0) + count
        for name, count in sorted(counts.items()):
            say(f"{name}: {counted(count, 'line')}")
        if self._error is not None:
            raise UserError(self._error)
        if self._failed:
            raise typer.Exit(1)

    def _run(self, worker: "StandaloneWorker | DistributedWorker") -> None:
        try:
            worker.run(self._is_over.is_set, partial(self._look, worker.name))
        except Exception as error:  # noqa: BLE001 - ends this worker; the command reports it
            self._error = f"{worker.name} stopped: {error}"
        finally:
            self._is_over.set()

    def _look(self, name: str, threads: "Threads") -> None:
        with self._lock:
            for item, trace in list(threads.failed.items()):
                if str(item) not in self._failed:
                    self._failed[str(item)] = trace
                    reason = trace.strip().splitlines()[-TRACE_LINES:]
                    warn(f"{name}: {item} failed: {' '.join(reason)}")
        running = [str(item) for item in threads.running]
        self._timeline.note(name, running, self._is_over.is_set())
        time.sleep(LOOK_S)
