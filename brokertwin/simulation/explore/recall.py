"""Results that are recalled in every state in which all items that they read are the same.

A computation notes the items, and the keys below a prefix, in the order of its first use. Which
item it uses next depends on the former ones alone. The results of one computation are therefore a
tree: an inner node names an item, its branches are the values of it, and the leaves are results.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from brokertwin.state.core.tables import TABLE_NAMES, CellTables, Item, Table

Tables = Mapping[str, Mapping[str, bytes]]
"""Encoded items by table and key."""

Place = tuple[str, str, bool]
"""A table, and a key or (True) a prefix of keys."""

RESULTS_MAX = 30_000
"""Recalled results, about 3 kB each, before all are forgotten."""


class UnsteadyError(Exception):
    """A computation has used other items than before, although the former ones were the same."""


class NotingTable(Table):
    """A table that notes which items are used, also those that are written."""

    def __init__(self, name: str, notes: dict[Place, None]) -> None:
        super().__init__()
        self._name = name
        self._notes = notes

    def get(self, key: str, item_type: type[Item]) -> Item | None:
        self._notes[self._name, key, False] = None
        return super().get(key, item_type)

    def encoded(self, key: str) -> bytes:
        self._notes[self._name, key, False] = None
        return super().encoded(key)

    def __contains__(self, key: str) -> bool:
        self._notes[self._name, key, False] = None
        return super().__contains__(key)

    def has_either(self, key: str, other: str) -> bool:
        self._notes[self._name, key, False] = None
        self._notes[self._name, other, False] = None
        return super().has_either(key, other)

    def keys(self, prefix: str = "") -> list[str]:
        self._notes[self._name, prefix, True] = None
        return super().keys(prefix)

    def _remember(self, key: str) -> None:
        self._notes[self._name, key, False] = None
        super()._remember(key)


class Node:
    """A place, and what follows for each value of it."""

    __slots__ = ("after", "place")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.after: dict[Any, Any] = {}


class Recall:
    """Recalls results of computations on the tables of a cell.

    Args:
        tables: replaced by tables that note.
    """

    def __init__(self, tables: CellTables) -> None:
        self._notes: dict[Place, None] = {}
        tables._adopt({name: NotingTable(name, self._notes) for name in TABLE_NAMES})
        self._tables = tables
        self._known: dict[Hashable, Any] = {}
        self._count = 0

    def find(self, items: Tables, key: Hashable) -> Any:
        """Return the result of the computation `key`, None if it is unknown."""
        found = self._known.get(key)
        while type(found) is Node:
            found = found.after.get(value_at(items, found.place))
        return found

    def compute(self, items: Tables, key: Hashable, act: Callable[[], Any]) -> Any:
        """Return the result of `act` in the loaded state `items`, and keep it. It is never None.

        Raises:
            UnsteadyError: `act` depends on more than the items.
        """
        tables, notes = self._tables, self._notes
        tables.tails.clear()
        for name in items:
            if name != "pending":  # its deadlines are derived from all items, and noted apart
                tables[name].derived.clear()
        notes.clear()
        result = act()
        if self._count >= RESULTS_MAX:
            self._known.clear()
            self._count = 0
        self._count += 1
        branches, branch = self._known, key
        for place in notes:
            node = branches.setdefault(branch, Node(place))
            if type(node) is not Node or node.place != place:
                raise UnsteadyError(f"{key} depends on more than the items")
            branches, branch = node.after, value_at(items, place)
        if type(branches.get(branch)) is Node:
            raise UnsteadyError(f"{key} depends on more than the items")
        branches[branch] = result
        return result


def value_at(items: Tables, place: Place) -> bytes | tuple[str, ...] | None:
    """Return the item at a place, or the keys."""
    name, key, is_prefix = place
    if not is_prefix:
        return items[name].get(key)
    return tuple(sorted(each for each in items[name] if each.startswith(key)))
