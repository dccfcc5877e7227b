"""`brokertwin run`: the streaming job."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli import logs
from brokertwin.cli.era_options import BrokerEraOption, BrokerTrace, job_defaults, tracer
from brokertwin.cli.options import (
    AsJson,
    BrokerConfig,
    BrokerSet,
    HttpAccessFile,
    HttpListen,
    HttpPort,
    typed_broker_settings,
    with_settings,
)
from brokertwin.cli.output import err, say_at, show_error, show_json, warn
from brokertwin.errors import UserError
from brokertwin.settings import Settings
from brokertwin.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from brokertwin.cli.watching.sources import JobSource
    from brokertwin.state.core.settings import BrokerSettings
    from brokertwin.streaming.job.job import StreamingJob
    from brokertwin.streaming.job.measures import QueryProgress
    from brokertwin.streaming.job.runner import Ended, Observer, StopReason

NOT_CLEAN = 1

AvailableNow = Annotated[
    bool,
    typer.Option(
        "--available-now",
        help="Stop when all events of the topic are committed and no request is pending. Without"
        " new events it does not start Spark.",
    ),
]
SETTINGS = (
    *("bootstrap", "prefix", "checkpoint", "clusters", "brokers", "cells", "trigger", "event_time"),
    *("interventions", "records", "snapshots", "snapshot_every", "snapshot_suite", "check_every"),
    *("check_on", "check_suite", "check_policy", "follow_offsets", "follow_into", "master"),
    *("spark_conf", "spark_ui", "stop_timeout_s", "kafka_config"),
)


@with_settings(*SETTINGS)
def command(
    settings: Settings,
    available_now: AvailableNow = False,
    http_listen: HttpListen = None,
    http_access: HttpAccessFile = None,
    broker_set: BrokerSet = None,
    broker_config: BrokerConfig = None,
    era: BrokerEraOption = None,
    trace: BrokerTrace = False,
    as_json: AsJson = False,
) -> None:
    """Run the streaming job: reads requests, writes responses and offsets.

    At SIGTERM or SIGINT the running micro-batch is committed before the job stops; a second signal
    stops it at once. The exit code is 0 only if every planned micro-batch was committed.
    """
    if trace and not settings.writes_records:
        raise UserError("--trace reads the topic of records.", "Add --records.")
    broker_settings = typed_broker_settings(broker_config, broker_set, (), job_defaults(era, trace))
    http = HttpPort(http_listen, http_access)
    ended = _run(settings, broker_settings, available_now, http, tracer(trace), as_json)
    if not ended.is_clean:
        warn(f"micro-batch {ended.planned} was not committed; it runs again at the next start")
        raise typer.Exit(NOT_CLEAN)
    say_at(f"{counted(ended.committed + 1, 'micro-batch', 'micro-batches')}, all committed")


def _run(
    settings: Settings,
    broker_settings: "BrokerSettings",
    available_now: bool,
    http: HttpPort,
    show_line: Callable[[str], None] | None,
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
        job = stack.enter_context(runner.prepared(settings, broker_settings, say_at))
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
            looks = [stack.enter_context(run_following.following(settings, session))]
            if show_line is not None:
                looks.append(stack.enter_context(run_following.traced(job, show_line)))
            cleaning = run_cleaning.Cleaning(job, broker_settings, session)
            with (
                checks.while_running(session),
                snapshots.while_running(session),
                cleaning.while_running(),
            ):
                ended = _query(job, stop, available_now, observe, session(), watched, looks)
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
    looks: "list[Callable[[], None]]",
) -> "Ended":
    """Run the query and call `looks` regularly. Exits if the query fails."""
    from brokertwin.streaming.checkpoint import damaged_files
    from brokertwin.streaming.job import runner

    def looked() -> None:
        watched.pulse.beat()
        for look in looks:
            look()

    try:
        return runner.run(job, stop, available_now, observe, session, looked)
    except runner.QueryFailed as failed:
        damage = next(damaged_files.damaged(job.settings.checkpoint_dir), None)
        show_error(damage.error() if damage else UserError(f"The streaming query failed: {failed}"))
        raise typer.Exit(NOT_CLEAN) from None
    finally:
        watched.pulse.stopping()


@contextmanager
def _watched(settings: Settings, http: HttpPort, stop: "StopReason") -> "Iterator[JobSource]":
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
