"""What counts as growth: a trend over the run, after its warm-up, not single peaks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.long_run.growth import FLAT, growth_of
from tests.long_run.load import UNREPORTED, Group, ReadsCommitted

TIMES = [15.0 * number for number in range(200)]
VALUES = st.floats(100, 110, allow_nan=False)


@given(st.lists(VALUES, min_size=200, max_size=200), st.sets(st.integers(60, 199), max_size=10))
def test_noise_and_peaks_are_no_growth(values: list[float], peaks: set[int]) -> None:
    shown = [1000.0 if at in peaks else value for at, value in enumerate(values)]
    assert growth_of("memory", TIMES, shown).is_flat


@given(st.lists(VALUES, min_size=200, max_size=200), st.floats(0.3, 3))
def test_a_slow_leak_is_growth(values: list[float], leak: float) -> None:
    grown = [value + leak * number for number, value in enumerate(values)]
    growth = growth_of("memory", TIMES, grown)
    assert not growth.is_flat
    assert growth.per_hour == pytest.approx(leak * 240, rel=0.3)


def test_the_warm_up_is_left_out() -> None:
    values = [min(2.0 * number, 100) for number in range(200)]
    growth = growth_of("state", TIMES, values)
    assert (growth.gained, growth.middle, growth.least) == (0, 100, 100)


def test_a_series_that_shrinks_or_is_nothing_is_flat() -> None:
    assert growth_of("lag", TIMES, [200.0 - number for number in range(200)]).is_flat
    assert growth_of("lag", TIMES, [0.0] * 200).is_flat
    assert not growth_of("lag", TIMES, [number * FLAT for number in range(200)]).is_flat


def test_of_a_long_run_some_samples_are_enough() -> None:
    count = 10_000
    growth = growth_of("memory", list(map(float, range(count))), [float(n) for n in range(count)])
    assert growth.per_hour == pytest.approx(3600)


def test_growth_needs_samples() -> None:
    for times in ([], [1.0]):
        with pytest.raises(ValueError, match="samples after the warm-up"):
            growth_of("memory", times, [1.0] * len(times))


def test_members_may_see_an_offset_again_but_none_may_be_left_out() -> None:
    group = Group("lines", "classic")
    assert [group.seen(0, offset, no_requests) for offset in (5, 6, 7, 6, 7, 8)] == [""] * 6
    assert group.again == 2
    assert group.seen(1, 0, no_requests) == ""
    for begins in (9, UNREPORTED):
        group = one_at_8()
        assert group.seen(0, 10, lambda at=begins: at) == (
            f"lines-0: 10 follows 8, the log has {begins}"
        )
        assert group.deleted == 0


@pytest.mark.parametrize("begins", [10, 12])
def test_what_retention_has_deleted_is_not_left_out(begins: int) -> None:
    """The log starts at the next received offset, or already after it."""
    group = one_at_8()
    assert group.seen(0, 10, lambda: begins) == ""
    assert (group.deleted, group.again) == (1, 0)
    assert group.seen(0, 11, no_requests) == ""


def one_at_8() -> Group:
    group = Group("lines", "classic")
    assert group.seen(0, 8, no_requests) == ""
    return group


def no_requests() -> int:
    raise AssertionError("nothing was left out")


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("1 0 commit,1 1 commit,1 2 commit,1 3 commit,1 4 commit,3 0 commit", 0),
        ("1 3 commit,1 4 commit,2 0 commit", 0),
        ("1 0 commit,1 2 commit", 1),
        ("1 0 commit,2 0 commit", 1),
        ("1 4 commit,1 0 commit", 1),
        ("2 0 abort", 1),
    ],
)
def test_a_transaction_is_seen_whole_and_in_order(words: str, wrong: int) -> None:
    reads, last = ReadsCommitted("nowhere", "sums"), None
    for record in words.encode().split(b","):
        last = reads.seen(record.split(), last, lambda: False)
    assert len(reads.wrong) == wrong


def test_of_a_transaction_the_first_records_may_be_deleted_before_they_are_read() -> None:
    reads = ReadsCommitted("nowhere", "sums")
    last = reads.seen([b"1", b"2", b"commit"], None, lambda: False)
    assert reads.seen([b"7", b"3", b"commit"], last, lambda: True) == (7, 3)
    assert reads.wrong == []
    reads.seen([b"8", b"0", b"abort"], (7, 4), lambda: True)
    assert len(reads.wrong) == 1
