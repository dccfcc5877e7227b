"""A partition's log on one broker: offsets, leader epochs, and an index of its batches.

Source: seed 004; `UnifiedLog`, `LocalLog`, `LogSegment`, `LeaderEpochFileCache` in Kafka. The log
stores batch headers (`Batch`), no record bytes. The index is kept in chunks, so an append or a read
touches one chunk. The oldest chunks beyond `INDEX_CHUNKS_MAX` are *sealed*: their batches are
written to the topic `segments`, and the log keeps their bounds.

Invariant, with Kafka's short names:

    log start offset <= last stable offset (LSO) <= high watermark (HW) <= log end offset (LEO)

Consumers read up to the HW, or up to the LSO with read_committed. The LSO is the first offset of
the earliest transaction that is open or whose marker is not below the HW; without one it is the HW
(`ProducerStateManager.firstUnstableOffset`).
"""

from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter
from typing import TypeVar
from zlib import crc32

import msgspec

from brokertwin.protocol.batch_headers import Batch, EndMarker
from brokertwin.protocol.bodies import Uuid
from brokertwin.state.core.tables import MachineTables, cached_key
from brokertwin.state.logs.aborted_transactions import (
    AbortedIndex,
    AbortedTxn,
    TransactionOffsets,
    offsets_in,
)
from brokertwin.state.logs.chunked import ChunkedList, Span
from brokertwin.state.logs.log_transactions import NO_OFFSET, LogTransaction

OFFSETS_MAX = 2**31 - 1
"""Greatest offset range of a segment."""

NO_TIMESTAMP = -1
"""Greatest timestamp of records without timestamps or from before 1970, as in Kafka."""

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12


class RollingRules(msgspec.Struct, frozen=True, gc=False):
    """A topic's settings for segments, in ms and bytes."""

    segment_ms: int
    segment_bytes: int
    segment_jitter_ms: int = 0
    index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096

    def segment_ms_of(self, topic_id: Uuid, partition: int, base_offset: int) -> int:
        """Age in ms at which the segment with this base offset rolls."""
        most = min(self.segment_jitter_ms, self.segment_ms)
        if most <= 0:
            return self.segment_ms
        return self.segment_ms - crc32(f"{topic_id}/{partition}/{base_offset}".encode()) % most


class SegmentPart(msgspec.Struct, frozen=True, gc=False):
    """A batch or a sealed part, which is not divided between segments; `end_offset` exclusive."""

    base_offset: int
    end_offset: int
    size_in_bytes: int
    max_timestamp: int


class LogSegment(msgspec.Struct, array_like=True):
    """A rolled segment; `end_offset` is exclusive, times are in ms since 1970.

    `first_timestamp` is the greatest timestamp of the first batch.
    """

    base_offset: int
    end_offset: int
    size_in_bytes: int
    max_timestamp: int
    first_timestamp: int


class LogSegments(msgspec.Struct, array_like=True):
    """Some consecutive rolled segments."""

    entries: list[LogSegment]


class ActiveSegment(msgspec.Struct, array_like=True):
    """The active segment, with the number of entries in its two indexes.

    Timestamps are in ms since 1970: the greatest of the first batch, the greatest of all, and the
    last one in the time index. `bytes_since_entry` counts from the last index entry.
    """

    base_offset: int
    size_in_bytes: int = 0
    first_timestamp: int = NO_TIMESTAMP
    max_timestamp: int = NO_TIMESTAMP
    offset_entries: int = 0
    time_entries: int = 0
    indexed_timestamp: int = NO_TIMESTAMP
    bytes_since_entry: int = 0

    def must_roll(
        self, end_offset: int, size: int, timestamp: int, segment_ms: int, rules: RollingRules
    ) -> bool:
        """True if the segment rolls before a part with these ends, bytes and greatest timestamp.

        `segment_ms` is without the jitter.
        """
        filled = self.size_in_bytes
        return filled > 0 and (
            filled > rules.segment_bytes - size
            or 0 <= self.first_timestamp < timestamp - segment_ms
            or end_offset - 1 - self.base_offset > OFFSETS_MAX
            or self.offset_entries >= rules.index_bytes // OFFSET_ENTRY_BYTES
            or self.time_entries >= rules.index_bytes // TIME_ENTRY_BYTES - 1  # one for the roll
        )

    def take(self, size: int, timestamp: int, rules: RollingRules) -> None:
        """Append a part with these bytes and this greatest timestamp."""
        if not self.size_in_bytes:
            self.first_timestamp = timestamp
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        if self.bytes_since_entry > rules.index_interval_bytes:
            self.offset_entries += 1
            self.bytes_since_entry = 0
            if self.max_timestamp > self.indexed_timestamp:
                self.time_entries += 1
                self.indexed_timestamp = self.max_timestamp
        self.bytes_since_entry += size
        self.size_in_bytes += size

    def rolled(self, end_offset: int) -> LogSegment:
        return LogSegment(
            self.base_offset,
            end_offset,
            self.size_in_bytes,
            self.max_timestamp,
            self.first_timestamp,
        )


