"""Differences between two states: added, removed and changed items."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from brokertwin.tables.state_rows import IDENTITY, Columns, ItemKind, Row, is_internal, rows


class StateChange(NamedTuple):
    """An item that differs between two states.

    Attributes:
        kind: the kind of item.
        item: identifying columns.
        what: `added`, `removed` or `changed`.
        fields: both values by column; None for an added or removed item.
    """

    kind: ItemKind
    item: Row
    what: str
    fields: dict[str, tuple[Any, Any]]

    @property
    def document(self) -> dict[str, Any]:
        fields = {name: {"before": a, "after": b} for name, (a, b) in self.fields.items()}
        return {"kind": self.kind.value, "item": self.item, "change": self.what, "fields": fields}


def changes(
    before: Columns,
    after: Columns,
    kinds: Iterable[ItemKind],
    all_items: bool = False,
    without_ends: Collection[str] = (),
) -> list[StateChange]:
    """Return the differing items of these kinds, in order.

    Args:
        before: the tables of the first state.
        after: the tables of the second state.
        kinds: the kinds to compare.
        all_items: include internal topics.
        without_ends: topics whose log ends are not known.
    """
    found = []
    for kind in kinds:
        was, now = (
            _by_name(kind, rows(kind, {"": columns}, without_ends), all_items)
            for columns in (before, after)
        )
        for name in [*was, *(each for each in now if each not in was)]:
            change = _change(kind, was.get(name), now.get(name))
            if change is not None:
                found.append(change)
    return found


def _by_name(
    kind: ItemKind, all_rows: Iterable[Row], all_items: bool
) -> Mapping[tuple[Any, ...], Row]:
    found = [{k: v for k, v in row.items() if k != "cell"} for row in all_rows]
    return {
        tuple(row[name] for name in IDENTITY[kind]): row
        for row in found
        if all_items or not is_internal(row)
    }


def _change(kind: ItemKind, was: Row | None, now: Row | None) -> StateChange | None:
    some: Row = now if now is not None else was or {}
    item = {name: some[name] for name in IDENTITY[kind]}
    fields = {
        name: ((was or {}).get(name), (now or {}).get(name))
        for name in some
        if name not in item and (was is None or now is None or was[name] != now[name])
    }
    if was is None or now is None:
        return StateChange(kind, item, "added" if was is None else "removed", fields)
    return StateChange(kind, item, "changed", fields) if fields else None
