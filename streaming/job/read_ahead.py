"""Limits the bytes of the next micro-batch by a number of rows.

Spark's Kafka source limits rows only (`maxOffsetsPerTrigger`), and Kafka does not report the bytes
between two offsets. A consumer therefore reads the sizes of unplanned events, up to two
micro-batches ahead, and sets the row limit of the source before each micro-batch.

Events that arrived since the last look count with the mean size of earlier ones, or with the
maximum size if none was read.
"""

import math
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition

from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topic_reader import consumer, first_and_end
from brokertwin.kafka_io.topics import REQUESTS, ROW_BYTES_MAX, full_name
from brokertwin.settings import Settings
from brokertwin.streaming.checkpoint import checkpoint_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

POLL_MESSAGES = 10_000
POLL_S = 0.05
FIRST_READ_S = 10.0
"""Maximum time to read sizes at a start."""

LOOK_S = 0.1
"""Maximum time of one look, because the runner has other tasks."""

BATCHES = 2
"""Number of micro-batches to look ahead."""

QUEUED_KIB = 16 * 1024
"""Maximum of fetched but unread events."""

FULL_QUEUE_MS = 10
"""Wait of the consumer when that is exceeded; librdkafka's default is a second."""


class Ahead:
    """Sizes of a partition's unplanned events.

    Attributes:
        first: the offset of the first unplanned event.
    """

    def __init__(self, first: int, end: int) -> None:
        self.first, self.end = first, end
        self._totals = [0]
        """Cumulative bytes, before the first and after each known event."""
        self._mean = float(ROW_BYTES_MAX)

    @property
    def known(self) -> int:
        """Number of leading offsets with known sizes."""
        return len(self._totals) - 1

    @property
    def known_bytes(self) -> int:
        return self._totals[-1] - self._totals[0]

    @property
    def lag(self) -> int:
        return max(self.end - self.first, self.known)

    def add(self, offset: int, size: int) -> None:
        """Add the size of an event; skipped offsets have no bytes."""
        left_out = offset - self.first - self.known
        if left_out < 0:
            return
        total = self._totals[-1]
        self._totals += [total] * left_out
        self._totals.append(total + size)

    def plan(self, end: int) -> None:
        """Drop the events that a micro-batch has planned."""
        if self.known:
            self._mean = self.known_bytes / self.known
        taken = max(0, end - self.first)
        self._totals = self._totals[taken:] or [self._totals[-1]]
        self.first += taken

    def bytes_of(self, rows: int) -> int:
        """Bytes of the first `rows` events; unknown ones have the mean size."""
        row_count = min(rows, self.known)
        mean = self.known_bytes / self.known if self.known else self._mean
        return self._totals[row_count] - self._totals[0] + round((rows - row_count) * mean)


