"""Segments of a log, and when the active one rolls.

Source: `LogSegment.shouldRoll`, `LogSegment.append`, `LogConfig.randomSegmentJitter`,
`AbstractIndex.isFull`, `TimeIndex.maybeAppend` in Kafka. A segment rolls before a batch

    that would make it larger than segment.bytes
    whose greatest timestamp is more than segment.ms, minus a jitter, after that of the first batch
    if its offset index or time index is full (segment.index.bytes)
    that ends more than `OFFSETS_MAX` after the base offset: the index has 32-bit offsets

Kafka draws the jitter (`segment.jitter.ms`) at random; here it is a hash of partition and base
offset. Kafka sizes an index when the segment starts; here the setting at the append counts. If the
first batch has no timestamp, the segment does not roll by time; Kafka takes the file's time.
"""

from zlib import crc32

import msgspec

from brokertwin.protocol.bodies import Uuid

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
        """The segment after it has rolled."""
        return LogSegment(
            self.base_offset,
            end_offset,
            self.size_in_bytes,
            self.max_timestamp,
            self.first_timestamp,
        )
