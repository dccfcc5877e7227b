"""What a pass of the log cleaner leaves of a compacted log: the last record of each key.

Source: `LogCleanerManager.cleanableOffsets`, `Cleaner.doClean`, `CleanedTransactionMetadata`,
`MemoryRecords.filterTo` in Kafka; KIP-534 (delete horizon). The machine knows no record bytes, so
the edge does the pass: it looks into the batches, asks the functions here, writes what is left and
tells the machine (`LogCleaned`). When a pass is due, and how far it goes, the index alone says.

    a record below the end of the pass with a later one of its key there    goes
    a tombstone           goes once its batch's delete horizon is over
    a record of an aborted transaction    goes
    a marker              goes once nothing of its transaction was seen, and the delete horizon,
                          which that pass has set, is over
    a batch of which no record is left    goes, unless it is the last one of its producer or the
                          last one of the pass: then its header stays

A batch gets its delete horizon, `delete.retention.ms` from then, by the first pass that leaves a
tombstone in it, or a marker without its transaction. The active segment is never cleaned, nor what
the last stable offset has not passed, nor segments younger than `min.compaction.lag.ms`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from brokertwin.state.core.events import LogMark
from brokertwin.state.core.records import LogCleaned
from brokertwin.state.core.tables import Table
from brokertwin.state.logs import rolling
from brokertwin.state.logs.aborted_transactions import AbortedTxn
from brokertwin.state.logs.log import (
    Log,
    StoredBatch,
    aborted_index,
    batches_from,
    log_key,
    rewrite,
    sealed_segments,
)
from brokertwin.state.logs.log_segments import RollingRules
from brokertwin.state.logs.producer import Producer, producer_key

NO_OFFSET = -1


_NO_LAG_MS = 2**63 - 1
"""A max.compaction.lag.ms that is none."""


class CleaningRules(NamedTuple):
    """What a topic's settings say, in ms; `cuts` is how its log is cut into segments."""

    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float
    cuts: RollingRules

    @property
    def goes_by_age(self) -> bool:
        """Whether what is due depends on the hour, not on what was appended alone."""
        return self.min_compaction_lag_ms > 0 or self.max_compaction_lag_ms < _NO_LAG_MS


class CleanableRange(NamedTuple):
    """A pass takes keys from `first_dirty` up to `end` (exclusive), and cleans all below `end`."""

    first_dirty: int
    end: int


class CleanerRecord(NamedTuple):
    """A record as the cleaner sees it; a tombstone has no value."""

    offset: int
    key: bytes | None
    has_value: bool


class CleanerBatch(NamedTuple):
    """A batch and its records; `delete_horizon` is ms since 1970, None where it has none."""

    header: StoredBatch
    records: list[CleanerRecord]
    delete_horizon: int | None = None


class LastRecord(NamedTuple):
    """A producer's last batch with records ends at `offset`, -1: none is known; and its epoch."""

    offset: int
    epoch: int


class CleanedBatch(NamedTuple):
    """What is left of a batch: the places of its records, none: its header; None: it goes.

    Where `is_changed` does not hold, it stays as it is. `delete_horizon` is the one it has then.
    """

    places: list[int] | None
    is_changed: bool = True
    delete_horizon: int | None = None


DROPPED = CleanedBatch(None)


def cleanable(
    table: Table, broker: int, log: Log, rules: CleaningRules, now: int
) -> CleanableRange | None:
    """What a pass at `now` (ms since 1970) is about; None where none is due. `table` is `logs`."""
    first_dirty = max(log.cleaned_to, log.log_start_offset)
    rolled = list(rolling.segments(table, broker, log, rules.cuts))[:-1]
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


def last_records(
    table: Table, broker: int, log: Log, producer_ids: Iterable[int]
) -> dict[int, LastRecord]:
    """Where the known ones of these producers have written last. `table` is `producers`."""
    found = {}
    for producer_id in producer_ids:
        key = producer_key(broker, log.topic_id, log.partition, producer_id)
        producer = table.get(key, Producer)
        if producer is not None:
            offset = producer.batches[-1].last_offset if producer.batches else NO_OFFSET
            found[producer_id] = LastRecord(offset, producer.producer_epoch)
    return found