CHUNK_BATCHES_MAX = 64

READ_COMMITTED = 1
"""Isolation level of consumers that read up to the last stable offset."""

ISOLATION_LEVELS = (0, READ_COMMITTED)
"""Isolation levels of clients (`IsolationLevel`); 0 reads up to the high watermark."""

LOG_END = 2
"""Isolation level of followers: up to the log end (Kafka's `FetchIsolation`)."""

INDEX_CHUNKS_MAX = 64
"""Index chunks in state; older ones are sealed."""


UNSEALED = frozenset({"__consumer_offsets", "__transaction_state"})
"""Topics whose logs are never sealed, because coordinators read them."""


class Segment(msgspec.Struct, array_like=True):
    """Bounds of a sealed chunk; `max_timestamp` is in ms since 1970.

    `uncommitted`: its records in transactions that were aborted, or open when it was sealed.
    """

    base_offset: int
    last_offset: int
    size_in_bytes: int
    max_timestamp: int
    uncommitted: list[TransactionOffsets] = []


class Segments(msgspec.Struct, array_like=True):
    """Some consecutive sealed segments."""

    entries: list[Segment]


class StoredBatch(msgspec.Struct, array_like=True, gc=False):
    """A `Batch` in a chunk: the same fields in the same order, encoded without names."""

    base_offset: int
    last_offset_delta: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    partition_leader_epoch: int
    base_timestamp: int
    max_timestamp: int
    size_in_bytes: int
    record_count: int
    magic: int
    compression_type: str
    is_transactional: bool
    is_control: bool
    crc: int
    locator: str | None
    end_marker: EndMarker | None = None
    written: bytes | None = None
    greatest_delta: int | None = None
    has_append_time: bool | None = None
    packed: bytes | None = None

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    def header(self) -> Batch:
        return msgspec.convert(self, Batch, from_attributes=True)


class Chunk(msgspec.Struct, array_like=True):
    """A run of consecutive batches."""

    batches: list[StoredBatch]


class ChunkBounds(msgspec.Struct, array_like=True):
    """Bounds of an index chunk; `number` is part of its key."""

    number: int
    base_offset: int
    last_offset: int
    size_in_bytes: int
    max_timestamp: int


INDEX_INTERVAL_BYTES = 4096
"""Distance of entries in Kafka's offset index (`log.index.interval.bytes`)."""


class EpochEnd(msgspec.Struct, array_like=True):
    """A leader epoch and the offset after its last record."""

    epoch: int
    end_offset: int


UNKNOWN_EPOCH = EpochEnd(-1, -1)


