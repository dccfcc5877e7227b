"""The deleted record with the greatest timestamp of each remaining segment.

Source: `UnifiedLog.fetchOffsetByTimestamp` (MAX_TIMESTAMP),
`LogSegment.readMaxTimestampAndOffsetSoFar` in Kafka: the look-up reads segments, which do not know
the log start offset. `Log.deleted` has one batch for each segment, in order: the first deleted one
with the greatest timestamp, without its bytes. Sealed batches are left out.
"""

from collections.abc import Iterator

import msgspec

from brokertwin.state.core.records import LogStartMoved
from brokertwin.state.core.tables import MachineTables
from brokertwin.state.logs.log import Log, StoredBatch, batches_from, log_key, segment_end

HEADER_BYTES = 61
"""Size of a batch without records, as left by the cleaner."""


def is_empty(batch: StoredBatch) -> bool:
    """True for a header alone; its timestamps do not count."""
    return batch.record_count == 0 and batch.size_in_bytes == HEADER_BYTES


def note(at: MachineTables, moved: LogStartMoved) -> None:
    """Before a log start moves: note deleted batches in segments that remain."""
    log = at.tables.logs.change(log_key(at.id, moved.topic_id, moved.partition), Log)
    stays_from = max(moved.segments_deleted_to, 0)
    log.deleted = [each for each in log.deleted if each.base_offset >= stays_from]
    first = max(log.log_start_offset, stays_from)
    end = segment_end(at, log, log.deleted[-1].base_offset) if log.deleted else -1
    for batch in _leaving(at, log, first, moved.log_start_offset):
        if batch.base_offset >= end:
            log.deleted.append(_without_bytes(batch))
            end = segment_end(at, log, batch.base_offset)
        elif batch.max_timestamp > log.deleted[-1].max_timestamp:
            log.deleted[-1] = _without_bytes(batch)


def _leaving(at: MachineTables, log: Log, first: int, start: int) -> Iterator[StoredBatch]:
    """Indexed batches from `first` on that end below the new log start."""
    for batch in batches_from(at, log, first):
        if batch.last_offset >= start:
            return
        if not is_empty(batch):
            yield batch


def _without_bytes(batch: StoredBatch) -> StoredBatch:
    return msgspec.structs.replace(batch, locator=None, end_marker=None, written=None)
