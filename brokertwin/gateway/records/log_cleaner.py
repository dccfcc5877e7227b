"""The log cleaner of an engine, which reads batches that the state machine cannot.

`state/logs/cleaner.py` decides which logs are due, and what remains of each batch. Like Kafka's
cleaner, a pass reads the log below its end twice: for the keys, then for the remaining records. The
result is an event with the remaining headers, so replaying a journal needs no bytes. A log with
unreadable bytes is not cleaned.

The index of a compacted log is not sealed. Segments sealed before the topic became compacted return
to the index with the first pass that covers all of them.
"""

from collections.abc import Callable, Iterator
from heapq import nsmallest
from typing import NamedTuple, Protocol

import msgspec
import structlog

from brokertwin.gateway.engine.engine import Body
from brokertwin.gateway.records import cleaned_batches
from brokertwin.gateway.records.cleaned_batches import RawRecord
from brokertwin.kafka_io.locators import Locator
from brokertwin.protocol import control_batches
from brokertwin.protocol import record_batches as records
from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.compression import DecompressionError
from brokertwin.protocol.primitives import MalformedError
from brokertwin.protocol.record_batches import NO_TIMESTAMP
from brokertwin.state.cluster import broker_configs, image, retention_limits
from brokertwin.state.core.events import LogMark
from brokertwin.state.core.records import LogCleaned
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import CellTables
from brokertwin.state.logs import cleaner
from brokertwin.state.logs.cleaner import (
    CleanableRange,
    CleanedBatch,
    CleanedTransactionMetadata,
    CleanerBatch,
    CleanerPass,
    CleaningRules,
    OffsetMap,
)
from brokertwin.state.logs.log import (
    Log,
    Segment,
    StoredBatch,
    aborted_index,
    batches_from,
    log_key,
    sealed_segments,
)
from brokertwin.state.replication import network

LISTED_MAX = 16_384
"""Maximum of batch headers in an event of at most 8 MiB; each takes about 350 bytes."""

RUNS_AS_A_BATCH = 8
"""Number of unchanged runs that take as much space as one header."""

SEALED_MAX = 256
"""Maximum of sealed segments, of 64 batches each: the event lists their batches."""

SLICE = 256
"""Batches per step of a pass, a few milliseconds."""

Sealed = Callable[[str, int, int], list[Body] | None]

_log = structlog.get_logger("brokertwin.gateway")


class CleaningPass(NamedTuple):
    """A due pass: broker, log, offset range and rules."""

    broker: int
    log: Log
    range_: CleanableRange
    rules: CleaningRules
    mark: LogMark


class Bytes(Protocol):
    """Storage of batch bytes."""

    def put(self, data: bytes) -> str:
        """Store bytes and return their locator."""

    def get(self, locator: str) -> bytes | None:
        """Return the bytes, or None if they are lost."""

    def drop(self, locator: str, was_kept: bool) -> None:
        """Drop bytes that no log has."""


class _DecodedBatch(NamedTuple):
    batch: CleanerBatch
    records: list[RawRecord]
    data: bytes


class _Left:
    """Result of a pass, in batch order.

    Args:
        first_indexed: first offset in the state machine's index.

    Attributes:
        batches: headers that the index does not have.
        unchanged: runs of batches that it has.
    """

    def __init__(self, first_indexed: int) -> None:
        self.batches: list[Batch] = []
        self.unchanged: list[tuple[int, int]] = []
        self._first_indexed = first_indexed
        self._is_run = False

    @property
    def size(self) -> int:
        return len(self.batches) + len(self.unchanged) // RUNS_AS_A_BATCH

    def deleted(self) -> None:
        self._is_run = False

    def changed(self, batch: Batch) -> None:
        self._is_run = False
        self.batches.append(batch)

    def unchanged_batch(self, header: StoredBatch) -> None:
        if header.base_offset < self._first_indexed:
            self.batches.append(header.header())
            return
        first = self.unchanged.pop()[0] if self._is_run else header.last_offset
        self.unchanged.append((first, header.last_offset))
        self._is_run = True


class _UnreadableBatchError(Exception):
    """Bytes of a batch are lost or cannot be decoded."""


