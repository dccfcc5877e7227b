"""Invariants of logs and their producers: offsets ascend and have no gaps."""

from functools import lru_cache
from itertools import pairwise
from typing import TypeVar

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.core.bounded_cache import bounded_cache
from brokertwin.state.core.check import ALL, KEYS_KNOWN, Touched, Violations, by_kind
from brokertwin.state.core.tables import CellTables, MachineTables, Table
from brokertwin.state.logs.chunked import CHUNK_ENTRIES, Span
from brokertwin.state.logs.log import (
    CHUNK_BATCHES_MAX,
    INDEX_CHUNKS_MAX,
    NO_TIMESTAMP,
    UNSEALED,
    Chunk,
    ChunkBounds,
    Log,
    Segment,
    StoredBatch,
    aborted_index,
    chunk_key,
    rolled_segments,
    sealed_segments,
)
from brokertwin.state.logs.log_transactions import NO_OFFSET
from brokertwin.state.logs.producer import BATCHES_KEPT, ProducerStateEntry, sequence_after

OF_A_LOG = ("chunk", "sealed", "aborted", "rolled")
"""Kinds of items that belong to a log, in the table `logs`."""


def check(tables: CellTables, touched: Touched = ALL) -> Violations:
    logs, producers = tables.logs, tables.producers
    keys = [*touched.keys("logs", logs), *touched.keys("producers", producers)]
    if not keys:
        return
    found = by_kind(logs)
    kinds = [kind for kind in OF_A_LOG if kind in found]
    for key in sorted(set(map(_log_of, keys))):
        broker, _, place = key.split("/", 2)
        log = logs.get(key, Log)
        owned: list[str] = []
        if log is not None and not _is_empty(log):  # most partitions of internal topics are
            owned = _items_of(int(broker), log)
            for violation in _log(tables.of(int(broker)), log):
                yield f"{key}: {violation}"
        for kind in kinds:
            for each in logs.keys(f"{broker}/{kind}/{place}/"):
                if each not in owned:
                    yield f"{each} belongs to no log"
        yield from _producers(key, log, producers)


@bounded_cache(KEYS_KNOWN)
def _log_of(key: str) -> str:
    broker, _, topic_id, partition, *_ = key.split("/")
    return f"{broker}/log/{topic_id}/{partition}"


def _is_empty(log: Log) -> bool:
    """True if nothing was ever appended."""
    place = (log.topic_id, log.topic, log.partition)
    return log == _empty(*place, log.leader_epoch, log.directory, log.is_whole)


@lru_cache(2**12)
def _empty(
    topic_id: Uuid, topic: str, partition: int, epoch: int, directory: str, is_whole: bool
) -> Log:
    """A log to which nothing was ever appended. Do not change it."""
    return Log(topic_id, topic, partition, epoch, directory=directory, is_whole=is_whole)


def _items_of(broker: int, log: Log) -> list[str]:
    keys = [chunk_key(broker, log.topic_id, log.partition, c.number) for c in log.chunks]
    spans = (("sealed", log.segments), ("rolled", log.rolled), ("aborted", log.aborted))
    for kind, span in spans:
        if span:
            place = f"{broker}/{kind}/{log.topic_id}/{log.partition}"
            keys += [f"{place}/{number}" for number in _chunks(span)]
    return keys


