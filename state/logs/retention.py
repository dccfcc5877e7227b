"""Which records of a log are too old or too many: whole segments go, the oldest first.

Source: `UnifiedLog.deleteOldSegments` in Kafka.

    more bytes than retention.bytes    segments go as long as the rest has that many
    older than retention.ms            by the greatest timestamp of a segment, which decides for all
                                       of its records
    above the high watermark           a segment that reaches there stays, and those behind it

A segment whose records have no timestamps is not taken for old: when it was written last is not
known. The last segment may go, too: a new one begins at the end of the log.
"""

from typing import NamedTuple

from brokerstream.state.core.tables import Table
from brokerstream.state.logs import rolling
from brokerstream.state.logs.log import Log
from brokerstream.state.logs.log_segments import Cuts

UNLIMITED = -1


class Limits(NamedTuple):
    """What a topic's settings say: ms and bytes, -1 for no limit; `cuts` is how a log is cut."""

    retention_ms: int
    retention_bytes: int
    cuts: Cuts


def new_start(table: Table, broker: int, log: Log, limits: Limits, now: int) -> int:
    """The log start offset after a check at `now` (ms since 1970); the log's own if nothing goes.

    `table` is `logs`.
    """
    start = log.log_start_offset
    surplus = UNLIMITED
    if limits.retention_bytes >= 0:
        surplus = max(rolling.size_in_bytes(log) - limits.retention_bytes, UNLIMITED)
    for segment in rolling.segments(table, broker, log, limits.cuts):
        is_old = 0 <= limits.retention_ms < now - segment.max_timestamp
        if segment.size_in_bytes <= surplus:
            surplus -= segment.size_in_bytes
        elif is_old and segment.max_timestamp >= 0:
            surplus = UNLIMITED
        else:
            break
        if segment.end_offset > log.high_watermark:
            break
        start = max(start, segment.end_offset)
    return start