class Log(msgspec.Struct, omit_defaults=True):
    """The log of one partition; sizes are in bytes.

    Attributes:
        former_epochs: earlier leader epochs with records, the oldest first.
        transactions: in the order of their first records.
        aborted: bounds of the index of aborted transactions.
        directory: the log directory, if the broker has several.
        cleaned_chunks: chunks left by the last cleaning of an internal topic, 0 before the first.
        cleaned_to: end of the log cleaner's last pass.
        has_gaps: offsets may be missing between batches.
        is_whole: nothing is sealed, because the log cleaner needs the index.
        active: Kafka's active segment; None before the first roll check.
        rolled, rolled_bytes: the segments before it.
        start_batch: base offset of the batch with the log start offset, which may be lower.
        deleted: deleted batches that count for timestamps (`state/logs/deleted_times.py`).
    """

    topic_id: Uuid
    topic: str
    partition: int
    leader_epoch: int
    log_start_offset: int = 0
    high_watermark: int = 0
    log_end_offset: int = 0
    batch_count: int = 0
    chunks: list[ChunkBounds] = []
    segments: Span = msgspec.field(default_factory=Span)
    sealed_bytes: int = 0
    former_epochs: list[EpochEnd] = []
    transactions: list[LogTransaction] = []
    aborted: Span = msgspec.field(default_factory=Span)
    directory: str = ""
    cleaned_chunks: int = 0
    cleaned_to: int = 0
    has_gaps: bool = False
    is_whole: bool = False
    rolled: Span = msgspec.field(default_factory=Span)
    rolled_bytes: int = 0
    active: ActiveSegment | None = None
    start_batch: int = 0
    deleted: list[StoredBatch] = []

    @property
    def last_stable_offset(self) -> int:
        """First offset that a read_committed consumer cannot read.

        As in Kafka 4.3.1, it is below the log start offset if that is inside of a batch.
        """
        if not self.transactions:
            return self.high_watermark
        first_unstable = max(self.transactions[0].first_offset, self.start_batch)
        return min(self.high_watermark, first_unstable)

    def readable_end(self, isolation_level: int) -> int:
        """First offset that a reader with this isolation level cannot read."""
        if isolation_level == LOG_END:
            return self.log_end_offset
        is_committed_only = isolation_level == READ_COMMITTED
        return self.last_stable_offset if is_committed_only else self.high_watermark

    @property
    def size_in_bytes(self) -> int:
        """Bytes of all batches that are not deleted."""
        return self.sealed_bytes + sum(chunk.size_in_bytes for chunk in self.chunks)


class SealedSegment(msgspec.Struct):
    """A sealed chunk, for the topic `segments`."""

    topic_id: Uuid
    partition: int
    base_offset: int
    batches: list[Batch]


class Slice(msgspec.Struct, frozen=True, gc=False):
    """Result of a read: whole batches, or a sealed segment that the edge reads.

    `size_in_bytes` counts what Kafka would send, with the first part of a batch that is cut.
    """

    batches: list[StoredBatch]
    size_in_bytes: int
    segment: Segment | None = None


EMPTY = Slice([], 0)


@cached_key
def log_key(broker: int, topic_id: Uuid, partition: int) -> str:
    """Key of a log in the table `logs`."""
    return f"{broker}/log/{topic_id}/{partition}"


def topic_id_of(key: str) -> Uuid:
    return key.split("/")[2]


@cached_key
def chunk_key(broker: int, topic_id: Uuid, partition: int, number: int) -> str:
    """Key of an index chunk in the table `logs`."""
    return f"{broker}/chunk/{topic_id}/{partition}/{number}"


def create(at: MachineTables, topic_id: Uuid, topic: str, partition: int) -> None:
    """Create an empty log in leader epoch 0."""
    at.tables.logs.put(log_key(at.id, topic_id, partition), Log(topic_id, topic, partition, 0))


def remove(at: MachineTables, topic_id: Uuid, partition: int) -> None:
    key = log_key(at.id, topic_id, partition)
    log = at.tables.logs.get(key, Log)
    if log is None:
        return
    for bounds in log.chunks:
        at.tables.logs.drop(chunk_key(at.id, topic_id, partition, bounds.number))
    aborted_index(at, log).drop_all()
    sealed_segments(at, log).drop_all()
    rolled_segments(at, log).drop_all()
    at.tables.logs.drop(key)


def begin_epoch(log: Log, epoch: int) -> None:
    """Start a leader epoch at the log end (`LeaderEpochFileCache.assign`)."""
    if log.log_end_offset > epoch_start(log):
        log.former_epochs.append(EpochEnd(log.leader_epoch, log.log_end_offset))
    log.leader_epoch = epoch


