"""Merging of state batches: the later state of each record, in any order."""

from hypothesis import given
from hypothesis import strategies as st

from brokertwin.state.core.share_records import ShareStateBatch
from brokertwin.state.share.state_batches import combined

BATCH = st.builds(
    lambda first, more, state, count: ShareStateBatch(first, first + more, state, count),
    st.integers(0, 20),
    st.integers(0, 8),
    st.sampled_from([0, 2, 4]),
    st.integers(1, 3),
)


def states(batches: list[ShareStateBatch], start: int) -> dict[int, tuple[int, int]]:
    """Return delivery count and state by offset."""
    found: dict[int, tuple[int, int]] = {}
    for each in batches:
        for offset in range(max(each.first_offset, start), each.last_offset + 1):
            rank = each.delivery_count, each.delivery_state
            found[offset] = max(found.get(offset, rank), rank)
    return found


@given(st.lists(BATCH, max_size=8), st.integers(-1, 12))
def test_each_record_has_its_latest_state(batches: list[ShareStateBatch], start: int) -> None:
    merged = combined(batches, start)
    assert states(merged, -1) == states(batches, start)
    offsets = [offset for each in merged for offset in (each.first_offset, each.last_offset)]
    assert offsets == sorted(offsets)
    assert sum(each.last_offset - each.first_offset + 1 for each in merged) == len(
        states(batches, start)
    )


def test_equal_neighbours_are_one_batch() -> None:
    given_batches = [ShareStateBatch(0, 4, 2, 1), ShareStateBatch(5, 9, 2, 1)]
    assert combined(given_batches, -1) == [ShareStateBatch(0, 9, 2, 1)]
    assert combined(given_batches, 7) == [ShareStateBatch(7, 9, 2, 1)]
    assert combined(given_batches, 10) == []
