"""Runs a job: preparation, query, clock, and an orderly stop.

A stop finishes the running micro-batch, which Spark's `query.stop()` would interrupt. The query's
loop is set to start no other batch, as Spark does for an `availableNow` trigger, and the planned
batch commits.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from confluent_kafka import TopicPartition

from brokertwin.errors import UserError
from brokertwin.kafka_io import placement, topics
from brokertwin.kafka_io.kafka_clients import ClientProperties, client_properties
from brokertwin.kafka_io.topic_reader import consumer, end_offsets, first_and_end
from brokertwin.settings import Settings
from brokertwin.state.cell.cell import STATE_VERSION
from brokertwin.state.core import pending
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import CellTables
from brokertwin.streaming.checkpoint import (
    checkpoint_log,
    damaged_files,
    facts,
    state_reader,
    torn_logs,
)
from brokertwin.streaming.job import job, measures
from brokertwin.streaming.job.clock import JobClock, now_ms
from brokertwin.streaming.job.lag import LagReader
from brokertwin.streaming.job.measures import Counts, QueryProgress, progress_of
from brokertwin.streaming.job.read_ahead import ReadAhead, reading_ahead
from brokertwin.streaming.job.session import spark_session, stop_query
from brokertwin.streaming.job.stage import cell_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S = 0.1
QUIET_CHECK_S = 0.5
"""How often an `available_now` run checks whether it is done."""

QUERY_PLAN = "=== Streaming Query ==="
"""Start of the part of Spark's message about the query."""

LOADS_KEPT_S = 60.0
"""How often the cells' loads are stored in the facts; also at the end."""

SLEEPING_POLLS = 3
"""Number of polls between batches before a query counts as idle."""

UNPLANNED_POLLS = 30
"""Number of polls without a planned batch before Kafka counts as unresponsive."""

Observer = Callable[[QueryProgress], None]
"""Called with the progress after each micro-batch."""


class QueryFailed(Exception):
    """The query failed; the text is Spark's."""


@dataclass
class StopReason:
    """How to stop a run.

    Attributes:
        wanted: set to stop after the running batch.
        timeout_s: maximum wait for its commit.
    """

    timeout_s: float
    wanted: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Ended:
    """The last batches of a run.

    Attributes:
        planned: the newest planned batch, -1 if there is none.
        committed: the newest committed batch.
    """

    planned: int
    committed: int

    @property
    def is_clean(self) -> bool:
        return self.planned == self.committed


@contextmanager
def prepared(
    settings: Settings, broker_settings: BrokerSettings, say: Callable[[str], None] = lambda _: None
) -> Iterator[job.StreamingJob]:
    """Prepare topics and checkpoint; the checkpoint is locked inside.

    Checks existing topics and the checkpoint, creates missing topics, and writes the placement.
    Nothing is created in Kafka if a check fails.

    Raises:
        UserError: Kafka does not respond, topics or checkpoint do not match the settings, or
            another job runs on the checkpoint.
    """
    placed = job.placements(settings, broker_settings)
    client = client_properties(settings)
    checkpoint = settings.checkpoint_dir
    with facts.locked(checkpoint):
        names = [name for each in placed for name in each.cells]
        former = facts.read(checkpoint)
        if former is not None and former.prefix != settings.prefix:
            former = None  # of other topics, which `facts.check` reports
        had = former.requests_partitions if former is not None else None
        facts.check(checkpoint, settings, names, topics.check(client, settings, had))
        torn_logs.mend(checkpoint, say)
        damaged_files.check_metadata(checkpoint)
        _upgrade(checkpoint, say)
        topic_id = topics.prepare(client, settings, say)
        _check_no_events_lost(client, settings, say)
        fixed = facts.settle(checkpoint, settings, names, topic_id, now_ms())
        placement.write(client, settings.prefix, placed)
        by_key = {
            fixed.groups[name]: cell_settings(
                each, broker_settings, name, fixed.incarnation, settings.writes_records
            )
            for each in placed
            for name in each.cells
        }
        yield job.StreamingJob(settings, client, by_key)


def _upgrade(checkpoint: Path, say: Callable[[str], None]) -> None:
    """Report the upgrade of an old state. Raises UserError if impossible."""
    former = facts.read(checkpoint)
    if former is None or former.state_version == STATE_VERSION:
        return
    if checkpoint_log.committed(checkpoint) != checkpoint_log.NONE:
        state_reader.read_cells(checkpoint)
    say(f"upgrading the state from version {former.state_version} to {STATE_VERSION}")


