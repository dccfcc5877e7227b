"""What must hold between the items of the table `waiting`, and what a check of a room needs.

A check goes through all items of its room and yields each violation in words. No job pays for it:
tests have it after every event, and `brokerstream replay --check` (`state/cell/check.py`).
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TypeVar

from brokerstream.state.core import waiting
from brokerstream.state.core.tables import Table
from brokerstream.state.core.waiting import Timer, Watch

Violations = Iterator[str]
"""What does not hold, one sentence each."""

Found = TypeVar("Found")

_KEYS_KNOWN = 2**16
"""Keys of which it is remembered what they say: from event to event most are the same."""


def by_kind(table: Table) -> dict[str, list[str]]:
    """The keys of a table by their kind, the part behind the machine; each kind sorted.

    They are to be read only: who asks again while the table has the same keys gets the same.
    """
    return of_keys(table, "keys by kind", _by_kind)


def _by_kind(keys: list[str]) -> dict[str, list[str]]:
    kinds: dict[str, list[str]] = {}
    for key in keys:
        kinds.setdefault(kind_of(key), []).append(key)
    return kinds


def of_keys(table: Table, name: str, compute: Callable[[list[str]], Found]) -> Found:
    """What is computed of a table's keys alone, again where they are others than before.

    The table keeps it under `name`, beside the keys that it was computed of.
    """
    keys = table.keys()
    known: tuple[list[str], Found] | None = table.derived.get(name)
    if known is None or known[0] != keys:
        known = table.derived[name] = (keys, compute(keys))
    return known[1]


@lru_cache(_KEYS_KNOWN)
def kind_of(key: str) -> str:
    """The kind of an item: the first part of its key that is no machine."""
    first, second, *_ = key.split("/", 2) if "/" in key else (key, "")
    return second if _is_machine(first) else first


@lru_cache(_KEYS_KNOWN)
def machine_of(key: str) -> int | None:
    """The broker whose item a key names, None where it names none."""
    first = key.partition("/")[0]
    return int(first) if first.isdecimal() else None


@lru_cache(_KEYS_KNOWN)
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


def check(table: Table) -> Violations:
    """A wait has its watches, and a watch its waits; every deadline will come up."""
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
