"""The lag of a query: the current ends of its topics less its committed positions.

Spark's progress report has the ends at the planning of a micro-batch, and none while one runs.
"""

import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topic_reader import consumer, partitions_of
from brokertwin.streaming.checkpoint import checkpoint_log

LEAST_S = 2.0
"""Two readings for a status page are at least this far apart."""

TIMEOUT_S = 5.0


class Lag(NamedTuple):
    """Unread rows by topic and partition, and when they were counted, in ms since 1970."""

    rows: dict[tuple[str, int], int]
    time_ms: int

    @property
    def total(self) -> int:
        return sum(self.rows.values())


NO_LAG = Lag({}, -1)
"""Before the first reading."""


class LagReader:
    """Reads the lag of a query, which may be stuck.

    Args:
        client: the connection to Kafka.
        topics: full names of its topics.
        checkpoint: its checkpoint.
        clock: monotonic, in seconds.
    """

    def __init__(
        self,
        client: ClientProperties,
        topics: Collection[str],
        checkpoint: Path,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._topics, self._checkpoint = client, topics, checkpoint
        self._clock = clock
        self._lock = threading.Lock()
        self._reader: Consumer | None = None
        self._not_before = clock()
        self._found = NO_LAG

    def read(self) -> Lag:
        """Return the current lag; the last one if Kafka does not respond."""
        with self._lock:
            try:
                self._found = Lag(self._read(), int(time.time() * 1000))
            except (KafkaException, UserError):
                self._reader = None
            self._not_before = self._clock() + LEAST_S
            return self._found

    def newest(self) -> Lag:
        """Return the lag of about now, and leave Kafka alone for a while."""
        if self._clock() < self._not_before or self._lock.locked():
            return self._found
        return self.read()

    def _read(self) -> dict[tuple[str, int], int]:
        """Raises KafkaException, UserError."""
        if self._reader is None:
            self._reader = consumer(self._client)
        batch = checkpoint_log.committed(self._checkpoint)
        positions = checkpoint_log.end_offsets(self._checkpoint, batch)
        lags = {}
        for topic in self._topics:
            for number in range(partitions_of(self._client, topic)):
                place = TopicPartition(topic, number)
                first, end = self._reader.get_watermark_offsets(place, TIMEOUT_S)
                read = positions.get(topic, {}).get(number, first)
                lags[topic, number] = max(end - max(read, first), 0)
        return lags
