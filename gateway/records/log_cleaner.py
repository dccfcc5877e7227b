"""The log cleaner of an engine: it looks into the batches, which the machine cannot.

Which logs are due, and what is left of each batch, `state/logs/cleaner.py` says. A pass reads what
a log has below its end twice, as Kafka's does: once for the keys, once for what is left. Its
outcome goes to the machine as an event with the headers that are left, so a journal decided again
needs no bytes. A log whose bytes cannot be read stays as it is.

The index of a compacted log is not sealed where it is cleaned. What was sealed before its topic
became compacted comes back into the index with the first pass that goes beyond all of it.
"""

from collections.abc import Callable, Iterator
from heapq import nsmallest
from typing import NamedTuple, Protocol

import msgspec
import structlog

from brokertwin.gateway.engine.engine import Body
from brokertwin.gateway.records import cleaned_batches, records
from brokertwin.gateway.records.cleaned_batches import RawRecord
from brokertwin.gateway.records.compression import DecompressionError
from brokertwin.gateway.records.records import NO_TIMESTAMP, InvalidRecordsError
from brokertwin.kafka_io.locators import Locator
from brokertwin.state.cluster import broker_configs, image, retention_limits
from brokertwin.state.core.events import LogMark
from brokertwin.state.core.records import Batch, LogCleaned
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import Tables
from brokertwin.state.logs import cleaner, control_batches
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
"""Batches that an event tells with their headers; each takes some 350 bytes of 8 MiB."""

RUNS_AS_A_BATCH = 8
"""Runs of batches that stay as they are take as much room as the header of one."""

SEALED_MAX = 256
"""Sealed parts, of 64 batches each, of a log that is cleaned: the event tells what they had."""

SLICE = 256
"""Batches that a pass looks at before others have their turn: a few milliseconds."""

Sealed = Callable[[str, int, int], list[Body] | None]

_log = structlog.get_logger("brokertwin.gateway")


class Due(NamedTuple):
    """A pass that is due: over which log, on which broker, how far, by which rules."""

    broker: int
    log: Log
    range_: CleanableRange
    rules: CleaningRules
    mark: LogMark


class Bytes(Protocol):
    """Where the bytes of batches lie."""

    def put(self, data: bytes) -> str:
        """Keep bytes; gives back their locator."""

    def get(self, locator: str) -> bytes | None:
        """The bytes, None where they are lost."""

    def drop(self, locator: str, was_kept: bool) -> None:
        """Forget bytes that no log has."""


class _Seen(NamedTuple):
    """A batch as the cleaner sees it, its records and its bytes."""

    batch: CleanerBatch
    records: list[RawRecord]
    data: bytes


class _Left:
    """What a pass leaves, the batches in their order.

    Args:
        first_indexed: from this offset on the machine has the batches in its index.

    Attributes:
        batches: what the machine has not.
        unchanged: runs of what it has.
    """

    def __init__(self, first_indexed: int) -> None:
        self.batches: list[Batch] = []
        self.unchanged: list[tuple[int, int]] = []
        self._first_indexed = first_indexed
        self._goes_on = False

    @property
    def size(self) -> int:
        """The room that it takes in an event, in headers."""
        return len(self.batches) + len(self.unchanged) // RUNS_AS_A_BATCH

    def goes(self) -> None:
        """The next batch goes."""
        self._goes_on = False

    def changed(self, batch: Batch) -> None:
        """The next batch is another."""
        self._goes_on = False
        self.batches.append(batch)

    def stays(self, header: StoredBatch) -> None:
        """The next batch stays as it is."""
        if header.base_offset < self._first_indexed:
            self.batches.append(header.header())
            return
        first = self.unchanged.pop()[0] if self._goes_on else header.last_offset
        self.unchanged.append((first, header.last_offset))
        self._goes_on = True


class _NotReadableError(Exception):
    """The bytes of a batch are lost, or do not decode."""


class _TooManyError(Exception):
    """An event cannot tell all that a pass has changed."""


def due(tables: Tables, brokers: list[int], given: BrokerSettings, now: int) -> Iterator[Due]:
    """The passes that are due at `now` (ms since 1970); `given` are the brokers' settings."""
    for broker in brokers:
        settings = broker_configs.settings_of(tables.metadata, broker, broker, given)
        if not settings.log_cleaner_enable or network.is_stopped(tables.cluster, broker):
            continue
        for topic in image.all_topics(tables.metadata, broker):
            rules = retention_limits.cleaning_of(topic, settings)
            for partition in range(len(topic.partitions)) if rules is not None else ():
                log = tables.logs.get(log_key(broker, topic.topic_id, partition), Log)
                if log is None or rules is None or len(log.segments) > SEALED_MAX:
                    continue
                range_ = cleaner.cleanable(tables.logs, broker, log, rules, now)
                if range_ is not None and cleaner.is_unsealed_from(log, range_.end):
                    yield Due(broker, log, range_, rules, cleaner.log_mark(log))


def waits_for_time(tables: Tables, brokers: list[int], given: BrokerSettings) -> bool:
    """Whether there are topics that are compacted by the age of their records, too."""
    for broker in brokers:
        settings = broker_configs.settings_of(tables.metadata, broker, broker, given)
        for topic in image.all_topics(tables.metadata, broker):
            rules = retention_limits.cleaning_of(topic, settings)
            if rules is not None and rules.depends_on_time:
                return True
    return False