def _check_no_events_lost(
    client: ClientProperties, settings: Settings, say: Callable[[str], None]
) -> None:
    """Check that `requests` has all events after the last micro-batch.

    Raises:
        UserError: events are lost.
    """
    checkpoint, topic = settings.checkpoint_dir, topics.full_name(settings.prefix, topics.REQUESTS)
    newest = checkpoint_log.committed(checkpoint)
    taken = checkpoint_log.end_offsets(checkpoint, newest).get(topic, {})
    with closing(consumer(client)) as reader:
        for partition in range(settings.requests_partitions):
            first, _ = first_and_end(reader, TopicPartition(topic, partition))
            if first > taken.get(partition, 0) and newest != checkpoint_log.NONE:
                raise UserError(
                    f"{topic} has lost events that the job has not read: partition {partition}"
                    f" starts at offset {first}, and the job is at {taken.get(partition, 0)}.",
                    "The events were deleted or expired by the topic's retention, and cannot be"
                    " recovered. Restore a snapshot with `brokertwin snapshot restore --to-prefix"
                    " NAME`, or start with another --prefix and an empty --checkpoint.",
                )
            if first and newest == checkpoint_log.NONE:
                say(
                    f"partition {partition} of {topic} starts at offset {first}: earlier events are"
                    " not in the state"
                )


def run(
    prepared_job: job.StreamingJob,
    stop: StopReason,
    available_now: bool = False,
    observe: Observer = lambda _: None,
    session: "SparkSession | None" = None,
    looked: Callable[[], None] = lambda: None,
) -> Ended:
    """Run the query until it is stopped or done.

    Args:
        prepared_job: from `prepared`.
        stop: how to stop it.
        available_now: end when the topic's end is committed and no request is pending.
        observe: called with the progress of each micro-batch.
        session: a Spark session; by default one is started or reused.
        looked: called after each check of the running query, every `POLL_S`.

    Raises:
        QueryFailed: the query or the clock failed.
    """
    session = session or spark_session(prepared_job.settings)
    counts = measures.accumulator(session.sparkContext)
    checkpoint = prepared_job.settings.checkpoint_dir
    if stop.wanted.is_set():
        return ended(checkpoint)
    ahead_of = reading_ahead(prepared_job.client, prepared_job.settings)
    with _clock(prepared_job) as clock, ahead_of as ahead:
        query = job.start_query(session, prepared_job, ahead.at_start(), counts.add)
        running = _Run(
            session, query, prepared_job, clock, ahead, lambda: dict(counts.value), observe, looked
        )
        try:
            _watch(running, stop, available_now)
        finally:
            if not stop_query(query):
                _log.warning("Kafka does not respond: the query ends with the process")
            running.loads.keep(running.counts())
    return ended(checkpoint)


def ended(checkpoint: Path) -> Ended:
    return Ended(checkpoint_log.planned(checkpoint), checkpoint_log.committed(checkpoint))


@contextmanager
def _clock(prepared_job: job.StreamingJob) -> Iterator[JobClock | None]:
    """The clock while the query runs; none with recorded times."""
    settings = prepared_job.settings
    if settings.event_time == "recorded":
        yield None
        return
    placed = {p.cluster: p for p in job.placements(settings)}
    outstanding = state_reader.outstanding(settings.checkpoint_dir)
    skew_ms = settings.event_time_max_skew_ms
    clock = JobClock(prepared_job.client, settings.prefix, placed, skew_ms, outstanding)
    clock.start()
    try:
        yield clock
    finally:
        clock.stop()


_log = structlog.get_logger("brokertwin")


class _Loads:
    """Periodically stores the processor times of cells in the facts."""

    def __init__(self, checkpoint: Path) -> None:
        self._checkpoint = checkpoint
        self._kept: Counts = {}
        self._next = time.monotonic() + LOADS_KEPT_S

    def keep_if_due(self, counts: Counts) -> None:
        """Store them if `LOADS_KEPT_S` have passed."""
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LOADS_KEPT_S
            self.keep(counts)

    def keep(self, counts: Counts) -> None:
        """Store the increase since the last time."""
        loads = measures.loads_of(counts)
        newer = {name: load - self._kept.get(name, 0) for name, load in loads.items()}
        try:
            facts.add_loads(self._checkpoint, newer)
        except (OSError, UserError) as error:
            _log.warning("processor times of cells could not be stored", reason=str(error))
            return
        self._kept = loads


@dataclass
class _Run:
    session: "SparkSession"
    query: "StreamingQuery"
    job: job.StreamingJob
    clock: JobClock | None
    ahead: ReadAhead
    counts: Callable[[], Counts]
    observe: Observer
    looked: Callable[[], None]
    seen_at: str = ""
    seen_batch: int = checkpoint_log.NONE

    def __post_init__(self) -> None:
        settings = self.job.settings
        self.loads = _Loads(settings.checkpoint_dir)
        self.lag = lag_of(self.job.client, settings)

    def check(self) -> None:
        """Report progress. Raises QueryFailed."""
        newest = self.query._jsq.lastProgress()
        if newest is not None and newest.timestamp() != self.seen_at:
            reports = list(self._reports())
            self.seen_at = newest.timestamp()
            for progress in reversed(reports):
                batch = int(progress["batchId"])
                if batch > self.seen_batch and progress["numInputRows"]:
                    self.seen_batch = batch
                    self.observe(progress_of(progress, self.counts(), self.lag.read().total))
            self.loads.keep_if_due(self.counts())
        failure = self.query.exception()
        if failure is not None:
            raise QueryFailed(str(failure).partition(QUERY_PLAN)[0].strip())
        if self.clock is not None and self.clock.failure is not None:
            raise QueryFailed(f"the clock failed: {self.clock.failure}")
        self.ahead.look(self.session, self.query)
        self.looked()

    def _reports(self) -> Iterator[dict[str, Any]]:
        """Yield Spark's reports since `seen_at`, newest first.

        PySpark's `recentProgress` decodes up to a hundred reports each time, with hundreds of calls
        into the JVM for each.
        """
        recent = self.query._jsq.recentProgress()
        for at in range(len(recent) - 1, -1, -1):
            if recent[at].timestamp() <= self.seen_at:
                return
            yield json.loads(recent[at].json())

    def is_done(self) -> bool:
        """Whether the topic's end is committed and no request is pending."""
        return is_at_end(self.job.client, self.job.settings) and (
            self.clock is None or not waits(self.job.settings, lambda: self.session)
        )


