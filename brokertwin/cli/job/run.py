"""`brokertwin run`: the streaming job."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli import logs
from brokertwin.cli.options import (
    AsJson,
    Bootstrap,
    BrokerConfig,
    BrokerSet,
    ConfigFile,
    HttpAccessFile,
    HttpListen,
    HttpPort,
    KafkaConfig,
    Master,
    Prefix,
    settings_of,
    typed_broker_settings,
)
from brokertwin.cli.output import err, say_at, show_error, show_json, warn
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from brokertwin.cli.watching.sources import JobSource
    from brokertwin.settings import Settings
    from brokertwin.state.core.settings import BrokerSettings
    from brokertwin.streaming.job.job import StreamingJob
    from brokertwin.streaming.job.measures import QueryProgress
    from brokertwin.streaming.job.runner import Ended, Observer, StopReason

NOT_CLEAN = 1

Checkpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint", metavar="DIR", help="Checkpoint directory; created at the first start."
    ),
]
Clusters = Annotated[
    list[str] | None,
    typer.Option("--cluster", metavar="NAME", help="A cluster of the job; repeatable."),
]
Brokers = Annotated[
    list[str] | None,
    typer.Option(
        "--brokers",
        metavar="[CLUSTER=]N|IDS",
        help="Number of brokers of each cluster, or their ids: 3, 1,2,101, demo=3; repeatable.",
    ),
]
Cells = Annotated[
    int | None,
    typer.Option(
        "--cells",
        metavar="N",
        help="Cells of each cluster, at most one for each broker; fixed once a checkpoint exists.",
    ),
]
Trigger = Annotated[
    str | None,
    typer.Option("--trigger", metavar="TIME", help='Interval of micro-batches: "2 seconds".'),
]
EventTime = Annotated[
    str | None,
    typer.Option(
        "--event-time",
        metavar="append|recorded",
        help="Limit event times to Kafka's LogAppendTime, or use them unchanged.",
    ),
]
Interventions = Annotated[
    bool,
    typer.Option(
        "--interventions",
        help="Accept `brokertwin cluster` commands that change brokers: stop, kill, sever, …",
    ),
]
Records = Annotated[
    bool | None,
    typer.Option(
        "--records/--no-records",
        help="Write every change of durable state to the topic `records`; the default with several"
        " --cells. Without it, `replay --job --records` can rebuild them.",
        show_default=False,
    ),
]
AvailableNow = Annotated[
    bool,
    typer.Option(
        "--available-now",
        help="Stop when all events of the topic are committed and no request is pending. Without"
        " new events it does not start Spark.",
    ),
]
Snapshots = Annotated[
    Path | None,
    typer.Option(
        "--snapshots",
        metavar="DIR",
        help="Directory for snapshots of state and offsets; also takes one at the end.",
    ),
]
SnapshotEvery = Annotated[
    str | None,
    typer.Option(
        "--snapshot-every",
        metavar="N UNIT",
        help='Take snapshots at this interval: "100 batches", "5 minutes".',
    ),
]
SnapshotSuite = Annotated[
    str | None,
    typer.Option(
        "--snapshot-suite",
        metavar="default|FILE",
        help="Set snapshots aside that fail this suite: the built-in one or your own.",
    ),
]
CheckEvery = Annotated[
    str | None,
    typer.Option(
        "--check-every",
        metavar="N UNIT",
        help='Check the job\'s data at this interval, "100 batches", and at the end.',
    ),
]
CheckOn = Annotated[
    str | None,
    typer.Option(
        "--check-on",
        metavar="KIND,…",
        help="What to check: snapshot (the committed offsets; default), state, requests, responses,"
        " records (new rows of these topics).",
    ),
]
CheckSuite = Annotated[
    str | None,
    typer.Option(
        "--check-suite", metavar="default|FILE", help="Suite for these checks; default: built-in."
    ),
]
CheckPolicy = Annotated[
    str | None,
    typer.Option(
        "--check-policy",
        metavar="warn|hold|stop",
        help="After a failed check: warn, hold back snapshots, or stop the job (exit code 3).",
    ),
]
FollowOffsets = Annotated[
    str | None,
    typer.Option(
        "--follow-offsets",
        metavar="HOST:PORT",
        help="Record offsets that groups of another Kafka commit, as `offsets import --follow`.",
    ),
]
FollowInto = Annotated[
    Path | None,
    typer.Option(
        "--follow-into", metavar="DIR", help="Directory for them, for `brokertwin offsets`."
    ),
]
SparkConf = Annotated[
    list[str] | None,
    typer.Option(
        "--spark-conf",
        metavar="NAME=VALUE",
        help="Spark setting such as spark.executor.memory=4g; repeatable.",
    ),
]
SparkUi = Annotated[
    bool, typer.Option("--spark-ui", help="Start Spark's own web UI, on port 4040 or above.")
]
StopTimeout = Annotated[
    float | None,
    typer.Option(
        "--stop-timeout",
        metavar="SECONDS",
        help="Seconds to wait for the running micro-batch at SIGTERM or SIGINT.",
    ),
]


def command(
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    checkpoint: Checkpoint = None,
    cluster: Clusters = None,
    brokers: Brokers = None,
    cells: Cells = None,
    trigger: Trigger = None,
    event_time: EventTime = None,
    interventions: Interventions = False,
    records: Records = None,
    available_now: AvailableNow = False,
    snapshots: Snapshots = None,
    snapshot_every: SnapshotEvery = None,
    snapshot_suite: SnapshotSuite = None,
    check_every: CheckEvery = None,
    check_on: CheckOn = None,
    check_suite: CheckSuite = None,
    check_policy: CheckPolicy = None,
    follow_offsets: FollowOffsets = None,
    follow_into: FollowInto = None,
    http_listen: HttpListen = None,
    http_access: HttpAccessFile = None,
    spark_conf: SparkConf = None,
    spark_ui: SparkUi = False,
    master: Master = None,
    stop_timeout: StopTimeout = None,
    broker_set: BrokerSet = None,
    broker_config: BrokerConfig = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Run the streaming job: reads requests, writes responses and offsets.

    At SIGTERM or SIGINT the running micro-batch is committed before the job stops; a second signal
    stops it at once. The exit code is 0 only if every planned micro-batch was committed.
    """
    settings = settings_of(
        config,
        bootstrap=bootstrap,
        prefix=prefix,
        checkpoint=checkpoint,
        clusters=tuple(cluster) if cluster else None,
        brokers=" ".join(brokers) if brokers else None,
        cells=cells,
        trigger=trigger,
        event_time=event_time,
        interventions=interventions or None,
        records=records,
        snapshots=snapshots,
        snapshot_every=snapshot_every,
        snapshot_suite=snapshot_suite,
        check_every=check_every,
        check_on=check_on,
        check_suite=check_suite,
        check_policy=check_policy,
        follow_offsets=follow_offsets,
        follow_into=follow_into,
        master=master,
        spark_conf=tuple(spark_conf) if spark_conf else None,
        spark_ui=spark_ui or None,
        stop_timeout_s=stop_timeout,
        kafka_config=kafka_config,
    )
    given = typed_broker_settings(broker_config, broker_set)
    ended = _run(settings, given, available_now, HttpPort(http_listen, http_access), as_json)
    if not ended.is_clean:
        warn(f"micro-batch {ended.planned} was not committed; it runs again at the next start")
        raise typer.Exit(NOT_CLEAN)
    say_at(f"{counted(ended.committed + 1, 'micro-batch', 'micro-batches')}, all committed")