def _between(headers: list[StoredBatch], offset: int, end: int) -> list[StoredBatch]:
    """The batches that hold `offset` or lie above it, up to `end` (exclusive)."""
    return [each for each in headers if each.last_offset >= offset and each.base_offset < end]


def no_sealed(_topic_id: str, _partition: int, _base_offset: int) -> list[Body] | None:
    """The sealed parts of logs where there are none."""
    return None


class OnePass:
    """A pass over one log.

    Where an event cannot tell all that the pass changes, it goes half as far.

    Args:
        tables: the state, to be read only.
        store: where the bytes are, and where what is left of changed batches goes.
        sealed: gives the batches of a sealed part of a log, by topic id, partition, base offset.
        due: which log, and how far.
        now: the time of the pass, in ms since 1970.
        moved_max: how many batches that stay as they are get their bytes a new place, the oldest
            of those that were cleaned before: where room is freed from the beginning on.

    Attributes:
        written: the locators of what was written; no log has it yet.
        cleaned: what is left, after the last step; None where the log is not readable.
    """

    def __init__(
        self,
        tables: Tables,
        store: Bytes,
        due: Due,
        now: int,
        sealed: Sealed = no_sealed,
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
        """Do the pass; it pauses now and then, so that others have their turn. Raises OSError."""
        log = self._due.log
        try:
            yield from self._as_far_as_can_be_told()
        except (_NotReadableError, DecompressionError, InvalidRecordsError) as error:
            _log.warning(
                "cannot clean a log",
                topic=log.topic,
                partition=log.partition,
                error=str(error) or type(error).__name__,
            )

    def is_still_due(self) -> bool:
        """Whether the log has what it had when the pass was due, but for what was appended."""
        broker, log, *_, mark = self._due
        key = log_key(broker, log.topic_id, log.partition)
        now = self._tables.logs.get(key, Log)
        return now is not None and cleaner.log_mark(now) == mark

    def _as_far_as_can_be_told(self) -> Iterator[None]:
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
                    raise _NotReadableError("its batches do not fit into one event") from None
                range_ = range_._replace(end=half)

    def _pass(self, range_: CleanableRange, headers: list[StoredBatch]) -> Iterator[None]:
        broker, log, _, rules, mark = self._due
        start, first_dirty = log.log_start_offset, range_.first_dirty
        entries = aborted_index(self._tables.logs, broker, log).between(0, range_.end)
        ids = {header.producer_id for header in headers}
        last = cleaner.last_records(self._tables.producers, broker, log, ids)
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
                left.goes()
            elif outcome.is_changed:
                left.changed(self._changed(seen, outcome))
            elif header.locator in moved:
                left.changed(self._moved(header))
            else:
                left.stays(header)
            if left.size > LISTED_MAX:
                raise _TooManyError
            if number % SLICE == 0:
                yield
        aborted = [each.last_offset for each in transactions.kept]
        self.cleaned = LogCleaned(
            log.topic_id, log.partition, range_.end, left.batches, aborted, left.unchanged
        )

    def _changed(self, seen: _Seen, outcome: CleanedBatch) -> Batch:
        header = seen.batch.header
        changed = cleaned_batches.left_of(seen.data, header, seen.records, outcome)
        first = seen.records[outcome.places[0]].timestamp if outcome.places else NO_TIMESTAMP
        fields = cleaned_batches.header_of(changed, header, first)
        locator = self._store.put(changed)
        self.written.append(locator)
        return msgspec.convert(fields | {"locator": locator}, Batch)

    def _to_move(self, clean: list[StoredBatch]) -> set[str | None]:
        """The locators of the batches that lie furthest to the beginning."""
        found = [place for each in clean if (place := Locator.of(each.locator or "")) is not None]
        oldest = nsmallest(self._moved_max, found, key=lambda place: place.offset)
        return {str(place) for place in oldest}

    def _moved(self, header: StoredBatch) -> Batch:
        data = self._store.get(header.locator or "")
        if data is None:
            raise _NotReadableError("the bytes of a batch are lost")
        locator = self._store.put(data)
        self.written.append(locator)
        return msgspec.structs.replace(header.header(), locator=locator)

    def _headers(self) -> Iterator[StoredBatch]:
        """All batches of the log, sealed ones among them."""
        broker, log, *_ = self._due
        for sealed in sealed_segments(self._tables.logs, broker, log):
            yield from self._of_part(sealed)
        yield from batches_from(self._tables.logs, broker, log, 0)

    def _of_part(self, part: Segment) -> list[StoredBatch]:
        log = self._due.log
        found = self._sealed(log.topic_id, log.partition, part.base_offset)
        if found is None:
            raise _NotReadableError("a sealed segment of the index is lost")
        batches = (msgspec.convert(each, Batch) for each in found)
        return [StoredBatch(*msgspec.structs.astuple(batch)) for batch in batches]

    def _seen(self, header: StoredBatch) -> _Seen:
        data = self._bytes(header)
        return _Seen(*cleaned_batches.seen(data, header), data)

    def _bytes(self, header: StoredBatch) -> bytes:
        """A batch's bytes as a Fetch gives them."""
        if header.locator is None:
            if header.end_marker is None:
                raise _NotReadableError("a batch has no bytes")
            return control_batches.to_bytes(header.header())
        data = self._store.get(header.locator)
        if data is None:
            raise _NotReadableError("the bytes of a batch are lost")
        told = {
            "baseOffset": header.base_offset,
            "partitionLeaderEpoch": header.partition_leader_epoch,
            "maxTimestamp": header.max_timestamp,
        }
        return bytes(records.as_stored(data, told))
