"""Changes of a log's segments: append, delete, merge, truncate.

Source: `UnifiedLog.maybeRoll`, `LocalLog.roll`, `LocalLog.truncateTo`, `Cleaner.cleanSegments`,
`Cleaner.groupSegmentsBySize` in Kafka. A rolled segment stays as it is when settings change;
retention and the cleaner work with existing segments (`state/logs/retention.py`,
`state/logs/cleaner.py`).

    DeleteRecords        no change until the next retention check
    retention            deletes the segments that the check returns; if none is left, a new one
                         starts at the log end
    log cleaner          merges cleaned segments up to segment.bytes
    truncation           the segment with the new log end becomes active again

A log from an older checkpoint has no segments: it is divided once, with the current settings. Logs
of coordinators have none, because nothing reads them.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from operator import attrgetter

from brokertwin.state.core.tables import MachineTables
from brokertwin.state.logs.log import (
    OFFSETS_MAX,
    ActiveSegment,
    Log,
    LogSegment,
    RollingRules,
    SegmentPart,
    StoredBatch,
    batches_from,
    rolled_segments,
    sealed_segments,
)


def size_in_bytes(log: Log) -> int:
    if log.active is None:
        return log.size_in_bytes
    return log.rolled_bytes + log.active.size_in_bytes


def segments(at: MachineTables, log: Log, rules: RollingRules) -> Iterator[LogSegment]:
    """Segments of a log, oldest first; the last one is active.

    A log without segments is divided as `rules` say.
    """
    if log.active is None:
        rolled, active = _cut(at, log, rules)
        yield from rolled
    else:
        yield from rolled_segments(at, log)
        active = log.active
    yield active.rolled(log.log_end_offset)


def ensure(at: MachineTables, log: Log, rules: RollingRules) -> ActiveSegment:
    """The active segment of a log from `change`, which is divided first if necessary."""
    if log.active is None:
        rolled, log.active = _cut(at, log, rules)
        found = rolled_segments(at, log)
        for each in rolled:
            found.append(each)
        log.rolled_bytes = sum(each.size_in_bytes for each in rolled)
    return log.active


def delete(at: MachineTables, log: Log, end_offset: int) -> None:
    """Delete the segments up to `end_offset` of `log`, which comes from `change`."""
    if log.active is None:
        return
    rolled = rolled_segments(at, log)
    rolled.drop_below(rolled.first_where(lambda segment: segment.end_offset > end_offset))
    log.rolled_bytes = sum(each.size_in_bytes for each in rolled)
    if end_offset == log.log_end_offset:
        log.active = ActiveSegment(end_offset)


def truncate(at: MachineTables, log: Log, offset: int, rules: RollingRules) -> None:
    """Truncate the segments at `offset`, before the index. `log` comes from `change`."""
    if log.active is None or offset >= log.log_end_offset:
        return
    rolled = rolled_segments(at, log)
    last = log.active.rolled(log.log_end_offset)
    while last.base_offset > offset and len(rolled):
        last = rolled[log.rolled.end - 1]
        rolled.drop_from(log.rolled.end - 1)
        log.rolled_bytes -= last.size_in_bytes
    active = log.active = ActiveSegment(last.base_offset)
    left = last.size_in_bytes
    for part in _parts(batches_from(at, log, last.base_offset)):
        if part.end_offset <= offset:
            active.take(part.size_in_bytes, part.max_timestamp, rules)
        elif part.base_offset < last.end_offset:
            left -= part.size_in_bytes
    active.bytes_since_entry, active.size_in_bytes = 0, left
    if left:  # a sealed part was not read
        active.first_timestamp = last.first_timestamp


def merge_cleaned(at: MachineTables, log: Log, end_offset: int, rules: RollingRules) -> None:
    """Merge the segments below `end_offset`, after the index was cleaned."""
    active = ensure(at, log, rules)
    rolled = rolled_segments(at, log)
    before = list(rolled)
    cleaned = [each for each in before if each.base_offset < end_offset]
    batches = list(_parts(batches_from(at, log, 0)))
    log_segments = [
        _what_is_left(group, batches) for group in _groups(cleaned, rules.segment_bytes)
    ]
    log_segments = [each for each in log_segments if each.size_in_bytes] + before[len(cleaned) :]
    rolled.drop_all()
    for each in log_segments:
        rolled.append(each)
    log.rolled_bytes = sum(each.size_in_bytes for each in log_segments)
    if end_offset > active.base_offset:
        log.active = ActiveSegment(active.base_offset)
        for part in batches:
            if part.base_offset >= active.base_offset:
                log.active.take(part.size_in_bytes, part.max_timestamp, rules)


def _groups(cleaned: list[LogSegment], segment_bytes: int) -> list[list[LogSegment]]:
    """Segments to merge, grouped by their sizes before the pass."""
    groups: list[list[LogSegment]] = []
    size = 0
    for segment in cleaned:
        is_far = groups and segment.end_offset - 1 - groups[-1][0].base_offset > OFFSETS_MAX
        if not groups or is_far or size + segment.size_in_bytes > segment_bytes:
            groups.append([])
            size = 0
        groups[-1].append(segment)
        size += segment.size_in_bytes
    return groups


def _what_is_left(group: list[LogSegment], batches: list[SegmentPart]) -> LogSegment:
    base_offset, end_offset = group[0].base_offset, group[-1].end_offset
    first, end = (bisect_left(batches, at, key=_base_offset) for at in (base_offset, end_offset))
    inside = batches[first:end]
    times = [each.max_timestamp for each in inside]
    size = sum(each.size_in_bytes for each in inside)
    return LogSegment(base_offset, end_offset, size, max(times, default=-1), next(iter(times), -1))


def _cut(
    at: MachineTables, log: Log, rules: RollingRules
) -> tuple[list[LogSegment], ActiveSegment]:
    """Divide a log from its start: the rolled segments and the active one.

    Only the bounds of a sealed part are known, so it is in one segment.
    """
    rolled: list[LogSegment] = []
    active: ActiveSegment | None = None
    for part in _parts_from(at, log, log.log_start_offset):
        if active is None:
            active = ActiveSegment(part.base_offset)
        elif _must_roll(log, active, part, rules):
            rolled.append(active.rolled(part.base_offset))
            active = ActiveSegment(part.base_offset)
        active.take(part.size_in_bytes, part.max_timestamp, rules)
    return rolled, active or ActiveSegment(log.log_end_offset)


_base_offset = attrgetter("base_offset")
"""Sort key of parts."""


def _parts_from(at: MachineTables, log: Log, offset: int) -> Iterator[SegmentPart]:
    for sealed in sealed_segments(at, log):
        if sealed.last_offset >= offset:
            yield SegmentPart(
                sealed.base_offset,
                sealed.last_offset + 1,
                sealed.size_in_bytes,
                sealed.max_timestamp,
            )
    yield from _parts(batches_from(at, log, offset))


def _parts(batches: Iterable[StoredBatch]) -> Iterator[SegmentPart]:
    for batch in batches:
        end_offset = batch.last_offset + 1
        yield SegmentPart(batch.base_offset, end_offset, batch.size_in_bytes, batch.max_timestamp)


def _must_roll(log: Log, active: ActiveSegment, part: SegmentPart, rules: RollingRules) -> bool:
    segment_ms = rules.segment_ms_of(log.topic_id, log.partition, active.base_offset)
    return active.must_roll(
        part.end_offset, part.size_in_bytes, part.max_timestamp, segment_ms, rules
    )
