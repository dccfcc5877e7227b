"""The log cleaner of a job, which reads the job's checkpoint.

    state of a micro-batch -> due passes -> cleaned batches to `data`
                           -> an event `clean-log` to `requests`

The job continues meanwhile. The event contains the log's state at the time of the pass. If the log
has lost batches or changed its leader since, the job ignores it, and the next round starts again.
Later appends are beyond the range of the pass. A log is not cleaned again until the job has read
the event.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from confluent_kafka import KafkaError, Message, Producer

from brokertwin.gateway.engine.engine import Body, Clock, EventWriter, now_ms
from brokertwin.gateway.records import log_cleaner
from brokertwin.gateway.records.data_topic import DataTopic
from brokertwin.gateway.records.log_cleaner import CleaningPass, OnePass
from brokertwin.gateway.records.sealed_segments import SealedSegments
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.placement import Placement
from brokertwin.kafka_io.topic_reader import ID_HEADER
from brokertwin.kafka_io.topics import KAFKA_TIMEOUT_S, REQUESTS, full_name, writer_configuration
from brokertwin.sinks.topic_writer import reason_of
from brokertwin.state.cluster import broker_configs
from brokertwin.state.core.events import Event, document_of
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import CellTables

MOVED_MAX = 4_096
"""Maximum of batches moved by a pass. Unmoved, they would keep the beginning of `data` alive."""

CACHE_BYTES = 16 * 1024 * 1024
"""Cache of rows of `data`: a pass reads a log twice."""


class CellState(NamedTuple):
    """A cell after a micro-batch, and its cluster."""

    placed: Placement
    cell: str
    tables: CellTables


class JobState(NamedTuple):
    """A job's cells after a micro-batch; `read` has its offsets in `requests`."""

    cells: Sequence[CellState]
    read: dict[int, int]


class _EventPosition(NamedTuple):
    """Position of an event in `requests`."""

    partition: int
    offset: int


_LogKey = tuple[str, int, str, int]
"""Cell, broker, topic id and partition."""


class JobCleaner:
    """Cleans the compacted logs of a job's clusters, in rounds.

    Args:
        given: settings with which the brokers were started.
        is_ended: whether a running pass should be abandoned.
        clock: time of passes.
    """

    def __init__(
        self,
        client: ClientProperties,
        prefix: str,
        broker_settings: BrokerSettings,
        is_ended: Callable[[], bool] = lambda: False,
        clock: Clock = now_ms,
    ) -> None:
        self._client, self._prefix = client, prefix
        self._given, self._is_ended, self._clock = broker_settings, is_ended, clock
        self._sent: dict[_LogKey, _EventPosition] = {}

    def backoff_s(self, state: JobState) -> float:
        """Return the time until the next round (`log.cleaner.backoff.ms`)."""
        delays = [self._given.log_cleaner_backoff_ms]
        for placed, _, tables in state.cells:
            first = placed.brokers[0]
            settings = broker_configs.settings_of(tables.of(first), first, self._given)
            delays.append(settings.log_cleaner_backoff_ms)
        return max(min(delays), 1) / 1000

    def waits_for_time(self, state: JobState) -> bool:
        """True if a pass can become due without new records."""
        return any(
            log_cleaner.waits_for_time(each.tables, each.placed.brokers_of(each.cell), self._given)
            for each in state.cells
        )

    def round(self, state: JobState) -> int:
        """Run the due passes; return the number of events sent to the job.

        Raises:
            UserError: a topic of the job is missing, or Kafka does not respond.
            OSError: reading or writing rows failed.
        """
        self._sent = {
            key: place
            for key, place in self._sent.items()
            if state.read.get(place.partition, 0) <= place.offset
        }
        found = [(each, due) for each in state.cells for due in self._due(each)]
        return asyncio.run(self._clean(found)) if found else 0

    def _due(self, of: CellState) -> Iterator[CleaningPass]:
        brokers = of.placed.brokers_of(of.cell)
        for due in log_cleaner.due(of.tables, brokers, self._given, self._clock()):
            if _key(of, due) not in self._sent:
                yield due

    async def _clean(self, found: list[tuple[CellState, CleaningPass]]) -> int:
        count = 0
        data = DataTopic(self._client, self._prefix, CACHE_BYTES)
        await data.start()
        try:
            for of, due in found:
                count += await self._clean_one(of, due, data)
        finally:
            await data.close()
        return count

    async def _clean_one(self, of: CellState, due: CleaningPass, data: DataTopic) -> bool:
        segments = None
        if due.log.segments:
            segments = SealedSegments(self._client, self._prefix, of.placed.cluster)
            await segments.start()
        edge = _Edge(asyncio.get_running_loop(), data, segments)
        one = OnePass(of.tables, edge, due, self._clock(), edge.segment, MOVED_MAX)
        try:
            await asyncio.to_thread(self._finish, one)
        finally:
            if segments is not None:
                await segments.close()
        if one.cleaned is None:
            return False
        events = EventWriter(of.placed.cluster, clock=self._clock)
        event = events.cleaning(due.broker, one.cleaned, due.mark)
        self._sent[_key(of, due)] = await asyncio.to_thread(self._write, of, event)
        return True

    def _finish(self, one: OnePass) -> None:
        for _ in one.steps():
            if self._is_ended():
                return

    def _write(self, of: CellState, event: Event) -> _EventPosition:
        """Write an event and return its position. Raises OSError."""
        delivered: list[_EventPosition | KafkaError] = []
        producer = Producer(writer_configuration(self._client))
        producer.produce(
            full_name(self._prefix, REQUESTS),
            key=of.cell,
            value=document_of(event),
            partition=of.placed.partition_of(of.cell),
            headers={ID_HEADER: event.id.encode()},
            on_delivery=partial(_delivered, delivered),
        )
        producer.flush(KAFKA_TIMEOUT_S)
        if not delivered:
            raise OSError("Kafka did not accept the result of a cleaning pass in time")
        (position,) = delivered
        if isinstance(position, KafkaError):
            raise OSError(
                f"Kafka did not accept the result of a cleaning pass: {reason_of(position)}"
            )
        return position


def _key(of: CellState, due: CleaningPass) -> _LogKey:
    return of.cell, due.broker, due.log.topic_id, due.log.partition


def _delivered(
    positions: list[_EventPosition | KafkaError], error: KafkaError | None, row: Message
) -> None:
    positions.append(error or _EventPosition(row.partition() or 0, row.offset() or 0))


class _Edge:
    """Bytes of batches and sealed segments, for a pass in a thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, data: DataTopic, segments: SealedSegments | None
    ) -> None:
        self._loop, self._data, self._segments = loop, data, segments

    def put(self, data: bytes) -> str:
        """Store bytes and return their locator. Raises OSError."""
        return asyncio.run_coroutine_threadsafe(self._data.put(data), self._loop).result()

    def get(self, locator: str) -> bytes | None:
        """Return the bytes, or None if they are lost. Raises OSError."""
        return asyncio.run_coroutine_threadsafe(self._data.get(locator), self._loop).result()

    def drop(self, locator: str, was_kept: bool) -> None:
        """Do nothing: `brokertwin gc` deletes unreferenced rows."""

    def segment(self, topic_id: str, partition: int, base_offset: int) -> list[Body] | None:
        """Return the batches of a sealed segment. Raises OSError."""
        assert self._segments is not None, "the log has none"
        reading = self._segments.segment(topic_id, partition, base_offset)
        return asyncio.run_coroutine_threadsafe(reading, self._loop).result()