def epoch_start(log: Log) -> int:
    return log.former_epochs[-1].end_offset if log.former_epochs else log.log_start_offset


def end_of_epoch(log: Log, epoch: int) -> EpochEnd:
    """End offset of a leader epoch (`LeaderEpochFileCache.endOffsetFor`).

    An epoch without records gives the one before it; an epoch older than all records gives the log
    start offset. Epoch -1 and later epochs give `UNKNOWN_EPOCH`.
    """
    if epoch == UNKNOWN_EPOCH.epoch or epoch > log.leader_epoch:
        return UNKNOWN_EPOCH
    if epoch == log.leader_epoch:
        return EpochEnd(epoch, log.log_end_offset)
    below = [former for former in log.former_epochs if former.epoch <= epoch]
    return below[-1] if below else EpochEnd(epoch, log.log_start_offset)


def diverging(log: Log, offset: int, last_epoch: int) -> EpochEnd | None:
    """Where a reader has diverged from the log (KIP-595), or None.

    `UNKNOWN_EPOCH` if the log does not have the epoch. A reader without epoch (-1) cannot diverge.
    """
    if last_epoch < 0:
        return None
    end = end_of_epoch(log, last_epoch)
    if end.epoch == last_epoch and offset <= end.end_offset:
        return None
    return end


def raise_high_watermark(log: Log, offset: int) -> None:
    """Set the high watermark; drop transactions whose markers are now replicated."""
    log.high_watermark = offset
    for each in log.transactions:
        if 0 <= each.last_offset < offset:
            log.transactions = [t for t in log.transactions if not 0 <= t.last_offset < offset]
            break


def aborted_index(at: MachineTables, log: Log) -> AbortedIndex:
    """The index of a log's aborted transactions; to change it, `log` must come from `change`."""
    return AbortedIndex(at.tables.logs, at.id, log.topic_id, log.partition, log.aborted)


def aborted_in(at: MachineTables, log: Log, offset: int, part: "Slice") -> list[AbortedTxn]:
    """Aborted transactions for the reader of a slice from `offset` on."""
    if not log.aborted:
        return []
    end_offset = _aborted_search_end(at, log, offset, part)
    return aborted_index(at, log).between(offset, end_offset)


def _aborted_search_end(at: MachineTables, log: Log, offset: int, part: "Slice") -> int:
    """End of the look-up of aborted transactions, which is after the end of the slice.

    Kafka takes the next entry of the offset index, one for each `INDEX_INTERVAL_BYTES`, or the end
    of the segment (`UnifiedLog.collectAbortedTransactions`).
    """
    if part.segment is not None:
        return part.segment.last_offset + 1
    first = part.batches[0].base_offset if part.batches else offset
    next_offset = part.batches[-1].last_offset + 1 if part.batches else offset
    size, end = 0, segment_end(at, log, first)
    for batch in batches_from(at, log, next_offset):
        if batch.base_offset >= end:
            break
        if size > INDEX_INTERVAL_BYTES:
            return batch.last_offset
        size += batch.size_in_bytes
    return end


def sealed_offsets(at: MachineTables, topic_id: Uuid, partition: int) -> set[int]:
    log = at.tables.logs.get(log_key(at.id, topic_id, partition), Log)
    if log is None:
        return set()
    return {segment.base_offset for segment in sealed_segments(at, log)}


def sealed_segments(at: MachineTables, log: Log) -> ChunkedList[Segment]:
    """Sealed segments in order; to change them, `log` must come from `change`."""
    prefix = f"{at.id}/sealed/{log.topic_id}/{log.partition}/"
    return ChunkedList(at.tables.logs, prefix, log.segments, Segments)


def rolled_segments(at: MachineTables, log: Log) -> ChunkedList[LogSegment]:
    """Segments before the active one; to change them, `log` must come from `change`."""
    prefix = f"{at.id}/rolled/{log.topic_id}/{log.partition}/"
    return ChunkedList(at.tables.logs, prefix, log.rolled, LogSegments)


