"""Log compaction: keep the last record of each key.

Source: `LogCleanerManager.cleanableOffsets`, `Cleaner.doClean`, `CleanedTransactionMetadata`,
`MemoryRecords.filterTo` in Kafka; KIP-534 (delete horizon). The state machine has no record bytes,
so the edge runs the pass: it reads the batches, calls the functions here, writes the remaining
records and sends a `LogCleaned`. The index alone decides when a pass is due and how far it goes.

    a record whose key has a later record below the end of the pass   dropped
    a tombstone                                 dropped once its batch's delete horizon is over
    a record of an aborted transaction          dropped
    a marker                                    dropped in the pass after one in which its
                                                transaction had no records, once the delete horizon
                                                set by that pass is over
    a batch without remaining records           dropped, unless it is the last one of its producer
                                                or of the pass: its header stays

The first pass that keeps a tombstone in a batch, or a marker without its transaction, sets the
batch's delete horizon: now plus `delete.retention.ms`. Never cleaned: the active segment, offsets
from the last stable offset on, segments younger than `min.compaction.lag.ms`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from brokertwin.state.core.events import LogMark
from brokertwin.state.core.records import LogCleaned
from brokertwin.state.core.tables import MachineTables
from brokertwin.state.logs import rolling
from brokertwin.state.logs.aborted_transactions import AbortedTxn
from brokertwin.state.logs.log import (
    Log,
    RollingRules,
    StoredBatch,
    aborted_index,
    batches_from,
    log_key,
    rewrite,
    sealed_segments,
)
from brokertwin.state.logs.producer import ProducerStateEntry, producer_key

NO_OFFSET = -1


_NO_LAG_MS = 2**63 - 1
"""A max.compaction.lag.ms without limit."""


class CleaningRules(NamedTuple):
    """A topic's settings for compaction, in ms."""

    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float
    rolling: RollingRules

    @property
    def depends_on_time(self) -> bool:
        """True if a pass can become due without an append."""
        return self.min_compaction_lag_ms > 0 or self.max_compaction_lag_ms < _NO_LAG_MS


class CleanableRange(NamedTuple):
    """A pass maps keys from `first_dirty` up to `end` (exclusive) and cleans all below `end`."""

    first_dirty: int
    end: int


class CleanerRecord(NamedTuple):
    """A record; a tombstone has no value."""

    offset: int
    key: bytes | None
    has_value: bool


class CleanerBatch(NamedTuple):
    """A batch and its records; `delete_horizon` is in ms since 1970."""

    header: StoredBatch
    records: list[CleanerRecord]
    delete_horizon: int | None = None


class LastRecord(NamedTuple):
    """The end offset of a producer's last batch with records (-1 if unknown), and its epoch."""

    offset: int
    epoch: int


class CleanedBatch(NamedTuple):
    """The remaining records of a batch by index; empty: its header stays; None: dropped.

    An unchanged batch keeps its bytes. `delete_horizon` is the one after the pass.
    """

    places: list[int] | None
    is_changed: bool = True
    delete_horizon: int | None = None


DROPPED = CleanedBatch(None)


def cleanable(at: MachineTables, log: Log, rules: CleaningRules, now: int) -> CleanableRange | None:
    """Range of a pass at `now` (ms since 1970), or None if none is due."""
    first_dirty = max(log.cleaned_to, log.log_start_offset)
    rolled = list(rolling.segments(at, log, rules.rolling))[:-1]
    dirty = [segment for segment in rolled if segment.end_offset > first_dirty]
    end, size, oldest = first_dirty, 0, now
    for segment in dirty:
        if segment.end_offset > log.last_stable_offset:
            break
        if rules.min_compaction_lag_ms > 0 and (
            segment.max_timestamp > now - rules.min_compaction_lag_ms
        ):
            break
        end, size = segment.end_offset, size + segment.size_in_bytes
    for segment in dirty:
        if segment.first_timestamp > 0:
            oldest = min(oldest, segment.first_timestamp)
    if not size:
        return None
    clean = sum(each.size_in_bytes for each in rolled if each.base_offset < first_dirty)
    is_late = oldest < now - max(rules.max_compaction_lag_ms, 0)
    if is_late or size / (size + clean) > rules.min_cleanable_dirty_ratio:
        return CleanableRange(first_dirty, end)
    return None


