"""Prepares, runs and stops the live audit."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, tzinfo
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import msgspec
from confluent_kafka import TopicPartition

from brokertwin.errors import UserError
from brokertwin.kafka_io import topics
from brokertwin.kafka_io.topic_reader import (
    consumer,
    first_and_end,
    partitions_of,
    read_all,
    read_between,
)
from brokertwin.sinks import files
from brokertwin.streaming.checkpoint import checkpoint_log, facts, torn_logs
from brokertwin.streaming.checkpoint.snapshot_times import DueSnapshot, Interval
from brokertwin.streaming.job import measures
from brokertwin.streaming.job.lag import LagReader
from brokertwin.streaming.job.runner import QueryFailed, finish
from brokertwin.streaming.job.session import stop_query
from brokertwin.streaming.live import query as plan
from brokertwin.streaming.live import remade_topics, stored_rows
from brokertwin.streaming.live.fact_topic import fact_topic
from brokertwin.streaming.live.modes import FIXED
from brokertwin.streaming.live.operator import EXCHANGES, LiveFunctions
from brokertwin.streaming.live.outputs import FINDINGS_KEPT_DAYS, Found, LiveOutputs
from brokertwin.streaming.live.query import FACTS, LiveQuery
from brokertwin.streaming.live.snapshots import write_snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S = 0.2
COUNTS_KEPT = 100
"""Number of micro-batches whose counts wait for Spark's report of their progress."""

BYTES_MAX = 256 * 1024 * 1024
"""Maximum size of a micro-batch whose rows are as large as the newest ones on average."""

SAMPLE = 100
"""Number of newest rows of a partition that are measured."""

STOP_S = 60.0
"""Maximum wait for the running micro-batch when the query is stopped."""


class LiveProgress(msgspec.Struct, frozen=True):
    """Progress after a micro-batch.

    Attributes:
        lag: number of rows of the topics that are not yet read.
        entities: number of rows in Spark's state.
        state_bytes: memory that Spark's state store uses.
        counts: what lines and exchanges are, and findings, since the start; see `LiveFunctions`.
    """

    batch: int
    rows: int
    seconds: float
    lag: int
    entities: int
    state_bytes: int
    counts: dict[str, int]


Observer = Callable[[LiveProgress], None]


