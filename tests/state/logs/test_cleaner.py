"""The log cleaner: when a pass is due, its retained records, and how the result is applied."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.protocol.batch_headers import Batch, EndMarker
from brokertwin.state.cell.apply import apply
from brokertwin.state.cell.check import check as whole_check
from brokertwin.state.core.events import LogMark
from brokertwin.state.core.records import (
    BatchAppended,
    LogTruncated,
)
from brokertwin.state.logs import check as log_check
from brokertwin.state.logs import cleaner, timestamp_index
from brokertwin.state.logs import log as log_module
from brokertwin.state.logs.aborted_transactions import AbortedTxn
from brokertwin.state.logs.check import check
from brokertwin.state.logs.cleaner import (
    DROPPED,
    CleanableRange,
    CleanedBatch,
    CleanedTransactionMetadata,
    CleanerBatch,
    CleanerPass,
    CleanerRecord,
    CleaningRules,
    LastRecord,
    OffsetMap,
)
from brokertwin.state.logs.deleted_times import HEADER_BYTES
from brokertwin.state.logs.log import Log, RollingRules, StoredBatch, batches_from
from tests.support.examples import examples
from tests.support.machine import START, Bench, RefusedError, header

NOW, KEPT_MS, HOUR = 1_000_000, 1000, 3_600_000
Records = list[tuple[str | None, bool]]
"""Key of each record, and whether it has a value."""


def stored(base: int, count: int, **fields: Any) -> StoredBatch:
    given = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1, **fields}
    rest = (given.pop("producer_id"), given.pop("producer_epoch"), given.pop("base_sequence"))
    batch = StoredBatch(base, count - 1, *rest, 0, 5, 5, 70, count, 2, "none", False, False, 0, "x")
    for name, value in given.items():
        setattr(batch, name, value)
    return batch


def seen(base: int, records: Records, horizon: int | None = None, **fields: Any) -> CleanerBatch:
    cleaner_records = [
        CleanerRecord(base + at, None if key is None else key.encode(), has_value)
        for at, (key, has_value) in enumerate(records)
    ]
    return CleanerBatch(stored(base, max(len(records), 1), **fields), cleaner_records, horizon)


def marker(base: int, producer_id: int, commits: bool, horizon: int | None = None) -> CleanerBatch:
    end = EndMarker(is_commit=commits, coordinator_epoch=0)
    fields = {"producer_id": producer_id, "is_transactional": True, "is_control": True}
    return seen(base, [("m", True)], horizon, end_marker=end, **fields)


def of_transaction(base: int, producer_id: int, *keys: str) -> CleanerBatch:
    records: Records = [(key, True) for key in keys]
    return seen(base, records, producer_id=producer_id, is_transactional=True)


def passed(
    batches: list[CleanerBatch],
    end: int = 100,
    aborted: list[AbortedTxn] | None = None,
    last: dict[int, LastRecord] | None = None,
    now: int = NOW,
    first_dirty: int = 0,
) -> list[CleanedBatch]:
    entries = aborted or []
    dirty = [each for each in batches if each.header.last_offset >= first_dirty]
    keys = OffsetMap(first_dirty, CleanedTransactionMetadata(entries))
    for each in dirty:
        keys.add_batch(each)
    transactions, range_ = CleanedTransactionMetadata(entries), CleanableRange(first_dirty, end)
    one = CleanerPass(range_, keys.last_offsets, last or {}, transactions, now, KEPT_MS)
    return [one.clean(each) for each in batches]


def test_the_last_record_of_a_key_stays_where_it_is() -> None:
    batches = [seen(0, [("a", True), ("b", True), ("a", True)]), seen(3, [("b", True)])]
    assert passed(batches) == [CleanedBatch([2]), CleanedBatch([0], False)]


def test_dirty_keys_drop_records_in_the_clean_part() -> None:
    batches = [seen(0, [("a", True), ("c", True)]), seen(5, [("a", True)])]
    assert passed(batches, first_dirty=5) == [CleanedBatch([1]), CleanedBatch([0], False)]


def test_tombstone_gets_a_delete_horizon_and_is_dropped_after_it() -> None:
    records: Records = [("a", False), ("b", True)]
    assert passed([seen(0, records)]) == [CleanedBatch([0, 1], True, NOW + KEPT_MS)]
    waiting, over = NOW + 1, NOW
    assert passed([seen(0, records, waiting)]) == [CleanedBatch([0, 1], False, waiting)]
    assert passed([seen(0, records, over)]) == [CleanedBatch([1], True, over)]


def test_record_without_key_is_dropped() -> None:
    assert passed([seen(0, [(None, True), ("a", True)])]) == [CleanedBatch([1])]


def test_the_last_batch_of_a_producer_stays_as_a_header() -> None:
    one, other = seen(0, [("a", True)], producer_id=7), seen(1, [("a", True)], producer_id=8)
    later = seen(2, [("a", True)])
    last = {7: LastRecord(0, 0), 8: LastRecord(9, 0)}
    assert passed([one, other, later], last=last) == [
        CleanedBatch([]),
        DROPPED,
        CleanedBatch([0], False),
    ]
    emptied = CleanerBatch(one.header, [])
    assert passed([emptied, later], last=last)[0] == CleanedBatch([], False)
    assert passed([emptied, later])[0] == DROPPED


def test_the_last_batch_of_a_pass_stays_as_a_header() -> None:
    batches = [of_transaction(0, 7, "a")]
    aborted = [AbortedTxn(7, 0, 50, 51)]
    assert passed(batches, 1, aborted) == [CleanedBatch([])]
    assert passed(batches, 2, aborted) == [DROPPED]


def test_aborted_records_are_dropped_and_their_marker_later() -> None:
    aborted = [AbortedTxn(7, 1, 2, 3)]
    first = [seen(0, [("a", True)]), of_transaction(1, 7, "a"), marker(2, 7, False)]
    assert passed(first, aborted=aborted) == [
        CleanedBatch([0], False),
        DROPPED,
        CleanedBatch([0], False),
    ]
    left = [first[0], first[2]]
    assert passed(left, aborted=aborted)[1] == CleanedBatch([0], True, NOW + KEPT_MS)
    over = [first[0], marker(2, 7, False, NOW)]
    assert passed(over, aborted=aborted)[1] == DROPPED
    assert passed(over, aborted=aborted, now=NOW - 1)[1] == CleanedBatch([0], False, NOW)


def test_aborted_transaction_is_kept_while_it_has_batches() -> None:
    entry = AbortedTxn(7, 0, 1, 2)
    for batches, kept in (
        ([of_transaction(0, 7, "a"), marker(1, 7, False)], [entry]),
        ([marker(1, 7, False)], []),
    ):
        transactions = CleanedTransactionMetadata([entry])
        assert [transactions.can_discard(each) for each in batches][-1] == (not kept)
        assert transactions.kept == kept


def test_a_commit_marker_stays_as_long_as_its_records() -> None:
    batches = [of_transaction(0, 7, "a"), marker(1, 7, True)]
    assert passed(batches) == [CleanedBatch([0], False), CleanedBatch([0], False)]
    assert passed(batches[1:]) == [CleanedBatch([0], True, NOW + KEPT_MS)]


@given(
    runs=st.lists(
        st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=4),
        min_size=1,
        max_size=6,
    ),
    first=st.integers(0, 6),
)
@settings(max_examples=examples(30))
def test_reading_the_whole_log_gives_the_same_values(runs: list[Records], first: int) -> None:
    """After several passes, too; a repeated pass changes nothing."""
    batches, base = [], 0
    for records in runs:
        batches.append(seen(base, records))
        base += len(records)
    before = last_values(batches)
    cut = batches[min(first, len(batches) - 1)].header.base_offset
    below = [each for each in batches if each.header.base_offset < cut]
    left = [*after(below, passed(below, cut)), *batches[len(below) :]]
    left = after(left, passed(left, base, first_dirty=cut))
    assert last_values(left) == before
    keys = [record.key for batch in left for record in batch.records]
    assert len(keys) == len(set(keys))
    again = passed(left, base, first_dirty=base)
    assert all(not each.is_changed for each in again if each.places)


def after(batches: list[CleanerBatch], outcomes: list[CleanedBatch]) -> list[CleanerBatch]:
    return [
        CleanerBatch(batch.header, [batch.records[at] for at in left.places], left.delete_horizon)
        for batch, left in zip(batches, outcomes, strict=True)
        if left.places is not None
    ]


def last_values(batches: list[CleanerBatch]) -> dict[bytes | None, tuple[int, bool]]:
    return {r.key: (r.offset, r.has_value) for batch in batches for r in batch.records}


# When a pass is due


def grown(*ages_in_hours: float) -> tuple[Bench, Log]:
    """A log of batches of 70 bytes with these ages."""
    bench = Bench()
    bench.settings.may_clean = True
    bench.topic("t", segment_ms=str(HOUR // 2))
    for age in ages_in_hours:
        assert bench.append("t", header(1, maxTimestamp=int(START - age * HOUR)))["errorCode"] == 0
    return bench, log_of(bench)


def log_of(bench: Bench) -> Log:
    topic = next(t for t in bench.cell.tables.logs.keys("1/log/") if "/" in t)
    log = bench.cell.tables.logs.get(topic, Log)
    assert log is not None
    return log


CUTS = RollingRules(HOUR // 2, 1 << 30)
RULES = CleaningRules(KEPT_MS, 0, 2**60, 0.5, CUTS)


@pytest.mark.parametrize(
    ("changed", "cleaned_to", "due"),
    [
        ({}, 0, CleanableRange(0, 3)),
        ({}, 1, CleanableRange(1, 3)),
        ({}, 2, None),  # 1 of 3 segments is dirty
        ({"min_cleanable_dirty_ratio": 0.33}, 2, CleanableRange(2, 3)),
        ({"max_compaction_lag_ms": HOUR - 1}, 2, CleanableRange(2, 3)),
        ({"max_compaction_lag_ms": HOUR}, 2, None),
        ({"min_compaction_lag_ms": HOUR + 1}, 0, CleanableRange(0, 2)),
        ({"min_compaction_lag_ms": HOUR}, 0, CleanableRange(0, 3)),
        ({"min_compaction_lag_ms": 9 * HOUR}, 0, None),
        ({"min_cleanable_dirty_ratio": 1.0}, 0, None),
    ],
)
def test_dirty_ratio_and_lags_make_a_pass_due(
    changed: dict[str, Any], cleaned_to: int, due: CleanableRange | None
) -> None:
    bench, log = grown(3, 2, 1, 0)
    log.cleaned_to = cleaned_to
    rules = RULES._replace(**changed)
    assert cleaner.cleanable(bench.cell.tables.of(1), log, rules, START) == due


def test_only_lags_make_a_pass_due_by_time() -> None:
    unlimited = RULES._replace(max_compaction_lag_ms=2**63 - 1)
    assert not unlimited.depends_on_time
    assert RULES.depends_on_time
    assert unlimited._replace(min_compaction_lag_ms=1).depends_on_time


def test_nothing_is_cleaned_above_the_last_stable_offset() -> None:
    bench, log = grown(3, 2, 1, 0)
    log.high_watermark = 2
    assert cleaner.cleanable(bench.cell.tables.of(1), log, RULES, START) == CleanableRange(0, 2)


# Applying the result of a pass


def log_cleaned(log: Log, bench: Bench, keeps: list[int], end: int = 3) -> dict[str, Any]:
    batches = batches_from(bench.cell.tables.of(1), log, 0)
    kept = [b.header() for b in batches if b.base_offset in keeps]
    of_log = {"topicId": log.topic_id, "partition": 0, "endOffset": end}
    return {"type": "LogCleaned", **of_log, "batches": kept}


def clean(bench: Bench, cleaned: dict[str, Any], seen: LogMark | None = None) -> None:
    event = {"id": "clean", "cluster": bench.settings.cluster, "kind": "clean-log"}
    letters = bench.dead_letters(bench.handle({**event, "cleaned": cleaned, "seen": seen}))
    if letters:
        raise RefusedError(letters)


def test_cleaned_batches_replace_the_index() -> None:
    bench, log = grown(3, 2, 1, 0)
    clean(bench, log_cleaned(log, bench, [1]))
    left = log_of(bench)
    batches = batches_from(bench.cell.tables.of(1), left, 0)
    assert [batch.base_offset for batch in batches] == [1, 3]
    assert (left.cleaned_to, left.log_start_offset, left.log_end_offset) == (3, 0, 4)
    assert left.size_in_bytes == 140


@given(stays=st.sets(st.integers(0, 4)), offset=st.integers(0, 6), gap=st.integers(0, 2))
@settings(max_examples=examples(30))
def test_cleaned_log_can_be_truncated_at_any_offset(stays: set[int], offset: int, gap: int) -> None:
    """The new end may be in a gap, as on a follower."""
    bench, log = grown(5, 4, 3, 2, 1, 0)
    clean(bench, log_cleaned(log, bench, sorted(stays), end=5))
    tables = bench.cell.tables
    apply(tables.of(1), LogTruncated(log.topic_id, 0, offset))
    assert list(check(tables)) == []
    end = log_of(bench).log_end_offset
    assert end in {offset, 0}, "restarted if truncated below the first remaining batch"
    batch = msgspec.convert({**header(1), "baseOffset": end + gap}, Batch)
    apply(tables.of(1), BatchAppended(log.topic_id, 0, batch))
    assert list(check(tables)) == []


@pytest.mark.parametrize(
    ("field", "is_taken"), [("", True), *((field, False) for field in LogMark.__struct_fields__)]
)
def test_result_for_a_changed_log_is_ignored(field: str, is_taken: bool) -> None:
    """A job may change the log during the pass."""
    bench, log = grown(3, 2, 1, 0)
    seen = cleaner.log_mark(log)
    if field:
        seen = msgspec.structs.replace(seen, **{field: getattr(seen, field) + 1})
    clean(bench, log_cleaned(log, bench, [1]), seen)
    assert log_of(bench).cleaned_to == (3 if is_taken else 0)


def test_greatest_timestamp_ignores_batches_without_records() -> None:
    bench, log = grown(3, 0.5, 2, 1)

    def greatest() -> int | None:
        actual = timestamp_index.greatest(bench.cell.tables.of(1), log_of(bench), False)
        return None if actual is None else actual.offset

    assert greatest() == 1
    cleaned = log_cleaned(log, bench, [1])
    (left,) = cleaned["batches"]
    left.record_count, left.size_in_bytes = 0, HEADER_BYTES
    clean(bench, cleaned)
    assert greatest() == 3


@given(stays=st.sets(st.integers(0, 6)))
@settings(max_examples=examples(10))
def test_runs_of_unchanged_batches_equal_a_list_of_batches(stays: set[int]) -> None:
    runs: list[tuple[int, int]] = []
    for offset in sorted(stays):
        is_next = bool(runs) and runs[-1][1] == offset - 1
        runs.append((runs.pop()[0] if is_next else offset, offset))
    found = []
    for batches, unchanged in ((sorted(stays), []), ([], runs), (sorted(stays)[:0], runs)):
        bench, log = grown(*range(8, 0, -1))
        clean(bench, {**log_cleaned(log, bench, batches, 7), "unchanged": unchanged})
        found.append(bench.cell.columns()["logs"])
    assert found[0] == found[1] == found[2]


def test_runs_that_do_not_fit_the_log_are_rejected() -> None:
    bench, log = grown(4, 3, 2, 1, 0)
    for runs in ([(2, 1)], [(1, 1), (0, 0)], [(0, 4)], [(-1, 0)]):
        with pytest.raises(RefusedError, match="do not fit"):
            clean(bench, {**log_cleaned(log, bench, [], 4), "unchanged": runs})


@pytest.mark.parametrize(
    ("keeps", "end", "detail"),
    [([1], 9, "does not fit the log"), ([3], 3, "does not fit"), ([0], 0, "does not fit")],
)
def test_result_that_does_not_fit_the_log_is_rejected(
    keeps: list[int], end: int, detail: str
) -> None:
    bench, log = grown(3, 2, 1, 0)
    with pytest.raises(RefusedError, match=detail):
        clean(bench, log_cleaned(log, bench, keeps, end))


def test_only_an_edge_with_record_bytes_may_clean() -> None:
    bench, log = grown(3, 2, 1, 0)
    bench.settings.may_clean = False
    with pytest.raises(RefusedError, match="are not taken"):
        clean(bench, log_cleaned(log, bench, [1]))
    assert log_of(bench) == log


def test_compacted_logs_are_never_sealed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(log_module, "CHUNK_BATCHES_MAX", 4)
    for module in (log_module, log_check):
        monkeypatch.setattr(module, "INDEX_CHUNKS_MAX", 4)
    bench = Bench()
    bench.settings.may_clean = True
    bench.reload()
    sealed = []
    for policy in ("compact", "delete"):
        bench.topic(policy, cleanup_policy=policy)
        for _ in range(30):
            assert bench.append(policy, header())["errorCode"] == 0
        (log,) = (
            log for _, log in bench.cell.tables.logs.items("1/log/", Log) if log.topic == policy
        )
        sealed.append((log.sealed_bytes > 0, len(log.chunks)))
    assert sealed == [(False, 8), (True, 4)]
    bench.reload()
    assert whole_check(bench.cell) == []
