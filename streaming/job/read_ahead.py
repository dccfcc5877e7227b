"""How many events the next micro-batch may take, so that their bytes stay within a bound.

Spark's Kafka source knows a bound of rows alone (`maxOffsetsPerTrigger`), and Kafka does not tell
how many bytes lie between two offsets. So a consumer reads the lengths of the events that no
micro-batch has planned yet, as many as fit into two, and the query is given the number of rows
that have so many bytes: the source is told its limit before each micro-batch.

What has come since the last look is taken to be as large as what was read before it, and where
nothing was read yet as the largest event.
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
"""So long a start waits for the lengths of what is there."""

LOOK_S = 0.1
"""And so long one look reads at most: who runs the job has more to look at."""

BATCHES = 2
"""So many micro-batches are looked ahead."""

QUEUED_KIB = 16 * 1024
"""Of events that the consumer has fetched and nobody has looked at yet, whole."""

FULL_QUEUE_MS = 10
"""How long it waits to fetch again where there are so many; librdkafka's own is a second."""


class Ahead:
    """What is known of one partition's events that no micro-batch has planned.

    Attributes:
        first: the offset of the first of them.
        end: the offset after the last.
    """

    def __init__(self, first: int, end: int) -> None:
        self.first, self.end = first, end
        self._totals = [0]
        """The bytes of all read so far, then after each of those that are known."""
        self._mean = float(ROW_BYTES_MAX)

    @property
    def known(self) -> int:
        """Of how many offsets, from the first on, the bytes are known."""
        return len(self._totals) - 1

    @property
    def known_bytes(self) -> int:
        """How many bytes these have."""
        return self._totals[-1] - self._totals[0]

    @property
    def lag(self) -> int:
        """How many offsets there are."""
        return max(self.end - self.first, self.known)

    def add(self, offset: int, size: int) -> None:
        """An event that was read; offsets left out before it have no bytes."""
        left_out = offset - self.first - self.known
        if left_out < 0:
            return
        total = self._totals[-1]
        self._totals += [total] * left_out
        self._totals.append(total + size)

    def plan(self, end: int) -> None:
        """A micro-batch has taken what is before this offset."""
        if self.known:
            self._mean = self.known_bytes / self.known
        taken = max(0, end - self.first)
        self._totals = self._totals[taken:] or [self._totals[-1]]
        self.first += taken

    def bytes_of(self, rows: int) -> int:
        """The bytes of so many from the first on; what is not known is as what is known before."""
        known = min(rows, self.known)
        mean = self.known_bytes / self.known if self.known else self._mean
        return self._totals[known] - self._totals[0] + round((rows - known) * mean)


def rows_within(partitions: Sequence[Ahead], rows_max: int, bytes_max: int) -> int:
    """The most rows that a micro-batch may be told to take; at least one.

    The one after it may begin before it is told another number: both together have twice the bytes
    at most.
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
    """What each partition gives of so many rows (KafkaMicroBatchStream.rateLimit)."""
    total = max(1, sum(lags))
    wanted = [rows * (lag / total) for lag in lags]
    return [
        min(lag, math.ceil(share) if share < 1 else math.floor(share))
        for lag, share in zip(lags, wanted, strict=True)
    ]


class ReadAhead:
    """Keeps the bound of a job's query.

    Args:
        reader: a consumer of its own.
        settings: the job's.
    """

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
        """The partitions of which enough is known."""

    def at_start(self) -> int:
        """The bound of the first micro-batch: all that is there is read, as far as it counts."""
        deadline = time.monotonic() + FIRST_READ_S
        while self._is_unread() and time.monotonic() < deadline:
            self._read(POLL_S)
        self._set = self._rows()
        return self._set

    def look(self, session: "SparkSession", query: "StreamingQuery") -> None:
        """Read on behind the newest planned micro-batch, and give the query its bound."""
        planned = checkpoint_log.planned(self._settings.checkpoint_dir)
        if planned > self._planned:
            self._planned = planned
            for number, end in self._ends_of(planned).items():
                if number in self._partitions:  # the next start refuses one that has come since
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
        """The bound by what is known now."""
        settings = self._settings
        most, bytes_max = settings.max_offsets_per_trigger, settings.max_bytes_per_trigger
        return rows_within(list(self._partitions.values()), most, bytes_max)

    def _is_unread(self) -> bool:
        """Whether more is to be known of any partition."""
        return any(
            each.known < each.lag and not self._is_enough(each)
            for each in self._partitions.values()
        )

    def _is_enough(self, one: Ahead) -> bool:
        """Whether so much of a partition is known as micro-batches may take while it is read."""
        rows_max = self._settings.max_offsets_per_trigger * BATCHES
        bytes_max = self._settings.max_bytes_per_trigger * BATCHES
        return one.known >= rows_max or one.known_bytes > bytes_max

    def _pause(self) -> None:
        """Have nothing fetched of partitions of which enough is known: one's backlog is no other's.

        One that is read up to its end is fetched from all the same: so its end is known.
        """
        enough = {n for n, each in self._partitions.items() if self._is_enough(each)}
        if enough != self._paused:
            self._reader.pause([TopicPartition(self._topic, n) for n in enough - self._paused])
            self._reader.resume([TopicPartition(self._topic, n) for n in self._paused - enough])
            self._paused = enough

    def _read(self, timeout_s: float) -> bool:
        """Take what the consumer has fetched; gives back whether that was anything."""
        self._pause()
        messages = self._reader.consume(POLL_MESSAGES, timeout_s)
        for message in messages:
            if message.error() is None:
                self._partitions[message.partition() or 0].add(message.offset() or 0, len(message))
        return bool(messages)


@contextmanager
def reading_ahead(client: ClientProperties, settings: Settings) -> Iterator[ReadAhead]:
    """A consumer of lengths while a job runs."""
    changes = {
        "enable.partition.eof": False,
        "queued.max.messages.kbytes": QUEUED_KIB,
        "fetch.queue.backoff.ms": FULL_QUEUE_MS,
    }
    with closing(consumer(client, changes)) as reader:
        yield ReadAhead(reader, settings)


def _limit(session: "SparkSession", query: "StreamingQuery", rows: int) -> bool:
    """Have the micro-batches that come take at most so many rows; False before the first one.

    The options of a source are read once, but what they make, `StreamExecution.uniqueSources`, is
    looked at before each micro-batch.
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
