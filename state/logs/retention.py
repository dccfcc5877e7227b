"""Which records of a log are too old or too many: whole segments go, the oldest first.

Source: `UnifiedLog.deleteOldSegments`, `LogSegment.shouldRoll`, `LocalLog.maybeRoll` in Kafka.

    more bytes than retention.bytes    segments go as long as the rest has that many
    older than retention.ms            by the greatest timestamp of a segment, which decides for all
                                       of its records
    above the high watermark           a segment that reaches there stays, and those behind it

Kafka cuts a log into segments as it is appended to. Here the cuts are computed by the check, with
the settings of its time, from the log start on: a segment ends before the batch with which it would
have more than `segment.bytes`, or whose greatest timestamp is more than `segment.ms` after that of
the segment's first batch. That is less by a jitter (`segment.jitter.ms`), which Kafka draws for
each segment, and which here follows from the partition and the segment's offset. Of most logs only
the oldest batch is read; else what may go, and the segment behind it. A sealed part of the index
counts as one batch. A segment whose records have no timestamps is not taken for old: when it was
written last is not known. The last segment may go, too: a new one begins at the end of the log.
"""

from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

from brokerstream.state.core.tables import Table
from brokerstream.state.logs.log import Log, batches_from, sealed_segments

UNLIMITED = -1
OFFSETS_MAX = 2**31 - 1
"""Offsets that a segment spans at most: its index has them relative to its base, in 32 bits."""


class Limits(NamedTuple):
    """What a topic's settings say: ms and bytes, `retention_*` -1 for no limit."""

    retention_ms: int
    retention_bytes: int
    segment_ms: int
    segment_bytes: int
    segment_jitter_ms: int = 0

    def segment_ms_of(self, log: Log, base_offset: int) -> int:
        """After how many ms a segment ends that begins at an offset (`randomSegmentJitter`)."""
        most = min(self.segment_jitter_ms, self.segment_ms)
        if most <= 0:
            return self.segment_ms
        place = f"{log.topic_id}/{log.partition}/{base_offset}"
        return self.segment_ms - crc32(place.encode()) % most


class LogSegment(NamedTuple):
    """Some batches in a row: up to which offset (exclusive), bytes, and two times in ms.

    `first_timestamp` is the greatest one of the first batch.
    """

    end_offset: int
    size_in_bytes: int
    max_timestamp: int
    first_timestamp: int


class Part(NamedTuple):
    """What a segment takes whole: a batch, or a sealed part of the index."""

    base_offset: int
    end_offset: int
    size_in_bytes: int
    max_timestamp: int


def new_start(table: Table, broker: int, log: Log, limits: Limits, now: int) -> int:
    """The log start offset after a check at `now` (ms since 1970); the log's own if nothing goes.

    `table` is `logs`.
    """
    start = log.log_start_offset
    surplus = UNLIMITED
    if limits.retention_bytes >= 0:
        surplus = max(log.size_in_bytes - limits.retention_bytes, UNLIMITED)
    oldest = next(parts_from(table, broker, log, log.log_start_offset), None)
    if oldest is None or (
        now - oldest.max_timestamp <= limits.retention_ms and oldest.size_in_bytes > surplus
    ):
        return start  # a segment is as young as its oldest batch at least, and as large
    for segment in segments(table, broker, log, log.log_start_offset, limits):
        is_old = 0 <= limits.retention_ms < now - segment.max_timestamp
        if segment.size_in_bytes <= surplus:
            surplus -= segment.size_in_bytes
        elif is_old and segment.max_timestamp >= 0:
            surplus = UNLIMITED
        else:
            break
        if segment.end_offset > log.high_watermark:
            break
        start = segment.end_offset
    return start


def segments(
    table: Table, broker: int, log: Log, offset: int, limits: Limits
) -> Iterator[LogSegment]:
    """The log from an offset on as Kafka's segments, the oldest first."""
    parts = parts_from(table, broker, log, offset)
    first = next(parts, None)
    while first is not None:
        end, size, newest, part = first.end_offset, first.size_in_bytes, first.max_timestamp, None
        segment_ms = limits.segment_ms_of(log, first.base_offset)
        for part in parts:
            if _rolls(first, part, size, limits.segment_bytes, segment_ms):
                break
            end, size = part.end_offset, size + part.size_in_bytes
            newest = max(newest, part.max_timestamp)
        else:
            part = None
        yield LogSegment(end, size, newest, first.max_timestamp)
        first = part


def _rolls(first: Part, part: Part, size: int, segment_bytes: int, segment_ms: int) -> bool:
    """Whether a segment that begins with `first` ends before `part`."""
    is_late = first.max_timestamp >= 0 and part.max_timestamp - first.max_timestamp > segment_ms
    is_far = part.end_offset - 1 - first.base_offset > OFFSETS_MAX
    return size + part.size_in_bytes > segment_bytes or is_late or is_far


def parts_from(table: Table, broker: int, log: Log, offset: int) -> Iterator[Part]:
    """What the log has from `offset` on, in order."""
    for sealed in sealed_segments(table, broker, log):
        if sealed.last_offset >= offset:
            yield Part(
                sealed.base_offset,
                sealed.last_offset + 1,
                sealed.size_in_bytes,
                sealed.max_timestamp,
            )
    for batch in batches_from(table, broker, log, offset):
        yield Part(
            batch.base_offset, batch.last_offset + 1, batch.size_in_bytes, batch.max_timestamp
        )
