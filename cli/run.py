"""`brokerstream run`: the long-running job."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from brokerstream.cli.options import (
    Bootstrap,
    BrokerConfig,
    BrokerSet,
    ConfigFile,
    KafkaConfig,
    Prefix,
    settings_of,
    typed_broker_settings,
)
from brokerstream.cli.output import err, say_at, warn

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from brokerstream.settings import Settings
    from brokerstream.state.core.settings import BrokerSettings
    from brokerstream.streaming.job import Job
    from brokerstream.streaming.measures import Progress
    from brokerstream.streaming.runner import Ended, Observer, Stop

NOT_CLEAN = 1

Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint", metavar="DIR", help="Where the state lies; made at the first start."
    ),
]
Clusters = Annotated[
    list[str] | None,
    typer.Option("--cluster", metavar="NAME", help="A cluster to hold; repeatable."),
]
Cells = Annotated[
    int | None,
    typer.Option("--cells", metavar="N", help="Cells of each cluster; a checkpoint fixes it."),
]
Trigger = Annotated[
    str | None,
    typer.Option("--trigger", metavar="TIME", help='Between micro-batches, as in "2 seconds".'),
]
EventTime = Annotated[
    str | None,
    typer.Option(
        "--event-time",
        metavar="append|recorded",
        help="Clamp event times to Kafka's LogAppendTime, or take them as written (no clock).",
    ),
]
AvailableNow = Annotated[
    bool,
    typer.Option(
        "--available-now",
        help="End when the topic's end is committed and no request waits any more.",
    ),
]
Snapshots = Annotated[
    Path | None,
    typer.Option(
        "--snapshots",
        metavar="DIR",
        help="Write a Parquet snapshot of the committed offsets there at the end.",
    ),
]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        metavar="PORT",
        help="Serve the progress for Prometheus at http://127.0.0.1:PORT/metrics.",
    ),
]
Master = Annotated[
    str | None, typer.Option("--master", metavar="URL", help="Spark master; local[*] by default.")
]
StopTimeout = Annotated[
    float | None,
    typer.Option(
        "--stop-timeout",
        metavar="SECONDS",
        help="How long SIGTERM and SIGINT wait for the running batch's commit.",
    ),
]


def command(
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    checkpoint: Checkpoint = None,
    cluster: Clusters = None,
    cells: Cells = None,
    trigger: Trigger = None,
    event_time: EventTime = None,
    available_now: AvailableNow = False,
    snapshots: Snapshots = None,
    metrics_port: MetricsPort = None,
    master: Master = None,
    stop_timeout: StopTimeout = None,
    broker_set: BrokerSet = None,
    broker_config: BrokerConfig = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
) -> None:
    """Run the job: requests in, responses, offsets and records out.

    Creates its topics and checks those that are there. With --available-now and no new event it
    ends after that, in seconds and without Spark. SIGTERM or SIGINT lets the running
    micro-batch commit; a second signal stops at once. The exit code is 0 only if every planned
    micro-batch has committed.
    """
    settings = settings_of(
        config,
        bootstrap=bootstrap,
        prefix=prefix,
        checkpoint=checkpoint,
        clusters=tuple(cluster) if cluster else None,
        cells=cells,
        trigger=trigger,
        event_time=event_time,
        master=master,
        stop_timeout_s=stop_timeout,
        kafka_config=kafka_config,
    )
    given = typed_broker_settings(broker_config, broker_set)
    ended = _run(settings, given, available_now, snapshots, metrics_port)
    if not ended.is_clean:
        say_at(
            f"batch {ended.planned} was planned and has not committed; it runs at the next start"
        )
        raise typer.Exit(NOT_CLEAN)
    say_at(f"{ended.committed + 1} micro-batches, all committed")


def _run(
    settings: "Settings",
    given: "BrokerSettings",
    available_now: bool,
    snapshots: Path | None,
    metrics_port: int | None,
) -> "Ended":
    """Prepare, run, and take the snapshot at the end. Exits where the query fails."""
    from brokerstream.streaming import runner
    from brokerstream.streaming.session import session_when_needed
    from brokerstream.streaming.snapshots import take

    stop = runner.Stop(settings.stop_timeout_s)
    _heed_signals(stop)
    with ExitStack() as stack:
        job = stack.enter_context(runner.prepared(settings, given, say_at))
        for warning in job.client.warnings():
            warn(warning)
        say_at(f"checkpoint {settings.checkpoint_dir}, Kafka {job.client.bootstrap}")
        session = stack.enter_context(session_when_needed(settings, say_at))
        if available_now and runner.has_nothing_to_do(job, session):
            say_at("nothing to read: the job ends without starting Spark")
            ended = runner.ended(settings.checkpoint_dir)
        else:
            session()
            _heed_signals(stop)  # PySpark has put its own in place
            observe = stack.enter_context(_observed(metrics_port))
            ended = _query(job, stop, available_now, observe, session())
        if snapshots is not None and ended.committed >= 0:
            manifest = take(settings.checkpoint_dir, snapshots, session=session)
            say_at(f"snapshot of {manifest.row_count} offsets: {snapshots / manifest.file}")
        return ended


def _query(
    job: "Job", stop: "Stop", available_now: bool, observe: "Observer", session: "SparkSession"
) -> "Ended":
    """Run the query. Exits where it fails."""
    from brokerstream.streaming import runner

    try:
        return runner.run(job, stop, available_now, observe, session)
    except runner.QueryFailed as failed:
        say_at(f"The query failed: {failed}")
        raise typer.Exit(NOT_CLEAN) from None


@contextmanager
def _observed(metrics_port: int | None) -> "Iterator[Observer]":
    """Shows progress here and, if asked for, to Prometheus."""
    from brokerstream.cli.live import Live
    from brokerstream.cli.metrics import Metrics, served

    metrics = Metrics()
    with ExitStack() as stack:
        if metrics_port is not None:
            stack.enter_context(served(metrics, metrics_port))
        live = stack.enter_context(Live(err))

        def observe(progress: "Progress") -> None:
            live.show(progress)
            metrics.show(progress)

        yield observe


def _heed_signals(stop: "Stop") -> None:
    """The first SIGTERM or SIGINT asks for an end in order, the second ends the process."""

    def heed(number: int, _frame: FrameType | None) -> None:
        if stop.wanted.is_set():
            err.show_cursor(True)
            os._exit(NOT_CLEAN)
        stop.wanted.set()
        say_at(
            f"{signal.Signals(number).name}: waiting for the running micro-batch; once more: now"
        )

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, heed)