def _run(
    settings: "Settings",
    given: "BrokerSettings",
    available_now: bool,
    http: HttpPort,
    as_json: bool,
) -> "Ended":
    """Check, prepare and run the job, and take the last snapshot. Exits if the query fails."""
    from brokertwin.cli.job import run_checks, run_cleaning, run_following, run_snapshots
    from brokertwin.streaming.job import runner
    from brokertwin.streaming.job.session import check_start, session_when_needed

    run_snapshots.check_directory(settings.snapshots_dir)
    run_following.check(settings, available_now)
    stop = runner.StopReason(settings.stop_timeout_s)
    _stop_on_signals(stop)
    with ExitStack() as stack:
        watched = stack.enter_context(_watched(settings, http, stop))
        checks = run_checks.Checks(settings, watched, stop.wanted)
        gate = run_checks.gate(settings)
        check_start(settings, is_spark_certain=not available_now)
        job = stack.enter_context(runner.prepared(settings, given, say_at))
        watched.lag = runner.lag_of(job.client, settings).newest
        for warning in job.client.warnings():
            warn(warning)
        say_at(f"checkpoint {settings.checkpoint_dir}, Kafka {job.client.bootstrap}")
        session = stack.enter_context(session_when_needed(settings, say_at))
        snapshots = run_snapshots.Snapshots(settings, watched, gate, checks.holds)
        if available_now and runner.has_nothing_to_do(job, session):
            say_at("no new events: the job ends without starting Spark")
            ended = runner.ended(settings.checkpoint_dir)
        else:
            checks.begin(job.client)
            session()
            _stop_on_signals(stop)  # replaces PySpark's handlers
            say_at(f"reading {settings.prefix}.requests; Ctrl-C stops after a micro-batch")
            observe = stack.enter_context(_observed(watched, as_json))
            look = stack.enter_context(run_following.following(settings, session))
            cleaning = run_cleaning.Cleaning(job, given, session)
            with (
                checks.while_running(session),
                snapshots.while_running(session),
                cleaning.while_running(),
            ):
                ended = _query(job, stop, available_now, observe, session(), watched, look)
            if available_now:
                cleaning.at_end()
        checks.at_end(session, ended.committed)
        snapshots.at_end(session, ended.committed)
        return ended


