"""A chunked list behaves like a list, whenever it is stored."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.state.core.tables import CellTables
from brokertwin.state.logs.chunked import CHUNK_ENTRIES, ChunkedList, Span


class Numbers(msgspec.Struct, array_like=True):
    entries: list[int]


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "forget", "store"]), st.integers(0, 2 * CHUNK_ENTRIES))
)


def numbers_in(tables: CellTables, span: Span) -> ChunkedList[int]:
    return ChunkedList(tables.logs, "1/n/", span, Numbers)


@given(STEPS)
def test_it_behaves_like_a_list(steps: list[tuple[str, int]]) -> None:
    tables, span, expected, value = CellTables(), Span(), list[int](), 0
    for verb, amount in steps:
        numbers = numbers_in(tables, span)
        if verb == "add":
            for _ in range(amount):
                numbers.append(value)
                expected.append(value)
                value += 1
        elif verb == "forget":
            bound = expected[0] + amount if expected else 0
            numbers.drop_below(numbers.first_where(lambda n, bound=bound: n >= bound))
            expected = [n for n in expected if n >= bound]
        else:
            tables = CellTables(tables.columns())
        numbers = numbers_in(tables, span)
        assert list(numbers) == expected
        assert len(numbers) == len(expected)
        chunks = len(tables.logs.keys())
        assert chunks <= len(expected) // CHUNK_ENTRIES + 2
        assert (chunks == 0) == (not expected)
