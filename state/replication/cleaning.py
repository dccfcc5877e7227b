"""Compaction of internal topics: the last record of each key remains.

Source: seed 003 ("dedupe" cleaner); `LogCleaner`, `Cleaner` in Kafka. A log that has doubled since
its last cleaning is cleaned below its last stable offset, on each replica by itself:

    a record with a later one of its key             dropped
    a tombstone, a marker                            dropped after delete.retention.ms, a day
    transactional offsets whose marker is below      dropped, unless a transaction was open then
                                                     whose marker is not below
    a batch without records                          dropped; this leaves a gap in the offsets

Tombstones stay for a day, so that a follower that was down reads them. These logs are never sealed,
because a new coordinator reads the whole log.
"""

import msgspec

from brokertwin.state.core.group_records import GroupRecord
from brokertwin.state.core.records import (
    OffsetCommitted,
    OffsetDeleted,
    PartitionTaken,
    Record,
    TransactionalIdExpired,
    TransactionalOffsetsEnded,
    TransactionalOffsetsWritten,
    TransactionMetadataWritten,
)
from brokertwin.state.core.share_records import ShareStateWritten
from brokertwin.state.core.tables import MachineTables
from brokertwin.state.logs import log as logs
from brokertwin.state.logs.log import Log, StoredBatch
from brokertwin.state.replication import internal_logs

DELETE_RETENTION_MS = 86_400_000
"""Kafka's default of delete.retention.ms."""

Key = tuple[str, ...]


CHUNK_BYTES = 1 << 18
"""A chunk above this size counts as several, so 64 chunks have at most 16 MiB."""


def is_due(log: Log) -> bool:
    """True if the next append to the internal topic first cleans the log.

    Bytes are only added up if the newest chunk is large, because small chunks count as one each.
    """
    most = max(logs.INDEX_CHUNKS_MAX, 2 * log.cleaned_chunks)
    if len(log.chunks) >= most:
        return True
    is_large = bool(log.chunks) and log.chunks[-1].size_in_bytes >= CHUNK_BYTES
    return is_large and _chunks(log) >= most


def _chunks(log: Log) -> int:
    return max(len(log.chunks), log.size_in_bytes // CHUNK_BYTES)


def clean(at: MachineTables, log: Log) -> None:
    """Rewrite the log's index; `log` comes from `change`."""
    end, newest = log.last_stable_offset, max(chunk.max_timestamp for chunk in log.chunks)
    batches = list(logs.batches_from(at, log, log.log_start_offset))
    below = [batch for batch in batches if batch.last_offset < end]
    kept = _kept(below, newest - DELETE_RETENTION_MS)
    logs.rewrite(at, log, [*kept, *batches[len(below) :]])
    log.cleaned_chunks = max(_chunks(log), 1)


def _kept(batches: list[StoredBatch], horizon: int) -> list[StoredBatch]:
    """Remaining batches, in the order of the log; `horizon` is in ms since 1970."""
    placed = [internal_logs.placed(batch.written, batch.last_offset_delta) for batch in batches]
    found = [[record for _, record in each] for each in placed]
    last: dict[Key, tuple[int, int]] = {}
    ended: dict[Key, int] = {}
    for at, records in enumerate(found):
        for place, record in enumerate(records):
            last[_key(record, at)] = (at, place)
            if isinstance(record, TransactionalOffsetsEnded):
                ended.update({(str(record.producer_id), g): at for g in record.group_ids})

    forgets_tombstones = not any(map(_is_whole, found))

    def end_of(record: TransactionalOffsetsWritten, at: int) -> int:
        end = ended.get((str(record.producer_id), record.group_id), -1)
        return end if end > at else len(batches)

    pending = [
        (at, record)
        for at, records in enumerate(found)
        for record in records
        if isinstance(record, TransactionalOffsetsWritten)
    ]
    openings = (at for at, record in pending if end_of(record, at) == len(batches))
    first_open = next(openings, len(batches))

    def stays(record: Record, at: int, place: int) -> bool:
        if isinstance(record, TransactionalOffsetsWritten):
            return end_of(record, at) > first_open or end_of(record, at) == len(batches)
        if isinstance(record, TransactionalOffsetsEnded) and at > first_open:
            return True
        is_old = forgets_tombstones and batches[at].max_timestamp < horizon
        if is_old and _is_tombstone(record):
            return False
        return last[_key(record, at)] == (at, place)

    kept = []
    for at, (batch, before) in enumerate(zip(batches, placed, strict=True)):
        remaining = [
            (delta, _alone(record))
            for place, (delta, record) in enumerate(before)
            if stays(record, at, place)
        ]
        is_marker = batch.end_marker is not None and batch.max_timestamp >= horizon
        is_foreign = batch.written is None and batch.end_marker is None
        if remaining or is_marker or is_foreign:
            kept.append(
                batch if remaining == before else internal_logs.without_dropped(batch, remaining)
            )
    return kept


def _alone(record: Record) -> Record:
    """A remaining record without its predecessors: an update of them would have no base."""
    if isinstance(record, ShareStateWritten) and record.update is not None:
        return msgspec.structs.replace(record, update=None)
    return record


def _is_whole(records: list[Record]) -> bool:
    """True if a batch has a coordinator's whole state, whose keys are not read."""
    return any(isinstance(record, PartitionTaken) for record in records)


def _is_tombstone(record: Record) -> bool:
    if isinstance(record, GroupRecord):
        return record.value is None
    if isinstance(record, ShareStateWritten):
        return record.snapshot is None
    return isinstance(record, (OffsetDeleted, TransactionalIdExpired, TransactionalOffsetsEnded))


def _key(record: Record, at: int) -> Key:
    """Compaction key of a record; without a key, `at` (the batch's index) makes it unique."""
    match record:
        case GroupRecord():
            return (type(record.key).__name__, *msgspec.structs.astuple(record.key))
        case OffsetCommitted() | OffsetDeleted():
            return ("offset", record.group_id, record.topic, str(record.partition))
        case TransactionMetadataWritten() | TransactionalIdExpired():
            return ("id", record.transactional_id)
        case ShareStateWritten():
            return ("share", record.group_id, record.topic_id, str(record.partition))
        case _:
            return ("none", str(at), type(record).__name__)
