"""Results that are recalled in every state in which all items that they read are the same.

A computation notes the items, and the keys below a prefix, in the order of its first use. Which
item it uses next depends on the former ones alone. The results of one computation are therefore a
tree: an inner node names an item, its branches are the values of it, and the leaves are results.
"""

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from brokertwin.state.core.tables import TABLE_NAMES, CellTables, Item, Table

Place = tuple[str, str, bool]
"""A table, and a key or (True) a prefix of keys."""

RESULTS_MAX = 30_000
"""Recalled results, about 3 kB each, before all are forgotten."""


class UnsteadyError(Exception):
    """A computation has used other items than before, although the former ones were the same."""


class Items(dict[str, bytes]):
    """The encoded items of a table in a state."""

    def __init__(self, items: Mapping[str, bytes], below: dict[str, tuple[str, ...]]) -> None:
        super().__init__(items)
        self._below = below

    def below(self, prefix: str) -> tuple[str, ...]:
        """Return the keys that start with a prefix."""
        result = self._below.get(prefix)
        if result is None:
            result = tuple(sorted(key for key in self if key.startswith(prefix)))
            self._below[prefix] = result
        return result

    def changed(self, changes: Mapping[str, bytes | None]) -> "Items":
        """Return the items after changes; None drops an item."""
        has_same_keys = changes.keys() <= self.keys() and None not in changes.values()
        after = {**self, **changes}
        return Items(
            {key: item for key, item in after.items() if item is not None},
            self._below if has_same_keys else {},
        )


Tables = Mapping[str, Items]
"""Encoded items by table and key."""


class NotingTable(Table):
    """A table that notes which items are used, also those that are written."""

    def __init__(self, name: str, notes: list[Place]) -> None:
        super().__init__()
        self._name = name
        self._notes = notes
        self._noted: set[str] = set()
        self._prefixes: set[str] = set()

    def forget(self) -> None:
        """Note all items again, and derive nothing from items that are not noted."""
        self._noted.clear()
        self._prefixes.clear()
        if self._name != "pending":  # its deadlines are derived from all items, and noted apart
            self.derived.clear()

    def _note(self, key: str) -> None:
        self._noted.add(key)
        self._notes.append((self._name, key, False))

    def get(self, key: str, item_type: type[Item]) -> Item | None:
        if key not in self._noted:
            self._note(key)
        return super().get(key, item_type)

    def encoded(self, key: str) -> bytes:
        if key not in self._noted:
            self._note(key)
        return super().encoded(key)

    def __contains__(self, key: str) -> bool:
        if key not in self._noted:
            self._note(key)
        return super().__contains__(key)

    def has_either(self, key: str, other: str) -> bool:
        for each in (key, other):
            if each not in self._noted:
                self._note(each)
        return super().has_either(key, other)

    def keys(self, prefix: str = "") -> list[str]:
        if prefix not in self._prefixes:
            self._prefixes.add(prefix)
            self._notes.append((self._name, prefix, True))
        return super().keys(prefix)

    def _remember(self, key: str) -> None:
        if key not in self._noted:
            self._note(key)
        super()._remember(key)


class Node:
    """A place, and what follows for each value of it."""

    __slots__ = ("after", "is_prefix", "key", "table")

    def __init__(self, place: Place) -> None:
        self.table, self.key, self.is_prefix = place
        self.after: dict[Any, Any] = {}


class Recall:
    """Recalls results of computations on the tables of a cell.

    Args:
        tables: replaced by tables that note.
    """

    def __init__(self, tables: CellTables) -> None:
        self._notes: list[Place] = []
        self._noting = {name: NotingTable(name, self._notes) for name in TABLE_NAMES}
        tables._adopt(dict(self._noting))
        self._tables = tables
        self._known: dict[Hashable, Any] = {}
        self._count = 0

    def find(self, tables: Tables, key: Hashable) -> Any:
        """Return the result of the computation `key`, None if it is unknown."""
        result = self._known.get(key)
        while type(result) is Node:
            items = tables[result.table]
            value = items.below(result.key) if result.is_prefix else items.get(result.key)
            result = result.after.get(value)
        return result

    def compute(self, tables: Tables, key: Hashable, act: Callable[[], Any]) -> Any:
        """Return the result of `act` in the loaded state, and keep it. It is never None.

        Raises:
            UnsteadyError: `act` depends on more than the items.
        """
        self._tables.tails.clear()
        for table in self._noting.values():
            table.forget()
        self._notes.clear()
        result = act()
        if self._count >= RESULTS_MAX:
            self._known.clear()
            self._count = 0
        self._count += 1
        branches, branch = self._known, key
        for place in self._notes:
            node = branches.get(branch)
            if node is None:
                node = branches[branch] = Node(place)
            elif type(node) is not Node or (node.table, node.key, node.is_prefix) != place:
                raise UnsteadyError(f"{key} depends on more than the items")
            items = tables[node.table]
            branches = node.after
            branch = items.below(node.key) if node.is_prefix else items.get(node.key)
        if type(branches.get(branch)) is Node:
            raise UnsteadyError(f"{key} depends on more than the items")
        branches[branch] = result
        return result