def rows_within(partitions: Sequence[Ahead], rows_max: int, bytes_max: int) -> int:
    """Return the row limit of a micro-batch; at least one.

    The following micro-batch may start with the same limit, so both together may have twice the
    bytes.
    """
    lags = [each.lag for each in partitions]

    def size(rows: int) -> int:
        shares = _shares(rows, lags)
        return sum(each.bytes_of(n) for each, n in zip(partitions, shares, strict=True))

    def largest(rows: int) -> int:
        return max(size(rows), size(rows * BATCHES) // BATCHES)

    if largest(rows_max) <= bytes_max:
        return rows_max
    return max(1, bisect_right(range(1, rows_max + 1), bytes_max, key=largest))


def _shares(rows: int, lags: Sequence[int]) -> list[int]:
    """Rows by partition of a micro-batch (KafkaMicroBatchStream.rateLimit)."""
    total = max(1, sum(lags))
    shares = [rows * (lag / total) for lag in lags]
    return [
        min(lag, math.ceil(share) if share < 1 else math.floor(share))
        for lag, share in zip(lags, shares, strict=True)
    ]


class ReadAhead:
    """Keeps the row limit of a job's query."""

    def __init__(self, reader: Consumer, settings: Settings) -> None:
        self._reader, self._settings = reader, settings
        self._topic = full_name(settings.prefix, REQUESTS)
        self._planned = checkpoint_log.planned(settings.checkpoint_dir)
        ends = self._ends_of(self._planned)
        self._partitions: dict[int, Ahead] = {}
        for number in range(settings.requests_partitions):
            first, end = first_and_end(reader, TopicPartition(self._topic, number))
            self._partitions[number] = Ahead(max(first, ends.get(number, 0)), end)
        reader.assign(
            [TopicPartition(self._topic, n, each.first) for n, each in self._partitions.items()]
        )
        self._set = 0
        self._paused: set[int] = set()
        """Partitions with enough known sizes."""

    def at_start(self) -> int:
        """Return the limit of the first micro-batch, after reading sizes."""
        deadline = time.monotonic() + FIRST_READ_S
        while self._is_unread() and time.monotonic() < deadline:
            self._read(POLL_S)
        self._set = self._rows()
        return self._set

    def look(self, session: "SparkSession", query: "StreamingQuery") -> None:
        """Read sizes after the newest planned batch, and set the limit."""
        planned = checkpoint_log.planned(self._settings.checkpoint_dir)
        if planned > self._planned:
            self._planned = planned
            for number, end in self._ends_of(planned).items():
                if number in self._partitions:  # the next start rejects new partitions
                    self._partitions[number].plan(end)
        for number, each in self._partitions.items():
            at = TopicPartition(self._topic, number)
            each.end = max(each.end, self._reader.get_watermark_offsets(at, cached=True)[1])
        deadline = time.monotonic() + LOOK_S
        while self._is_unread() and self._read(0) and time.monotonic() < deadline:
            pass
        rows = self._rows()
        if rows != self._set and _limit(session, query, rows):
            self._set = rows

    def _ends_of(self, batch: int) -> Mapping[int, int]:
        return checkpoint_log.end_offsets(self._settings.checkpoint_dir, batch).get(self._topic, {})

    def _rows(self) -> int:
        """The limit by current knowledge."""
        settings = self._settings
        most, bytes_max = settings.max_offsets_per_trigger, settings.max_bytes_per_trigger
        return rows_within(list(self._partitions.values()), most, bytes_max)

    def _is_unread(self) -> bool:
        """Whether more sizes are needed."""
        return any(
            each.known < each.lag and not self._is_enough(each)
            for each in self._partitions.values()
        )

    def _is_enough(self, one: Ahead) -> bool:
        """Whether the known sizes cover the next micro-batches."""
        rows_max = self._settings.max_offsets_per_trigger * BATCHES
        bytes_max = self._settings.max_bytes_per_trigger * BATCHES
        return one.known >= rows_max or one.known_bytes > bytes_max

    def _pause(self) -> None:
        """Pause partitions with enough known sizes.

        Otherwise one backlog would delay the others. A partition that was read to its end is not
        paused, so that its end is updated.
        """
        enough = {n for n, each in self._partitions.items() if self._is_enough(each)}
        if enough != self._paused:
            self._reader.pause([TopicPartition(self._topic, n) for n in enough - self._paused])
            self._reader.resume([TopicPartition(self._topic, n) for n in self._paused - enough])
            self._paused = enough

    def _read(self, timeout_s: float) -> bool:
        """Read fetched sizes; returns whether there were any."""
        self._pause()
        messages = self._reader.consume(POLL_MESSAGES, timeout_s)
        for message in messages:
            if message.error() is None:
                self._partitions[message.partition() or 0].add(message.offset() or 0, len(message))
        return bool(messages)


@contextmanager
def reading_ahead(client: ClientProperties, settings: Settings) -> Iterator[ReadAhead]:
    """Open the consumer for sizes while a job runs."""
    changes = {
        "enable.partition.eof": False,
        "queued.max.messages.kbytes": QUEUED_KIB,
        "fetch.queue.backoff.ms": FULL_QUEUE_MS,
    }
    with closing(consumer(client, changes)) as reader:
        yield ReadAhead(reader, settings)


def _limit(session: "SparkSession", query: "StreamingQuery", rows: int) -> bool:
    """Set the row limit of later micro-batches; False before the first one.

    A source's options are read once. `StreamExecution.uniqueSources`, which has the resulting
    limit, is read before each micro-batch.
    """
    execution = query._jsq.streamingQuery()
    sources = execution.uniqueSources()
    if sources.isEmpty():
        return False
    jvm = session.sparkContext._jvm
    assert jvm is not None
    limit = jvm.org.apache.spark.sql.connector.read.streaming.ReadLimit.maxRows(rows)
    bounded = sources.updated(sources.head()._1(), limit)
    getattr(execution, "uniqueSources_$eq")(bounded)
    return True
