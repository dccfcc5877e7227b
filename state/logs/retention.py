"""Retention: which segments are deleted by age and size, oldest first.

Source: `UnifiedLog.deleteOldSegments` in Kafka.

    wholly below the log start offset  deleted, except the last segment
    more bytes than retention.bytes    deleted while the rest still has that many
    older than retention.ms            deleted, by the greatest timestamp of the segment
    above the high watermark           kept, with all later segments

A segment without timestamps is never too old, because its last write time is unknown. The last
segment can be deleted, too: a new one starts at the log end.
"""

from typing import NamedTuple

from brokertwin.state.core.tables import MachineTables
from brokertwin.state.logs import rolling
from brokertwin.state.logs.log import Log, RollingRules

UNLIMITED = -1
NOTHING = -1


class RetentionLimits(NamedTuple):
    """A topic's retention settings in ms and bytes, -1 for no limit."""

    retention_ms: int
    retention_bytes: int


def deletable_end(
    at: MachineTables, log: Log, rules: RollingRules, limits: RetentionLimits | None, now: int
) -> int:
    """End offset of the segments to delete at `now` (ms since 1970), or `NOTHING`.

    Without `limits` only segments wholly below the log start are deleted.
    """
    segments = list(rolling.segments(at, log, rules))
    deleted = NOTHING
    while len(segments) > 1 and segments[0].end_offset <= log.log_start_offset:
        deleted = segments.pop(0).end_offset
    if limits is None:
        return deleted
    surplus = UNLIMITED
    if limits.retention_bytes >= 0:
        size = sum(segment.size_in_bytes for segment in segments)
        surplus = max(size - limits.retention_bytes, UNLIMITED)
    for segment in segments:
        if segment.base_offset == log.log_end_offset:
            break  # it is empty
        is_old = 0 <= limits.retention_ms < now - segment.max_timestamp
        if segment.size_in_bytes <= surplus:
            surplus -= segment.size_in_bytes
        elif is_old and segment.max_timestamp >= 0:
            surplus = UNLIMITED
        else:
            break
        if segment.end_offset > log.high_watermark:
            break
        deleted = segment.end_offset
    return deleted
