"""Segments of a log: rolling, deletion, truncation, cleaning."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from brokertwin.state.core.records import LogCleaned
from brokertwin.state.core.tables import CellTables
from brokertwin.state.logs import (
    check,
    cleaner,
    retention,
    rolling,
    timestamp_index,
    truncation,
)
from brokertwin.state.logs import log as logs
from brokertwin.state.logs.log import OFFSETS_MAX, ActiveSegment, LogSegment, RollingRules
from tests.state.logs.test_log import BROKER, TOPIC_ID, Partition
from tests.support.machine import START

MINUTE = 60_000
CUTS = RollingRules(10 * MINUTE, 300)
SIZES = st.lists(st.integers(1, 200), min_size=1, max_size=30)


def bounds(partition: Partition, rules: RollingRules = CUTS) -> list[int]:
    log_segments = rolling.segments(partition.at, partition.log, rules)
    return [segment.end_offset for segment in log_segments]


def of_sizes(sizes: list[int], rules: RollingRules = CUTS) -> Partition:
    partition = Partition()
    for size in sizes:
        partition.append(1, size, rules=rules)
    return partition


@pytest.mark.parametrize(
    ("part", "rolls"),
    [
        ((6, 200, START + MINUTE), False),
        ((6, 201, START + MINUTE), True),
        ((6, 1, START + 10 * MINUTE), False),
        ((6, 1, START + 10 * MINUTE + 1), True),
        ((OFFSETS_MAX + 1, 1, START), False),
        ((OFFSETS_MAX + 2, 1, START), True),
    ],
)
def test_segment_rolls_before_a_batch_beyond_size_time_or_offset_limits(
    part: tuple[int, int, int], rolls: bool
) -> None:
    active = ActiveSegment(0)
    assert not active.must_roll(2**40, 2**40, START, 1, CUTS), "it is empty"
    active.take(100, START, CUTS)
    assert active.must_roll(*part, 10 * MINUTE, CUTS) == rolls


def test_segment_without_a_first_timestamp_does_not_roll_by_time() -> None:
    active = ActiveSegment(0)
    active.take(100, -1, CUTS)
    assert not active.must_roll(6, 1, START, 10 * MINUTE, CUTS)


@pytest.mark.parametrize(("step", "batches"), [(0, 7), (1, 4)])
def test_segment_rolls_when_an_index_is_full(step: int, batches: int) -> None:
    """48 bytes hold 6 offset entries of 8 bytes, or 4 time entries of 12 bytes, one kept free."""
    rules = RollingRules(2**60, 2**30, index_bytes=48, index_interval_bytes=0)
    partition = Partition()
    for number in range(20):
        partition.append(1, timestamp=START + number * step, rules=rules)
    assert bounds(partition)[:2] == [batches, 2 * batches]


def test_rolled_segments_keep_their_bounds() -> None:
    partition = of_sizes([200] * 3)
    partition.append(1, 200, rules=replace(CUTS, segment_bytes=1000))
    assert bounds(partition, RollingRules(1, 1)) == [1, 2, 4]


def test_log_of_an_older_checkpoint_gets_segments_on_append() -> None:
    partition = of_sizes([])
    for _ in range(70 * logs.CHUNK_BATCHES_MAX):
        partition.append(1)
    assert partition.log.active is None and partition.sealed
    expected = bounds(partition)
    partition.append(1, 200, rules=CUTS)
    assert bounds(partition)[: len(expected) - 1] == expected[:-1]
    assert rolling.size_in_bytes(partition.log) == partition.log.size_in_bytes


@given(SIZES, st.integers(0, 30))
def test_check_deletes_segments_below_the_log_start(sizes: list[int], start: int) -> None:
    """Never the active one; before the check all of them exist."""
    partition, start = of_sizes(sizes), min(start, len(sizes))
    before = bounds(partition)
    moved = logs.move_start(partition.at, TOPIC_ID, 0, start)
    assert rolling.size_in_bytes(partition.log) == sum(sizes)
    deleted_to = retention.deletable_end(partition.at, partition.log, CUTS, None, START)
    below = [end for end in before[:-1] if end <= start]
    assert deleted_to == (below[-1] if below else retention.NOTHING)
    rolling.delete(partition.at, moved, deleted_to)
    assert bounds(partition) == before[len(below) :]
    assert rolling.size_in_bytes(partition.log) == sum(sizes[deleted_to if below else 0 :])


def test_new_segment_starts_at_the_end_after_retention_deleted_all() -> None:
    partition = of_sizes([200, 200, 100])
    limits = retention.RetentionLimits(-1, 0)
    assert retention.deletable_end(partition.at, partition.log, CUTS, limits, START) == 3
    moved = logs.move_start(partition.at, TOPIC_ID, 0, 3)
    rolling.delete(partition.at, moved, 3)
    assert rolling.size_in_bytes(partition.log) == 0
    nothing = retention.deletable_end(partition.at, partition.log, CUTS, limits, START)
    assert nothing == retention.NOTHING, "an empty segment stays"


def test_deleted_records_hide_later_segments_until_a_check() -> None:
    """A search by time reads only the first segment with such a late record."""
    partition = Partition()
    for minute, size in ((5, 200), (1, 200), (2, 100)):
        partition.append(1, size, START + minute * MINUTE, CUTS)
    moved = logs.move_start(partition.at, TOPIC_ID, 0, 1)

    def found(minute: int) -> int | None:
        at = START + minute * MINUTE
        place = timestamp_index.first_at_or_after(partition.at, moved, at, True)
        return None if place is None else place.offset

    assert [found(2), found(5)] == [None, None]
    rolling.delete(partition.at, moved, 1)
    assert [found(1), found(2), found(3)] == [1, 2, None]


def plain(segments: list[list[int]], sizes: list[int]) -> list[list[int]]:
    """A simple model over lists: sizes of each segment's batches after appends."""
    for size in sizes:
        if segments[-1] and sum(segments[-1]) + size > CUTS.segment_bytes:
            segments.append([])
        segments[-1].append(size)
    return segments


