"""The state of a cell: tables of items, with commit and rollback.

A table maps keys to msgpack bytes. An item is decoded at its first use, and encoded at the `commit`
after its last change. Until then the former bytes are kept, so `rollback` restores the tables.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from threading import Lock
from typing import Any, ParamSpec, TypeVar

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.core import layers
from brokertwin.state.core.bounded_cache import bounded_cache
from brokertwin.state.core.layers import Base, DamagedError, Items, ReadBase, is_layered
from brokertwin.state.core.settings import BrokerSettings

Item = TypeVar("Item", bound=msgspec.Struct)

Changes = dict[str, bytes | msgspec.Raw | None]
"""Encoded items by key; None for a dropped one."""

Params = ParamSpec("Params")

KEYS_KEPT = 8_192
"""Cached keys of each function that builds keys (`cached_key`)."""

COLUMN_OF = {
    "logs": "logs",
    "producers": "producers",
    "fetch_sessions": "sessions",
    "groups": "groups",
    "transactions": "transactions",
    "metadata": "metadata",
    "pending": "waiting",
}
"""The tables that have columns in the state row, fixed by checkpoints."""

IN_MORE = (
    *("shares", "live_groups", "quotas", "client_instances"),
    *("in_flight", "replication", "cluster"),
)
"""The tables whose columns are together in the column `more`, by name."""

MORE = "more"

TABLE_NAMES = (*COLUMN_OF, *IN_MORE)

IN_MEMORY = ("fetch_sessions", "pending", *IN_MORE)
"""The tables whose items a broker forgets when it stops, if their keys begin with it."""

ReadBaseOf = Callable[[str, bytes], Base]
"""Decodes the base of the column with that name."""

_encoder = msgspec.msgpack.Encoder()
_more_decoder = msgspec.msgpack.Decoder(dict[str, bytes])
_decoders: dict[type, msgspec.msgpack.Decoder[Any]] = {}
_one_at_a_time = Lock()
"""msgspec crashes if two threads use a new type at the same time."""


def decode_item(encoded: bytes | msgspec.Raw, item_type: type[Item]) -> Item:
    """Decode an item. Raises msgspec.ValidationError."""
    decoder = _decoders.get(item_type)
    if decoder is None:
        with _one_at_a_time:
            decoder = _decoders[item_type] = msgspec.msgpack.Decoder(item_type)
    return decoder.decode(encoded)  # type: ignore[no-any-return]


@bounded_cache(4096)
def escape(name: str) -> str:
    """A name as part of a key; parts are separated by slashes."""
    return name.replace("%", "%25").replace("/", "%2F")


def cached_key(function: Callable[Params, str]) -> Callable[Params, str]:
    """Cache the keys built by a function.

    They are used several times for each event, and a string caches its hash.
    """
    return bounded_cache(KEYS_KEPT)(function)


def unescape(part: str) -> str:
    """Inverse of `escape`."""
    return part.replace("%2F", "/").replace("%25", "%")


class Table:
    """Items by key. Use `get` to read and `change` to write.

    Args:
        encoded: the column, as one map or in layers.
        read_base: decodes the base of a column in layers.
    """

    def __init__(self, encoded: bytes = b"", read_base: ReadBase = Base) -> None:
        self._column = encoded
        self._read_base = read_base
        self._is_changed = False
        self._items: Items | None = None
        self._is_shared = self._is_loaded = False
        self._base: Base | None = None
        self._changed: dict[str, None] = {}
        """Keys that may differ from the base, in the order of their changes."""
        self._live: dict[str, msgspec.Struct] = {}
        self._former: dict[str, msgspec.Raw | None] = {}
        self._earlier: dict[str, msgspec.Raw | None] = {}
        """Former bytes of items touched before the last `take_touched`."""
        self._sorted: list[str] | None = None
        """Sorted keys, from the first `keys` to the `commit`."""
        self.derived: dict[str, Any] = {}
        """Values that a room derives from items and keeps up to date, by name.

        Never stored: a rollback, or another micro-batch, starts without them.
        """

    def get(self, key: str, item_type: type[Item]) -> Item | None:
        """The item under `key`, or None. Do not change it."""
        live = self._live.get(key)
        if live is not None:
            return live  # type: ignore[return-value]
        items = self._items
        encoded = (self._raw() if items is None else items).get(key)
        if encoded is None:
            return None
        item = decode_item(encoded, item_type)
        self._live[key] = item
        return item

    def change(self, key: str, item_type: type[Item]) -> Item:
        """Return an item to be changed in place. Raises KeyError."""
        item = self._live.get(key) or self.get(key, item_type)
        if item is None:
            raise KeyError(key)
        if key not in self._former:
            self._remember(key)
        return item  # type: ignore[return-value]

    def ensure(self, key: str, item_type: type[Item]) -> Item:
        """Return an item to be changed in place, by default a new one."""
        item = self._live.get(key) or self.get(key, item_type)
        if item is None:
            item = item_type()
            self.put(key, item)
        elif key not in self._former:
            self._remember(key)
        return item  # type: ignore[return-value]

    def put(self, key: str, item: msgspec.Struct) -> None:
        if key not in self._former:
            self._remember(key)
        if self._sorted is not None:
            self._enter(key)
        self._live[key] = item

    def drop(self, key: str) -> None:
        """Drop the item under `key`, if it exists."""
        if key in self:
            if key not in self._former:
                self._remember(key)
            self._live.pop(key, None)
            self._own().pop(key, None)
            if self._sorted is not None:
                del self._sorted[bisect_left(self._sorted, key)]

    def encoded(self, key: str) -> bytes:
        """Current bytes of the item under `key`. Raises KeyError if there is none."""
        live = self._live.get(key)
        return _encoder.encode(live) if live is not None else bytes(self._raw()[key])

    def put_encoded(self, key: str, encoded: bytes) -> None:
        if key not in self._former:
            self._remember(key)
        if self._sorted is not None:
            self._enter(key)
        self._live.pop(key, None)
        self._own()[key] = msgspec.Raw(encoded)

    def __contains__(self, key: str) -> bool:
        items = self._items
        return key in self._live or key in (self._raw() if items is None else items)

    def has_either(self, key: str, other: str) -> bool:
        live, items = self._live, self._items
        if items is None:
            items = self._raw()
        return key in live or other in live or key in items or other in items

    def keys(self, prefix: str = "") -> list[str]:
        """Sorted keys that start with `prefix`."""
        if self._sorted is None:
            self._sorted = sorted(self._raw().keys() | self._live.keys())
        if not prefix:
            return list(self._sorted)
        first = bisect_left(self._sorted, prefix)
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)  # the least key after the prefix
        return self._sorted[first : bisect_left(self._sorted, end, first)]

    def items(self, prefix: str, item_type: type[Item]) -> Iterator[tuple[str, Item]]:
        """Keys and items below `prefix`, sorted by key. Do not change the items."""
        for key in self.keys(prefix):
            item = self.get(key, item_type)
            if item is not None:
                yield key, item

    def take_touched(self) -> list[str]:
        """Keys touched since the last call, or since the last `commit`.

        Checks use it to look only at touched items.
        """
        if not self._former:
            return []
        touched = list(self._former)
        for key, former in self._former.items():
            self._earlier.setdefault(key, former)
        self._former.clear()
        return touched

    def encode_changes(self) -> dict[str, msgspec.Raw]:
        """Encode the items changed since the last `commit`."""
        return {
            key: msgspec.Raw(_encoder.encode(self._live[key]))
            for key in {**self._earlier, **self._former}
            if key in self._live
        }

    def differences(self) -> "Changes":
        """Return the items that differ from the last `commit`, encoded; None if dropped."""
        changes: Changes = {}
        live, items = self._live, self._raw()
        for key, former in {**self._former, **self._earlier}.items():
            item = live.get(key)
            now = _encoder.encode(item) if item is not None else items.get(key)
            if now != former:
                changes[key] = now
        return changes

    def load(self, items: Mapping[str, bytes]) -> None:
        """Replace all items; untouched decoded items with the same bytes stay decoded.

        `items` is shared and not changed.
        """
        live, before = self._live, self._raw()
        if items is before and not self._former and not self._earlier:
            return
        for key in (*self._former, *self._earlier):
            live.pop(key, None)
        if items is not before:
            for key in [key for key in live if items.get(key) != before.get(key)]:
                del live[key]
        self._items, self._is_shared = items, True  # type: ignore[assignment]
        self._is_loaded = self._is_changed = True
        self._earlier.clear()
        self._former.clear()
        self._sorted = None
        self.derived.clear()

    def commit(self, encoded: dict[str, msgspec.Raw]) -> None:
        """Make changes final; `encoded` is the result of `encode_changes`."""
        if encoded:
            self._own().update(encoded)
        self._is_changed = self._is_changed or self.has_changes()
        if self._base is not None:
            self._changed.update(dict.fromkeys(self._earlier))
            self._changed.update(dict.fromkeys(self._former))
        self._earlier.clear()
        self._former.clear()
        self._sorted = None

    def rollback(self) -> None:
        """Restore every item touched since the last `commit`."""
        items = self._own()
        for key, former in {**self._former, **self._earlier}.items():
            self._live.pop(key, None)
            if former is None:
                items.pop(key, None)
            else:
                items[key] = former
        self._earlier.clear()
        self._former.clear()
        self._sorted = None
        self.derived.clear()

    def column(self) -> bytes:
        """Return one msgpack map; unchanged tables return the original bytes."""
        self._settle()
        if self._is_changed or is_layered(self._column):
            self._column = _encoder.encode(self._raw())
            self._is_changed = False
            self._base = None
            self._changed = {}
        return self._column

    def stored(self) -> bytes:
        """All items as in a state row, in layers if they are large."""
        self._settle()
        if self._is_changed:
            self._column = layers.stored(self._raw(), self._base, self._changed)
            self._is_changed = False
            self._items = None  # the base may be another one, which is decoded on demand
        return self._column

    def touched(self) -> list[str]:
        """Keys touched since the last `commit`."""
        return [*self._former, *(key for key in self._earlier if key not in self._former)]

    def has_changes(self) -> bool:
        """True if an item was touched since the last `commit`."""
        return bool(self._former or self._earlier)

    def copy(self) -> "Table":
        """Return a copy of the last `commit`, sharing the bytes."""
        self._settle()
        twin = Table(self._column, self._read_base)
        twin._base, twin._changed = self._base, dict(self._changed)
        twin._is_changed = self._is_changed
        twin._items = self._items
        twin._is_shared = self._is_shared = True
        return twin

    def _settle(self) -> None:
        """Give loaded items the type that is encoded as it is."""
        if self._is_loaded:
            self._items = {key: msgspec.Raw(item) for key, item in self._raw().items()}
            self._is_loaded = self._is_shared = False
            self._base, self._changed = None, {}

    def _remember(self, key: str) -> None:
        """Keep the bytes of an item before its first change since the `commit`."""
        items = self._items
        self._former[key] = (self._raw() if items is None else items).get(key)

    def _enter(self, key: str) -> None:
        """Insert a new key into the sorted keys."""
        if self._sorted is not None and key not in self:
            insort(self._sorted, key)

    def _own(self) -> dict[str, msgspec.Raw]:
        """The items' bytes, to be changed."""
        items = self._raw()
        if self._is_shared:
            self._items = items = dict(items)
            self._is_shared = False
        return items

    def _raw(self) -> dict[str, msgspec.Raw]:
        if self._items is None:
            if is_layered(self._column):
                self._base, self._items, changed = layers.opened(self._column, self._read_base)
                self._changed = dict.fromkeys(changed)
            else:
                self._items, self._base = layers.read_items(self._column), None
        return self._items


