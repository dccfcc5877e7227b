"""A topic's checks of the records in a batch: keys and timestamps.

Source: `LogValidator.validateRecord` in Kafka. The state machine has a batch's header; the edge
reads the rest from the bytes (`RecordsSummary`). One record fails the whole batch:

    a record without a key, and cleanup.policy has `compact`             87 INVALID_RECORD
    else, with CreateTime, a timestamp more than message.timestamp.before.max.ms
    ago, or more than message.timestamp.after.max.ms ahead               32 INVALID_TIMESTAMP
    else, with LogAppendTime, a batch that already has it                32 INVALID_TIMESTAMP

If a batch has records of both kinds, the error is 32 INVALID_TIMESTAMP. Records without a timestamp
(-1) are accepted. The edge adds which records failed, and their messages (`RefusedRecords`).
"""

import msgspec

from brokertwin.protocol.additions import RecordsSummary
from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.errors import NONE, Error

NO_TIMESTAMP = -1


class RecordRules(msgspec.Struct, frozen=True):
    """A topic's checks; `before_max_ms` and `after_max_ms` are relative to now."""

    is_compacted: bool
    takes_append_time: bool
    before_max_ms: int
    after_max_ms: int


NO_SUMMARY = RecordsSummary()


def check(batch: Batch, summary: RecordsSummary | None, rules: RecordRules, now: int) -> Error:
    """Error of a batch that arrives at `now` (ms since 1970)."""
    summary = summary or NO_SUMMARY
    least, greatest, error = summary.least_timestamp, batch.max_timestamp, NONE
    if least == NO_TIMESTAMP:
        least = batch.base_timestamp
    if rules.is_compacted and summary.has_keyless:
        error = Error.INVALID_RECORD
        if not summary.keyed_timestamps:
            return error
        least, greatest = min(summary.keyed_timestamps), max(summary.keyed_timestamps)
    if rules.takes_append_time:
        return Error.INVALID_TIMESTAMP if summary.has_append_time else error
    earliest, latest = now - rules.before_max_ms, now + rules.after_max_ms
    if (least != NO_TIMESTAMP and not earliest <= least <= latest) or (
        greatest != NO_TIMESTAMP and not earliest <= greatest <= latest
    ):
        return Error.INVALID_TIMESTAMP
    return error
