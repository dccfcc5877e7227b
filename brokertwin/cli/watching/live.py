"""`brokertwin live`: a continuous audit of real clusters, as a streaming query."""

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import tzinfo
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from brokertwin.cli.options import (
    AsJson,
    Bootstrap,
    ConfigFile,
    HttpAccessFile,
    HttpListen,
    HttpPort,
    KafkaConfig,
    Master,
    settings_of,
)
from brokertwin.cli.output import say, show_json
from brokertwin.errors import UserError
from brokertwin.places import place
from brokertwin.streaming.live.modes import KeyMode

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from brokertwin.cli.watching.live_source import LiveSource
    from brokertwin.settings import Settings
    from brokertwin.streaming.checkpoint.snapshot_times import Interval
    from brokertwin.streaming.live.query import LiveQuery
    from brokertwin.streaming.live.runner import LiveProgress

DEFAULT = "default"
PREFIX = "live"

Topics = Annotated[
    list[str],
    typer.Option(
        "--topic",
        "-t",
        metavar="[CLUSTER=]TOPIC",
        help="A topic with exchanges of a cluster: lines of request logs or of Kroxylicious, also"
        " in a log agent's JSON, or documents of `capture --topic`; repeatable.",
    ),
]
LivePrefix = Annotated[
    str, typer.Option("--prefix", metavar="NAME", help="Prefix of the topics that it writes.")
]
LiveCheckpoint = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint", metavar="DIR", help="Checkpoint; default: HOME/live/PREFIX/checkpoint."
    ),
]
Tables = Annotated[
    Path | None,
    typer.Option(
        "--tables", metavar="DIR", help="Directory of Parquet files; default: HOME/live/PREFIX."
    ),
]
SnapshotEveryOption = Annotated[
    str,
    typer.Option(
        "--snapshot-every",
        metavar="N UNIT",
        help='How often entity rows are written to Parquet: "100 batches", "5 minutes".',
    ),
]
FindingsKept = Annotated[
    int,
    typer.Option(
        "--findings-kept", metavar="DAYS", min=1, help="How long findings are kept in Parquet."
    ),
]
Key = Annotated[
    KeyMode,
    typer.Option(
        "--key",
        help="Content of a state row of Spark: a bucket of entities, or an entity with named"
        " columns, which takes more processor time. Fixed once a checkpoint exists.",
    ),
]
Trigger = Annotated[
    str, typer.Option("--trigger", metavar="TIME", help="Interval of micro-batches.")
]
AvailableNow = Annotated[
    bool,
    typer.Option("--available-now", help="Stop when all rows of the topics are read."),
]
TimeZone = Annotated[
    str, typer.Option("--time-zone", metavar="NAME", help="Time zone of lines that name none.")
]
SparkConf = Annotated[
    list[str] | None,
    typer.Option("--spark-conf", metavar="NAME=VALUE", help="Spark setting; repeatable."),
]


