"""Tables of cells' items, for commands that show a state."""

from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.tree import Tree

from brokertwin.cli import tables
from brokertwin.cli.output import out, show_table
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.tables.state_rows import ItemKind, Row

KINDS = (
    "topics|logs|producers|sessions|clients|groups|offsets|transactional-ids|waiting"
    "|partitions|members|producer-batches|session-partitions"
    "|replicas|fetchers|zookeeper"
)

TIMES = {
    *("lastTimestamp", "timestamp", "creationMs", "lastUsedMs", "commitTimestamp"),
    *("lastFetchTimestamp", "lastCaughtUpTimestamp"),
    *("expireTimestamp", "transactionStartTimestamp", "lastUpdateTimestamp", "deadline"),
}
"""Columns with times, which tables show in UTC."""

LESS = {
    "groups": {"lowestLag"},
    "producers": {"coordinatorEpoch", "batches"},
    "producer-batches": {"producerEpoch"},
    "sessions": {"isPrivileged"},
    "transactional-ids": {"transactionTimeoutMs", "lastUpdateTimestamp"},
}
"""Columns that tables omit at 80 columns of width; --json has them."""

NONE = (-1, "", None)
"""Kafka's values for `none`."""


def show(name: str, rows: "list[Row]", when: str) -> None:
    """Print a table for each cell; its title has the cell, and the broker if there is only one."""
    if not rows:
        out.print(f"no {name} {when}")
    for cell, group in groupby(rows, key=lambda row: row["cell"]):
        of_cell = list(group)
        title = f"{name} {when}, cell {cell}"
        said = {"cell", *_none(of_cell)}
        brokers = {row.get("broker") for row in of_cell} - {None}
        if len(brokers) == 1:
            said.add("broker")
            title += f", broker {brokers.pop()}"
        names = [each for each in of_cell[0] if each not in said]
        shown = _formatted(of_cell, names)
        if not tables.fits(out, names, shown):
            names = [each for each in names if each not in LESS.get(name, ())]
            shown = _formatted(of_cell, names)
        show_table(names, shown, title)


def show_tree(rows: "list[Row]", when: str) -> None:
    """Print ZooKeeper's nodes as a tree for each cell."""
    if not rows:
        out.print(f"no zookeeper {when}")
    for cell, group in groupby(rows, key=lambda row: row["cell"]):
        root = Tree(escape(f"zookeeper {when}, cell {cell}"))
        nodes = {"": root}
        for row in group:
            names = row["path"].split("/")[1:]
            for depth, name in enumerate(names):
                above, path = "/".join(names[:depth]), "/".join(names[: depth + 1])
                if path not in nodes:
                    data = f": {row['data']}" if depth == len(names) - 1 else ""
                    nodes[path] = nodes[above].add(escape(f"{name}{data}"))
        out.print(root)


def _formatted(rows: "list[Row]", names: list[str]) -> list[list[object]]:
    return [[formatted(name, row[name]) for name in names] for row in rows]


def formatted(name: str, value: object) -> object:
    """Format a value for a table: times in UTC, lists without brackets."""
    if name in TIMES and isinstance(value, int):
        if value < 0:
            return "-"
        return datetime.fromtimestamp(value / 1000, UTC).isoformat(" ", "milliseconds")[:-6]
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return value


def listed(rows: "list[Row]", all_items: bool) -> "list[Row]":
    """Return the rows to list; rows of internal topics only if `all_items`."""
    from brokertwin.tables.state_rows import is_internal

    return [row for row in rows if all_items or not is_internal(row)]


def show_hidden(rows: "list[Row]", shown: "list[Row]") -> None:
    if len(shown) < len(rows):
        hidden = counted(len(rows) - len(shown), "row")
        out.print(f"{hidden} of internal topics hidden; add --all to show them")


def _none(rows: "list[Row]") -> set[str]:
    """Return columns without any value, or that repeat those of `state topics`."""
    repeated = {"topicId"} if "batches" in rows[0] else set()
    signed = {"lag", "lowestLag"}
    none = {name for name in rows[0].keys() - signed if all(row[name] in NONE for row in rows)}
    empty = {name for name in rows[0].keys() & signed if all(row[name] is None for row in rows)}
    return repeated | none | empty


def kind_of(name: str | None) -> "ItemKind | None":
    """Return the kind with a name. Raises UserError if there is none."""
    from brokertwin.tables.state_rows import ItemKind

    if name is None:
        return None
    try:
        return ItemKind(name)
    except ValueError:
        raise UserError(f"Unknown kind of items: {name}.", f"Pass one of: {KINDS}.") from None
