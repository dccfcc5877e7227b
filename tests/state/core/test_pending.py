"""Pending requests: deadlines fire in order, and completed ones leave nothing."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.state.core import pending
from brokertwin.state.core.decision import PendingRequest
from brokertwin.state.core.events import RequestHeader
from brokertwin.state.core.tables import CellTables, Table


def waits(event_id: str, deadline: int, *logs: str) -> PendingRequest:
    header = RequestHeader(1, 12)
    return PendingRequest(event_id, 1, 1, deadline, header, "c", "User:a", 0, list(logs), b"")


def fired(table: Table) -> list[tuple[int, str]]:
    """Everything that fires, in order."""
    result = []
    while (first := pending.earliest(table)) is not None:
        result.append(first)
        timer = pending.timer_name(first[1])
        if timer is None:
            pending.take(table, first[1])
        else:
            pending.set_timer(table, timer, None)
    return result


NAMES = st.sampled_from(["a", "b", "c", "d"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["wait", "take", "timer", "stop", "store"]), NAMES, st.integers(0, 9))
)


@given(STEPS)
def test_deadlines_fire_in_order_of_time_and_name(steps: list[tuple[str, str, int]]) -> None:
    """Compared with a dictionary, over any number of micro-batches."""
    tables, expected = CellTables(), dict[str, int]()
    for verb, name, deadline in steps:
        table = tables.pending
        if verb == "wait" and name not in expected:
            pending.add(table, waits(name, deadline))
            expected[name] = deadline
        elif verb == "take":
            pending.take(table, name)
            expected.pop(name, None)
        elif verb == "timer":
            pending.set_timer(table, name, deadline)
            expected[f"timer/{name}"] = deadline
        elif verb == "stop":
            pending.set_timer(table, name, None)
            expected.pop(f"timer/{name}", None)
        elif verb == "store":
            tables = CellTables(tables.columns())
    assert fired(tables.pending) == sorted((time, name) for name, time in expected.items())


def test_wait_without_deadline_never_fires() -> None:
    table = Table()
    pending.add(table, waits("a", pending.NO_DEADLINE))
    assert pending.earliest(table) is None


def test_rollback_restores_completed_waits() -> None:
    table = Table()
    pending.add(table, waits("a", 5, "log"))
    table.commit(table.encode_changes())
    pending.take(table, "a")
    assert pending.earliest(table) is None
    table.rollback()
    assert pending.earliest(table) == (5, "a")
    assert pending.watchers(table, "log") == ["a"]


def test_old_deadlines_are_removed_from_the_heap() -> None:
    """A timer that each heartbeat sets again, with a deadline that never passes."""
    table = Table()
    for time in range(10_000):
        pending.set_timer(table, "group/1/g", 45_000 + time)
    assert len(pending.deadlines(table).heap) <= pending.DEADLINES_MIN
    assert pending.earliest(table) == (54_999, "timer/group/1/g")


def test_watchers_keep_their_order_after_a_micro_batch() -> None:
    tables = CellTables()
    for name in ("c", "a", "b"):
        pending.add(tables.pending, waits(name, 5, "log"))
    tables = CellTables(tables.columns())
    pending.take(tables.pending, "a")
    assert pending.watchers(tables.pending, "log") == ["c", "b"]
    assert msgspec.msgpack.decode(tables.columns()["waiting"]).keys() == {
        "wait/b",
        "wait/c",
        "watch/log",
    }
