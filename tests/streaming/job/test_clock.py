"""The clock's book of deadlines."""

from hypothesis import given
from hypothesis import strategies as st

from brokertwin.streaming.job.clock import TimerDeadlines

CELLS = st.sampled_from("abcd")


def test_the_earliest_deadline_is_next() -> None:
    deadlines = TimerDeadlines()
    assert deadlines.next() is None
    deadlines.set("a", 20)
    deadlines.set("b", 10)
    assert deadlines.next() == 10


def test_a_new_deadline_replaces_the_previous_one() -> None:
    deadlines = TimerDeadlines()
    deadlines.set("a", 10)
    deadlines.set("a", 30)
    assert deadlines.take_due(20) == []
    assert deadlines.take_due(30) == [("a", 30)]
    assert not deadlines.has("a")


@given(st.lists(st.tuples(CELLS, st.integers(0, 50), st.integers(0, 60))))
def test_each_cells_newest_deadline_is_due_once(steps: list[tuple[str, int, int]]) -> None:
    deadlines = TimerDeadlines()
    expected: dict[str, int] = {}
    for cell, deadline, now in steps:
        deadlines.set(cell, deadline)
        expected[cell] = deadline
        due = {name: at for name, at in expected.items() if at <= now}
        taken = deadlines.take_due(now)
        assert taken == sorted(taken, key=lambda entry: entry[1])
        assert dict(taken) == due
        assert len(taken) == len(due)
        expected = {name: at for name, at in expected.items() if at > now}
        assert deadlines.next() == min(expected.values(), default=None)