class _TooManyError(Exception):
    """The result of a pass does not fit into an event."""


def due(
    tables: CellTables, brokers: list[int], broker_settings: BrokerSettings, now: int
) -> Iterator[CleaningPass]:
    """Yield the passes due at `now` (ms since 1970); `broker_settings` are all brokers'."""
    for broker in brokers:
        settings = broker_configs.settings_of(tables.of(broker), broker, broker_settings)
        if not settings.log_cleaner_enable or network.is_stopped(tables.cluster, broker):
            continue
        for topic in image.all_topics(tables.of(broker)):
            rules = retention_limits.cleaning_of(topic, settings)
            for partition in range(len(topic.partitions)) if rules is not None else ():
                log = tables.logs.get(log_key(broker, topic.topic_id, partition), Log)
                if log is None or rules is None or len(log.segments) > SEALED_MAX:
                    continue
                range_ = cleaner.cleanable(tables.of(broker), log, rules, now)
                if range_ is not None and cleaner.is_unsealed_from(log, range_.end):
                    yield CleaningPass(broker, log, range_, rules, cleaner.log_mark(log))


def waits_for_time(tables: CellTables, brokers: list[int], broker_settings: BrokerSettings) -> bool:
    """True if a topic is also compacted by the age of its records."""
    for broker in brokers:
        settings = broker_configs.settings_of(tables.of(broker), broker, broker_settings)
        for topic in image.all_topics(tables.of(broker)):
            rules = retention_limits.cleaning_of(topic, settings)
            if rules is not None and rules.depends_on_time:
                return True
    return False


def _between(headers: list[StoredBatch], offset: int, end: int) -> list[StoredBatch]:
    """Return the batches with offsets from `offset` to `end` (exclusive)."""
    return [each for each in headers if each.last_offset >= offset and each.base_offset < end]


