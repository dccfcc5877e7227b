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

from brokertwin.state.core.errors import NONE, Error
from brokertwin.state.core.records import Batch
from brokertwin.state.core.schema import Body, Int64

NO_TIMESTAMP = -1


class RecordsSummary(Body):
    """What the edge read from a batch's records, if the header does not have it.

    `least_timestamp` is set if it is not the first record's. `keyed_timestamps` is set if only some
    records have a key: the least and greatest timestamps of those. Records without a timestamp do
    not count. `has_append_time` is the batch's own attribute.
    """

    has_keyless: bool = False
    has_append_time: bool = False
    least_timestamp: Int64 = NO_TIMESTAMP
    keyed_timestamps: list[Int64] = []


class RefusedRecords(Body):
    """The failed checks: the edge finds the records. Times are in ms since 1970."""

    topic: str
    is_compacted: bool
    takes_append_time: bool
    now: Int64
    before_max_ms: Int64
    after_max_ms: Int64


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
    if rules.is_compacted and summary.has_keyless:
        times = summary.keyed_timestamps
        is_late = bool(times) and _are_refused(times, summary, rules, now)
        return Error.INVALID_TIMESTAMP if is_late else Error.INVALID_RECORD
    least = summary.least_timestamp
    if least == NO_TIMESTAMP:
        least = batch.base_timestamp
    is_late = _are_refused((least, batch.max_timestamp), summary, rules, now)
    return Error.INVALID_TIMESTAMP if is_late else NONE


def _are_refused(
    times: list[int] | tuple[int, int], summary: RecordsSummary, rules: RecordRules, now: int
) -> bool:
    if rules.takes_append_time:
        return summary.has_append_time
    earliest, latest = now - rules.before_max_ms, now + rules.after_max_ms
    for timestamp in times:
        if timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
            return True
    return False
