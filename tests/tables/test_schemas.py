"""The tables are defined once: state, Arrow and the page agree with the definition."""

import re

import pyarrow as pa
import pytest

from brokertwin.cli.job import state_tables
from brokertwin.tables import of_cells, schemas, state_rows
from brokertwin.tables.schemas import BY_NAME, DESCRIPTION, TABLES, TIME
from brokertwin.tables.state_rows import ItemKind
from tests.support.machine import CLUSTER, Bench
from tests.support.sources import ROOT
from tests.support.state_items import something_of_every_kind


@pytest.fixture(scope="module")
def bench() -> Bench:
    return something_of_every_kind()


def test_every_kind_of_item_is_a_table() -> None:
    assert sorted(table.kind for table in TABLES) == sorted(ItemKind)
    assert set(state_tables.KINDS.split("|")) == {kind.value for kind in ItemKind}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_has_the_fields_of_the_state(bench: Bench, table: schemas.TableSchema) -> None:
    cells = {CLUSTER: bench.cell.columns()}
    rows = state_rows.rows(table.kind, cells)
    made = of_cells(cells).arrow(table.name)
    assert made.num_rows == len(rows)
    if table.kind not in (ItemKind.MEMBERS, *state_rows.UNCOUNTED):
        assert rows
    names = [column.name for column in table.columns]
    for row in rows:
        assert sorted(row) == sorted(names)
    for column in table.columns:
        expected = [row[column.name] for row in rows]
        found = made[column.name]
        if column.type == TIME:
            found = found.cast(pa.int64()).fill_null(-1)
        pairs = column.type == schemas.MAP
        assert [dict(one) if pairs else one for one in found.to_pylist()] == expected, column.name


def test_every_column_has_a_description() -> None:
    schema = schemas.arrow_schema(BY_NAME["offsets"])
    assert schema.metadata[DESCRIPTION] == b"A committed offset."
    field = schema.field("committedOffset")
    assert field.metadata[DESCRIPTION] == b"offset of the next record to read"
    assert all(column.what for table in TABLES for column in table.columns)


def test_the_page_lists_the_tables() -> None:
    page = (ROOT / "docs" / "query.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"The tables are ([^.]*)\.", page)
    assert re.findall(r"`(\w+)`", listed) == [table.name for table in TABLES]


def test_displayed_times_are_those_of_the_tables() -> None:
    times = {each.name for table in TABLES for each in table.columns if each.type == TIME}
    assert times == state_tables.TIMES
