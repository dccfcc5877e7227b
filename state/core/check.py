"""What must hold between the items of the table `waiting`, and what a check of a room needs.

A check goes through all items of its room and yields each violation in words. No job pays for it:
tests have it after every event, and `brokertwin replay --check` (`state/cell/check.py`). Where a
check has found nothing, the next one needs to look only at what was touched since (`Touched`).
"""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache

from brokertwin.state.core import waiting
from brokertwin.state.core.tables import Table
from brokertwin.state.core.waiting import Timer, Watch

Violations = Iterator[str]
"""What does not hold, one sentence each."""

_BY_KIND = "keys by kind"
KEYS_KNOWN = 2**16
"""Keys of which it is remembered what they say: from event to event most are the same."""


class Touched:
    """What was touched since a check that found nothing; all there is where nobody knows.

    Args:
        keys: of what was touched, those that are gone by now included, by the table's name.
    """

    def __init__(self, keys: Mapping[str, Collection[str]] | None = None) -> None:
        self._keys = keys
        self._kinds: dict[str, frozenset[str]] = {}
        self._timers: frozenset[str] | None = None
        self._gone: dict[tuple[str, str], bool] = {}

    def has(self, name: str, *kinds: str) -> bool:
        """Whether anything of a table was touched, or anything of these kinds."""
        if self._keys is None:
            return True
        touched = self._keys.get(name)
        if not touched or not kinds:
            return bool(touched)
        found = self._kinds.get(name)
        if found is None:
            found = self._kinds[name] = frozenset(map(kind_of, touched))
        return not found.isdisjoint(kinds)

    def has_timer(self, kind: str) -> bool:
        """Whether a timer of a kind was touched."""
        if self._keys is None:
            return True
        if self._timers is None:
            touched = self._keys.get("waiting", ())
            self._timers = frozenset(k.split("/", 2)[1] for k in touched if k.startswith("timer/"))
        return kind in self._timers

    def is_gone(self, name: str, table: Table, kind: str) -> bool:
        """Whether an item of a kind is gone; as when it was asked for the first time."""
        if self._keys is None:
            return True
        gone = self._gone.get((name, kind))
        if gone is None:
            keys = self._keys.get(name, ()) if self.has(name, kind) else ()
            gone = any(key not in table for key in keys if kind_of(key) == kind)
            self._gone[name, kind] = gone
        return gone

    def keys(self, name: str, table: Table) -> Collection[str]:
        """The keys that are to be looked at, those of items that are gone included."""
        return table.keys() if self._keys is None else self._keys.get(name, ())

    def brokers(self, name: str, among: Sequence[int]) -> Sequence[int]:
        """Those of whom something in a table was touched."""
        if self._keys is None:
            return among
        found = set(map(machine_of, self._keys.get(name, ())))
        return [broker for broker in among if broker in found]


ALL = Touched()


def by_kind(table: Table) -> dict[str, list[str]]:
    """The keys of a table by their kind, the part behind the machine; each kind sorted.

    They are to be read only: who asks again while the table has the same keys gets the same.
    """
    keys = table.keys()
    known: tuple[list[str], dict[str, list[str]]] = table.derived.get(_BY_KIND, ([], {}))
    if known[0] != keys:
        known = table.derived[_BY_KIND] = (keys, _by_kind(keys, *known))
    return known[1]


def hand_on_kinds(before: Table, table: Table) -> None:
    """Lets `by_kind` begin with what it knows of another table that has most of the same keys."""
    known = before.derived.pop(_BY_KIND, None)
    if known is not None:
        table.derived[_BY_KIND] = known


def _by_kind(
    keys: list[str], before: list[str], kinds: dict[str, list[str]]
) -> dict[str, list[str]]:
    """The kinds of the keys before, with those that have come and without those that are gone."""
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
    """The kind of an item: the first part of its key that is no machine."""
    first, second, *_ = key.split("/", 2) if "/" in key else (key, "")
    return second if _is_machine(first) else first


@lru_cache(KEYS_KNOWN)
def machine_of(key: str) -> int | None:
    """The broker whose item a key names, None where it names none."""
    first = key.partition("/")[0]
    return int(first) if first.isdecimal() else None


@lru_cache(KEYS_KNOWN)
def names_machine(name: str, key: str) -> bool:
    """Whether a key of the table `name` says whose item it is (`waiting.py` on those in it)."""
    if name != "waiting":
        return _is_machine(key.partition("/")[0])
    kind = kind_of(key)
    if kind in ("wait", "late-metadata", "late-messages", "told", "heard"):
        return True
    place = {"watch": 1, "timer": 2}.get(kind, 0)
    parts = key.split("/")
    return place < len(parts) and _is_machine(parts[place])


def _is_machine(part: str) -> bool:
    return part.isdecimal() or part in ("controller", "store")


def check(table: Table, touched: Touched = ALL) -> Violations:
    """A wait has its watches, and a watch its waits; every deadline will come up."""
    if not touched.has("waiting", "wait", "watch", "timer"):
        return
    kinds = by_kind(table)
    waits = waiting.all_waiting(table)
    wanted = {(log, waited.event_id) for waited in waits for log in waited.logs}
    watched = set()
    for key in kinds.get("watch", []):
        watch = table.get(key, Watch)
        assert watch is not None, key
        log = key.removeprefix("watch/")
        watched |= {(log, event_id) for event_id in watch.event_ids}
        if not watch.event_ids:
            yield f"nobody waits for {log}, but it has a watch"
    for log, event_id in sorted(wanted - watched):
        yield f"request {event_id} waits for {log}, whose watch does not name it"
    for log, event_id in sorted(watched - wanted):
        yield f"the watch of {log} names {event_id}, which does not wait for it"
    deadlines = {
        (waited.deadline, waited.event_id)
        for waited in waits
        if not waited.is_held and waited.deadline != waiting.NO_DEADLINE
    }
    for key in kinds.get("timer", []):
        timer = table.get(key, Timer)
        assert timer is not None, key
        deadlines.add((timer.deadline, key))
    for deadline, name in sorted(deadlines - waiting.kept_deadlines(table)):
        yield f"the deadline {deadline} of {name} will never come up"