def segment_end(at: MachineTables, log: Log, offset: int) -> int:
    """End offset of the segment with an offset; a read does not go beyond it."""
    if log.active is None or is_in_last_segment(log, offset):
        return log.log_end_offset
    rolled = rolled_segments(at, log)
    number = rolled.first_where(lambda segment: segment.end_offset > offset)
    return rolled[number].end_offset if number < log.rolled.end else log.active.base_offset


def is_in_last_segment(log: Log, offset: int) -> bool:
    """True if an offset is in the active segment, like nearly all reads."""
    return log.active is None or offset >= log.active.base_offset


def sealed_at(at: MachineTables, log: Log, offset: int) -> Segment | None:
    """The sealed segment with `offset`, or the first after it; None if the index has it."""
    if not log.segments:
        return None
    segments = sealed_segments(at, log)
    return next(segments.from_number(_first_sealed(segments, offset)), None)


def _first_sealed(segments: ChunkedList[Segment], offset: int) -> int:
    return segments.first_where(lambda segment: segment.last_offset >= offset)


def is_full(log: Log) -> bool:
    """True if the next chunk seals the oldest one; internal topics are cleaned instead."""
    return len(log.chunks) >= INDEX_CHUNKS_MAX and log.topic not in UNSEALED


def seal_oldest(at: MachineTables, log: Log) -> SealedSegment:
    """Seal the oldest chunk of a full index."""
    bounds = log.chunks.pop(0)
    stored = _chunk(at, log, bounds).batches
    at.tables.logs.drop(chunk_key(at.id, log.topic_id, log.partition, bounds.number))
    log.sealed_bytes += bounds.size_in_bytes
    sealed_segments(at, log).append(
        Segment(
            bounds.base_offset,
            bounds.last_offset,
            bounds.size_in_bytes,
            bounds.max_timestamp,
            _uncommitted(at, log, stored),
        )
    )
    batches = [batch.header() for batch in stored]
    return SealedSegment(log.topic_id, log.partition, bounds.base_offset, batches)


def _uncommitted(
    at: MachineTables, log: Log, batches: list[StoredBatch]
) -> list[TransactionOffsets]:
    """Records in transactions that were aborted, or that may still be."""
    transactions = offsets_in(batches)
    if not transactions:
        return []
    first, end = batches[0].base_offset, batches[-1].last_offset + 1
    aborted = aborted_index(at, log).between(first, end)
    ongoing = {each.producer_id for each in log.transactions if each.last_offset == NO_OFFSET}
    return [
        each
        for each in transactions
        if each.producer_id in ongoing or any(map(each.is_of, aborted))
    ]


def rewrite(at: MachineTables, log: Log, batches: list[StoredBatch]) -> None:
    """Replace the batches of the index; `log` comes from `change`."""
    place = (at.id, log.topic_id, log.partition)
    for bounds in log.chunks:
        at.tables.logs.drop(chunk_key(*place, bounds.number))
    log.chunks = []
    for number, first in enumerate(range(0, len(batches), CHUNK_BATCHES_MAX)):
        run = batches[first : first + CHUNK_BATCHES_MAX]
        at.tables.logs.put(chunk_key(*place, number), Chunk(run))
        size = sum(b.size_in_bytes for b in run)
        newest = max(NO_TIMESTAMP, *(b.max_timestamp for b in run))
        bounds = ChunkBounds(number, run[0].base_offset, run[-1].last_offset, size, newest)
        log.chunks.append(bounds)
    log.batch_count = len(batches)


_last_offset = attrgetter("last_offset")
"""Sort key of chunks, and of batches in a chunk."""

_Entry = TypeVar("_Entry", ChunkBounds, StoredBatch)


def _from(entries: list[_Entry], offset: int) -> list[_Entry]:
    """Chunks or batches from the one with `offset` on, which is mostly the last."""
    if entries and (last := entries[-1]).base_offset <= offset:
        return [last] if last.base_offset == offset or last.last_offset >= offset else []
    return entries[bisect_left(entries, offset, key=_last_offset) :]


def _chunk(at: MachineTables, log: Log, bounds: ChunkBounds) -> Chunk:
    key = chunk_key(at.id, log.topic_id, log.partition, bounds.number)
    chunk = at.tables.logs.get(key, Chunk)
    assert chunk is not None, key
    return chunk


