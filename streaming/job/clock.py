"""The clock: writes a `tick` event when a cell's deadline is due.

Cells read no clock. Each writes its earliest deadline to the compacted topic `timers`. This thread
reads the topic and writes a tick to the cell's partition of `requests` when a deadline is due. The
cell then handles its expired timers, each at its own time. An extra tick has no effect.
"""

import heapq
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from functools import partial

import msgspec
from confluent_kafka import OFFSET_BEGINNING, KafkaError, Message, Producer, TopicPartition

from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.placement import Placement
from brokertwin.kafka_io.topic_reader import (
    ID_HEADER,
    TopicRow,
    consumer,
    is_end,
    partitions_of,
    polled,
    row_of,
)
from brokertwin.kafka_io.topics import KAFKA_TIMEOUT_S, REQUESTS, full_name, writer_configuration
from brokertwin.state.core import outputs

LONGEST_WAIT_S = 0.2
"""Maximum wait for new deadlines before the time is checked again."""

RETRY_MS = 1_000
"""Delay before a failed tick is retried."""


class JobTimer(msgspec.Struct, rename="camel"):
    """The value of a row of `timers`; `deadline` is in ms since 1970. The key is the cell."""

    cluster: str
    deadline: int


class TimerDeadlines:
    """The pending deadline of each cell; a new one replaces it."""

    def __init__(self) -> None:
        self._of_cell: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def has(self, cell: str) -> bool:
        return cell in self._of_cell

    def set(self, cell: str, deadline: int) -> None:
        """Set a cell's deadline, in ms since 1970."""
        self._of_cell[cell] = deadline
        heapq.heappush(self._heap, (deadline, cell))

    def next(self) -> int | None:
        """Return the earliest deadline, or None."""
        while self._heap:
            deadline, cell = self._heap[0]
            if self._of_cell.get(cell) == deadline:
                return deadline
            heapq.heappop(self._heap)
        return None

    def take_due(self, now: int) -> list[tuple[str, int]]:
        """Remove and return (cell, deadline) for each deadline <= now, earliest first."""
        due = []
        while (deadline := self.next()) is not None and deadline <= now:
            cell = heapq.heappop(self._heap)[1]
            del self._of_cell[cell]
            due.append((cell, deadline))
        return due


class JobClock(threading.Thread):
    """Reads `timers` and writes ticks until `stop`.

    Args:
        client: the connection to Kafka.
        prefix: the topic prefix.
        placements: the job's clusters, by name.
        skew_ms: `event_time_max_skew_ms`; a cell clamps a tick's time to its LogAppendTime.
        known: deadlines by cell that `timers` may lack, in ms since 1970.

    Attributes:
        failure: the error that ended the thread, if any.
        ticks: number of written ticks.
    """

    def __init__(
        self,
        client: ClientProperties,
        prefix: str,
        placements: Mapping[str, Placement],
        skew_ms: int,
        known: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(name="clock", daemon=True)
        self.failure: Exception | None = None
        self.ticks = 0
        self._client = client
        self._timers = full_name(prefix, outputs.TIMERS)
        self._requests = full_name(prefix, REQUESTS)
        self._cells = {cell: placed for placed in placements.values() for cell in placed.cells}
        self._skew_ms = skew_ms
        self._deadlines = TimerDeadlines()
        self._known = (
            TimerDeadlines()
        )  # kept apart, because `timers` may have older deadlines of the cells
        for cell, deadline in (known or {}).items():
            self._known.set(cell, deadline)
        self._unread: set[int] = set()
        self._has_stopped = threading.Event()

    def run(self) -> None:
        """Read, wait and tick until stopped."""
        try:
            self._run()
        except Exception as error:  # noqa: BLE001 - the caller handles the failure
            self.failure = error

    def stop(self) -> None:
        self._has_stopped.set()
        self.join(KAFKA_TIMEOUT_S)

    def _run(self) -> None:
        producer = Producer(writer_configuration(self._client))
        partitions = range(partitions_of(self._client, self._timers))
        with closing(consumer(self._client)) as reader:
            self._unread = set(partitions)
            reader.assign([TopicPartition(self._timers, n, OFFSET_BEGINNING) for n in partitions])
            while not self._has_stopped.is_set():
                for message in polled(reader, 1, self._patience_s()):
                    if is_end(message):
                        self._unread.discard(message.partition())
                    else:
                        self._note(row_of(message))
                if not self._unread:
                    self._tick(producer)
                producer.poll(0)
        producer.flush(KAFKA_TIMEOUT_S)

    def _patience_s(self) -> float:
        deadlines = [
            each for each in (self._deadlines.next(), self._known.next()) if each is not None
        ]
        if not deadlines or self._unread:
            return LONGEST_WAIT_S
        return min(max(min(deadlines) - now_ms(), 0) / 1000, LONGEST_WAIT_S)

    def _note(self, row: TopicRow) -> None:
        """Set a cell's deadline; rows that are no timers of this job are skipped."""
        cell = (row.key or b"").decode("utf-8", "replace")
        if row.value is None or cell not in self._cells:
            return
        try:
            timer = msgspec.json.decode(row.value, type=JobTimer)
        except msgspec.MsgspecError:
            return
        self._deadlines.set(cell, timer.deadline)

    def _tick(self, producer: Producer) -> None:
        now = now_ms()
        for cell, deadline in (*self._known.take_due(now), *self._deadlines.take_due(now)):
            placed = self._cells[cell]
            tick_id = f"tick/{cell}/{deadline}/{now}"
            tick = {"id": tick_id, "cluster": placed.cluster, "time": now, "kind": "tick"}
            producer.produce(
                self._requests,
                key=cell,
                value=msgspec.json.encode(tick),
                partition=placed.partition_of(cell),
                headers=[(ID_HEADER, tick_id.encode())],
                on_delivery=partial(self._delivered, cell, deadline),
            )
            self.ticks += 1

    def _delivered(
        self, cell: str, deadline: int, error: KafkaError | None, message: Message
    ) -> None:
        """Retry a tick that failed or is too early by Kafka's clock.

        A cell clamps a tick's time to its LogAppendTime. If Kafka's clock is far behind, the tick
        does not reach the deadline.
        """
        missing = RETRY_MS if error else deadline - (message.timestamp()[1] + self._skew_ms)
        if missing > 0 and not self._deadlines.has(cell):
            self._deadlines.set(cell, now_ms() + missing)


def now_ms() -> int:
    """The wall clock, in ms since 1970."""
    return time.time_ns() // 1_000_000
