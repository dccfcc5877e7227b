"""The log cleaner of the local engine: it looks into the batches, which the machine cannot.

Which logs are due, and what is left of each batch, `state/logs/cleaner.py` says. A pass reads what
a log has below its end twice, as Kafka's does: once for the keys, once for what is left. Its
outcome goes to the machine as an event with the headers that are left, so a journal decided again
needs no bytes. A log whose bytes cannot be read stays as it is.

The index of a compacted log is not sealed where it is cleaned. What was sealed before its topic
became compacted comes back into the index with the first pass that goes beyond all of it.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec
import structlog

from brokerstream.gateway import cleaned_batches, records
from brokerstream.gateway.batch_store import BatchStore
from brokerstream.gateway.cleaned_batches import RawRecord
from brokerstream.gateway.compression import DecompressionError
from brokerstream.gateway.engine import Body
from brokerstream.gateway.records import InvalidRecordsError
from brokerstream.state.cluster import broker_configs, image, retention_limits
from brokerstream.state.core.records import Batch, LogCleaned
from brokerstream.state.core.settings import BrokerSettings
from brokerstream.state.core.tables import Tables
from brokerstream.state.logs import cleaner, control_batches
from brokerstream.state.logs.cleaner import BatchSeen, Outcome, Pass, Range, Rules, Transactions
from brokerstream.state.logs.log import (
    Log,
    Segment,
    StoredBatch,
    aborted_index,
    batches_from,
    log_key,
    sealed_segments,
)
from brokerstream.state.replication import network

LISTED_MAX = 16_384
"""Batches that an event tells with their headers; each takes some 350 bytes of 8 MiB."""

RUNS_AS_A_BATCH = 8
"""Runs of batches that stay as they are take as much room as the header of one."""

SEALED_MAX = 256
"""Sealed parts, of 64 batches each, of a log that is cleaned: the event tells what they had."""

Sealed = Callable[[str, int, int], list[Body] | None]

_log = structlog.get_logger("brokerstream.gateway")


class Due(NamedTuple):
    """A pass that is due: over which log, on which broker, how far, by which rules."""

    broker: int
    log: Log
    range_: Range
    rules: Rules


class _NotReadableError(Exception):
    """The bytes of a batch are lost, or do not decode."""


class _TooManyError(Exception):
    """An event cannot tell all that a pass has changed."""


def due(tables: Tables, brokers: list[int], given: BrokerSettings, now: int) -> Iterator[Due]:
    """The passes that are due at `now` (ms since 1970); `given` are the brokers' settings."""
    for broker in brokers:
        settings = broker_configs.settings_of(tables.metadata, broker, broker, given)
        if not settings.log_cleaner_enable or network.is_stopped(tables.waiting, broker):
            continue
        for topic in image.all_topics(tables.metadata, broker):
            rules = retention_limits.cleaning_of(topic, settings)
            for partition in range(len(topic.partitions)) if rules is not None else ():
                log = tables.logs.get(log_key(broker, topic.topic_id, partition), Log)
                if log is None or rules is None or len(log.segments) > SEALED_MAX:
                    continue
                range_ = cleaner.cleanable(tables.logs, broker, log, rules, now)
                if range_ is not None and cleaner.is_index_whole_from(log, range_.end):
                    yield Due(broker, log, range_, rules)


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

    Attributes:
        written: the locators of what was written; no log has it yet.
    """

    def __init__(
        self, tables: Tables, store: BatchStore, due: Due, now: int, sealed: Sealed = no_sealed
    ) -> None:
        self._tables = tables
        self._store = store
        self._sealed = sealed
        self._due = due
        self._now = now
        self.written: list[str] = []

    def run(self) -> LogCleaned | None:
        """What is left; None where the log is not readable. Raises OSError."""
        log = self._due.log
        try:
            return self._as_far_as_can_be_told()
        except (_NotReadableError, DecompressionError, InvalidRecordsError) as error:
            _log.warning(
                "a log cannot be cleaned",
                topic=log.topic,
                partition=log.partition,
                error=str(error) or type(error).__name__,
            )
            return None

    def _as_far_as_can_be_told(self) -> LogCleaned | None:
        range_ = self._due.range_
        while True:
            try:
                return self._left(range_)
            except _TooManyError:
                for locator in self.written:
                    self._store.drop(locator, False)
                self.written.clear()
                half = self._end_of_half(range_)
                if half == range_.end:
                    raise _NotReadableError("its batches are more than an event can tell") from None
                range_ = range_._replace(end=half)

    def _end_of_half(self, range_: Range) -> int:
        """Where half of the dirty batches end; the range's own end where it has one batch."""
        found = list(self._headers(range_.first_dirty, range_.end))
        return found[(len(found) - 1) // 2].last_offset + 1 if found else range_.end

    def _left(self, range_: Range) -> LogCleaned:
        broker, log, _, rules = self._due
        index = aborted_index(self._tables.logs, broker, log)
        dirty = (seen for seen, _, _ in self._seen(range_.first_dirty, range_.end))
        keys = cleaner.last_offsets(
            dirty, range_.first_dirty, index.between(range_.first_dirty, range_.end)
        )
        headers = self._headers(log.log_start_offset, log.log_end_offset)
        ids = {header.producer_id for header in headers}
        last = cleaner.last_records(self._tables.producers, broker, log, ids)
        transactions = Transactions(index.between(0, range_.end))
        this = Pass(range_, keys, last, transactions, self._now, rules.delete_retention_ms)
        left: list[Batch] = []
        unchanged: list[tuple[int, int]] = []
        goes_on = False
        for seen, data, found in self._seen(log.log_start_offset, range_.end):
            outcome, header = this.outcome(seen), seen.header
            stays = outcome.places is not None and not outcome.is_changed
            if stays and self._is_indexed(header):
                first = unchanged.pop()[0] if goes_on else header.last_offset
                unchanged.append((first, header.last_offset))
                goes_on = True
                continue
            goes_on = False
            if stays:
                left.append(header.header())
            elif outcome.places is not None:
                left.append(self._changed(seen, data, found, outcome))
            if len(left) + len(unchanged) // RUNS_AS_A_BATCH > LISTED_MAX:
                raise _TooManyError
        aborted = [each.last_offset for each in transactions.kept]
        return LogCleaned(log.topic_id, log.partition, range_.end, left, aborted, unchanged)

    def _is_indexed(self, header: StoredBatch) -> bool:
        """Whether the machine has a batch in its index."""
        chunks = self._due.log.chunks
        return bool(chunks) and header.base_offset >= chunks[0].base_offset

    def _changed(
        self, seen: BatchSeen, data: bytes, found: list[RawRecord], outcome: Outcome
    ) -> Batch:
        changed = cleaned_batches.left_of(data, seen.header, found, outcome)
        first = found[outcome.places[0]].timestamp if outcome.places else records.NO_TIMESTAMP
        header = cleaned_batches.header_of(changed, seen.header, first)
        locator = self._store.put(changed)
        self.written.append(locator)
        return msgspec.convert(header | {"locator": locator}, Batch)

    def _headers(self, offset: int, end: int) -> Iterator[StoredBatch]:
        """The batches from `offset` up to `end`, sealed ones among them."""
        broker, log, _, _ = self._due
        for sealed in sealed_segments(self._tables.logs, broker, log):
            if sealed.last_offset >= offset and sealed.base_offset < end:
                for header in self._of_part(sealed):
                    if header.last_offset >= offset:
                        yield header
        for header in batches_from(self._tables.logs, broker, log, offset):
            if header.base_offset >= end:
                return
            yield header

    def _of_part(self, part: Segment) -> list[StoredBatch]:
        log = self._due.log
        found = self._sealed(log.topic_id, log.partition, part.base_offset)
        if found is None:
            raise _NotReadableError("a sealed part of the index is lost")
        batches = (msgspec.convert(each, Batch) for each in found)
        return [StoredBatch(*msgspec.structs.astuple(batch)) for batch in batches]

    def _seen(self, offset: int, end: int) -> Iterator[tuple[BatchSeen, bytes, list[RawRecord]]]:
        """The batches from `offset` up to `end`, with bytes and records."""
        for header in self._headers(offset, end):
            data = self._bytes(header)
            seen, found = cleaned_batches.seen(data, header)
            yield seen, data, found

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