def _chunks(span: Span) -> range:
    return range(span.first // CHUNK_ENTRIES, -(-span.end // CHUNK_ENTRIES))


def _log(at: MachineTables, log: Log) -> Violations:
    start, high, end = log.log_start_offset, log.high_watermark, log.log_end_offset
    if not 0 <= start <= high <= end:
        yield f"log start offset {start} <= high watermark {high} <= log end offset {end} fails"
    if not log.start_batch <= log.last_stable_offset <= high:
        yield f"last stable offset {log.last_stable_offset} is not from {log.start_batch} to {high}"
    if log.former_epochs:
        epochs = [former.epoch for former in log.former_epochs] + [log.leader_epoch]
        ends = [former.end_offset for former in log.former_epochs] + [end]
        if epochs != sorted(set(epochs)) or ends != sorted(ends):
            yield f"leader epochs {epochs} end at {ends}"
    yield from _index(at, log)
    yield from _segments(at, log)
    if log.transactions:
        firsts = [each.first_offset for each in log.transactions]
        if firsts != sorted(set(firsts)) or firsts[-1] >= end:
            yield f"transactions start at {firsts} in a log that ends at {end}"
    if not log.aborted:
        return
    aborted = aborted_index(at, log).between(0, end + 1)
    for entry in aborted:
        if not entry.first_offset <= entry.last_offset < end:
            yield f"an aborted transaction from {entry.first_offset} to {entry.last_offset}"
    for one, other in pairwise(aborted):
        if one.last_offset >= other.last_offset:
            yield f"markers at {one.last_offset} and {other.last_offset} are in the wrong order"


def _index(at: MachineTables, log: Log) -> Violations:
    is_cleaned = log.topic in UNSEALED or log.is_whole  # offsets may have gaps
    if len(log.chunks) > INDEX_CHUNKS_MAX and not is_cleaned:
        yield f"{len(log.chunks)} chunks in the index; at most {INDEX_CHUNKS_MAX} are kept"
    sealed = list(sealed_segments(at, log)) if log.segments else []
    bounds: list[Segment | ChunkBounds] = [*sealed, *log.chunks]
    if log.sealed_bytes != sum(segment.size_in_bytes for segment in sealed):
        yield f"{log.sealed_bytes} bytes are counted as sealed, not the sum of the sealed segments"
    for one, other in _parted(bounds, log):
        yield f"after offset {one.last_offset} the index continues with {other.base_offset}"
    if bounds and not _ends(bounds[-1].last_offset, log):
        ends = (bounds[-1].last_offset, log.log_end_offset)
        yield "the index ends with offset {}, the log at its end offset {}".format(*ends)
    for chunk_bounds in log.chunks:
        yield from _chunk(at, log, chunk_bounds)


def _segments(at: MachineTables, log: Log) -> Violations:
    """Segments ascend up to the log end; the active one agrees with the index."""
    if log.active is None:
        return
    rolled = list(rolled_segments(at, log)) if log.rolled else []
    if log.rolled_bytes != sum(each.size_in_bytes for each in rolled):
        yield f"{log.rolled_bytes} bytes are counted as rolled, not the sum of the rolled segments"
    ends = [each.end_offset for each in rolled]
    bases = [each.base_offset for each in rolled[1:]] + [log.active.base_offset]
    if any(end > base for end, base in zip(ends, bases, strict=False)):
        yield f"segments end at {ends}, the next ones start at {bases}"
    if log.active.base_offset > log.log_end_offset:
        yield f"a segment starts at {log.active.base_offset}, after the end of the log"
    if not log.chunks or log.chunks[0].base_offset > log.active.base_offset:
        return
    size = _size_from(at, log, log.active.base_offset)
    if size != log.active.size_in_bytes:
        yield f"the active segment has {log.active.size_in_bytes} bytes, the index {size}"


def _size_from(at: MachineTables, log: Log, offset: int) -> int:
    """Bytes of the batches from `offset` on; whole chunks are counted by their bounds."""
    size = sum(bounds.size_in_bytes for bounds in log.chunks if bounds.base_offset >= offset)
    for bounds in log.chunks:
        if bounds.base_offset < offset <= bounds.last_offset:
            chunk = at.tables.logs.get(
                chunk_key(at.id, log.topic_id, log.partition, bounds.number), Chunk
            )
            batches = chunk.batches if chunk is not None else []
            size += sum(each.size_in_bytes for each in batches if each.last_offset >= offset)
    return size


_Entry = TypeVar("_Entry", Segment | ChunkBounds, StoredBatch)


def _parted(entries: list[_Entry], log: Log) -> list[tuple[_Entry, _Entry]]:
    """Neighbours between which offsets are missing."""
    following = iter(entries)
    next(following, None)
    return [
        (one, other)
        for one, other in zip(entries, following, strict=False)
        if one.last_offset + 1 != other.base_offset and not _follows(one, other, log)
    ]


def _follows(
    one: Segment | ChunkBounds | StoredBatch, other: Segment | ChunkBounds | StoredBatch, log: Log
) -> bool:
    """True if `other` may follow `one`; below the log start a follower may have gaps."""
    if log.has_gaps or log.topic in UNSEALED:
        return one.last_offset < other.base_offset
    return one.last_offset + 1 == other.base_offset or other.base_offset <= log.log_start_offset


def _ends(last_offset: int, log: Log) -> bool:
    """True if the index ends at the log end; a cleaned log may be truncated in a gap."""
    if log.has_gaps or log.topic in UNSEALED:
        return last_offset < log.log_end_offset
    return last_offset + 1 == log.log_end_offset


def _chunk(at: MachineTables, log: Log, bounds: ChunkBounds) -> Violations:
    chunk = at.tables.logs.get(chunk_key(at.id, log.topic_id, log.partition, bounds.number), Chunk)
    if chunk is None or not 0 < len(chunk.batches) <= CHUNK_BATCHES_MAX:
        yield f"chunk {bounds.number} has no batches or too many"
        return
    batches = chunk.batches
    bases = [batch.base_offset for batch in batches]
    ends = [batch.base_offset + batch.last_offset_delta + 1 for batch in batches]
    if bases[1:] != ends[:-1]:
        for one, other in _parted(batches, log):
            yield f"after offset {one.last_offset} a batch starts at {other.base_offset}"
    chunk_bounds = ChunkBounds(
        bounds.number,
        bases[0],
        ends[-1] - 1,
        sum([batch.size_in_bytes for batch in batches]),
        max([NO_TIMESTAMP, *[batch.max_timestamp for batch in batches]]),
    )
    if chunk_bounds != bounds:
        yield f"the bounds of chunk {bounds.number} are {bounds}, its batches have {chunk_bounds}"


def _producers(log_key: str, log: Log | None, producers: Table) -> Violations:
    opened: set[tuple[int, int]] = set()
    for key in producers.keys(f"{log_key.replace('/log/', '/producer/', 1)}/"):
        if log is None:
            yield f"{key} belongs to no log"
            continue
        producer = producers.get(key, ProducerStateEntry)
        assert producer is not None, key
        if producer.has_open_transaction:
            number = int(key.rpartition("/")[2])
            opened.add((number, producer.current_txn_first_offset))
        for violation in _producer(producer, log):
            yield f"{key}: {violation}"
    for each in log.transactions if log is not None else []:
        opening = (each.producer_id, each.first_offset)
        if each.last_offset == NO_OFFSET and opening not in opened:
            yield f"{log_key}: producer {each.producer_id} lacks its open transaction"
        opened.discard(opening)
    for number, offset in sorted(opened):
        yield f"{log_key} lacks producer {number}'s transaction since {offset}"


def _producer(producer: ProducerStateEntry, log: Log) -> Violations:
    batches = producer.batches
    if len(batches) > BATCHES_KEPT:
        yield f"{len(batches)} batches are remembered, more than {BATCHES_KEPT}"
    for one, other in pairwise(batches):
        if one.last_offset >= other.first_offset:
            yield f"the batch at {other.first_offset} is remembered after {one.last_offset}"
        # Sequence 0: the leader had forgotten the producer; a follower has both batches.
        # Gaps: after a restart, a producer lacks the batches that the cleaner has removed.
        follows = other.first_sequence in (0, sequence_after(one.last_sequence, 1))
        if not follows and not log.has_gaps:
            yield f"sequence {other.first_sequence} follows {one.last_sequence}"
    if batches and batches[-1].last_offset >= log.log_end_offset:
        yield f"a batch up to {batches[-1].last_offset} is remembered, past the log end"