def _query(
    job: "StreamingJob",
    stop: "StopReason",
    available_now: bool,
    observe: "Observer",
    session: "SparkSession",
    watched: "JobSource",
    look: "Callable[[], None]",
) -> "Ended":
    """Run the query and call `look` regularly. Exits if the query fails."""
    from brokertwin.streaming.checkpoint import damaged_files
    from brokertwin.streaming.job import runner

    def looked() -> None:
        watched.pulse.beat()
        look()

    try:
        return runner.run(job, stop, available_now, observe, session, looked)
    except runner.QueryFailed as failed:
        found = next(damaged_files.damaged(job.settings.checkpoint_dir), None)
        show_error(found.error() if found else UserError(f"The streaming query failed: {failed}"))
        raise typer.Exit(NOT_CLEAN) from None
    finally:
        watched.pulse.stopping()


@contextmanager
def _watched(settings: "Settings", http: HttpPort, stop: "StopReason") -> "Iterator[JobSource]":
    """Yield the job's status, served over HTTP if there is an address."""
    from brokertwin.cli.watching.server import status_page
    from brokertwin.cli.watching.sources import JobSource

    source = JobSource(settings.prefix, settings.checkpoint_dir, stop.wanted)
    with status_page(source, http, say_at):
        yield source


@contextmanager
def _observed(watched: "JobSource", as_json: bool) -> "Iterator[Observer]":
    """Show progress on the terminal and over HTTP."""
    with ExitStack() as stack:
        show = _as_json if as_json else stack.enter_context(_lines())

        def observe(progress: "QueryProgress") -> None:
            show(progress)
            watched.observe(progress)

        yield observe


def _as_json(progress: "QueryProgress") -> None:
    """Print progress as a JSON line."""
    show_json(progress.document())


@contextmanager
def _lines() -> "Iterator[Observer]":
    """Show progress on standard error: a table, lines, or log lines."""
    from brokertwin.cli.job.live import Live

    if logs.is_json():
        yield lambda progress: logs.write("info", "progress", **progress.document())
    elif logs.shows("info"):
        with Live(err) as live:
            yield live.show
    else:
        yield lambda _: None


def _stop_on_signals(stop: "StopReason") -> None:
    """Stop the job at the first SIGTERM or SIGINT, and the process at the second."""

    def handle(number: int, _frame: FrameType | None) -> None:
        if stop.wanted.is_set():
            err.show_cursor(True)
            os._exit(NOT_CLEAN)
        stop.wanted.set()
        say_at(
            f"{signal.Signals(number).name}: waiting for the running micro-batch; send it again to"
            " stop now"
        )

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
