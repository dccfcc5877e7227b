"""The state of a cluster goes to another number of cells: cut anew by the machines that have it.

Every item says whose it is (`state/core/waiting.py` on those that are found by a request's id), so
the items of all cells are put together and dealt out again. What belongs to a cell itself is not
taken along: how far it has told others and heard of them. The new cells count from 1, in a higher
incarnation; so nothing may be under way between the former ones. Nor may a broker be stopped or
isolated, which each cell notes for itself.

A cell's time is the greatest that any of the former has seen.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from brokertwin.state.cell.cell import Meta
from brokertwin.state.core import waiting
from brokertwin.state.core.tables import TABLE_NAMES, Table
from brokertwin.state.core.waiting import NO_DEADLINE

Columns = Mapping[str, bytes]
Items = dict[str, msgspec.Raw]

_EMPTY = b"\x80"
_NETWORK = "controller/network"
_LATE = "late-"
_items = msgspec.msgpack.Decoder(Items)
_CONTROLLERS = ("controller", "store")


def resharded(
    cells: Mapping[str, Columns], wanted: Mapping[str, list[int]]
) -> dict[str, dict[str, bytes]] | str:
    """The state of a cluster in other cells.

    Args:
        cells: the former cells' columns, by name.
        wanted: the new cells' names and brokers, all of the cluster; the first has the controller.

    Returns:
        The new cells' columns by name; or why it cannot be now, as a sentence.
    """
    tables = {
        name: {each: _items.decode(columns[each] or _EMPTY) for each in TABLE_NAMES}
        for name, columns in cells.items()
    }
    why = _refusal({name: each["waiting"] for name, each in tables.items()})
    if why is not None:
        return why
    now = max(msgspec.msgpack.decode(columns["meta"], type=Meta).now for columns in cells.values())
    cell_of = {str(broker): name for name, brokers in wanted.items() for broker in brokers}
    cell_of |= dict.fromkeys(_CONTROLLERS, next(iter(wanted)))
    dealt: dict[str, dict[str, Items]] = {
        name: {each: {} for each in TABLE_NAMES} for name in wanted
    }
    for former in tables.values():
        for table, items in former.items():
            for key, item in items.items():
                if table == "waiting" and _is_of_cell(key):
                    continue
                owner = _owner(table, key, item)
                dealt[cell_of[owner]][table][key] = item
    return {name: _columns(each, now) for name, each in dealt.items()}


def _refusal(tables: Mapping[str, Items]) -> str | None:
    """Why cells cannot be cut anew, from their tables `waiting`."""
    for name, table in tables.items():
        for other, theirs in tables.items():
            if table.get(f"told/{other}") != theirs.get(f"heard/{name}"):
                return f"what the cell {name} has told {other} is under way"
        if any(_is_anybody_gone(table[key]) for key in table if key == _NETWORK):
            return f"brokers of the cell {name} are stopped or isolated"
        if any(key.startswith(_LATE) for key in table):
            return f"messages of a comparison are under way in the cell {name}"
    return None


def _is_anybody_gone(network: msgspec.Raw) -> bool:
    found: dict[str, Any] = msgspec.msgpack.decode(network)
    return any(found.values())


def _is_of_cell(key: str) -> bool:
    """Whether an item of the table `waiting` belongs to a cell, and to none of its machines."""
    return key == _NETWORK or key.partition("/")[0] in ("told", "heard")


def _owner(table: str, key: str, item: msgspec.Raw) -> str:
    """The machine that has an item, as keys name it."""
    parts = key.split("/")
    if table != "waiting":
        return parts[0]
    if parts[0] == "wait":
        return str(msgspec.msgpack.decode(item)["broker"])
    return parts[{"watch": 1, "timer": 2}.get(parts[0], 0)]


def _columns(tables: Mapping[str, Items], now: int) -> dict[str, bytes]:
    columns = {
        name: msgspec.msgpack.encode(items) if items else b"" for name, items in tables.items()
    }
    earliest = waiting.earliest(Table(columns["waiting"]))
    meta = Meta(now, earliest[0] if earliest is not None else NO_DEADLINE)
    return {**columns, "meta": msgspec.msgpack.encode(meta), "more": b""}
