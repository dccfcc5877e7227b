"""Which records of a log are too old or too many: whole segments go, the oldest first.

Source: `UnifiedLog.deleteOldSegments` in Kafka.

    below the log start                segments that lie wholly there, but for the last one
    more bytes than retention.bytes    segments go as long as the rest has that many
    older than retention.ms            by the greatest timestamp of a segment, which decides for all
                                       of its records
    above the high watermark           a segment that reaches there stays, and those behind it

A segment whose records have no timestamps is not taken for old: when it was written last is not
known. The last segment may go, too: a new one begins at the end of the log.
"""

from typing import NamedTuple

from brokertwin.state.core.tables import Table
from brokertwin.state.logs import rolling
from brokertwin.state.logs.log import Log
from brokertwin.state.logs.log_segments import RollingRules

UNLIMITED = -1
NOTHING = -1


class RetentionLimits(NamedTuple):
    """What a topic's settings say: ms and bytes, -1 for no limit."""

    retention_ms: int
    retention_bytes: int


def deleted_to(
    table: Table,
    broker: int,
    log: Log,
    cuts: RollingRules,
    limits: RetentionLimits | None,
    now: int,
) -> int:
    """Up to which offset segments go in a check at `now` (ms since 1970); `NOTHING` where none.

    Without `limits` only those go that lie wholly below the log start. `table` is `logs`.
    """
    segments = list(rolling.segments(table, broker, log, cuts))
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
            break  # it has nothing yet
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
