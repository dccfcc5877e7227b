"""Invariants of the table `pending`, and helpers for the checks of rooms.

A check goes through all items of its room and yields violations as sentences. Jobs do not run it;
tests do after every event, and `brokertwin replay --check` (`state/cell/check.py`). After a check
without violations, the next one needs to check only the touched items (`Touched`).
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from brokertwin.state.core import pending
from brokertwin.state.core.pending import MachineTimer, Watch
from brokertwin.state.core.tables import Table

Violations = Iterator[str]
"""Violations, one sentence each."""

_BY_KIND = "keys by kind"
KEYS_KNOWN = 2**16
"""Keys whose parts are cached: most keys stay the same between events."""


class Touched:
    """Items touched since a valid check; all items if that is unknown.

    Args:
        keys: of the touched items, deleted ones included, by table name.
    """

    def __init__(self, keys: Mapping[str, Collection[str]] | None = None) -> None:
        self._keys = keys
        self._kinds: dict[str, frozenset[str]] = {}
        self._timers: frozenset[str] | None = None
        self._gone: dict[tuple[str, str], bool] = {}

    def has(self, name: str, *kinds: str) -> bool:
        """Whether any item of a table, or of these kinds, was touched."""
        if self._keys is None:
            return True
        touched = self._keys.get(name)
        if not touched or not kinds:
            return bool(touched)
        touched_kinds = self._kinds.get(name)
        if touched_kinds is None:
            touched_kinds = self._kinds[name] = frozenset(map(kind_of, touched))
        return not touched_kinds.isdisjoint(kinds)

    def has_timer(self, kind: str) -> bool:
        if self._keys is None:
            return True
        if self._timers is None:
            touched = self._keys.get("pending", ())
            self._timers = frozenset(k.split("/", 2)[1] for k in touched if k.startswith("timer/"))
        return kind in self._timers

    def is_gone(self, name: str, table: Table, kind: str) -> bool:
        """Whether a touched item of a kind is deleted; the first result is cached."""
        if self._keys is None:
            return True
        gone = self._gone.get((name, kind))
        if gone is None:
            keys = self._keys.get(name, ()) if self.has(name, kind) else ()
            gone = any(key not in table for key in keys if kind_of(key) == kind)
            self._gone[name, kind] = gone
        return gone

    def keys(self, name: str, table: Table) -> Collection[str]:
        """Return the keys to check, those of deleted items included."""
        return table.keys() if self._keys is None else self._keys.get(name, ())

    def brokers(self, name: str, among: Sequence[int]) -> Sequence[int]:
        """Return the brokers with touched items in a table."""
        if self._keys is None:
            return among
        found = set(map(machine_of, self._keys.get(name, ())))
        return [broker for broker in among if broker in found]


ALL = Touched()


def by_kind(table: Table) -> dict[str, list[str]]:
    """Return a table's keys by kind, the part after the machine; sorted.

    For reading only: the result is cached while the table has the same keys.
    """
    keys = table.keys()
    cache: tuple[list[str], dict[str, list[str]]] = table.derived.get(_BY_KIND, ([], {}))
    if cache[0] != keys:
        cache = table.derived[_BY_KIND] = (keys, _by_kind(keys, *cache))
    return cache[1]


def hand_on_kinds(before: Table, table: Table) -> None:
    """Start `by_kind` from the cache of a table with similar keys."""
    cache = before.derived.pop(_BY_KIND, None)
    if cache is not None:
        table.derived[_BY_KIND] = cache


def _by_kind(
    keys: list[str], before: list[str], kinds: dict[str, list[str]]
) -> dict[str, list[str]]:
    """Return the kinds with added keys and without deleted ones."""
    if not before:
        for key in keys:  # they are in order
            kinds.setdefault(kind_of(key), []).append(key)
        return kinds
    for key in set(before).difference(keys):
        of_kind = kinds[kind_of(key)]
        del of_kind[bisect_left(of_kind, key)]
    for key in set(keys).difference(before):
        insort(kinds.setdefault(kind_of(key), []), key)
    return kinds


@lru_cache(KEYS_KNOWN)
def kind_of(key: str) -> str:
    """Return the first part of an item's key that is not a machine."""
    first, second, *_ = key.split("/", 2) if "/" in key else (key, "")
    return second if _is_machine(first) else first


@lru_cache(KEYS_KNOWN)
def machine_of(key: str) -> int | None:
    first = key.partition("/")[0]
    return int(first) if first.isdecimal() else None


@lru_cache(KEYS_KNOWN)
def names_machine(name: str, key: str) -> bool:
    """True if a key of the table `name` contains its machine.

    `pending.py` describes the keys that do not.
    """
    kind = kind_of(key)
    if name == "cluster" and kind in ("told", "heard"):
        return True
    if name != "pending":
        return _is_machine(key.partition("/")[0])
    if kind in ("wait", "commit", "late-metadata", "late-messages"):
        return True
    place = {"watch": 1, "timer": 2}.get(kind, 0)
    parts = key.split("/")
    return place < len(parts) and _is_machine(parts[place])


def _is_machine(part: str) -> bool:
    return part.isdecimal() or part in ("controller", "store")


def check(table: Table, touched: Touched = ALL) -> Violations:
    """Check that pending items, watches and the heap's deadlines match."""
    if not touched.has("pending", "wait", "commit", "watch", "timer"):
        return
    kinds = by_kind(table)
    items = pending.everything(table)
    keys = {(log, waited.event_id) for waited in items for log in waited.logs}
    watched = set()
    for key in kinds.get("watch", []):
        watch = table.get(key, Watch)
        assert watch is not None, key
        log = key.removeprefix("watch/")
        watched |= {(log, event_id) for event_id in watch.event_ids}
        if not watch.event_ids:
            yield f"nobody waits for {log}, but it has a watch"
    for log, event_id in sorted(keys - watched):
        yield f"request {event_id} waits for {log}, whose watch does not name it"
    for log, event_id in sorted(watched - keys):
        yield f"the watch of {log} names {event_id}, which does not wait for it"
    deadlines = {
        (waited.deadline, waited.event_id) for waited in items if pending.has_deadline(waited)
    }
    for key in kinds.get("timer", []):
        timer = table.get(key, MachineTimer)
        assert timer is not None, key
        deadlines.add((timer.deadline, key))
    for deadline, name in sorted(deadlines - pending.kept_deadlines(table)):
        yield f"the deadline {deadline} of {name} will never come up"
