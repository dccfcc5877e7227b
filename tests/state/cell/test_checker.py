"""A check of touched items finds as much as a whole check."""

import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from brokertwin.state.cell.cell import Cell
from brokertwin.state.cell.check import Checker, ViolationError, check
from brokertwin.state.core.check import Touched, kind_of
from brokertwin.state.core.outputs import Output
from brokertwin.state.core.tables import TABLE_NAMES, Table
from brokertwin.state.logs.log import Log
from tests.support.histories import observing, seeded
from tests.support.machine import Bench, header

HISTORIES, EVERY = 3, 12


def _drop(table: Table, key: str, _: random.Random) -> None:
    table.drop(key)


def _take_the_place(table: Table, key: str, chance: random.Random) -> None:
    """Replace an item by another one of its kind."""
    keys = table.keys()
    others = [each for each in keys if kind_of(each) == kind_of(key)]
    table.put_encoded(chance.choice(others), table.encoded(key))


def _count_up(table: Table, key: str, chance: random.Random) -> None:
    item = msgspec.msgpack.decode(table.encoded(key))
    places = list(_numbers(item))
    if places:
        holder, place = chance.choice(places)
        holder[place] += chance.choice((-1, 1, 1_000))
        table.put_encoded(key, msgspec.msgpack.encode(item))


def _numbers(item: Any) -> Iterator[tuple[Any, Any]]:
    if not isinstance(item, dict | list):
        return
    for place, value in item.items() if isinstance(item, dict) else enumerate(item):
        if isinstance(value, int) and not isinstance(value, bool):
            yield item, place
        yield from _numbers(value)


def found(cell: Cell, touched: Touched | None) -> set[str]:
    """The violations of a check; an exception counts as one."""
    try:
        return set(check(cell, touched) if touched is not None else check(cell))
    except Exception as error:  # noqa: BLE001 (an item of another type)
        return {type(error).__name__}


def test_checker_finds_as_much_as_a_whole_check() -> None:
    chance = random.Random(1)
    broken: list[tuple[set[str], str]] = []

    def listen(cell: Cell, document: bytes, _: list[Output]) -> None:
        if chance.randrange(EVERY) or not cell.tables.metadata.keys():
            return
        twin = cell.copy()
        twin.tables.take_touched()
        name = chance.choice([each for each in TABLE_NAMES if twin.tables[each].keys()])
        key = chance.choice(twin.tables[name].keys())
        change = chance.choice((_drop, _take_the_place, _count_up))
        change(twin.tables[name], key, chance)
        whole = found(twin, None)
        part = found(twin, Touched(twin.tables.take_touched()))
        assert part == whole, f"{change.__name__} {key}"
        broken.append((whole, key))

    with observing(listen):
        for seed in range(HISTORIES):
            seeded(seed, 100)
    assert sum(bool(each) for each, _ in broken) > HISTORIES


@pytest.fixture
def bench() -> Bench:
    bench = Bench()
    bench.is_checked = False
    bench.topic("orders")
    bench.append("orders", header(1, 5, 0, 0), version=12)
    return bench


def _log(cell: Cell) -> tuple[str, Log]:
    items = cell.tables.logs.items("1/log/", Log)
    return next((key, log) for key, log in items if log.topic == "orders")


def test_touched_partition_is_checked_alone(bench: Bench) -> None:
    bench.topic("many", 3)
    tables = bench.cell.tables
    tables.take_touched()
    bench.append("many", header(), partition=1)
    touched = tables.take_touched()
    assert touched is not None and len([k for k in touched["logs"] if kind_of(k) == "log"]) == 1
    assert check(bench.cell, Touched(touched)) == []


def test_touched_items_before_a_commit_are_unknown(bench: Bench) -> None:
    tables = bench.cell.tables
    assert tables.take_touched() is None
    bench.append("orders", header(1, 5, 0, 1), version=12)
    touched = tables.take_touched()
    assert touched is not None and _log(bench.cell)[0] in touched["logs"]
    assert touched["groups"] == []
    tables.commit()
    assert tables.take_touched() is None
    assert tables.take_touched() == {name: [] for name in TABLE_NAMES}


def test_take_touched_does_not_affect_a_rollback(bench: Bench) -> None:
    tables = bench.cell.tables
    before = tables.columns()
    for sequence in (1, 2):
        bench.append("orders", header(1, 5, 0, sequence), version=12)
        tables.take_touched()
    tables.rollback()
    assert tables.columns() == before


def test_unnoted_write_is_found_by_the_next_whole_check(bench: Bench) -> None:
    checker = Checker(whole_every=3)
    checker.begin(bench.cell)
    checker.hold(bench.cell)
    _log(bench.cell)[1].high_watermark = 9
    checker.hold(bench.cell)
    with pytest.raises(ViolationError, match="high watermark 9"):
        checker.hold(bench.cell)


def test_new_cell_checks_entries_touched_by_its_predecessor(
    bench: Bench,
) -> None:
    checker = Checker(whole_every=1_000)
    checker.begin(bench.cell)
    key, _ = _log(bench.cell)
    bench.cell.tables.logs.change(key, Log).log_end_offset = 1
    checker.hold(bench.cell)
    columns = bench.cell.columns()
    again = Cell(bench.cell.settings, columns)
    checker.begin(again)
    _log(again)[1].high_watermark = 9
    with pytest.raises(ViolationError, match="high watermark 9"):
        checker.hold(again)


def test_cell_that_begins_twice_checks_as_much(
    bench: Bench,
) -> None:
    checker = Checker(whole_every=1_000)
    checker.begin(bench.cell)
    checker.hold(bench.cell)
    key, _ = _log(bench.cell)
    bench.cell.tables.logs.change(key, Log).log_end_offset = 1
    checker.hold(bench.cell)
    columns = bench.cell.columns()
    for _ in range(2):
        again = Cell(bench.cell.settings, columns)
        checker.begin(again)
    _log(again)[1].high_watermark = 9
    with pytest.raises(ViolationError, match="high watermark 9"):
        checker.hold(again)