def columns_of_tables(columns: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return each table's column by name, from a state row.

    Raises:
        DamagedError: `more` is not a map of columns.
    """
    found = dict.fromkeys(TABLE_NAMES, b"")
    found |= {name: columns.get(column) or b"" for name, column in COLUMN_OF.items()}
    more = columns.get(MORE)
    try:
        return found | (_more_decoder.decode(more) if more else {})
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        text = f"the column `more` of a state row is not a map of columns: {error}"
        raise DamagedError(text) from None


def row_columns(tables: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return a state row's columns, from each table's column by name."""
    columns = {column: tables[name] for name, column in COLUMN_OF.items()}
    more = {name: tables[name] for name in IN_MORE if tables[name]}
    columns[MORE] = _encoder.encode(more) if more else b""
    return columns


def machine_prefix(machine: int) -> str:
    """Key prefix of a machine's image: `controller` or the broker's id."""
    return str(machine) if machine >= 0 else "controller"


class MachineTables:
    """The tables of a cell as one machine uses them: its keys begin with its `prefix`."""

    def __init__(self, machine: int, tables: "CellTables") -> None:
        self.id = machine
        self.tables = tables
        self.prefix = machine_prefix(machine)


class CellTables:
    def __init__(
        self, columns: Mapping[str, bytes] | None = None, read_base: ReadBaseOf | None = None
    ) -> None:
        encoded = columns_of_tables(columns or {})
        read = {name: partial(read_base, name) if read_base else Base for name in TABLE_NAMES}
        self._adopt({name: Table(encoded.get(name) or b"", read[name]) for name in TABLE_NAMES})

    def _adopt(self, tables: dict[str, Table]) -> None:
        self.commits = 0
        """Number of commits; shows a cell that another one has committed."""
        self._is_followed = False
        self.given = BrokerSettings()
        """Static settings of brokers, set by the cell and not stored."""
        self.may_clean = False
        """True if compacted logs are cleaned; set by the cell, too."""
        self.tails: dict[tuple[int, Uuid, int], Any] = {}
        """Ends of logs (`state/logs/log_tail.py`), until a commit or a rollback."""
        self._tables = tables
        self.logs = self._tables["logs"]
        self.producers = self._tables["producers"]
        self.fetch_sessions = self._tables["fetch_sessions"]
        self.shares = self._tables["shares"]
        self.live_groups = self._tables["live_groups"]
        self.quotas = self._tables["quotas"]
        self.client_instances = self._tables["client_instances"]
        self.groups = self._tables["groups"]
        self.transactions = self._tables["transactions"]
        self.metadata = self._tables["metadata"]
        self.pending = self._tables["pending"]
        self.in_flight = self._tables["in_flight"]
        self.replication = self._tables["replication"]
        self.cluster = self._tables["cluster"]

    def of(self, machine: int) -> MachineTables:
        """The tables as a machine uses them; not kept, so that no cycle keeps a cell alive."""
        return MachineTables(machine, self)

    def commit(self) -> None:
        """Make all changes since the last commit final.

        Everything is encoded first, so `rollback` works even if an encoder raises.
        """
        self.tails.clear()
        encoded = [(table, table.encode_changes()) for table in self._touched()]
        for table, changes in encoded:
            table.commit(changes)
        self.commits += 1
        self._is_followed = False

    def rollback(self) -> None:
        """Undo the changes since the last commit."""
        self.tails.clear()
        for table in self._touched():
            table.rollback()
        self._is_followed = False

    def differences(self) -> dict[str, Changes]:
        """Return by table the items that differ from the last commit, encoded; None if dropped."""
        found = (
            (name, table.differences())
            for name, table in self._tables.items()
            if table.has_changes()
        )
        return {name: changes for name, changes in found if changes}

    def load(self, tables: Mapping[str, Mapping[str, bytes]]) -> None:
        """Undo the changes since the last commit, and replace all items."""
        self.tails.clear()
        for name, table in self._tables.items():
            table.load(tables.get(name, {}))
        self._is_followed = False

    def take_touched(self) -> dict[str, list[str]] | None:
        """Keys touched since the last call, by table.

        None at the first call, or after a commit or rollback.
        """
        self.tails.clear()
        touched = {name: table.take_touched() for name, table in self._tables.items()}
        is_known, self._is_followed = self._is_followed, True
        return touched if is_known else None

    def columns(self) -> dict[str, bytes]:
        """Commit; return the columns of a state row without layers."""
        self.commit()
        return row_columns({name: table.column() for name, table in self._tables.items()})

    def stored(self) -> dict[str, bytes]:
        """Commit; return the columns of a state row, large tables in layers."""
        self.commit()
        return row_columns({name: table.stored() for name, table in self._tables.items()})

    def copy(self) -> "CellTables":
        """Commit; a copy of the tables that shares the items' bytes."""
        self.commit()
        twin = CellTables.__new__(CellTables)
        twin._adopt({name: table.copy() for name, table in self._tables.items()})
        twin.given, twin.may_clean = self.given, self.may_clean
        return twin

    def __getitem__(self, name: str) -> Table:
        return self._tables[name]

    def _touched(self) -> list[Table]:
        return [table for table in self._tables.values() if table.has_changes()]
