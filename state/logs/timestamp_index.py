"""Look-ups by timestamp in the index of a log.

Source: `LogSegment.findOffsetByTimestamp`, `FileRecords.searchForTimestamp`,
`RecordBatch.offsetOfMaxTimestamp` in Kafka. A batch header has the timestamp of the first record
and the greatest one; the rest is in the record bytes alone. With
message.timestamp.type=LogAppendTime all records of a batch have the greatest one.
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from brokertwin.state.core.tables import MachineTables
from brokertwin.state.logs.deleted_times import is_empty
from brokertwin.state.logs.log import (
    Chunk,
    Log,
    Segment,
    StoredBatch,
    batches_from,
    chunk_key,
    rolled_segments,
    sealed_segments,
)

NO_TIMESTAMP = -1
NO_LEADER_EPOCH = -1


class TimestampedPart(NamedTuple):
    """A batch of the index, or a sealed segment; timestamps are in ms since 1970.

    For a segment, `base_timestamp` and `leader_epoch` are -1, and there is no locator.
    `base_timestamp` is also -1 if the first records of a batch are deleted, or the cleaner dropped
    some. `greatest_delta` is the offset delta of the first record with the greatest timestamp, None
    if only the record bytes show it.
    """

    base_offset: int
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    leader_epoch: int
    locator: str | None
    is_sealed: bool
    has_one_timestamp: bool
    greatest_delta: int | None = None

    def has_first_at(self, timestamp: int) -> bool:
        """True if the header shows that the first record fits `timestamp`."""
        return self.has_one_timestamp or timestamp <= self.base_timestamp


class TimestampMatch(NamedTuple):
    """Where the record is: in `part`, or in `or_else` if its records in `part` are deleted.

    `offset` and `timestamp` are those of the record if `is_exact`, else lower bounds.
    """

    part: TimestampedPart
    offset: int
    timestamp: int
    is_exact: bool
    or_else: TimestampedPart | None = None


def first_at_or_after(
    at: MachineTables, log: Log, timestamp: int, has_append_time: bool
) -> TimestampMatch | None:
    """The first record at or after `timestamp` that is not deleted.

    As in Kafka, only the first segment with such a record is searched, deleted records included
    (`UnifiedLog.searchOffsetInLocalLog`): a segment below the log start exists until the next
    retention check. `has_append_time`: the topic's records have their append time.
    """
    end_offset = _end_of_search(at, log, timestamp)
    found = _parts(at, log, timestamp, log.log_start_offset, has_append_time)
    parts = takewhile(lambda part: part.base_offset < end_offset, found)
    part = next(parts, None)
    if part is None:
        return None
    offset = max(part.base_offset, log.log_start_offset)
    if part.has_first_at(timestamp):
        return TimestampMatch(part, offset, part.base_timestamp, True)
    is_cut = part.base_offset < log.log_start_offset
    return TimestampMatch(part, offset, timestamp, False, next(parts, None) if is_cut else None)


def _end_of_search(at: MachineTables, log: Log, timestamp: int) -> int:
    """End offset of the first segment with a record at or after `timestamp`."""
    for segment in rolled_segments(at, log):
        if segment.max_timestamp >= timestamp:
            return segment.end_offset
    return log.log_end_offset


def greatest(at: MachineTables, log: Log, has_append_time: bool) -> TimestampMatch | None:
    """The first record with the greatest timestamp of the log.

    A deleted record counts while its segment exists, if its offset is known without its bytes.
    """
    deleted = _greatest_deleted(log, has_append_time)
    timestamp = _greatest_timestamp(at, log)
    if deleted is not None and deleted.timestamp >= timestamp:
        return deleted
    if timestamp == NO_TIMESTAMP:
        return None
    parts = _parts(at, log, timestamp, log.log_start_offset, has_append_time)
    part = next(parts, None)
    return None if part is None else _with_greatest(part)


def _greatest_deleted(log: Log, has_append_time: bool) -> TimestampMatch | None:
    """The first deleted record with the greatest timestamp, of those with a known offset."""
    parts = [_batch_part(batch, has_append_time, 0) for batch in log.deleted]
    known = [part for part in parts if part.greatest_delta is not None]
    part = max(known, key=lambda part: part.max_timestamp, default=None)
    return None if part is None or part.max_timestamp < 0 else _with_greatest(part)


def _greatest_timestamp(at: MachineTables, log: Log) -> int:
    """Greatest timestamp of batches that are not deleted."""
    timestamps = [segment.max_timestamp for segment in sealed_segments(at, log)]
    whole = [] if log.has_gaps else [c for c in log.chunks if c.base_offset >= log.log_start_offset]
    end = whole[0].base_offset if whole else log.log_end_offset
    batches = batches_from(at, log, log.log_start_offset)
    in_others = takewhile(lambda batch: batch.base_offset < end, batches)
    timestamps += [each.max_timestamp for each in in_others if not is_empty(each)]
    timestamps += [chunk.max_timestamp for chunk in whole]
    return max(timestamps, default=NO_TIMESTAMP)


def _with_greatest(part: TimestampedPart) -> TimestampMatch:
    delta = part.greatest_delta
    return TimestampMatch(
        part, part.base_offset + (delta or 0), part.max_timestamp, delta is not None
    )


def _parts(
    at: MachineTables, log: Log, timestamp: int, start: int, has_append_time: bool
) -> Iterator[TimestampedPart]:
    """Parts with a record at or after `timestamp` that reach to `start`, in order."""
    for segment in sealed_segments(at, log):
        if segment.max_timestamp >= timestamp and segment.last_offset >= start:
            yield _sealed_part(segment)
    for bounds in log.chunks:
        if bounds.max_timestamp < timestamp or bounds.last_offset < start:
            continue
        key = chunk_key(at.id, log.topic_id, log.partition, bounds.number)
        chunk = at.tables.logs.get(key, Chunk)
        assert chunk is not None, key
        for batch in chunk.batches:
            if batch.max_timestamp < timestamp or batch.last_offset < start or is_empty(batch):
                continue
            yield _batch_part(batch, has_append_time, start)


def _sealed_part(segment: Segment) -> TimestampedPart:
    return TimestampedPart(
        segment.base_offset,
        segment.last_offset,
        NO_TIMESTAMP,
        segment.max_timestamp,
        NO_LEADER_EPOCH,
        None,
        True,
        False,
    )


def _batch_part(batch: StoredBatch, has_append_time: bool, start: int) -> TimestampedPart:
    """A batch of a log whose records below `start` are deleted."""
    lacks_some = 0 < batch.record_count <= batch.last_offset_delta
    has_one_timestamp = (has_append_time and not lacks_some) or batch.last_offset_delta == 0
    is_cut = batch.base_offset < start or lacks_some
    base_timestamp = NO_TIMESTAMP if is_cut else batch.base_timestamp
    is_first = has_one_timestamp or (not lacks_some and batch.base_timestamp == batch.max_timestamp)
    return TimestampedPart(
        batch.base_offset,
        batch.last_offset,
        batch.max_timestamp if has_one_timestamp else base_timestamp,
        batch.max_timestamp,
        batch.partition_leader_epoch,
        batch.locator,
        False,
        has_one_timestamp,
        0 if is_first else batch.greatest_delta,
    )
