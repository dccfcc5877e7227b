"""The log of an internal topic keeps the last record of each key, as its coordinator needs it.

Source: seed 003 ("dedupe" cleaner); `LogCleaner`, `Cleaner` in Kafka. A log that has grown to twice
what the last cleaning has left of it is cleaned below its last stable offset, by itself on every
replica:

    a record behind which there is another one of its key     goes
    a tombstone, a marker                                     goes after delete.retention.ms, a day
    pending offsets of a transaction whose marker is below    go, if no transaction was open then
                                                              that has no marker below
    a batch without any record                                goes; offsets then have a gap

Tombstones stay for a while, so that a follower that was away sees them.
Nothing of it is ever sealed: who takes over has to read it all.
"""

import msgspec

from brokertwin.state.core.group_records import (
    ConsumerGroupCurrentMemberAssignmentWritten,
    ConsumerGroupMemberMetadataWritten,
    ConsumerGroupMetadataWritten,
    ConsumerGroupPartitionMetadataRemoved,
    ConsumerGroupRegularExpressionWritten,
    ConsumerGroupTargetAssignmentMemberWritten,
    ConsumerGroupTargetAssignmentMetadataWritten,
    GroupMetadataWritten,
    GroupRemoved,
    ShareGroupCurrentMemberAssignmentWritten,
    ShareGroupMemberMetadataWritten,
    ShareGroupMetadataWritten,
    ShareGroupStatePartitionMetadataWritten,
    ShareGroupTargetAssignmentMemberWritten,
    ShareGroupTargetAssignmentMetadataWritten,
)
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
from brokertwin.state.core.streams_records import OF_STREAMS, is_tombstone, key_of
from brokertwin.state.core.tables import Table
from brokertwin.state.logs import log as logs
from brokertwin.state.logs.log import Log, StoredBatch
from brokertwin.state.replication import internal_logs

DELETE_RETENTION_MS = 86_400_000
"""Kafka's default of delete.retention.ms."""

Key = tuple[str, ...]


CHUNK_BYTES = 1 << 18
"""A log of larger chunks counts as if it had more of them: of 64 there are 16 MiB at most."""


def is_due(log: Log) -> bool:
    """Whether the next append begins with a cleaning of the log, an UNSEALED topic's.

    Bytes are added up where the newest chunk is a large one: small ones alone never count for more.
    """
    most = max(logs.INDEX_CHUNKS_MAX, 2 * log.cleaned_chunks)
    if len(log.chunks) >= most:
        return True
    is_large = bool(log.chunks) and log.chunks[-1].size_in_bytes >= CHUNK_BYTES
    return is_large and _chunks(log) >= most


