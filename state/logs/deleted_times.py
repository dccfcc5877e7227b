"""Which deleted record has the greatest timestamp of a segment that is still there.

Source: `UnifiedLog.fetchOffsetByTimestamp` (MAX_TIMESTAMP),
`LogSegment.readMaxTimestampAndOffsetSoFar` in Kafka: segments are asked, and none knows where the
log starts. Of each segment one deleted batch is kept, the first with the greatest timestamp,
without its bytes: `Log.deleted`, in order. Batches that were sealed are not looked at.
"""

from collections.abc import Iterator

import msgspec

from brokertwin.state.core.records import LogStartMoved
from brokertwin.state.core.tables import Table
from brokertwin.state.logs.log import Log, StoredBatch, batches_from, log_key, segment_end

HEADER_BYTES = 61
"""A batch of this size has no record: the cleaner leaves such ones."""


def is_empty(batch: StoredBatch) -> bool:
    """Whether a batch is a header alone, whose times count for nothing."""
    return batch.record_count == 0 and batch.size_in_bytes == HEADER_BYTES


def note(table: Table, broker: int, moved: LogStartMoved) -> None:
    """Before a log's start moves: what of it will be deleted, and lies in a segment that stays.

    `table` is `logs`.
    """
    log = table.change(log_key(broker, moved.topic_id, moved.partition), Log)
    stays_from = max(moved.segments_deleted_to, 0)
    log.deleted = [each for each in log.deleted if each.base_offset >= stays_from]
    first = max(log.log_start_offset, stays_from)
    end = segment_end(table, broker, log, log.deleted[-1].base_offset) if log.deleted else -1
    for batch in _leaving(table, broker, log, first, moved.log_start_offset):
        if batch.base_offset >= end:
            log.deleted.append(_without_bytes(batch))
            end = segment_end(table, broker, log, batch.base_offset)
        elif batch.max_timestamp > log.deleted[-1].max_timestamp:
            log.deleted[-1] = _without_bytes(batch)


def _leaving(table: Table, broker: int, log: Log, first: int, start: int) -> Iterator[StoredBatch]:
    """The indexed batches from an offset on that lie wholly below the start to come."""
    for batch in batches_from(table, broker, log, first):
        if batch.last_offset >= start:
            return
        if not is_empty(batch):
            yield batch


def _without_bytes(batch: StoredBatch) -> StoredBatch:
    return msgspec.structs.replace(batch, locator=None, end_marker=None, written=None)
