"""What a topic asks of each record of a batch: a key where it is compacted, a time that may be.

Source: `LogValidator.validateRecord` in Kafka. The machine has a batch's header; what else counts
the edge has seen in the bytes (`RecordsSeen`). The batch is refused as a whole:

    a record without a key, and cleanup.policy has `compact`             87 INVALID_RECORD
    else, with CreateTime, a time more than message.timestamp.before.max.ms
    ago, or more than message.timestamp.after.max.ms ahead               32 INVALID_TIMESTAMP
    else, with LogAppendTime, a batch that says it has that already      32 INVALID_TIMESTAMP

32 goes before 87 where records of both kinds are there. A record without a time (-1) is taken.
Which records it were, and the words about each, the edge adds from the bytes (`RefusedRecords`).
"""

import msgspec

from brokertwin.state.core.errors import NONE, Error
from brokertwin.state.core.records import Batch
from brokertwin.state.core.wire.additions import RecordsSeen

NO_TIMESTAMP = -1


class Rules(msgspec.Struct, frozen=True):
    """What a topic asks of its records; `before_max_ms` and `after_max_ms` are around now."""

    is_compacted: bool
    takes_append_time: bool
    before_max_ms: int
    after_max_ms: int


UNSEEN = RecordsSeen()


def check(batch: Batch, seen: RecordsSeen | None, rules: Rules, now: int) -> Error:
    """87, 32 or no error for a batch that arrives at `now` (ms since 1970)."""
    seen = seen or UNSEEN
    if rules.is_compacted and seen.has_keyless:
        times = seen.keyed_timestamps
        is_late = bool(times) and _are_refused(times, seen, rules, now)
        return Error.INVALID_TIMESTAMP if is_late else Error.INVALID_RECORD
    least = seen.least_timestamp
    if least == NO_TIMESTAMP:
        least = batch.base_timestamp
    is_late = _are_refused((least, batch.max_timestamp), seen, rules, now)
    return Error.INVALID_TIMESTAMP if is_late else NONE


def _are_refused(
    times: list[int] | tuple[int, int], seen: RecordsSeen, rules: Rules, now: int
) -> bool:
    if rules.takes_append_time:
        return seen.has_append_time
    earliest, latest = now - rules.before_max_ms, now + rules.after_max_ms
    for timestamp in times:
        if timestamp != NO_TIMESTAMP and not earliest <= timestamp <= latest:
            return True
    return False
