"""Reads the inputs of `brokertwin gc`, and deletes rows.

The order matters. It reads the partitions of `data` first: rows that are old enough then have their
events in `requests`. Then it reads the committed state, its sealed segments, and last the events
after the state's position up to the current end.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from confluent_kafka import Consumer, KafkaException, TopicPartition

from brokertwin.errors import UserError
from brokertwin.kafka_io import placement
from brokertwin.kafka_io.kafka_clients import ClientProperties, client_properties
from brokertwin.kafka_io.topic_reader import consumer, first_and_end, partitions_of, read_all
from brokertwin.kafka_io.topics import (
    DATA,
    KAFKA_TIMEOUT_S,
    REQUESTS,
    admin_client,
    full_name,
    topic_id,
)
from brokertwin.settings import Settings
from brokertwin.state.core.outputs import SEGMENTS, SegmentKey
from brokertwin.state.core.tables import CellTables
from brokertwin.streaming.checkpoint import checkpoint_log, facts, garbage, state_reader
from brokertwin.streaming.checkpoint.garbage import Cut, Extent, NamedSegment, Need
from brokertwin.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Observer = Callable[[str, int], None]
"""Called with a topic and the number of offsets left to read."""


class _State(NamedTuple):
    """A committed state: tables by cluster, and positions in `requests`."""

    tables: list[tuple[str, CellTables]]
    read: dict[int, int]


class Sources:
    """The topics and the checkpoint of a job.

    Raises:
        UserError: it is not a committed checkpoint of this prefix, or Kafka does not respond.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._checkpoint = settings.checkpoint_dir
        self._client: ClientProperties = client_properties(settings)
        state_reader.committed_batch(self._checkpoint)
        job_facts = facts.read(self._checkpoint)
        requests = full_name(settings.prefix, REQUESTS)
        partitions_of(self._client, requests)
        if job_facts is None or job_facts.requests_topic_id != topic_id(
            admin_client(self._client), requests
        ):
            raise UserError(
                f"{self._checkpoint} is the checkpoint of a job that does not read {requests}.",
                "Pass the --checkpoint of the job with this --prefix.",
            )

    def extents(self, older_than_ms: int) -> dict[int, Extent]:
        """The partitions of `data`, with the first row that is too recent."""
        topic = full_name(self._settings.prefix, DATA)
        before_ms = time.time_ns() // 1_000_000 - older_than_ms
        partitions = range(partitions_of(self._client, topic))
        with closing(consumer(self._client)) as reader:
            return {number: _extent(reader, topic, number, before_ms) for number in partitions}

    def needs(self, session: "Callable[[], SparkSession]", observe: Observer) -> Iterator[Need]:
        """Yield every needed row of `data`.

        Raises:
            UserError: sealed segments or unread events are missing.
        """
        state = self._state(session)
        named: dict[SegmentKey, NamedSegment] = {}
        for cluster, tables in state.tables:
            yield from garbage.needed_by_logs(cluster, tables)
            named.update(garbage.named_segments(cluster, tables))
        yield from self._needed_by_segments(named, observe)
        yield from self._not_decided(state.read, observe)

    def _state(self, session: "Callable[[], SparkSession]") -> _State:
        batch = state_reader.committed_batch(self._checkpoint)
        cells = state_reader.read_cells(self._checkpoint, batch, session)
        placed = placement.read(self._client, self._settings.prefix)
        clusters = {cell: each.cluster for each in placed.values() for cell in each.cells}
        tables = [
            (clusters.get(cell, cell), CellTables(columns)) for cell, columns in cells.items()
        ]
        ends = checkpoint_log.end_offsets(self._checkpoint, batch)
        return _State(tables, ends[full_name(self._settings.prefix, REQUESTS)])

    def _needed_by_segments(
        self, named: dict[SegmentKey, NamedSegment], observe: Observer
    ) -> Iterator[Need]:
        """A tombstone means that no log has the segment any more."""
        topic = full_name(self._settings.prefix, SEGMENTS)
        missing = set(named)
        decoder = msgspec.json.Decoder(SegmentKey)
        if not named:
            return
        for row in read_all(self._client, topic, observe=lambda left: observe(topic, left)):
            key = decoder.decode(row.key or b"")
            missing.discard(key)
            if key in named and row.value is not None:
                yield from garbage.needed_by_segment(named[key], row.value)
        if missing:
            raise UserError(
                f"{topic} has lost {counted(len(missing), 'sealed segment')} that the state names.",
                "Nothing was deleted, because the batches in those segments are unknown.",
            )

    def _not_decided(self, read: dict[int, int], observe: Observer) -> Iterator[Need]:
        topic = full_name(self._settings.prefix, REQUESTS)
        with closing(consumer(self._client)) as reader:
            for partition, offset in read.items():
                first, end = first_and_end(reader, TopicPartition(topic, partition))
                if not first <= offset <= end:
                    raise UserError(
                        f"{topic}-{partition} has the offsets {first} to {end}, but the job has"
                        f" read to {offset}.",
                        "Nothing was deleted, because events that the job has not read are lost.",
                    )
        rows = read_all(self._client, topic, read, lambda left: observe(topic, left))
        for row in rows:
            yield from garbage.needed_by_event(row.value or b"")

    def delete(self, cuts: Iterable[Cut]) -> None:
        """Delete the rows of the cuts. Raises UserError if Kafka refuses."""
        topic = full_name(self._settings.prefix, DATA)
        deletions = [TopicPartition(topic, cut.partition, cut.below) for cut in cuts if cut.freed]
        if not deletions:
            return
        admin = admin_client(self._client)
        for place, deleted in admin.delete_records(deletions).items():
            try:
                deleted.result(KAFKA_TIMEOUT_S)
            except KafkaException as error:
                raise UserError(
                    f"Could not truncate {topic}-{place.partition}: {error.args[0].str()}.",
                    "The user needs Delete on the topic.",
                ) from None


def _extent(reader: Consumer, topic: str, partition: int, before_ms: int) -> Extent:
    start, end = first_and_end(reader, TopicPartition(topic, partition))
    partitions = [TopicPartition(topic, partition, before_ms)]
    (young,) = reader.offsets_for_times(partitions, KAFKA_TIMEOUT_S)
    return Extent(start, min(young.offset, end) if young.offset >= 0 else end, end)