class OffsetMap:
    """The last offset of each key in the dirty batches; aborted records do not count.

    Args:
        first_dirty: where they begin.
        transactions: those among them, none of them seen yet.

    Attributes:
        last_offsets: of the batches seen so far.
    """

    def __init__(self, first_dirty: int, transactions: "CleanedTransactionMetadata") -> None:
        self.last_offsets: dict[bytes, int] = {}
        self._first_dirty = first_dirty
        self._transactions = transactions

    def see(self, batch: CleanerBatch) -> None:
        """Take the keys of the next batch."""
        if not self._transactions.is_over(batch) and not batch.header.is_control:
            for record in batch.records:
                if record.key is not None and record.offset >= self._first_dirty:
                    self.last_offsets[record.key] = record.offset


class CleanedTransactionMetadata:
    """Follows the transactions of a log from its beginning on.

    Attributes:
        kept: the aborted ones, markers passed, of which a batch was seen.
    """

    def __init__(self, aborted: list[AbortedTxn]) -> None:
        self._to_come = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._aborted: dict[int, AbortedTxn] = {}
        self._seen: set[int] = set()
        self._committed: set[int] = set()
        self.kept: list[AbortedTxn] = []

    def is_over(self, batch: CleanerBatch) -> bool:
        """Whether a batch is of an aborted transaction; of a marker, whether it may go."""
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
        """Whether nothing was seen of the transaction that a marker ends."""
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
    """One pass over the batches of a log that lie below its end, from the log's beginning on.

    Args:
        range_: how far it goes.
        keys: the last offset of each key of the dirty batches.
        last: of each producer its last record.
        transactions: those of the log, none of them seen yet.
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

    def outcome(self, batch: CleanerBatch) -> CleanedBatch:
        """What is left of the next batch."""
        header, horizon = batch.header, batch.delete_horizon
        may_go = self._transactions.is_over(batch)
        is_over = horizon is not None and horizon <= self._now
        goes = may_go and (is_over or not header.is_control)
        has_empty_end = may_go and header.is_control
        places = [] if goes else list(self._places(batch, is_over))
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
        """The places of the records that stay; `is_over` tells of the batch's delete horizon."""
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
    """The batches of a log, in their order, that are in one of the runs of `LogCleaned`."""
    left = iter(runs)
    run = next(left, None)
    for batch in batches:
        while run is not None and run[1] < batch.last_offset:
            run = next(left, None)
        if run is None:
            return
        if run[0] <= batch.last_offset:
            yield batch


def is_index_whole_from(log: Log, offset: int) -> bool:
    """Whether nothing of the log is sealed from this offset on."""
    return not log.segments or (not log.chunks or log.chunks[0].base_offset <= offset)


def mark_of(log: Log) -> LogMark:
    """By this a log is known that a pass has looked at."""
    first_indexed = log.chunks[0].base_offset if log.chunks else log.log_end_offset
    return LogMark(
        log.log_start_offset, log.cleaned_to, log.leader_epoch, len(log.segments), first_indexed
    )


def cleaning_violation(log: Log | None, cleaned: LogCleaned) -> str:
    """What does not fit between a log and what a pass has left of it, in words; else empty."""
    if log is None:
        return "there is no such log"
    if not is_index_whole_from(log, cleaned.end_offset):
        return "what the pass has not come to is sealed in part"
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


def apply_cleaned(table: Table, broker: int, cleaned: LogCleaned, cuts: RollingRules) -> None:
    """Puts what a pass has left in the place of what was there. `table` is `logs`."""
    log = table.change(log_key(broker, cleaned.topic_id, cleaned.partition), Log)
    rolling.ensure(table, broker, log, cuts)
    end = cleaned.end_offset
    behind = list(batches_from(table, broker, log, end))
    left = [StoredBatch(*msgspec.structs.astuple(batch)) for batch in cleaned.batches]
    if cleaned.unchanged:
        left += in_runs(batches_from(table, broker, log, 0), cleaned.unchanged)
        left.sort(key=lambda batch: batch.base_offset)
    sealed_segments(table, broker, log).drop_all()
    log.sealed_bytes = 0
    rewrite(table, broker, log, [*left, *behind])
    rolling.merge_cleaned(table, broker, log, end, cuts)
    log.cleaned_to = end
    log.deleted = [each for each in log.deleted if each.base_offset >= end]
    log.has_gaps = True
    index = aborted_index(table, broker, log)
    entries = index.between(0, log.log_end_offset)
    index.drop_all()
    for entry in entries:
        if entry.last_offset >= end or entry.last_offset in cleaned.aborted:
            index.add(entry)
