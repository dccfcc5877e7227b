"""`brokertwin connect`: Kafka Connect workers that copy files to topics and topics to files."""

import signal
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from brokertwin.cli.clients.threads import ShowThreads, ThreadTimeline
from brokertwin.cli.options import Bootstrap, ConfigFile, KafkaConfig, settings_of
from brokertwin.cli.output import say, warn
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.clients.connect.worker_config import WorkerConfig

ConnectMode = Literal["standalone", "distributed"]
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
    worker: WorkerKind = "standalone",
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
    from brokertwin.clients.io.connect.distributed import DistributedWorker
    from brokertwin.clients.io.connect.standalone import StandaloneWorker
    from brokertwin.clients.io.connect.workers import Workers

    if worker == "standalone" and workers > 1:
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
        kind = StandaloneWorker if worker == "standalone" else DistributedWorker
        names = [f"worker {number + 1}" for number in range(workers)]
        made = [kind(kafka, known, connectors, name) for name in names]
    except ConnectorConfigError as error:
        raise UserError(str(error)) from None
    timeline, over = ThreadTimeline(threads, names), Event()
    running = Workers(made, warn, timeline.note)
    before = signal.signal(signal.SIGTERM, lambda *_: over.set())
    try:
        running.wait(over, timeout)
    except KeyboardInterrupt:
        say("stopping the tasks")
    finally:
        running.stop()
        signal.signal(signal.SIGTERM, before)
    timeline.show()
    for name, count in sorted(running.moved().items()):
        say(f"{name}: {counted(count, 'line')}")
    running.check()
    if running.failed:
        raise typer.Exit(1)


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
