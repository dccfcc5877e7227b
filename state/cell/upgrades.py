"""Upgrade state rows of former versions, one version after the other.

A row has its version (`STATE_VERSION`). A step converts the columns of one version to those of the
next. It works on the items' msgpack maps because types are those of this version. A row is upgraded
whenever it is read, and stored in the new form after the next event of its cell.

    3 -> 4   a group has its type: those of version 3 are classic groups
    4 -> 5   a column may be in layers (`state/core/layers.py`); no column was
    5 -> 6   the columns `waiting` and `sessions` keep pending requests and fetch sessions; their
             other items are in separate tables in the column `more`; an uncommitted write has the
             kind `commit`, and is no longer a pending request with the API key -1
    6 -> 7   groups, their members and their records are as Kafka's rows (`group_upgrades.py`)

Rows before version 3 cannot be upgraded: their items do not name a machine.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from brokertwin.state.cell import group_upgrades
from brokertwin.state.cell.cell import STATE_VERSION
from brokertwin.state.core import layers
from brokertwin.state.core.check import kind_of
from brokertwin.state.core.tables import COLUMN_OF

Columns = Mapping[str, bytes]
Step = Callable[[Columns], dict[str, bytes] | str]
"""Returns the columns in the next version, or why these cannot be upgraded."""

_EMPTY = b"\x80"
_NETWORK = "controller/network"


def can_upgrade(version: int) -> bool:
    """Whether there are steps from a version to this one; a step can still refuse a row."""
    return all(each in STEPS for each in range(version, STATE_VERSION))


def upgraded(version: int, columns: Columns) -> dict[str, bytes] | str:
    """Return the columns of a row in this version's form.

    Args:
        version: the row's, at most STATE_VERSION, and one that `can_upgrade`.
        columns: the row's.

    Returns:
        The columns, or the end of a sentence that begins with the cell and says why not.
    """
    result: dict[str, bytes] | str = dict(columns)
    for each in range(version, STATE_VERSION):
        if isinstance(result, str):
            return result
        result = STEPS[each](result)
    return result


def _from_3(columns: Columns) -> dict[str, bytes] | str:
    if _NETWORK in _items(columns["waiting"]):
        return "has brokers that were stopped or isolated, which version 3 kept in another form"
    groups = {
        key: {"type": "classic", **item} if key.split("/")[1] == "group" else item
        for key, item in _items(columns["groups"]).items()
    }
    return {**columns, "groups": msgspec.msgpack.encode(groups) if groups else b""}


def _items(column: bytes) -> dict[str, Any]:
    items: dict[str, Any] = msgspec.msgpack.decode(column or _EMPTY)
    return items


_MOVED = {
    ("sessions", "share-session"): "shares",
    ("sessions", "share-partition"): "shares",
    ("sessions", "live-group"): "live_groups",
    ("sessions", "live-streams"): "live_groups",
    ("sessions", "rate"): "quotas",
    ("sessions", "bucket"): "quotas",
    ("sessions", "client-instance"): "client_instances",
    ("sessions", "client-instances"): "client_instances",
    ("waiting", "verifications"): "in_flight",
    ("waiting", "producer-id-request"): "in_flight",
    ("waiting", "busy"): "in_flight",
    ("waiting", "leading"): "replication",
    ("waiting", "held"): "replication",
    ("waiting", "checkpointing"): "replication",
    ("waiting", "checkpointed"): "replication",
    ("waiting", "wished-dirs"): "replication",
    ("waiting", "failed-dirs"): "replication",
    ("waiting", "network"): "cluster",
    ("waiting", "told"): "cluster",
    ("waiting", "heard"): "cluster",
}
"""Column and kind of an item of version 5 to its table in version 6."""

_COMMITTING = -1


def _from_5(columns: Columns) -> dict[str, bytes]:
    more: dict[str, dict[str, Any]] = {}
    kept = {}
    for column in ("sessions", "waiting"):
        kept[column] = _items(layers.flat(columns[column]))
        for key in list(kept[column]):
            table = _MOVED.get((column, kind_of(key)))
            if table is not None:
                more.setdefault(table, {})[key] = kept[column].pop(key)
    waiting = kept["waiting"]
    for key in [each for each in waiting if each.startswith("wait/")]:
        if waiting[key]["api_key"] == _COMMITTING:
            fields = ("event_id", "broker", "deadline", "logs", "state")
            write = waiting.pop(key)
            waiting["commit/" + write["event_id"]] = {name: write[name] for name in fields}
    packed = {table: msgspec.msgpack.encode(more[table]) for table in sorted(more)}
    return {
        **columns,
        **{name: msgspec.msgpack.encode(items) if items else b"" for name, items in kept.items()},
        "more": msgspec.msgpack.encode(packed) if packed else b"",
    }


def _from_6(columns: Columns) -> dict[str, bytes]:
    result = dict(columns)
    for table in ("groups", "logs", "pending"):
        column = COLUMN_OF[table]
        items = layers.read_items(layers.flat(columns[column]))
        changed = {
            key: msgspec.Raw(encoded)
            for key, item in items.items()
            if (encoded := group_upgrades.upgraded(table, key, bytes(item))) is not None
        }
        if changed:
            result[column] = msgspec.msgpack.encode({**items, **changed})
    return result


STEPS: dict[int, Step] = {3: _from_3, 4: dict, 5: _from_5, 6: _from_6}
"""Version to the step from it to the next."""
