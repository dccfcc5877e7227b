"""The rows of `__consumer_offsets` as a history of committed offsets."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.offsets.history import (
    OUTSIDER,
    CoordinatorRow,
    Direction,
    OffsetHistory,
    OffsetMove,
)
from brokertwin.protocol.generated.streams_group_rows import (
    StreamsGroupTopicInfo,
    StreamsGroupTopologyValue,
    Subtopology,
)
from brokertwin.protocol.primitives import uuid_of
from brokertwin.state.groups import group_rows
from brokertwin.state.groups import streams_group_records as rows
from brokertwin.state.groups.offset_records import OffsetKey
from brokertwin.state.groups.streams_group import MemberTasks, StreamsMember
from tests.support.offset_rows import (
    HOUR_MS,
    assignment_row,
    classic_row,
    epoch_row,
    member_row,
    offset_row,
    written,
)

RAW_ID = bytes(range(16))
TOPIC_ID = uuid_of(RAW_ID)


def moves_of(*rows: tuple[bytes, bytes | None]) -> list[OffsetMove]:
    return list(OffsetHistory().read(written(rows)))


def commit(offset: int, **changes: Any) -> tuple[bytes, bytes]:
    return offset_row("g", "orders", 0, offset, **changes)


def test_each_commit_has_a_direction() -> None:
    gone = (commit(0)[0], None)
    moves = moves_of(commit(5), commit(9), commit(9), commit(2), gone, gone, commit(1))
    assert [move.direction for move in moves] == [
        *(Direction.FIRST, Direction.FORTH, Direction.STAYED, Direction.BACK),
        *(Direction.GONE, Direction.GONE, Direction.FIRST),
    ]
    assert [move.distance for move in moves] == [None, 4, 0, -7, None, None, None]


def test_time_since_is_that_since_the_former_commit() -> None:
    assert moves_of(commit(5, at=0), commit(9))[1].since_ms == HOUR_MS


def test_author_is_the_member_with_the_partition() -> None:
    group = classic_row("g", 3, {"a": {"orders": [1]}, "b": {"orders": [0]}})
    assert moves_of(group, commit(5))[0].by == "b (client client at h), generation 3"


def test_author_is_the_member_of_a_consumer_group() -> None:
    rows = (
        *(epoch_row("g", 4), member_row("g", "a"), member_row("g", "b")),
        *(assignment_row("g", "a", 4, {RAW_ID: [1]}), assignment_row("g", "b", 4, {RAW_ID: [0]})),
    )
    moves = moves_of(*rows, commit(5, topic_id=TOPIC_ID))
    assert moves[0].by == "b (client client at h), generation 4"
    left = ((member_row("g", "b")[0], None), (assignment_row("g", "b", 4, {})[0], None))
    assert moves_of(*rows, *left, commit(5, topic_id=TOPIC_ID))[0].by == (
        "generation 4, no member has the partition: a (client client at h)"
    )


def streams_rows() -> Iterator[tuple[bytes, bytes | None]]:
    """A streams group: `a` runs the task of partition 1 of `orders`, `b` that of partition 0."""
    reads = Subtopology("0", ["orders"])
    counts = Subtopology("1", repartition_source_topics=[StreamsGroupTopicInfo("counts", 1)])
    given = StreamsGroupTopologyValue(1, [reads, counts])
    records = [rows.group_epoch("g", 4, 0, -1, {}), rows.topology("g", given)]
    for member, tasks in (("a", {"0": {1: 4}}), ("b", {"0": {0: 4}, "1": {0: 4}})):
        has = StreamsMember(
            member, 4, 3, client_id="client", client_host="/h", assigned=MemberTasks(tasks)
        )
        records += [rows.member_metadata("g", has), rows.current_assignment("g", has)]
    return (row for row in map(group_rows.encode, records) if row is not None)


@pytest.mark.parametrize(
    ("topic", "partition", "by"),
    [("orders", 1, "a"), ("orders", 0, "b"), ("counts", 0, "b"), ("counts", 1, "generation")],
)
def test_author_is_the_member_that_runs_the_task(topic: str, partition: int, by: str) -> None:
    (move,) = moves_of(*streams_rows(), offset_row("g", topic, partition, 5))
    assert move.by.startswith(f"{by} ")


@pytest.mark.parametrize(
    ("before", "by"),
    [
        ((), f"no member is known: {OUTSIDER}"),
        ((classic_row("g", 4, {}),), f"the group was empty: {OUTSIDER}"),
        ((classic_row("h", 4, {"m": {"orders": [0]}}),), f"no member is known: {OUTSIDER}"),
        ((epoch_row("g", 4),), f"the group was empty: {OUTSIDER}"),
        (
            (classic_row("g", 4, {"m": {"orders": [0]}}), classic_row("g", 5, {})),
            f"the group was empty: {OUTSIDER}",
        ),
    ],
    ids=["no rows", "empty", "another group's", "new empty", "left"],
)
def test_author_is_outside_of_the_group(before: tuple[Any, ...], by: str) -> None:
    assert moves_of(*before, commit(5))[0].by == by


def test_broker_removes_offsets() -> None:
    group = classic_row("g", 3, {"a": {"orders": [0]}})
    assert moves_of(group, commit(5), (commit(0)[0], None))[1].by.startswith("the broker")


def test_unreadable_row_is_reported_and_the_others_are_read() -> None:
    history = OffsetHistory()
    broken = CoordinatorRow(0, 7, 0, commit(1)[0], b"\x00\x09")
    assert [move.after for move in history.read([broken, *written([commit(5)])])] != []
    assert list(history.unread) == [(0, 7)]


@given(
    st.lists(
        st.tuples(st.sampled_from("gh"), st.integers(0, 2), st.none() | st.integers(0, 9)),
        max_size=30,
    )
)
def test_offsets_are_those_of_the_last_rows(entries: list[tuple[str, int, int | None]]) -> None:
    rows: list[tuple[bytes, bytes | None]] = []
    last: dict[OffsetKey, int] = {}
    for group, partition, offset in entries:
        key, value = offset_row(group, "orders", partition, offset or 0)
        rows.append((key, None if offset is None else value))
        last.pop(OffsetKey(group, "orders", partition), None)
        if offset is not None:
            last[OffsetKey(group, "orders", partition)] = offset
    history = OffsetHistory()
    moves = list(history.read(written(rows)))
    assert {key: value.offset for key, value in history.offsets.items()} == last
    for key in last:
        own = [move for move in moves if move.key == key]
        assert all(move.after == following.before for move, following in pairwise(own))
