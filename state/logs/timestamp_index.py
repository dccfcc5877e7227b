"""Look-ups by timestamp in the index of a log: which batch has the record that is asked for.

Source: `LogSegment.findOffsetByTimestamp`, `FileRecords.searchForTimestamp`,
`RecordBatch.offsetOfMaxTimestamp` in Kafka. A batch's header has the timestamp of its first record
and the greatest one; which record in between has which is in the records alone. Where a topic has
message.timestamp.type=LogAppendTime, every record of a batch has the greatest one.
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from brokerstream.state.core.tables import Table
from brokerstream.state.logs.log import (
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
HEADER_BYTES = 61
"""A batch of this size has no record: the cleaner leaves such ones."""


class Part(NamedTuple):
    """A batch of the index, or a sealed segment; timestamps in ms since 1970.

    Of a segment, `base_timestamp` and `leader_epoch` are not known (-1), and it has no locator. Nor
    is `base_timestamp` known of a batch whose first records are deleted, or some by the cleaner.
    `has_one_timestamp` holds where every record has the same.
    """

    base_offset: int
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    leader_epoch: int
    locator: str | None
    is_sealed: bool
    has_one_timestamp: bool

    def has_first_at(self, timestamp: int) -> bool:
        """Whether the header tells that the first record fits `timestamp`."""
        return self.has_one_timestamp or timestamp <= self.base_timestamp


class Found(NamedTuple):
    """Where the record is: in `part`, and if none is there that is not deleted, in `or_else`.

    `offset` and `timestamp` are the record's where `is_exact`, else the least that they can be.
    """

    part: Part
    offset: int
    timestamp: int
    is_exact: bool
    or_else: Part | None = None


def first_at_or_after(
    table: Table, broker: int, log: Log, timestamp: int, has_append_time: bool
) -> Found | None:
    """The first record with `timestamp` or a later one that is not deleted.

    As in Kafka it is looked for in the first segment with such a record alone, deleted ones among
    them (`UnifiedLog.searchOffsetInLocalLog`): a segment that lies below the log start is there
    until the next check of retention. `has_append_time` tells whether the topic's records have the
    time of their append.
    """
    end_offset = _end_of_search(table, broker, log, timestamp)
    found = _parts(table, broker, log, timestamp, log.log_start_offset, has_append_time)
    parts = takewhile(lambda part: part.base_offset < end_offset, found)
    part = next(parts, None)
    if part is None:
        return None
    offset = max(part.base_offset, log.log_start_offset)
    if part.has_first_at(timestamp):
        return Found(part, offset, part.base_timestamp, True)
    is_cut = part.base_offset < log.log_start_offset
    return Found(part, offset, timestamp, False, next(parts, None) if is_cut else None)


def _end_of_search(table: Table, broker: int, log: Log, timestamp: int) -> int:
    """Where the first segment ends that has a record with `timestamp` or a later one."""
    for segment in rolled_segments(table, broker, log):
        if segment.max_timestamp >= timestamp:
            return segment.end_offset
    return log.log_end_offset


def greatest(table: Table, broker: int, log: Log, has_append_time: bool) -> Found | None:
    """The first record that has the greatest timestamp of the log."""
    timestamps = [segment.max_timestamp for segment in sealed_segments(table, broker, log)]
    if log.has_gaps:
        batches = batches_from(table, broker, log, 0)
        timestamps += [each.max_timestamp for each in batches if not is_empty(each)]
    else:
        timestamps += [chunk.max_timestamp for chunk in log.chunks]
    greatest_timestamp = max(timestamps, default=NO_TIMESTAMP)
    if greatest_timestamp == NO_TIMESTAMP:
        return None
    part = next(_parts(table, broker, log, greatest_timestamp, 0, has_append_time), None)
    if part is None:
        return None
    is_exact = part.has_first_at(greatest_timestamp)
    return Found(part, part.base_offset, greatest_timestamp, is_exact)


def _parts(
    table: Table, broker: int, log: Log, timestamp: int, start: int, has_append_time: bool
) -> Iterator[Part]:
    """What has a record with `timestamp` or a later one, and reaches to `start`, in order."""
    for segment in sealed_segments(table, broker, log):
        if segment.max_timestamp >= timestamp and segment.last_offset >= start:
            yield _sealed_part(segment)
    for bounds in log.chunks:
        if bounds.max_timestamp < timestamp or bounds.last_offset < start:
            continue
        key = chunk_key(broker, log.topic_id, log.partition, bounds.number)
        chunk = table.get(key, Chunk)
        assert chunk is not None, key
        for batch in chunk.batches:
            if batch.max_timestamp < timestamp or batch.last_offset < start or is_empty(batch):
                continue
            lacks_some = 0 < batch.record_count <= batch.last_offset_delta
            is_cut = batch.base_offset < start or lacks_some
            yield _batch_part(batch, has_append_time and not lacks_some, is_cut)


def is_empty(batch: StoredBatch) -> bool:
    """Whether a batch is a header alone, whose times count for nothing."""
    return batch.record_count == 0 and batch.size_in_bytes == HEADER_BYTES


def _sealed_part(segment: Segment) -> Part:
    return Part(
        segment.base_offset,
        segment.last_offset,
        NO_TIMESTAMP,
        segment.max_timestamp,
        NO_LEADER_EPOCH,
        None,
        True,
        False,
    )


def _batch_part(batch: StoredBatch, has_append_time: bool, is_cut: bool) -> Part:
    has_one_timestamp = has_append_time or batch.last_offset_delta == 0
    base_timestamp = NO_TIMESTAMP if is_cut else batch.base_timestamp
    return Part(
        batch.base_offset,
        batch.last_offset,
        batch.max_timestamp if has_one_timestamp else base_timestamp,
        batch.max_timestamp,
        batch.partition_leader_epoch,
        batch.locator,
        False,
        has_one_timestamp,
    )