class OnePass:
    """A pass over one log.

    If the result does not fit into an event, the range is halved.

    Args:
        tables: state, read only.
        store: storage of the original and the changed batches.
        sealed: returns the batches of a sealed segment by topic id, partition and base offset.
        due: the log and its range.
        now: time of the pass, in ms since 1970.
        moved_max: number of the oldest unchanged batches to rewrite, for storage that frees space
            only from its beginning.

    Attributes:
        written: locators written, not yet referenced by a log.
        cleaned: result after the last step; None if the log is unreadable.
    """

    def __init__(
        self,
        tables: CellTables,
        store: Bytes,
        due: CleaningPass,
        now: int,
        sealed: Sealed,
        moved_max: int = 0,
    ) -> None:
        self._tables = tables
        self._store = store
        self._sealed = sealed
        self._due = due
        self._now = now
        self._moved_max = moved_max
        self.written: list[str] = []
        self.cleaned: LogCleaned | None = None

    def steps(self) -> Iterator[None]:
        """Run the pass; yields regularly so that other tasks can run. Raises OSError."""
        log = self._due.log
        try:
            yield from self._within_one_event()
        except (_UnreadableBatchError, DecompressionError, MalformedError) as error:
            _log.warning(
                "cannot clean a log",
                topic=log.topic,
                partition=log.partition,
                error=str(error) or type(error).__name__,
            )

    def is_still_due(self) -> bool:
        """True if nothing but appends has changed the log since the pass became due."""
        broker, log, *_, mark = self._due
        key = log_key(broker, log.topic_id, log.partition)
        now = self._tables.logs.get(key, Log)
        return now is not None and cleaner.log_mark(now) == mark

    def _within_one_event(self) -> Iterator[None]:
        range_, headers = self._due.range_, list(self._headers())
        while True:
            try:
                yield from self._pass(range_, headers)
                return
            except _TooManyError:
                for locator in self.written:
                    self._store.drop(locator, False)
                self.written.clear()
                self._moved_max = 0
                dirty = _between(headers, range_.first_dirty, range_.end)
                half = dirty[(len(dirty) - 1) // 2].last_offset + 1
                if half == range_.end:
                    raise _UnreadableBatchError("its batches do not fit into one event") from None
                range_ = range_._replace(end=half)

    def _pass(self, range_: CleanableRange, headers: list[StoredBatch]) -> Iterator[None]:
        broker, log, _, rules, mark = self._due
        start, first_dirty = log.log_start_offset, range_.first_dirty
        entries = aborted_index(self._tables.of(broker), log).between(0, range_.end)
        ids = {header.producer_id for header in headers}
        last = cleaner.last_records(self._tables.of(broker), log, ids)
        keys = OffsetMap(
            first_dirty,
            CleanedTransactionMetadata([e for e in entries if e.last_offset >= first_dirty]),
        )
        for number, header in enumerate(_between(headers, first_dirty, range_.end), 1):
            keys.add_batch(self._seen(header).batch)
            if number % SLICE == 0:
                yield
        transactions = CleanedTransactionMetadata(entries)
        this = CleanerPass(
            range_, keys.last_offsets, last, transactions, self._now, rules.delete_retention_ms
        )
        left = _Left(mark.first_indexed)
        moved = self._to_move(_between(headers, start, first_dirty))
        for number, header in enumerate(_between(headers, start, range_.end), 1):
            seen = self._seen(header)
            outcome = this.clean(seen.batch)
            if outcome.places is None:
                left.deleted()
            elif outcome.is_changed:
                left.changed(self._changed(seen, outcome))
            elif header.locator in moved:
                left.changed(self._moved(header))
            else:
                left.unchanged_batch(header)
            if left.size > LISTED_MAX:
                raise _TooManyError
            if number % SLICE == 0:
                yield
        aborted = [each.last_offset for each in transactions.kept]
        self.cleaned = LogCleaned(
            log.topic_id, log.partition, range_.end, left.batches, aborted, left.unchanged
        )

    def _changed(self, seen: _DecodedBatch, outcome: CleanedBatch) -> Batch:
        header = seen.batch.header
        changed = cleaned_batches.left_of(seen.data, header, seen.records, outcome)
        first = seen.records[outcome.places[0]].timestamp if outcome.places else NO_TIMESTAMP
        batch = cleaned_batches.header_of(changed, header, first)
        locator = batch.locator = self._store.put(changed)
        self.written.append(locator)
        return batch

    def _to_move(self, clean: list[StoredBatch]) -> set[str | None]:
        """Return the locators of the batches nearest to the beginning of the storage."""
        places = [place for each in clean if (place := Locator.of(each.locator or "")) is not None]
        oldest = nsmallest(self._moved_max, places, key=lambda place: place.offset)
        return {str(place) for place in oldest}

    def _moved(self, header: StoredBatch) -> Batch:
        data = self._store.get(header.locator or "")
        if data is None:
            raise _UnreadableBatchError("the bytes of a batch are lost")
        locator = self._store.put(data)
        self.written.append(locator)
        return msgspec.structs.replace(header.header(), locator=locator)

    def _headers(self) -> Iterator[StoredBatch]:
        """Yield all batches of the log, including sealed ones."""
        broker, log, *_ = self._due
        for sealed in sealed_segments(self._tables.of(broker), log):
            yield from self._of_part(sealed)
        yield from batches_from(self._tables.of(broker), log, 0)

    def _of_part(self, part: Segment) -> list[StoredBatch]:
        log = self._due.log
        found = self._sealed(log.topic_id, log.partition, part.base_offset)
        if found is None:
            raise _UnreadableBatchError("a sealed segment of the index is lost")
        batches = (msgspec.convert(each, Batch) for each in found)
        return [StoredBatch(*msgspec.structs.astuple(batch)) for batch in batches]

    def _seen(self, header: StoredBatch) -> _DecodedBatch:
        data = self._bytes(header)
        return _DecodedBatch(*cleaned_batches.seen(data, header), data)

    def _bytes(self, header: StoredBatch) -> bytes:
        """Return a batch's bytes as in a Fetch response."""
        if header.locator is None:
            if header.end_marker is None:
                raise _UnreadableBatchError("a batch has no bytes")
            return control_batches.to_bytes(header.header())
        data = self._store.get(header.locator)
        if data is None:
            raise _UnreadableBatchError("the bytes of a batch are lost")
        return bytes(records.as_stored(data, header.header()))
