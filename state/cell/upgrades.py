"""State rows of former versions become those of this one, one version after the other.

A row carries its version (`STATE_VERSION`). A step takes the columns of one version to those of the
next; it works on the items' msgpack maps, not on types, since types are this version's. A row is
upgraded whenever it is read, and stored in the new form with the next event that its cell takes.

    3 -> 4   a group says of which kind it is: all that there were are classic ones
    4 -> 5   a column may lie in layers (`state/core/layers.py`): none did

Before 3, items did not name their machine, and nothing in a row says which it was.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from brokertwin.state.cell.cell import STATE_VERSION

Columns = Mapping[str, bytes]
Step = Callable[[Columns], dict[str, bytes] | str]
"""The columns in the next version, or why these cannot be."""

_EMPTY = b"\x80"
_NETWORK = "controller/network"


def can_upgrade(version: int) -> bool:
    """Whether rows of a version become those of this one, but for what a step refuses."""
    return all(each in STEPS for each in range(version, STATE_VERSION))


def upgraded(version: int, columns: Columns) -> dict[str, bytes] | str:
    """The columns of a row in this version's form.

    Args:
        version: the row's, at most STATE_VERSION, and one that `can_upgrade`.
        columns: the row's.

    Returns:
        Why they cannot be, as the end of a sentence that begins with the cell.
    """
    found: dict[str, bytes] | str = dict(columns)
    for each in range(version, STATE_VERSION):
        if isinstance(found, str):
            return found
        found = STEPS[each](found)
    return found


def _from_3(columns: Columns) -> dict[str, bytes] | str:
    if _NETWORK in _items(columns["waiting"]):
        return "has brokers that were stopped or isolated, which version 3 kept in another form"
    groups = {
        key: {"type": "classic", **item} if key.split("/")[1] == "group" else item
        for key, item in _items(columns["groups"]).items()
    }
    return {**columns, "groups": msgspec.msgpack.encode(groups) if groups else b""}


def _items(column: bytes) -> dict[str, Any]:
    """A table's items by key."""
    found: dict[str, Any] = msgspec.msgpack.decode(column or _EMPTY)
    return found


STEPS: dict[int, Step] = {3: _from_3, 4: dict}
"""Version to the step from it to the next."""