def lag_of(client: ClientProperties, settings: Settings) -> LagReader:
    topic = topics.full_name(settings.prefix, topics.REQUESTS)
    return LagReader(client, [topic], settings.checkpoint_dir)


def _watch(running: _Run, stop: StopReason, available_now: bool) -> None:
    next_check = time.monotonic()
    while not stop.wanted.is_set():
        running.check()
        if available_now and time.monotonic() >= next_check:
            if running.is_done():
                break
            next_check = time.monotonic() + QUIET_CHECK_S
        stop.wanted.wait(POLL_S)
    finish(running.query, stop.timeout_s, running.job.settings.checkpoint_dir)
    running.check()


def finish(query: "StreamingQuery", timeout_s: float, checkpoint: Path) -> bool:
    """Let the running batch commit, and start no other.

    Spark's loop checks the query's state before each batch and ends if it is TERMINATED; it sets
    that itself for an `availableNow` trigger (MicroBatchExecution). Since Spark 4.1 it also
    interrupts a batch in that state that has been planned and has no job yet. So the state changes
    while the query sleeps or a job of it runs.

    A query that sleeps until its next trigger may then be stopped. So may one without a planned
    batch, which can wait minutes for an unresponsive Kafka.

    Returns:
        False after the timeout; the query then continues.
    """
    from pyspark import SparkContext

    execution = query._jsq.streamingQuery()
    package = getattr(SparkContext._jvm, execution.getClass().getPackageName())
    active, terminated = (_scala_object(package, name) for name in ("ACTIVE", "TERMINATED"))
    deadline = time.monotonic() + timeout_s
    sleeping = unplanned = 0
    while execution.queryExecutionThread().isAlive() and sleeping < SLEEPING_POLLS:
        if time.monotonic() >= deadline:
            return False
        is_between = not query.status["isTriggerActive"]
        if is_between or _has_job(query):
            execution.state().compareAndSet(active, terminated)  # no effect before it is active
        time.sleep(POLL_S)
        is_terminated = execution.state().get().equals(terminated)
        sleeping = sleeping + 1 if is_terminated and not query.status["isTriggerActive"] else 0
        unplanned = unplanned + 1 if ended(checkpoint).is_clean else 0
        if unplanned >= UNPLANNED_POLLS:
            break
    return True


def _has_job(query: "StreamingQuery") -> bool:
    """Whether a Spark job of the query runs; its jobs have its run id as group."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        return False
    tracker = context.statusTracker()
    of_query = tracker.getJobIdsForGroup(str(query.runId))
    return not set(tracker.getActiveJobsIds()).isdisjoint(of_query)


def _scala_object(package: Any, name: str) -> Any:
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def is_at_end(client: ClientProperties, settings: Settings) -> bool:
    """Whether every row of `requests` belongs to a committed batch."""
    checkpoint = settings.checkpoint_dir
    topic = topics.full_name(settings.prefix, topics.REQUESTS)
    batch = checkpoint_log.committed(checkpoint)
    done = checkpoint_log.end_offsets(checkpoint, batch).get(topic, {})
    reader = consumer(client)
    try:
        ends = end_offsets(reader, topic, settings.requests_partitions)
    finally:
        reader.close()
    return all(done.get(partition, 0) >= end for partition, end in ends.items())


def has_nothing_to_do(
    prepared_job: job.StreamingJob, session: "Callable[[], SparkSession]"
) -> bool:
    """Whether an `available_now` run would run no micro-batch.

    Args:
        prepared_job: from `prepared`.
        session: see `state_reader.read_cells`.
    """
    settings = prepared_job.settings
    checkpoint = settings.checkpoint_dir
    return (
        checkpoint_log.planned(checkpoint) == checkpoint_log.committed(checkpoint)
        and is_at_end(prepared_job.client, settings)
        and (settings.event_time == "recorded" or not waits(settings, session))
    )


def waits(settings: Settings, session: "Callable[[], SparkSession]") -> bool:
    if checkpoint_log.committed(settings.checkpoint_dir) == checkpoint_log.NONE:
        return False
    cells = state_reader.read_cells(settings.checkpoint_dir, session=session)
    return any(pending.awaits_deadline(CellTables(columns).pending) for columns in cells.values())