def command(
    topic: Topics,
    bootstrap: Bootstrap = None,
    prefix: LivePrefix = PREFIX,
    checkpoint: LiveCheckpoint = None,
    tables: Tables = None,
    snapshot_every: SnapshotEveryOption = "5 minutes",
    findings_kept: FindingsKept = 90,
    key: Key = KeyMode.BUCKET,
    trigger: Trigger = "10 seconds",
    available_now: AvailableNow = False,
    time_zone: TimeZone = "UTC",
    http_listen: HttpListen = None,
    http_access: HttpAccessFile = None,
    master: Master = None,
    spark_conf: SparkConf = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Audit real clusters continuously: a Spark query over topics with their exchanges.

    Writes findings to PREFIX.findings, and the state of sessions, producers, transactions, groups
    and committed offsets to compacted topics PREFIX.sessions and so on, all also as Parquet.
    A row belongs to the cluster in its header `cluster`, otherwise to that of its topic.

    `audit` does the same once, for files. `run` is another job: a model of a broker, which responds
    to requests.
    """
    from brokertwin.kafka_io.kafka_clients import client_properties
    from brokertwin.recordings.formats.pipeline import zone_of
    from brokertwin.streaming.checkpoint.snapshot_times import parse_interval
    from brokertwin.streaming.job.session import check_start, spark_session
    from brokertwin.streaming.live import runner
    from brokertwin.streaming.live.query import LiveQuery

    sources = sources_of(topic)
    settings = settings_of(
        config,
        bootstrap=bootstrap,
        prefix=prefix,
        checkpoint=checkpoint,
        trigger=trigger,
        snapshot_every=snapshot_every,
        master=master,
        spark_conf=tuple(spark_conf) if spark_conf else None,
        kafka_config=kafka_config,
    )
    directory = home(settings, prefix)
    query = LiveQuery(
        client=client_properties(settings),
        prefix=prefix,
        sources=sources,
        checkpoint=place(checkpoint or directory / "checkpoint"),
        mode=key,
        trigger=trigger,
        shuffle_partitions=settings.shuffle_partitions,
        rows_max=settings.max_offsets_per_trigger,
        is_available_now=available_now,
    )
    how = _How(
        place(tables or directory),
        parse_interval(snapshot_every),
        findings_kept,
        zone_of(time_zone),
        as_json,
    )
    check_start(settings)
    stop, http = threading.Event(), HttpPort(http_listen, http_access)
    with runner.prepared(query, say), _watched(query, http, stop) as watched:
        session = spark_session(settings, say)
        _stop_on_signals(stop)
        try:
            _run(session, query, how, stop, watched)
        finally:
            watched.pulse.stopping()
            session.stop()


class _How(NamedTuple):
    """Parquet files: directory, interval, days; time zone of lines, form of progress."""

    tables: Path
    every: "Interval"
    kept_days: int
    zone: tzinfo
    as_json: bool


def _run(
    session: "SparkSession",
    query: "LiveQuery",
    how: _How,
    stop: threading.Event,
    watched: "LiveSource",
) -> None:
    from brokertwin.streaming.job.runner import QueryFailed
    from brokertwin.streaming.live import runner

    show = show_json_progress if how.as_json else show_progress

    def observe(progress: "LiveProgress") -> None:
        show(progress)
        watched.observe(progress)

    beat, found = watched.pulse.beat, watched.found
    try:
        runner.run(
            *(session, query, how.tables, how.every, how.zone, stop, observe, found),
            kept_days=how.kept_days,
            look=beat,
            say=say,
        )
    except QueryFailed as error:
        say(str(error))
        raise typer.Exit(1) from None
    if query.is_available_now:
        say(
            "The last seconds of exchanges may still wait, because lines of another broker could"
            " precede them: findings about them come with later lines. For a finished log, use"
            " `brokertwin audit`."
        )


@contextmanager
def _watched(query: "LiveQuery", http: HttpPort, stop: threading.Event) -> "Iterator[LiveSource]":
    """Yield the status, served over HTTP if there is an address."""
    from brokertwin.cli.watching.live_source import KEPT, LiveSource
    from brokertwin.cli.watching.server import status_page
    from brokertwin.streaming.live import runner
    from brokertwin.streaming.live.read_back import newest_findings

    source = LiveSource(query.prefix, stop)
    source.lag = runner.lag_of(query).newest
    with status_page(source, http, say):
        if http.listen is not None:
            source.earlier(newest_findings(query.client, query.prefix, KEPT))
        yield source


def home(settings: "Settings", prefix: str) -> Path:
    """The default directory of a live audit: its checkpoint and its Parquet files."""
    return settings.home / "live" / prefix


def sources_of(values: list[str]) -> dict[str, str]:
    """Topic to cluster. Raises UserError for a topic that is named twice."""
    sources: dict[str, str] = {}
    for each in values:
        cluster, equals, topic = each.rpartition("=")
        if not topic or (equals and not cluster):
            raise UserError(f"Invalid value of --topic: {each!r}.", "Pass [CLUSTER=]TOPIC.")
        if topic in sources:
            raise UserError(f"--topic names {topic} twice.")
        sources[topic] = cluster or DEFAULT
    return sources


def _stop_on_signals(stop: threading.Event) -> None:
    """Let SIGTERM and SIGINT set an event; a second signal ends at once."""

    def handle(number: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)


def show_progress(progress: "LiveProgress") -> None:
    counts = progress.counts
    say(
        f"batch {progress.batch}: {progress.rows:,} rows in {progress.seconds:.2f} s,"
        f" {progress.entities:,} state rows; {counts.get('lines', 0):,} lines:"
        f" {counts.get('exchanges', 0):,} exchanges{_ignored(counts)},"
        f" {counts.get('damaged', 0):,} damaged lines{_others(counts)};"
        f" {counts.get('findings', 0):,} findings"
    )


OTHERS = {
    "internal": "of the cluster itself",
    "unanswered": "without a response",
    "halves": "halves of exchanges",
    "other": "other lines",
}
"""Further counts of lines, and how they are shown."""

IGNORED = {"repeated": "repeated", "late": "too late", "without_entity": "of no entity"}
"""Exchanges that change nothing, and how they are shown."""


def _ignored(counts: Mapping[str, int]) -> str:
    ignored = [f"{counts[name]:,} {text}" for name, text in IGNORED.items() if counts.get(name)]
    return f" ({', '.join(ignored)})" if ignored else ""


def _others(counts: Mapping[str, int]) -> str:
    return "".join(f", {counts[name]:,} {text}" for name, text in OTHERS.items() if name in counts)


def show_json_progress(progress: "LiveProgress") -> None:
    """Show a micro-batch as a line of JSON."""
    import msgspec

    show_json(msgspec.to_builtins(progress))