def _chunks(log: Log) -> int:
    return max(len(log.chunks), log.size_in_bytes // CHUNK_BYTES)


def clean(table: Table, broker: int, log: Log) -> None:
    """Rewrites the log's index with what is kept; `log` comes from `change`."""
    end, newest = log.last_stable_offset, max(chunk.max_timestamp for chunk in log.chunks)
    batches = list(logs.batches_from(table, broker, log, log.log_start_offset))
    below = [batch for batch in batches if batch.last_offset < end]
    kept = _kept(below, newest - DELETE_RETENTION_MS)
    logs.rewrite(table, broker, log, [*kept, *batches[len(below) :]])
    log.cleaned_chunks = max(_chunks(log), 1)


def _kept(batches: list[StoredBatch], horizon: int) -> list[StoredBatch]:
    """What is left of batches in the order of the log; `horizon` is ms since 1970."""
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
    for at, (batch, had) in enumerate(zip(batches, placed, strict=True)):
        left = [
            (delta, _alone(record))
            for place, (delta, record) in enumerate(had)
            if stays(record, at, place)
        ]
        is_marker = batch.end_marker is not None and batch.max_timestamp >= horizon
        is_foreign = batch.written is None and batch.end_marker is None
        if left or is_marker or is_foreign:
            kept.append(batch if left == had else internal_logs.with_left(batch, left))
    return kept


def _alone(record: Record) -> Record:
    """A record whose former ones go: an update would be one of nothing."""
    if isinstance(record, ShareStateWritten) and record.update is not None:
        return msgspec.structs.replace(record, update=None)
    return record


def _is_whole(records: list[Record]) -> bool:
    """Whether a batch is all that a coordinator knew, whose keys are not looked at."""
    return any(isinstance(record, PartitionTaken) for record in records)


_OF_MEMBERS = (
    ConsumerGroupMemberMetadataWritten,
    ShareGroupMemberMetadataWritten,
    ShareGroupStatePartitionMetadataWritten,
)
_TARGETS = (ConsumerGroupTargetAssignmentMemberWritten, ShareGroupTargetAssignmentMemberWritten)
_CURRENT = (ConsumerGroupCurrentMemberAssignmentWritten, ShareGroupCurrentMemberAssignmentWritten)
_EPOCHS = (ConsumerGroupMetadataWritten, ShareGroupMetadataWritten)
_ASSIGNMENT_EPOCHS = (
    ConsumerGroupTargetAssignmentMetadataWritten,
    ShareGroupTargetAssignmentMetadataWritten,
)

_TOMBSTONES = (
    OffsetDeleted,
    GroupRemoved,
    ConsumerGroupPartitionMetadataRemoved,
    TransactionalIdExpired,
    TransactionalOffsetsEnded,
)


def _is_tombstone(record: Record) -> bool:
    if isinstance(record, OF_STREAMS):
        return is_tombstone(record)
    if isinstance(record, _EPOCHS):
        return record.epoch is None
    if isinstance(record, _ASSIGNMENT_EPOCHS):
        return record.assignment_epoch is None
    if isinstance(record, _OF_MEMBERS):
        return record.metadata is None
    if isinstance(record, _TARGETS):
        return record.topic_partitions is None
    if isinstance(record, _CURRENT):
        return record.assignment is None
    if isinstance(record, ConsumerGroupRegularExpressionWritten):
        return record.resolved is None
    if isinstance(record, ShareStateWritten):
        return record.snapshot is None
    return isinstance(record, _TOMBSTONES)


def _key(record: Record, at: int) -> Key:
    """What a later record takes the place of; `at` is the batch's place, for those without any."""
    if isinstance(record, OF_STREAMS):
        return key_of(record)
    match record:
        case OffsetCommitted() | OffsetDeleted():
            return ("offset", record.group_id, record.topic, str(record.partition))
        case GroupMetadataWritten() | GroupRemoved():
            return ("group", record.group_id)
        case TransactionMetadataWritten() | TransactionalIdExpired():
            return ("id", record.transactional_id)
        case ShareStateWritten():
            return ("share", record.group_id, record.topic_id, str(record.partition))
        case (
            ConsumerGroupMetadataWritten()
            | ConsumerGroupTargetAssignmentMetadataWritten()
            | ConsumerGroupPartitionMetadataRemoved()
            | ShareGroupMetadataWritten()
            | ShareGroupTargetAssignmentMetadataWritten()
            | ShareGroupStatePartitionMetadataWritten()
        ):
            return (type(record).__name__, record.group_id)
        case (
            ConsumerGroupMemberMetadataWritten()
            | ConsumerGroupTargetAssignmentMemberWritten()
            | ConsumerGroupCurrentMemberAssignmentWritten()
            | ShareGroupMemberMetadataWritten()
            | ShareGroupTargetAssignmentMemberWritten()
            | ShareGroupCurrentMemberAssignmentWritten()
        ):
            return (type(record).__name__, record.group_id, record.member_id)
        case ConsumerGroupRegularExpressionWritten():
            return (type(record).__name__, record.group_id, record.regular_expression)
        case _:
            return ("none", str(at), type(record).__name__)