def last_records(at: MachineTables, log: Log, producer_ids: Iterable[int]) -> dict[int, LastRecord]:
    records = {}
    for producer_id in producer_ids:
        key = producer_key(at.id, log.topic_id, log.partition, producer_id)
        producer = at.tables.producers.get(key, ProducerStateEntry)
        if producer is not None:
            offset = producer.batches[-1].last_offset if producer.batches else NO_OFFSET
            records[producer_id] = LastRecord(offset, producer.producer_epoch)
    return records


class OffsetMap:
    """The last offset of each key in the dirty batches, without aborted records.

    `transactions`: the transactions of the dirty batches, before the first batch.

    Attributes:
        last_offsets: of the batches added so far.
    """

    def __init__(self, first_dirty: int, transactions: "CleanedTransactionMetadata") -> None:
        self.last_offsets: dict[bytes, int] = {}
        self._first_dirty = first_dirty
        self._transactions = transactions

    def add_batch(self, batch: CleanerBatch) -> None:
        if not self._transactions.can_discard(batch) and not batch.header.is_control:
            for record in batch.records:
                if record.key is not None and record.offset >= self._first_dirty:
                    self.last_offsets[record.key] = record.offset


class CleanedTransactionMetadata:
    """Transactions of a log while its batches are read in order.

    Attributes:
        kept: aborted transactions that have a batch, up to the last marker read.
    """

    def __init__(self, aborted: list[AbortedTxn]) -> None:
        self._to_come = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTxn] = {}
        self._seen: set[int] = set()
        self._committed: set[int] = set()
        self.kept: list[AbortedTxn] = []

    def can_discard(self, batch: CleanerBatch) -> bool:
        """True for a batch of an aborted transaction, and for a marker without records."""
        header = batch.header
        while self._to_come and self._to_come[-1].first_offset <= header.last_offset:
            begun = self._to_come.pop()
            self._aborted.setdefault(begun.producer_id, begun)
        if header.is_control:
            return not batch.records or self._ends(header)
        if not header.is_transactional:
            return False
        is_aborted = header.producer_id in self._aborted
        (self._seen if is_aborted else self._committed).add(header.producer_id)
        return is_aborted

    def _ends(self, marker: StoredBatch) -> bool:
        """True if no batch of the transaction was read that a marker ends."""
        if marker.end_marker is None:
            return False
        producer_id = marker.producer_id
        if marker.end_marker.is_commit:
            was_seen = producer_id in self._committed
            self._committed.discard(producer_id)
            return not was_seen
        aborted = self._aborted.pop(producer_id, None)
        was_seen = producer_id in self._seen
        self._seen.discard(producer_id)
        if aborted is None or not was_seen:
            return True
        self.kept.append(aborted)
        return False


class CleanerPass:
    """One pass over the batches of a log, from its start to the end of the range.

    Args:
        range_: the range.
        keys: the last offset of each key in the dirty batches.
        last: the last record of each producer.
        transactions: the transactions of the log, before the first batch.
        now: the time of the pass, in ms since 1970.
        delete_retention_ms: how long tombstones stay.
    """

    def __init__(
        self,
        range_: CleanableRange,
        keys: Mapping[bytes, int],
        last: Mapping[int, LastRecord],
        transactions: CleanedTransactionMetadata,
        now: int,
        delete_retention_ms: int,
    ) -> None:
        self._end = range_.end
        self._keys = keys
        self._last = last
        self._transactions = transactions
        self._now = now
        self._delete_retention_ms = delete_retention_ms

    def clean(self, batch: CleanerBatch) -> CleanedBatch:
        """What remains of the next batch."""
        header, horizon = batch.header, batch.delete_horizon
        can_discard = self._transactions.can_discard(batch)
        is_over = horizon is not None and horizon <= self._now
        is_dropped = can_discard and (is_over or not header.is_control)
        has_empty_end = can_discard and header.is_control
        places = [] if is_dropped else list(self._places(batch, is_over))
        if not places:
            if self._is_last_of_producer(header) or header.last_offset + 1 == self._end:
                return CleanedBatch([], bool(batch.records))
            return DROPPED
        needs_horizon = horizon is None and (
            has_empty_end or not all(batch.records[place].has_value for place in places)
        )
        if needs_horizon:
            return CleanedBatch(places, True, self._now + self._delete_retention_ms)
        return CleanedBatch(places, len(places) < len(batch.records), horizon)

    def _places(self, batch: CleanerBatch, is_over: bool) -> Iterator[int]:
        """Indexes of the remaining records; `is_over`: the delete horizon is over."""
        for place, record in enumerate(batch.records):
            if batch.header.is_control:
                yield place
            elif record.key is None or record.offset < self._keys.get(record.key, NO_OFFSET):
                continue
            elif record.has_value or not is_over:
                yield place

    def _is_last_of_producer(self, header: StoredBatch) -> bool:
        last = self._last.get(header.producer_id)
        if last is None:
            return False
        if last.offset != NO_OFFSET:
            return header.last_offset == last.offset
        return header.is_control and header.producer_epoch == last.epoch