@contextmanager
def prepared(query: LiveQuery, say: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Create missing topics, lock the checkpoint, and follow topics that were made again.

    Raises:
        UserError: Kafka does not respond, a source topic is missing, another query runs on the
            checkpoint, or it has other fixed settings.
    """
    admin = topics.admin_client(query.client)
    there = topics.existing(admin, query.client)
    for name in query.sources:
        if name not in there:
            raise UserError(f"Kafka has no topic {name}.", "Check --topic and --bootstrap.")
    with facts.locked(query.checkpoint, FIXED):
        torn_logs.mend(query.checkpoint, say)
        fix(query)
        wanted = {query.topic(spec.name): spec for spec in plan.specs()}
        topics.create_missing(admin, wanted, there, say)
        _check_topics(query)
        remade_topics.follow(query, say)
        yield


def _check_topics(query: LiveQuery) -> None:
    """Check that no other checkpoint has written the topics. Raises UserError."""
    if query_id(query.checkpoint):
        return
    progress = query.topic(plan.PROGRESS)
    if any(True for _ in read_all(query.client, progress)):
        raise UserError(
            f"The topics {query.prefix}.… have rows of another checkpoint, which a new one would"
            " not continue.",
            "Pass its --checkpoint, or another --prefix.",
        )


def fix(query: LiveQuery) -> None:
    """Write the settings that cannot change, or compare them and the states' layout.

    Raises:
        UserError: a setting is another one, or the states cannot be read.
    """
    fixed = {
        "key": query.mode.value,
        "prefix": query.prefix,
        "shuffle_partitions": query.shuffle_partitions,
    }
    path, layout = query.checkpoint / FIXED, stored_rows.layout()
    former = stored_rows.fixed(query.checkpoint) if path.exists() else {"layout": layout}
    for name, value in fixed.items():
        if former.get(name, value) != value:
            raise UserError(
                f"The checkpoint {query.checkpoint} was made with {name} = {former[name]}, not"
                f" {value}.",
                "Use the former value, or another --checkpoint and --prefix.",
            )
    if former.get("layout") != layout:
        stored_rows.check(query.checkpoint)
    query.checkpoint.mkdir(parents=True, exist_ok=True)
    with files.replacing(path) as fresh:
        fresh.write_text(json.dumps({**fixed, "layout": layout}))


def run(
    session: "SparkSession",
    query: LiveQuery,
    tables: Path | None,
    every: Interval | None = None,
    zone: tzinfo = UTC,
    stop: threading.Event | None = None,
    observe: Observer = lambda _: None,
    found: Found = lambda _: None,
    kept_days: int = FINDINGS_KEPT_DAYS,
    look: Callable[[], None] = lambda: None,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Run the query until it is stopped, or to the end of the topics.

    It is started again, from the beginning of the new topic, if a topic was made again.

    Args:
        session: the Spark session.
        query: its settings.
        tables: directory of Parquet files; None for none.
        every: how often entity rows are written there.
        zone: time zone of lines that name none.
        stop: set to stop it after the running micro-batch.
        observe: called after each micro-batch.
        found: called with the findings of each micro-batch, as in the topic.
        kept_days: how long findings are kept there.
        look: called regularly while the query runs.
        say: called with a message about topics that were made again.

    Raises:
        QueryFailed: the query failed.
    """
    counts = measures.accumulator(session.sparkContext)
    functions = LiveFunctions(
        query.client, query.topic(FACTS), zone, lambda new: counts.add(dict(new))
    )
    outputs = LiveOutputs(query, tables, kept_days, found)
    first = checkpoint_log.committed(query.checkpoint) + 1
    due = DueSnapshot(every, first, time.monotonic()) if every is not None else None

    counted: dict[int, dict[str, int]] = {}

    def write(rows: "DataFrame", batch: int) -> None:
        if tables is not None and due is not None and due.is_due(batch, time.monotonic()):
            due.taken(batch, time.monotonic())
            write_snapshot(rows.sparkSession, query, tables, batch - 1)
        outputs.write(rows, batch, query_id(query.checkpoint))
        fact_topic(query.client, query.topic(FACTS)).expire()
        counted[batch] = dict(counts.value)  # all tasks of the micro-batch have ended
        counted.pop(batch - COUNTS_KEPT, None)

    ended = stop or threading.Event()
    while True:
        started = plan.start(session, limited(query), functions, write)
        remade = remade_topics.Watch(query)
        try:
            _watch(started, query.checkpoint, ended, remade, counted, lag_of(query), observe, look)
        finally:
            stop_query(started)
        if ended.is_set() or not remade.found:
            return
        remade_topics.follow(query, say)


def limited(query: LiveQuery) -> LiveQuery:
    """Limit the rows by `BYTES_MAX`; Spark's Kafka source has no limit of bytes."""
    largest = 1.0
    for topic in query.sources:
        with closing(consumer(query.client)) as reader:
            spans = {
                number: first_and_end(reader, TopicPartition(topic, number))
                for number in range(partitions_of(query.client, topic))
            }
        starts = {number: max(first, end - SAMPLE) for number, (first, end) in spans.items()}
        ends = {number: end for number, (_, end) in spans.items()}
        newest = read_between(query.client, topic, starts, ends)
        largest = max(largest, fmean([1, *(len(row.value or b"") for row in newest)]))
    return replace(query, rows_max=max(1, min(query.rows_max, int(BYTES_MAX / largest))))


def lag_of(query: LiveQuery) -> LagReader:
    topics_read = [*query.sources, query.topic(EXCHANGES)]
    return LagReader(query.client, topics_read, query.checkpoint)


def query_id(checkpoint: Path) -> str:
    """Spark's id of a checkpoint; "" if no query has started on it."""
    return checkpoint_log.query_id(checkpoint) if (checkpoint / "metadata").exists() else ""


def _watch(
    query: "StreamingQuery",
    checkpoint: Path,
    stop: threading.Event,
    remade: remade_topics.Watch,
    counted: Mapping[int, dict[str, int]],
    lag: LagReader,
    observe: Observer,
    look: Callable[[], None],
) -> None:
    """Report progress until the query ends or has to stop. Raises QueryFailed."""
    seen = -1
    while query.isActive and not (stop.wait(POLL_S) or remade.is_made_again(time.monotonic())):
        look()
        seen = _report(query, seen, counted, lag, observe)
    if query.isActive:
        finish(query, STOP_S, checkpoint)
    failure = query.exception()
    if failure is not None:
        raise QueryFailed(str(failure))
    _report(query, seen, counted, lag, observe)


def _report(
    query: "StreamingQuery",
    seen: int,
    counted: Mapping[int, dict[str, int]],
    lag: LagReader,
    observe: Observer,
) -> int:
    if max(list(counted), default=seen) <= seen:
        return seen  # reading Spark's report takes many calls into the JVM
    newest = query.lastProgress
    if newest is None or newest.batchId <= seen:
        return seen
    observe(_progress_of(newest, counted.get(newest.batchId, {}), lag.read().total))
    return newest.batchId


def _progress_of(
    report: "StreamingQueryProgress", counts: dict[str, int], lag: int
) -> LiveProgress:
    return LiveProgress(
        batch=report.batchId,
        rows=report.numInputRows,
        seconds=report.durationMs.get("triggerExecution", 0) / 1000,
        lag=lag,
        entities=sum(each.numRowsTotal for each in report.stateOperators),
        state_bytes=sum(each.memoryUsedBytes for each in report.stateOperators),
        counts=counts,
    )
