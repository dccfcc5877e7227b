"""Tables: encode, decode, rollback, unchanged columns."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.state.cell.cell import Cell
from brokertwin.state.core import bounded_cache
from brokertwin.state.core.outputs import Position
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.core.tables import (
    COLUMN_OF,
    KEYS_KEPT,
    MORE,
    TABLE_NAMES,
    CellTables,
    Table,
    cached_key,
    columns_of_tables,
    decode_item,
)
from tests.support.histories import CLUSTER, histories


class Thing(msgspec.Struct):
    number: int
    names: list[str] = []


def test_item_is_restored_from_the_column() -> None:
    tables = CellTables()
    tables.logs.put("1/a", Thing(1, ["x"]))
    tables.commit()
    again = CellTables(tables.columns())
    assert again.logs.get("1/a", Thing) == Thing(1, ["x"])
    assert set(tables.columns()) == {*COLUMN_OF.values(), MORE}


def test_tables_without_a_column_are_in_more() -> None:
    tables = CellTables()
    assert tables.columns()[MORE] == b""
    for name in TABLE_NAMES:
        tables[name].put("1/a", Thing(1, [name]))
    for columns in (tables.columns(), tables.stored()):
        again = CellTables(columns)
        assert [again[name].get("1/a", Thing) for name in TABLE_NAMES] == [
            Thing(1, [name]) for name in TABLE_NAMES
        ]


def test_untouched_table_returns_its_bytes() -> None:
    tables = CellTables()
    tables.logs.put("1/a", Thing(1))
    tables.commit()
    columns = tables.columns()
    again = CellTables(columns)
    again.groups.put("1/g", Thing(2))
    again.commit()
    assert again.columns()["logs"] is columns["logs"]


def test_changing_a_missing_item_raises() -> None:
    with pytest.raises(KeyError):
        Table().change("nothing", Thing)


def test_failed_encoding_leaves_every_table_unchanged() -> None:
    tables = CellTables()
    tables.logs.put("1/a", Thing(1))
    tables.commit()
    before = tables.columns()
    tables.logs.change("1/a", Thing).number = 2
    tables.groups.put("1/g", Thing(2**70))
    with pytest.raises(OverflowError):
        tables.commit()
    tables.rollback()
    assert tables.columns() == before
    assert tables.logs.get("1/a", Thing) == Thing(1)


KEY_NAMES = ["1/a", "1/a\U0010ffffb", "1/b", "2/a", "2/b"]
KEYS = st.sampled_from(KEY_NAMES)
CHANGES = st.lists(st.tuples(st.sampled_from(["put", "change", "drop"]), KEYS, st.integers(0, 9)))


def make(table: Table, changes: list[tuple[str, str, int]]) -> None:
    for verb, key, number in changes:
        if verb == "put":
            table.put(key, Thing(number))
        elif verb == "drop":
            table.drop(key)
        elif key in table:
            thing = table.change(key, Thing)
            thing.number += 1
            thing.names.append(str(number))


def content(table: Table) -> dict[str, Thing]:
    return dict(table.items("", Thing))


@given(CHANGES, CHANGES)
def test_rollback_undoes_changes_after_the_commit(
    first: list[tuple[str, str, int]], second: list[tuple[str, str, int]]
) -> None:
    table = Table()
    make(table, first)
    table.commit(table.encode_changes())
    before, column = content(Table(table.column())), table.column()
    make(table, second)
    table.rollback()
    assert content(table) == before
    assert table.column() == column


@given(CHANGES, CHANGES)
def test_table_stored_in_between_is_the_same(
    first: list[tuple[str, str, int]], second: list[tuple[str, str, int]]
) -> None:
    straight, stored = Table(), Table()
    for table in (straight, stored):
        make(table, first)
        table.commit(table.encode_changes())
    stored = Table(stored.column())
    for table in (straight, stored):
        make(table, second)
        table.commit(table.encode_changes())
    assert content(straight) == content(stored)


@given(CHANGES, CHANGES)
def test_keys_below_a_prefix_are_sorted_after_any_use(
    first: list[tuple[str, str, int]], second: list[tuple[str, str, int]]
) -> None:
    table = Table()
    for change in first:
        make(table, [change])
        assert table.keys() == sorted(key for key in KEY_NAMES if key in table)
    table.commit(table.encode_changes())
    make(table, second)
    table.put_encoded("1/a", msgspec.msgpack.encode(Thing(1)))
    assert table.keys("1/") == [key for key in KEY_NAMES if key in table and key.startswith("1/")]
    assert table.keys("1/a") == [key for key in ("1/a", "1/a\U0010ffffb") if key in table]
    table.rollback()
    assert table.keys() == sorted(key for key in KEY_NAMES if key in table)


@given(histories())
def test_decoding_and_encoding_every_item_of_a_cell_is_the_identity(
    documents: list[bytes],
) -> None:
    cell = Cell(CellSettings(name=CLUSTER, cluster=CLUSTER, event_time="recorded"))
    types: dict[str, type[msgspec.Struct]] = {}
    put = Table.put

    def noting_put(table: Table, key: str, item: msgspec.Struct) -> None:
        types[key] = type(item)
        put(table, key, item)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Table, "put", noting_put)
        for offset, document in enumerate(documents):
            cell.handle(document, Position(0, offset))
    for column in columns_of_tables(cell.tables.columns()).values():
        items = msgspec.msgpack.decode(column, type=dict[str, msgspec.Raw]) if column else {}
        for key, encoded in items.items():
            assert msgspec.msgpack.encode(decode_item(encoded, types[key])) == bytes(encoded), key


def test_only_the_last_keys_are_cached() -> None:
    made = []

    @cached_key
    def key(number: int) -> str:
        made.append(number)
        return f"1/thing/{number}"

    first, *_ = [key(number) for number in range(KEYS_KEPT)]
    assert key(0) is first
    assert key(KEYS_KEPT) == f"1/thing/{KEYS_KEPT}"  # replaces 1
    assert key(0) is first
    assert made == list(range(KEYS_KEPT + 1))
    assert key(1) == "1/thing/1"
    assert made[-1] == 1


def test_results_with_long_strings_are_not_cached_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_cache, "CHARS_KEPT", 10_000)
    made = []

    @cached_key
    def key(name: str) -> str:
        made.append(name[0])
        return f"1/thing/{name}"

    short = key("a")
    for _ in range(2):
        long = [key(letter * 1_000) for letter in "bcd"]
    assert key("a") is short
    assert [len(each) for each in long] == [1_008] * 3
    assert made == list("abcd"), "there is room for them"
    key("e" * 5_000)
    assert key("a") == short
    assert made == list("abcdea"), "the cache is dropped when it is full"
