"""Verdicts on offsets before they are committed to another cluster."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.offsets.plan import ClusterOffsets, OffsetVerdict, plan, to_write
from brokertwin.state.groups.offset_records import OffsetKey

KEY = OffsetKey("g", "orders", 0)
OFFSETS = st.integers(0, 12)


def found(committed: int | None, log: tuple[int, int] | None, has_members: bool) -> ClusterOffsets:
    return ClusterOffsets(
        {} if log is None else {("orders", 0): log},
        {} if committed is None else {KEY: committed},
        frozenset({"g"} if has_members else ()),
    )


@pytest.mark.parametrize(
    ("offset", "committed", "log", "has_members", "verdict"),
    [
        (5, None, (3, 9), False, OffsetVerdict.FINE),
        (3, None, (3, 9), False, OffsetVerdict.FINE),
        (9, None, (3, 9), False, OffsetVerdict.FINE),
        (9, 5, (3, 9), False, OffsetVerdict.FINE),
        (2, None, (3, 9), False, OffsetVerdict.BEFORE_START),
        (10, None, (3, 9), False, OffsetVerdict.PAST_END),
        (4, 5, (3, 9), False, OffsetVerdict.BACK),
        (5, 5, (3, 9), False, OffsetVerdict.THERE),
        (5, 5, (3, 9), True, OffsetVerdict.THERE),
        (10, 10, (3, 9), False, OffsetVerdict.PAST_END),
        (2, 2, (3, 9), False, OffsetVerdict.BEFORE_START),
        (9, 5, (3, 9), True, OffsetVerdict.HAS_MEMBERS),
        (5, None, None, False, OffsetVerdict.UNKNOWN),
        (None, None, (3, 9), False, OffsetVerdict.UNTRANSLATED),
    ],
)
def test_verdict(
    offset: int | None,
    committed: int | None,
    log: tuple[int, int] | None,
    has_members: bool,
    verdict: OffsetVerdict,
) -> None:
    (step,) = plan({KEY: (0, offset)}, found(committed, log, has_members))
    assert step.verdict is verdict


@given(
    offset=st.none() | OFFSETS,
    committed=st.none() | OFFSETS,
    log=st.none() | st.tuples(OFFSETS, OFFSETS).map(lambda pair: (min(pair), max(pair))),
    has_members=st.booleans(),
    may_go_back=st.booleans(),
)
def test_written_offsets_lose_and_repeat_nothing(
    offset: int | None,
    committed: int | None,
    log: tuple[int, int] | None,
    has_members: bool,
    may_go_back: bool,
) -> None:
    steps = plan({KEY: (0, offset)}, found(committed, log, has_members))
    for step in to_write(steps, may_go_back):
        assert step.wanted is not None
        assert step.log is not None
        assert step.log[0] <= step.wanted <= step.log[1]
        assert not has_members
        assert may_go_back or committed is None or step.wanted > committed


def test_share_group_has_no_committed_offsets() -> None:
    at = found(5, (3, 9), has_members=False)._replace(sharing=frozenset({"g"}))
    for offset in (5, 7, 20):
        steps = plan({KEY: (0, offset)}, at)
        assert ([step.verdict for step in steps], to_write(steps, True)) == (
            [OffsetVerdict.SHARES],
            [],
        )


def test_steps_are_sorted_by_name() -> None:
    keys = [OffsetKey("h", "a", 0), OffsetKey("g", "b", 2), OffsetKey("g", "b", 10)]
    steps = plan(dict.fromkeys(keys, (0, 0)), ClusterOffsets({}, {}, frozenset()))
    assert [step.key for step in steps] == [keys[1], keys[2], keys[0]]
