"""Reshard a cluster: give its machines to another number of cells.

Every item names its machine (see `state/core/pending.py` for the others), so the items of all cells
are collected and distributed again. Items of a cell itself are dropped: the counts of messages
between cells. The new cells count from 1, in a higher incarnation. Therefore no message may be in
flight between the former cells. No broker may be stopped or isolated, because each cell notes this
for itself.

The time of a new cell is the latest time of the former ones.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from brokertwin.state.cell.cell import Meta
from brokertwin.state.core import pending
from brokertwin.state.core.pending import NO_DEADLINE
from brokertwin.state.core.tables import TABLE_NAMES, Table, columns_of_tables, row_columns

Columns = Mapping[str, bytes]
Items = dict[str, msgspec.Raw]

_EMPTY = b"\x80"
_NETWORK = "controller/network"
_LATE = "late-"
_items = msgspec.msgpack.Decoder(Items)
_CONTROLLERS = ("controller", "store")


def resharded(
    cells: Mapping[str, Columns], brokers_by_cell: Mapping[str, list[int]]
) -> dict[str, dict[str, bytes]] | str:
    """Return the state of a cluster in other cells.

    Args:
        cells: the former cells' columns, by name.
        brokers_by_cell: the new cells' brokers by name; the first cell has the controller.

    Returns:
        The new cells' columns by name, or a sentence that says why resharding is impossible now.
    """
    tables = {
        name: {
            each: _items.decode(column or _EMPTY)
            for each, column in columns_of_tables(columns).items()
        }
        for name, columns in cells.items()
    }
    why = _refusal(tables)
    if why is not None:
        return why
    now = max(msgspec.msgpack.decode(columns["meta"], type=Meta).now for columns in cells.values())
    cell_of = {str(broker): name for name, brokers in brokers_by_cell.items() for broker in brokers}
    cell_of |= dict.fromkeys(_CONTROLLERS, next(iter(brokers_by_cell)))
    dealt: dict[str, dict[str, Items]] = {
        name: {each: {} for each in TABLE_NAMES} for name in brokers_by_cell
    }
    for former in tables.values():
        for table, items in former.items():
            for key, item in items.items():
                if table == "cluster":
                    continue  # items of a cell itself
                owner = _owner(table, key, item)
                dealt[cell_of[owner]][table][key] = item
    return {name: _columns(each, now) for name, each in dealt.items()}


def _refusal(cells: Mapping[str, Mapping[str, Items]]) -> str | None:
    """Return why cells cannot be resharded now, or None."""
    for name, tables in cells.items():
        cluster = tables["cluster"]
        for other, theirs in cells.items():
            if cluster.get(f"told/{other}") != theirs["cluster"].get(f"heard/{name}"):
                return f"what the cell {name} has told {other} is under way"
        if _NETWORK in cluster and _has_absent_brokers(cluster[_NETWORK]):
            return f"brokers of the cell {name} are stopped or isolated"
        if any(key.startswith(_LATE) for key in tables["pending"]):
            return f"messages of a comparison are under way in the cell {name}"
    return None


def _has_absent_brokers(network: msgspec.Raw) -> bool:
    document: dict[str, Any] = msgspec.msgpack.decode(network)
    return any(document.values())


def _owner(table: str, key: str, item: msgspec.Raw) -> str:
    """Return the machine of an item, as keys name it."""
    parts = key.split("/")
    if table != "pending":
        return parts[0]
    if parts[0] in ("wait", "commit"):
        return str(msgspec.msgpack.decode(item)["broker"])
    return parts[{"watch": 1, "timer": 2}.get(parts[0], 0)]


def _columns(tables: Mapping[str, Items], now: int) -> dict[str, bytes]:
    encoded = {
        name: msgspec.msgpack.encode(items) if items else b"" for name, items in tables.items()
    }
    earliest = pending.earliest(Table(encoded["pending"]))
    meta = Meta(now, earliest[0] if earliest is not None else NO_DEADLINE)
    return {**row_columns(encoded), "meta": msgspec.msgpack.encode(meta)}
