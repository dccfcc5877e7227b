"""Columns in layers: an unchanged base, and the changes since."""

import zlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.state.core import layers
from brokertwin.state.core.layers import CHANGES_PART, Base, LayeredColumn, flat, is_layered
from brokertwin.state.core.tables import CellTables, Table
from tests.state.core.test_tables import CHANGES, Thing, content, make

MANY = 40
BATCHES = st.lists(CHANGES, max_size=6)
"""Changes of each micro-batch."""


@pytest.fixture(autouse=True)
def _layered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "LAYERED_BYTES", 0)


def committed(table: Table) -> Table:
    table.commit(table.encode_changes())
    return table


def many() -> Table:
    """A stored table with things 0 to 39."""
    table = Table()
    for number in range(MANY):
        table.put(f"1/{number}", Thing(number))
    return Table(committed(table).stored())


def parts(column: bytes) -> LayeredColumn:
    return msgspec.msgpack.decode(column, type=LayeredColumn)


@given(BATCHES, CHANGES)
def test_table_in_layers_behaves_like_a_plain_one_with_rollback(
    batches: list[list[tuple[str, str, int]]], poison: list[tuple[str, str, int]]
) -> None:
    straight, column = Table(), b""
    for changes in batches:
        make(straight, changes)
        committed(straight)
        stored = Table(column)
        make(stored, changes)
        committed(stored)
        make(stored, poison)
        stored.rollback()
        assert content(stored) == content(straight)
        column = stored.stored()
    assert content(Table(column)) == content(straight)
    assert content(Table(flat(column))) == content(straight)
    assert Table(column).column() == flat(column) and not is_layered(flat(column))


def test_base_is_copied_unchanged() -> None:
    before = many()
    column = before.stored()
    assert before.stored() is column
    table = Table(column)
    table.change("1/3", Thing).number = 33
    table.drop("1/4")
    table.put("1/new", Thing(1))
    table.put("1/gone", Thing(1))
    committed(table).drop("1/gone")
    after = parts(committed(table).stored())
    assert after.base == parts(column).base
    changes = layers.read_items(zlib.decompress(after.changes))
    assert (sorted(changes), after.dropped) == (["1/3", "1/new"], ["1/4"])
    again = Table(table.stored())
    again.put("1/4", Thing(44))
    assert parts(committed(again).stored()).dropped == []
    assert again.get("1/3", Thing) == Thing(33) and again.get("1/4", Thing) == Thing(44)


def test_many_changes_become_the_next_base() -> None:
    most, column = MANY // CHANGES_PART, many().stored()
    for number in range(most + 1):
        table = Table(column)
        table.change(f"1/{number}", Thing).number = -1
        column, before = committed(table).stored(), column
        assert (parts(column).base == parts(before).base) is (number < most)
    assert parts(column).changes == parts(many().stored()).changes
    assert sum(thing.number == -1 for thing in content(Table(column)).values()) == most + 1


def test_small_column_is_one_map(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(many().column())
    monkeypatch.setattr(layers, "LAYERED_BYTES", size)
    column = many().stored()
    assert is_layered(column)
    monkeypatch.setattr(layers, "LAYERED_BYTES", size + 1)
    assert many().stored() == flat(column)
    table = Table(column)
    for number in range(MANY - 1):
        table.drop(f"1/{number}")
    assert committed(table).stored() == table.column(), "it is small again"
    assert Table().stored() == b""


def test_base_never_changes_and_copies_are_independent() -> None:
    column = many().stored()
    base = Base(parts(column).base)
    items = dict(base.items)
    table = Table(column, lambda _: base)
    table.drop("1/0")
    table.change("1/1", Thing).number = 11
    twin = committed(table).copy()
    twin.drop("1/2")
    committed(twin)
    assert base.items == items
    assert parts(table.stored()).dropped == ["1/0"]
    assert parts(twin.stored()).dropped == ["1/0", "1/2"]
    assert twin.get("1/1", Thing) == Thing(11)


def test_bases_are_read_by_the_given_function() -> None:
    tables, names = CellTables(), list[str]()
    for number in range(MANY):
        tables.groups.put(f"1/{number}", Thing(number))

    def read(name: str, packed: bytes) -> Base:
        names.append(name)
        return Base(packed)

    again = CellTables(tables.stored(), read)
    assert names == []
    assert again.groups.get("1/7", Thing) == Thing(7)
    assert again.stored() == tables.stored()
    assert names == ["groups"]
