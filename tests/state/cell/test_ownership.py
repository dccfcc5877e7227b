"""Every key names its machine, and a record touches only items of its machine."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from brokertwin.state.cell import apply as applied
from brokertwin.state.cell.apply import apply
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cell.check import ViolationError, hold
from brokertwin.state.core.outputs import Output
from brokertwin.state.core.records import PartitionTaken, ProducerIdBlockWritten, Record
from brokertwin.state.core.tables import MachineTables, Table, machine_prefix
from brokertwin.state.transactions import transactional_offsets
from tests.support.histories import observing, seeded

SEEDS = range(40)
"""Histories that together apply every kind of record (`test_histories.py` says which seeds do)."""

WRITES = ("put", "put_encoded", "change", "drop")


class ForeignItemError(AssertionError):
    """A record has touched an item of another machine."""


def owner_of(key: str) -> str:
    parts = key.split("/")
    return parts[2] if parts[0] == "timer" else parts[0]


class Spy:
    """Looks at every key that `apply` writes; counts the records by their type.

    Attributes:
        cell: the last deciding cell, including the model cell of a history.
    """

    def __init__(self) -> None:
        self.applied: Counter[str] = Counter()
        self.cell: Cell
        self._machine = ""
        self._record = ""

    @contextmanager
    def looking(self) -> Iterator[None]:
        """While this lasts, a write of another machine's item raises ForeignItemError.

        Nothing that is raised in a cell becomes a dead letter.
        """
        with observing(self._observe), pytest.MonkeyPatch.context() as patch:
            patch.setattr(applied, "apply", self._apply)
            for name in WRITES:
                patch.setattr(Table, name, self._checking(getattr(Table, name)))
            yield

    def _apply(self, at: MachineTables, record: Record) -> None:
        self._record = type(record).__name__
        is_stored = isinstance(record, ProducerIdBlockWritten)
        self._machine = "store" if is_stored else machine_prefix(at.id)
        self.applied[self._record] += 1
        try:
            apply(at, record)
        finally:
            self._machine = ""

    def _observe(self, cell: Cell, _: bytes, rows: list[Output]) -> None:
        self.cell = cell
        for row in rows:
            assert b'"reason":"fault"' not in (row.value or b""), row

    def _checking(self, write: Any) -> Any:
        def checked(table: Table, key: str, *arguments: Any) -> Any:
            if self._machine and owner_of(key) != self._machine:
                raise ForeignItemError(f"{self._record} of {self._machine} writes {key}")
            return write(table, key, *arguments)

        return checked


@pytest.mark.long
def test_record_touches_only_items_of_its_machine() -> None:
    spy = Spy()
    with spy.looking():
        for seed in SEEDS:
            seeded(seed)
            hold(spy.cell)
    assert spy.applied[PartitionTaken.__name__] > 5
    assert len(spy.applied) > 20


def test_record_that_touches_another_machines_item_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transactional_offsets, "_index_key", lambda _, p: f"pending-in/{p}")
    with pytest.raises(AssertionError, match="ForeignItemError"):
        test_record_touches_only_items_of_its_machine()


def test_key_without_a_machine_is_noticed() -> None:
    spy = Spy()
    with spy.looking():
        seeded(3)
    cell = spy.cell
    for name, key in (("pending", "watches"), ("quotas", "rate"), ("transactions", "id/7")):
        broken = cell.copy()
        broken.tables[name].put(key, transactional_offsets.ProducerGroups([]))
        with pytest.raises(ViolationError, match=f"{key} in the table `{name}` does not name"):
            hold(broken)
