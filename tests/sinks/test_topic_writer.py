"""Packing of rows for a topic."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from brokertwin.sinks.topic_writer import NewRow, in_packs
from brokertwin.state.core.packs import PACK_BYTES_MAX, unpacked


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20))), st.integers(1, 4))
def test_packs_keep_each_event_and_the_order_of_each_cell(
    given_rows: list[tuple[str, int]], events_max: int
) -> None:
    rows = [
        NewRow(cell, b"%d%s" % (number, b"x" * size), ord(cell), f"id{number}")
        for number, (cell, size) in enumerate(given_rows)
    ]
    packs = list(in_packs(iter(rows), events_max))
    sent, actual = defaultdict(list), defaultdict(list)
    for row in rows:
        sent[row.key, row.partition].append(row.value)
    for pack in packs:
        documents = unpacked(pack.value)
        assert len(documents) <= events_max
        position = rows.index(next(row for row in rows if row.value == documents[0]))
        assert pack.id == rows[position].id
        actual[pack.key, pack.partition] += documents
    assert actual == sent
    if events_max == 1:
        assert packs == rows


def test_a_full_pack_is_written_before_the_next_event_is_read() -> None:
    rows = iter([NewRow("a", b"1", 0), NewRow("a", b"2", 0), NewRow("a", b"3", 0)])
    assert unpacked(next(in_packs(rows, 2)).value) == [b"1", b"2"]
    assert next(rows).value == b"3"


def test_packs_are_limited_by_bytes() -> None:
    sizes = [PACK_BYTES_MAX // 2, PACK_BYTES_MAX // 2, 1, PACK_BYTES_MAX + 1, 1, 1]
    packs = in_packs((NewRow("a", b"x" * size, 0) for size in sizes), 100)
    actual = [[len(document) for document in unpacked(pack.value)] for pack in packs]
    assert actual == [sizes[:2], sizes[2:3], sizes[3:4], sizes[4:]]
