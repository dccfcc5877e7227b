"""The log cleaner of a job: what a gateway with its own cell does by itself, from a checkpoint.

    state of a micro-batch -> passes that are due -> bytes of what is left to `data`
                           -> an event `clean-log` to `requests`, which the job takes as any other

The job goes on meanwhile. What a log was when the pass looked goes with the event: where a log has
lost batches since, or is led anew, the job does nothing, and the next round begins again. What was
appended since is behind the pass. Until the job has taken an event nothing more is told of its log.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import structlog
from confluent_kafka import KafkaError, Message, Producer

from brokertwin.gateway.engine.engine import Body, Clock, EventWriter, now_ms
from brokertwin.gateway.records import log_cleaner
from brokertwin.gateway.records.data_topic import DataTopic
from brokertwin.gateway.records.log_cleaner import Due, OnePass
from brokertwin.gateway.records.sealed_segments import SealedSegments
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.placement import Placement
from brokertwin.kafka_io.topic_reader import ID_HEADER
from brokertwin.kafka_io.topic_writer import reason_of
from brokertwin.kafka_io.topics import KAFKA_TIMEOUT_S, REQUESTS, full_name, writer_configuration
from brokertwin.state.cluster import broker_configs
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import Tables

MOVED_MAX = 4_096
"""Batches that a pass moves: they would hold the beginning of `data` for as long as their keys."""

CACHE_BYTES = 16 * 1024 * 1024
"""Of rows of `data`: a pass reads a log twice."""

_log = structlog.get_logger("brokertwin.gateway")


class CellState(NamedTuple):
    """A cell as a micro-batch has left it, and the cluster that it belongs to."""

    placed: Placement
    cell: str
    tables: Tables


class JobState(NamedTuple):
    """A job's cells as a micro-batch has left them; `read` is how far it had read `requests`."""

    cells: Sequence[CellState]
    read: dict[int, int]


class _Place(NamedTuple):
    """Where an event lies in `requests`."""

    partition: int
    offset: int


_LogKey = tuple[str, int, str, int]
"""Cell, broker, topic id and partition."""


class JobCleaner:
    """Cleans the compacted logs of a job's clusters, in rounds.

    Args:
        client: how to reach Kafka.
        prefix: what the names of the job's topics begin with.
        given: the settings that the brokers were started with.
        is_ended: whether nobody wants the outcome any more; a pass is given up then.
        clock: the time of passes.
    """

    def __init__(
        self,
        client: ClientProperties,
        prefix: str,
        given: BrokerSettings,
        is_ended: Callable[[], bool] = lambda: False,
        clock: Clock = now_ms,
    ) -> None:
        self._client, self._prefix = client, prefix
        self._given, self._is_ended, self._clock = given, is_ended, clock
        self._told: dict[_LogKey, _Place] = {}

    def backoff_s(self, state: JobState) -> float:
        """How long to wait for the next round (`log.cleaner.backoff.ms`)."""
        found = [self._given.log_cleaner_backoff_ms]
        for placed, _, tables in state.cells:
            first = placed.brokers[0]
            settings = broker_configs.settings_of(tables.metadata, first, first, self._given)
            found.append(settings.log_cleaner_backoff_ms)
        return max(min(found), 1) / 1000

    def waits_for_time(self, state: JobState) -> bool:
        """Whether a pass may become due with the hours, though no record comes."""
        return any(
            log_cleaner.waits_for_time(each.tables, each.placed.brokers_of(each.cell), self._given)
            for each in state.cells
        )

    def round(self, state: JobState) -> int:
        """Do the passes that are due; gives back of how many the job is told.

        Raises:
            UserError: a topic of the job is not there, or Kafka does not answer.
            OSError: it does not take, or give, what it is asked for.
        """
        self._told = {
            key: place
            for key, place in self._told.items()
            if state.read.get(place.partition, 0) <= place.offset
        }
        found = [(each, due) for each in state.cells for due in self._due(each)]
        return asyncio.run(self._clean(found)) if found else 0

    def _due(self, of: CellState) -> Iterator[Due]:
        brokers = of.placed.brokers_of(of.cell)
        for due in log_cleaner.due(of.tables, brokers, self._given, self._clock()):
            if _key(of, due) not in self._told:
                yield due

    async def _clean(self, found: list[tuple[CellState, Due]]) -> int:
        told = 0
        data = DataTopic(self._client, self._prefix, CACHE_BYTES)
        await data.start()
        try:
            for of, due in found:
                told += await self._clean_one(of, due, data)
        finally:
            await data.close()
        return told

    async def _clean_one(self, of: CellState, due: Due, data: DataTopic) -> bool:
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
        event_id, document = events.cleaning(due.broker, one.cleaned, due.mark)
        self._told[_key(of, due)] = await asyncio.to_thread(self._write, of, event_id, document)
        return True

    def _finish(self, one: OnePass) -> None:
        for _ in one.steps():
            if self._is_ended():
                return

    def _write(self, of: CellState, event_id: str, document: bytes) -> _Place:
        """Write an event; gives back where it lies. Raises OSError."""
        delivered: list[_Place | KafkaError] = []
        producer = Producer(writer_configuration(self._client))
        producer.produce(
            full_name(self._prefix, REQUESTS),
            key=of.cell,
            value=document,
            partition=of.placed.partition_of(of.cell),
            headers={ID_HEADER: event_id.encode()},
            on_delivery=partial(_delivered, delivered),
        )
        producer.flush(KAFKA_TIMEOUT_S)
        if not delivered:
            raise OSError("Kafka did not accept the result of a cleaning pass in time")
        (found,) = delivered
        if isinstance(found, KafkaError):
            raise OSError(f"Kafka did not accept the result of a cleaning pass: {reason_of(found)}")
        return found


def _key(of: CellState, due: Due) -> _LogKey:
    return of.cell, due.broker, due.log.topic_id, due.log.partition


def _delivered(found: list[_Place | KafkaError], error: KafkaError | None, row: Message) -> None:
    found.append(error or _Place(row.partition() or 0, row.offset() or 0))


class _Edge:
    """The bytes of batches, and sealed parts of logs, for a pass in a thread beside the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        data: DataTopic,
        segments: SealedSegments | None,
    ) -> None:
        self._loop, self._data, self._segments = loop, data, segments

    def put(self, data: bytes) -> str:
        """Keep bytes; gives back their locator. Raises OSError."""
        return asyncio.run_coroutine_threadsafe(self._data.put(data), self._loop).result()

    def get(self, locator: str) -> bytes | None:
        """The bytes, None where they are lost. Raises OSError."""
        return asyncio.run_coroutine_threadsafe(self._data.get(locator), self._loop).result()

    def drop(self, locator: str, was_kept: bool) -> None:
        """Nothing: `brokertwin gc` deletes what no log has."""

    def segment(self, topic_id: str, partition: int, base_offset: int) -> list[Body] | None:
        """The batches of a sealed part of a log. Raises OSError."""
        assert self._segments is not None, "the log has none"
        asked = self._segments.segment(topic_id, partition, base_offset)
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result()
