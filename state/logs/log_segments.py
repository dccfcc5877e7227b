"""What a log knows of its segments, and when the one that is written to is full.

Source: `LogSegment.shouldRoll`, `LogSegment.append`, `LogConfig.randomSegmentJitter`,
`AbstractIndex.isFull`, `TimeIndex.maybeAppend` in Kafka. A segment is rolled before a batch

    with which it would have more than segment.bytes
    whose greatest timestamp is more than segment.ms, less a jitter, after that of its first batch
    where its index of offsets, or that of times, has no room (segment.index.bytes)
    that ends more than `OFFSETS_MAX` behind its base: the index has offsets in 32 bits

The jitter (`segment.jitter.ms`), which Kafka draws for each segment, follows from the partition and
the segment's offset. Kafka gives an index its size when the segment begins; here the setting of the
append counts. A first batch without a timestamp lets no time count; Kafka takes the file's.
"""

from zlib import crc32

import msgspec

from brokertwin.state.core.schema import Uuid

OFFSETS_MAX = 2**31 - 1
"""Offsets that a segment spans at most."""

NO_TIMESTAMP = -1
"""The greatest timestamp of records that have none, or only ones before 1970, as in Kafka."""

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12


class RollingRules(msgspec.Struct, frozen=True, gc=False):
    """What a topic's settings say of its logs' segments, in ms and bytes."""

    segment_ms: int
    segment_bytes: int
    segment_jitter_ms: int = 0
    index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096

    def segment_ms_of(self, topic_id: Uuid, partition: int, base_offset: int) -> int:
        """After how many ms a segment of a log ends that begins at an offset."""
        most = min(self.segment_jitter_ms, self.segment_ms)
        if most <= 0:
            return self.segment_ms
        return self.segment_ms - crc32(f"{topic_id}/{partition}/{base_offset}".encode()) % most


class SegmentPart(msgspec.Struct, frozen=True, gc=False):
    """What a segment takes whole: a batch, or a sealed part; up to `end_offset` (exclusive)."""

    base_offset: int
    end_offset: int
    size_in_bytes: int
    max_timestamp: int


class LogSegment(msgspec.Struct, array_like=True):
    """A segment: offsets (`end_offset` exclusive), bytes, and two times in ms since 1970.

    `first_timestamp` is the greatest one of the first batch.
    """

    base_offset: int
    end_offset: int
    size_in_bytes: int
    max_timestamp: int
    first_timestamp: int


class LogSegments(msgspec.Struct, array_like=True):
    """Some rolled segments in a row."""

    entries: list[LogSegment]


class ActiveSegment(msgspec.Struct, array_like=True):
    """The segment that is written to: where it begins, what is in it, and in its two indexes.

    Timestamps are ms since 1970: the greatest of the first batch, of all, and the last one that
    the index of times has. `bytes_since_entry` are those behind the last entry.
    """

    base_offset: int
    size_in_bytes: int = 0
    first_timestamp: int = NO_TIMESTAMP
    max_timestamp: int = NO_TIMESTAMP
    offset_entries: int = 0
    time_entries: int = 0
    indexed_timestamp: int = NO_TIMESTAMP
    bytes_since_entry: int = 0

    def must_roll(self, part: SegmentPart, segment_ms: int, cuts: RollingRules) -> bool:
        """Whether the segment ends before `part`; its jitter is taken off `segment_ms`."""
        if not self.size_in_bytes:
            return False
        is_large = self.size_in_bytes > cuts.segment_bytes - part.size_in_bytes
        is_late = 0 <= self.first_timestamp < part.max_timestamp - segment_ms
        is_far = part.end_offset - 1 - self.base_offset > OFFSETS_MAX
        is_index_full = (
            self.offset_entries >= cuts.index_bytes // OFFSET_ENTRY_BYTES
            or self.time_entries >= cuts.index_bytes // TIME_ENTRY_BYTES - 1  # one for its end
        )
        return is_large or is_late or is_far or is_index_full

    def take(self, part: SegmentPart, cuts: RollingRules) -> None:
        """Append a part."""
        if not self.size_in_bytes:
            self.first_timestamp = part.max_timestamp
        if part.max_timestamp > self.max_timestamp:
            self.max_timestamp = part.max_timestamp
        if self.bytes_since_entry > cuts.index_interval_bytes:
            self.offset_entries += 1
            self.bytes_since_entry = 0
            if self.max_timestamp > self.indexed_timestamp:
                self.time_entries += 1
                self.indexed_timestamp = self.max_timestamp
        self.bytes_since_entry += part.size_in_bytes
        self.size_in_bytes += part.size_in_bytes

    def rolled(self, end_offset: int) -> LogSegment:
        """The same when it is written to no longer."""
        return LogSegment(
            self.base_offset,
            end_offset,
            self.size_in_bytes,
            self.max_timestamp,
            self.first_timestamp,
        )