@given(SIZES, st.integers(0, 30), SIZES)
def test_truncated_log_continues_in_the_segment_of_its_end(
    sizes: list[int], offset: int, more: list[int]
) -> None:
    tables, offset = CellTables(), min(offset, len(sizes))
    partition = Partition(tables.of(BROKER))
    for size in sizes:
        partition.append(1, size, rules=CUTS)
    log = tables.logs.change(logs.log_key(BROKER, TOPIC_ID, 0), logs.Log)
    rolling.truncate(tables.of(BROKER), log, offset, CUTS)
    truncation.truncate(tables.of(BROKER), TOPIC_ID, 0, offset)
    segments, left = plain([[]], sizes), offset
    while left < sum(map(len, segments[:-1])):
        segments.pop()
    segments[-1] = segments[-1][: left - sum(map(len, segments[:-1]))]
    assert [*check.check(tables)] == []
    for size in more:
        partition.append(1, size, rules=CUTS)
    log_segments = rolling.segments(tables.of(BROKER), partition.log, CUTS)
    expected = [sum(segment) for segment in plain(segments, more)]
    assert [segment.size_in_bytes for segment in log_segments] == expected


@given(SIZES, st.data())
def test_cleaning_merges_segments_up_to_segment_bytes(
    sizes: list[int], data: st.DataObject
) -> None:
    """By their sizes before the pass, without the active one."""
    partition = of_sizes(sizes)
    ends = bounds(partition)
    if len(ends) == 1:
        return
    *rolled, active = rolling.segments(partition.at, partition.log, CUTS)
    end = rolled[-1].end_offset
    stays = data.draw(st.sets(st.integers(0, end - 1)), label="stays")
    runs = [(offset, offset) for offset in sorted(stays)]
    wide = replace(CUTS, segment_bytes=700)
    cleaned = LogCleaned(TOPIC_ID, 0, end, [], unchanged=runs)
    cleaner.apply_cleaned(partition.at, cleaned, wide)
    groups: list[list[LogSegment]] = []
    for segment in rolled:
        if not groups or sum(each.size_in_bytes for each in [*groups[-1], segment]) > 700:
            groups.append([])
        groups[-1].append(segment)
    expected = [
        (group[0].base_offset, sum(sizes[at] for at in stays if at in of_group))
        for group in groups
        for of_group in [range(group[0].base_offset, group[-1].end_offset)]
    ]
    log_segments = list(rolling.segments(partition.at, partition.log, CUTS))
    bounds_found = [(segment.base_offset, segment.size_in_bytes) for segment in log_segments]
    assert bounds_found[:-1] == [each for each in expected if each[1]]
    assert log_segments[-1] == active


def test_jitter_rolls_segments_at_different_earlier_times() -> None:
    """`segment.jitter.ms` differs between partitions, and between segments of a log."""
    rules = {}
    for jitter_ms in (0, 1, 1_800_000, 10**12):
        partition = Partition()
        limits = RollingRules(3_600_000, 2**30, jitter_ms)
        for minute in range(600):
            partition.append(1, timestamp=START + minute * MINUTE, rules=limits)
        rules[jitter_ms] = bounds(partition)
    assert rules[0] == rules[1] == [61, 122, 183, 244, 305, 366, 427, 488, 549, 600]
    lengths = [end - start for start, end in pairwise([0, *rules[1_800_000]])]
    assert all(31 <= each <= 61 for each in lengths[:-1])
    assert len(set(lengths)) > 5
    assert len(rules[10**12]) > len(rules[1_800_000]), "a jitter is at most segment.ms"


def test_read_ends_with_its_segment() -> None:
    partition = of_sizes([200, 200, 100, 250])
    assert bounds(partition) == [1, 3, 4]
    for offset, actual in ((0, [0]), (1, [1, 2]), (2, [2]), (3, [3])):
        batches = partition.read(offset, 2**20).batches
        assert [batch.base_offset for batch in batches] == actual


def test_read_continues_after_a_segment_without_further_batches() -> None:
    partition = of_sizes([200, 200, 100, 250])
    cleaned = LogCleaned(TOPIC_ID, 0, 3, [], unchanged=[(0, 0)])
    cleaner.apply_cleaned(partition.at, cleaned, CUTS)
    batches = partition.read(1, 2**20).batches
    assert [batch.base_offset for batch in batches] == [3]