def move_start(at: MachineTables, topic_id: Uuid, partition: int, offset: int) -> Log:
    """Raise the log start offset, and drop chunks and segments below it."""
    log = at.tables.logs.change(log_key(at.id, topic_id, partition), Log)
    log.log_start_offset = max(log.log_start_offset, offset)
    log.high_watermark = max(log.high_watermark, log.log_start_offset)
    sealed = sealed_segments(at, log)
    kept_from = _first_sealed(sealed, log.log_start_offset)
    log.sealed_bytes = sum(segment.size_in_bytes for segment in sealed.from_number(kept_from))
    sealed.drop_below(kept_from)
    log.former_epochs = [e for e in log.former_epochs if e.end_offset > log.log_start_offset]
    aborted_index(at, log).drop_below(log.log_start_offset)
    kept = [c for c in log.chunks if c.last_offset >= log.log_start_offset]
    for bounds in log.chunks:
        if bounds.last_offset < log.log_start_offset:
            at.tables.logs.drop(chunk_key(at.id, topic_id, partition, bounds.number))
    log.chunks = kept
    first = next(batches_from(at, log, log.log_start_offset), None)
    is_indexed = first is not None and not log.segments
    log.start_batch = first.base_offset if first and is_indexed else log.log_start_offset
    return log


def batches_from(at: MachineTables, log: Log, offset: int) -> Iterator[StoredBatch]:
    for bounds in _from(log.chunks, offset):
        yield from _from(_chunk(at, log, bounds).batches, offset)


def read(
    at: MachineTables, log: Log, offset: int, end_offset: int, max_bytes: int, is_first: bool
) -> Slice:
    """Read batches from `offset` up to `end_offset` (exclusive), at most `max_bytes`.

    If `is_first`, nothing was read for this request before: the first batch is returned even if it
    is too large, so that a consumer makes progress (KIP-74). Otherwise a first batch that does not
    fit gives an empty slice. Bytes are cut in the middle of a batch (`FileRecords.slice`); such a
    batch counts in the size only. A read ends with its segment (`LocalLog.read`).
    """
    if offset >= log.log_end_offset:
        return Slice([], 0)
    segment = sealed_at(at, log, offset) if log.segments.end else None
    if segment is not None and segment.base_offset < end_offset:
        return Slice([], segment.size_in_bytes if is_first else 0, segment if is_first else None)
    taken: list[StoredBatch] = []
    size = 0
    topic_id, partition, is_last = log.topic_id, log.partition, is_in_last_segment(log, offset)
    for bounds in _from(log.chunks, offset):
        chunk = at.tables.logs.get(chunk_key(at.id, topic_id, partition, bounds.number), Chunk)
        assert chunk is not None, bounds
        for batch in _from(chunk.batches, offset):
            if not is_last and not taken:
                end_offset = min(end_offset, segment_end(at, log, batch.base_offset))
            if batch.base_offset >= end_offset:
                return Slice(taken, size)
            room = max_bytes - size
            if batch.size_in_bytes > room:
                if taken:
                    return Slice(taken, size + max(room, 0))
                return Slice([batch], batch.size_in_bytes) if is_first else EMPTY
            taken.append(batch)
            size += batch.size_in_bytes
    return Slice(taken, size)


def bytes_between(at: MachineTables, log: Log, offset: int, end_offset: int) -> int:
    """Bytes of the batches from `offset` up to `end_offset`, for a fetch's min.bytes."""
    if offset >= end_offset:
        return 0
    size = 0
    if log.segments.end:
        segments = sealed_segments(at, log)
        from_here = segments.from_number(_first_sealed(segments, offset))
        size = sum(segment.size_in_bytes for segment in from_here)
    for bounds in _from(log.chunks, offset):
        if bounds.base_offset >= offset and bounds.last_offset < end_offset:
            size += bounds.size_in_bytes
            continue
        for batch in _from(_chunk(at, log, bounds).batches, offset):
            if batch.base_offset >= end_offset:
                return size
            size += batch.size_in_bytes
    return size
