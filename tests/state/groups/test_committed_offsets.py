"""Committed offsets in the table `groups`: keys, index, isolation."""

from hypothesis import given
from hypothesis import strategies as st

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.state.core.records import OffsetCommitted, OffsetDeleted
from brokertwin.state.core.tables import CellTables, MachineTables
from brokertwin.state.groups import committed_offsets, groups
from brokertwin.state.groups.committed_offsets import (
    CommittedOffsetRow,
    CommittedPartitions,
    Offset,
)

BROKER = 1
NAMES = st.text(alphabet="ab/%2F25é\0 ", max_size=6)


def commit(
    group: str, topic: str, partition: int, offset: int, metadata: str = ""
) -> OffsetCommitted:
    return OffsetCommitted(group, topic, partition, offset, -1, metadata, 1_000)


def filled(*records: OffsetCommitted | OffsetDeleted) -> MachineTables:
    at = CellTables().of(BROKER)
    for record in records:
        if isinstance(record, OffsetCommitted):
            committed_offsets.apply_committed(at, record)
        else:
            committed_offsets.apply_deleted(at, record)
    return at


def offset_of(at: MachineTables, group: str, topic: str, partition: int) -> int | None:
    offset = committed_offsets.offset(at, group, topic, partition)
    return offset.offset if offset is not None else None


def stored(at: MachineTables) -> bytes:
    table = at.tables.groups
    table.commit(table.encode_changes())
    return table.column()


def test_example_12_fetch_returns_the_last_commit_of_each_partition() -> None:
    written = [
        commit("g", "foo", 0, 100),
        commit("g", "foo", 1, 110),
        commit("g", "bar", 0, 200),
        commit("g", "foo", 1, 111),
        commit("g", "bar", 1, 210),
    ]
    places = [("foo", 0), ("foo", 1), ("bar", 0), ("bar", 1)]
    seen = {
        count: [offset_of(filled(*written[:count]), "g", *place) for place in places]
        for count in (2, 4, 5)
    }
    assert seen == {
        2: [100, 110, None, None],
        4: [100, 111, 200, None],
        5: [100, 111, 200, 210],
    }


def test_example_15_loading_keeps_the_last_record_of_each_key() -> None:
    at = filled(
        commit("g", "foo", 0, 10),
        commit("g", "foo", 0, 20),
        commit("g", "bar", 0, 5),
        OffsetDeleted("g", "bar", 0),
    )
    assert offset_of(at, "g", "foo", 0) == 20
    assert offset_of(at, "g", "bar", 0) is None
    group = groups.find_stored(at, "g")
    assert group is not None
    assert group.metadata is None


def test_group_stays_without_offsets() -> None:
    at = filled(commit("g", "t", 0, 1), OffsetDeleted("g", "t", 0), OffsetDeleted("g", "t", 0))
    assert groups.find_stored(at, "g") is not None
    assert committed_offsets.partitions_of(at, "g") == []
    assert committed_offsets.rows(stored(at)) == []


def test_offsets_of_a_group_are_read_without_decoding_others() -> None:
    at = filled(*(commit(f"g{n}", "t", p, n) for n in range(3) for p in (10, 2)))
    at.tables.commit()
    fresh = CellTables(at.tables.columns()).of(BROKER)
    assert committed_offsets.partitions_of(fresh, "g1") == [("t", [2, 10])]
    assert offset_of(fresh, "g1", "t", 2) == 1
    decoded = fresh.tables.groups._live
    assert all(isinstance(item, CommittedPartitions | Offset) for item in decoded.values())
    assert len(decoded) == 2


def test_tombstones_of_a_deleted_topic() -> None:
    at = filled(
        commit("a", "gone", 1, 1),
        commit("a", "gone", 0, 1),
        commit("b/c", "gone", 3, 1),
        commit("b/c", "kept", 3, 1),
        commit("d", "gone/not", 0, 1),
    )
    assert committed_offsets.tombstones_of_topic(at, "gone") == [
        OffsetDeleted("a", "gone", 0),
        OffsetDeleted("a", "gone", 1),
        OffsetDeleted("b/c", "gone", 3),
    ]
    assert committed_offsets.tombstones_of_topic(at.tables.of(2), "gone") == []


def test_rows_are_sorted_and_complete() -> None:
    record = OffsetCommitted("g", "t", 10, 5, 3, "m", 1_000, 2_000, ZERO_UUID)
    at = filled(record, commit("g", "t", 9, 4), commit("a", "u", 0, 1))
    assert committed_offsets.rows(stored(at)) == [
        CommittedOffsetRow("a", "u", 0, 1, -1, "", 1_000, -1),
        CommittedOffsetRow("g", "t", 9, 4, -1, "", 1_000, -1),
        CommittedOffsetRow("g", "t", 10, 5, 3, "m", 1_000, 2_000),
    ]
    assert committed_offsets.rows(b"") == []


@given(
    st.lists(
        st.tuples(NAMES, NAMES, st.integers(0, 12), st.integers(0, 9) | st.none()), max_size=30
    )
)
def test_keys_of_any_names_are_distinct(
    steps: list[tuple[str, str, int, int | None]],
) -> None:
    expected: dict[tuple[str, str, int], int] = {}
    records: list[OffsetCommitted | OffsetDeleted] = []
    for group, topic, partition, offset in steps:
        if offset is None:
            records.append(OffsetDeleted(group, topic, partition))
            expected.pop((group, topic, partition), None)
        else:
            records.append(commit(group, topic, partition, offset))
            expected[group, topic, partition] = offset
    at = filled(*records)
    rows = committed_offsets.rows(stored(at))
    assert {(row.group, row.topic, row.partition): row.offset for row in rows} == expected
    for group in {step[0] for step in steps}:
        held = committed_offsets.partitions_of(at, group)
        assert {(group, topic, p) for topic, ps in held for p in ps} == {
            place for place in expected if place[0] == group
        }
