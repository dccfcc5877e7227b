"""What differs between two states: items that came, that went, and fields that changed."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from brokertwin.sinks.state_rows import IDENTITY, Columns, Kind, Row, is_internal, rows


class Change(NamedTuple):
    """An item that is not the same in two states.

    Attributes:
        kind: what it is.
        item: what names it, by column.
        what: `added`, `removed` or `changed`.
        fields: column to its two values; of an item that came or went one is None.
    """

    kind: Kind
    item: Row
    what: str
    fields: dict[str, tuple[Any, Any]]

    @property
    def document(self) -> dict[str, Any]:
        """For programs."""
        fields = {name: {"before": a, "after": b} for name, (a, b) in self.fields.items()}
        return {"kind": self.kind.value, "item": self.item, "change": self.what, "fields": fields}


def changes(
    before: Columns, after: Columns, kinds: Iterable[Kind], all_items: bool = False
) -> list[Change]:
    """The items of these kinds that differ between two states of a cell, in order.

    Args:
        before: the tables of the one.
        after: those of the other.
        kinds: what is looked at.
        all_items: those of internal topics, too.
    """
    found = []
    for kind in kinds:
        was, now = _by_name(kind, before, all_items), _by_name(kind, after, all_items)
        for name in [*was, *(each for each in now if each not in was)]:
            change = _change(kind, was.get(name), now.get(name))
            if change is not None:
                found.append(change)
    return found


def _by_name(kind: Kind, columns: Columns, all_items: bool) -> Mapping[tuple[Any, ...], Row]:
    found = [{k: v for k, v in row.items() if k != "cell"} for row in rows(kind, {"": columns})]
    return {
        tuple(row[name] for name in IDENTITY[kind]): row
        for row in found
        if all_items or not is_internal(row)
    }


def _change(kind: Kind, was: Row | None, now: Row | None) -> Change | None:
    some: Row = now if now is not None else was or {}
    item = {name: some[name] for name in IDENTITY[kind]}
    fields = {
        name: ((was or {}).get(name), (now or {}).get(name))
        for name in some
        if name not in item and (was is None or now is None or was[name] != now[name])
    }
    if was is None or now is None:
        return Change(kind, item, "added" if was is None else "removed", fields)
    return Change(kind, item, "changed", fields) if fields else None