class _HasLastOffset(Protocol):
    @property
    def last_offset(self) -> int: ...


Located = TypeVar("Located", bound=_HasLastOffset)


def in_runs(batches: Iterable[Located], runs: Sequence[tuple[int, int]]) -> Iterator[Located]:
    """The batches in one of the runs of `LogCleaned`, both in the order of the log."""
    left = iter(runs)
    run = next(left, None)
    for batch in batches:
        while run is not None and run[1] < batch.last_offset:
            run = next(left, None)
        if run is None:
            return
        if run[0] <= batch.last_offset:
            yield batch


def is_unsealed_from(log: Log, offset: int) -> bool:
    return not log.segments or (not log.chunks or log.chunks[0].base_offset <= offset)


def log_mark(log: Log) -> LogMark:
    """Identifies the state of a log that a pass has read."""
    first_indexed = log.chunks[0].base_offset if log.chunks else log.log_end_offset
    return LogMark(
        log.log_start_offset, log.cleaned_to, log.leader_epoch, len(log.segments), first_indexed
    )


def cleaning_violation(log: Log | None, cleaned: LogCleaned) -> str:
    """Why the result of a pass does not fit a log, or an empty text."""
    if log is None:
        return "the log does not exist"
    if not is_unsealed_from(log, cleaned.end_offset):
        return "a part after the end of the pass is sealed"
    if not log.cleaned_to <= cleaned.end_offset <= log.last_stable_offset:
        return f"a pass up to {cleaned.end_offset} does not fit the log"
    offsets = [0, *(each for run in cleaned.unchanged for each in run), cleaned.end_offset - 1]
    if cleaned.unchanged and offsets != sorted(offsets):
        return f"the runs {cleaned.unchanged} do not fit"
    ends = [cleaned.end_offset]
    for batch in reversed(cleaned.batches):
        if batch.last_offset_delta < 0 or not 0 <= batch.last_offset < ends[-1]:
            return f"the batch at {batch.base_offset} does not fit"
        ends.append(batch.base_offset)
    return ""


def apply_cleaned(at: MachineTables, cleaned: LogCleaned, rules: RollingRules) -> None:
    log = at.tables.logs.change(log_key(at.id, cleaned.topic_id, cleaned.partition), Log)
    rolling.ensure(at, log, rules)
    end = cleaned.end_offset
    rest = list(batches_from(at, log, end))
    kept = [StoredBatch(*msgspec.structs.astuple(batch)) for batch in cleaned.batches]
    if cleaned.unchanged:
        kept += in_runs(batches_from(at, log, 0), cleaned.unchanged)
        kept.sort(key=lambda batch: batch.base_offset)
    sealed_segments(at, log).drop_all()
    log.sealed_bytes = 0
    rewrite(at, log, [*kept, *rest])
    rolling.merge_cleaned(at, log, end, rules)
    log.cleaned_to = end
    log.deleted = [each for each in log.deleted if each.base_offset >= end]
    log.has_gaps = True
    index = aborted_index(at, log)
    entries = index.between(0, log.log_end_offset)
    index.drop_all()
    for entry in entries:
        if entry.last_offset >= end or entry.last_offset in cleaned.aborted:
            index.add(entry)
