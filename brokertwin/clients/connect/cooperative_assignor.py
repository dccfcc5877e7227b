"""The leader's cooperative assignor: keeps running work and delays lost work.

Source: KIP-415; `IncrementalCooperativeAssignor` in Kafka Connect 4.3. Each rebalance has four sets
of connectors and tasks:

    deleted      assigned, no longer configured: revoked
    duplicated   run by two workers: revoked from both
    lost         assigned, but no worker reports them: unassigned for
                 scheduled.rebalance.max.delay.ms, because their worker may return; then assigned
                 to workers that joined empty meanwhile, or to the least loaded
    created      configured, never assigned: assigned to the least loaded

Workers above their share revoke the rest; the following rebalance assigns it as created. During a
delay there is no balancing. Successive balancing rebalances are delayed by 40 ms, 1.6 s and so on.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from brokertwin.clients.assignors.group import NO_GENERATION
from brokertwin.clients.backoff import ExponentialBackoff
from brokertwin.clients.connect.work import ConnectTaskId
from brokertwin.state.core.java_hashes import hash_order

MAX_DELAY_MS = 300_000
"""`scheduled.rebalance.max.delay.ms`."""

REVOKING_BASE = 40

Loads = dict[str, dict[ConnectTaskId, None]]
"""The work of each worker, in assignment order."""


class ClusterAssignment(NamedTuple):
    """Assigned and revoked work by worker, and the delay in ms before all rejoin."""

    assigned: dict[str, list[ConnectTaskId]]
    revoked: dict[str, list[ConnectTaskId]]
    delay_ms: int


class CooperativeAssignor:
    """The assignor of a leader; a new leader starts without history."""

    def __init__(self, max_delay_ms: int = MAX_DELAY_MS) -> None:
        self._max_delay_ms = max_delay_ms
        self._previous: set[ConnectTaskId] = set()
        self._previous_members: set[str] = set()
        self._previous_generation = NO_GENERATION
        self._revoked_before: set[ConnectTaskId] = set()
        self._has_revoked = False
        self._revocations_in_a_row = 0
        self._candidates: dict[str, None] = {}
        self._scheduled = 0
        self._delay = 0
        least = 1 if max_delay_ms else 0
        self._pauses = ExponentialBackoff(least, REVOKING_BASE, max_delay_ms, 0)

    def assign(
        self,
        now: int,
        configured: Iterable[ConnectTaskId],
        members: Mapping[str, Iterable[ConnectTaskId]],
        *,
        generation: int,
        last_completed: int,
    ) -> ClusterAssignment:
        """Return the changes for each member.

        `members` has their work. `last_completed` is the last generation whose assignment this
        leader received.
        """
        if self._previous_generation != last_completed:
            self._previous = set()
        known = set(configured)
        names = hash_order(members, len(members))
        loads: Loads = {name: dict.fromkeys(members[name]) for name in names}
        active = {item for load in loads.values() for item in load}
        if self._revoked_before & active:
            self._previous = set(active)
        self._revoked_before = set()
        deleted = self._previous - known
        lost = self._previous - active - deleted
        created = known - self._previous - active
        before = {name: load.keys() - deleted for name, load in loads.items()}
        revoked = _take(loads, (deleted | _duplicated(loads)).__contains__)
        ready = self._look_after_lost(now, sorted(lost), loads)
        self._balance(now, known, loads, revoked)
        _deal_out(loads, [*sorted(created), *ready])
        self._remember(loads, revoked, lost, generation)
        assigned = {
            name: [item for item in load if item not in before[name]]
            for name, load in loads.items()
        }
        return ClusterAssignment(assigned, revoked, self._delay)

    def _remember(
        self,
        loads: Loads,
        revoked: dict[str, list[ConnectTaskId]],
        lost: set[ConnectTaskId],
        generation: int,
    ) -> None:
        taken = {item for items in revoked.values() for item in items}
        self._previous = {item for load in loads.values() for item in load} - taken | lost
        self._revoked_before = taken
        self._previous_generation = generation
        self._previous_members = set(loads)

    # Lost work

    def _look_after_lost(
        self, now: int, lost: list[ConnectTaskId], loads: Loads
    ) -> list[ConnectTaskId]:
        """Return the lost work to assign now; candidates receive theirs here."""
        if not lost and not self._has_revoked:
            self._reset_delay()
            return []
        is_none_lost = self._previous_members <= loads.keys()
        if (self._scheduled <= 0 and is_none_lost) or not self._max_delay_ms:
            return lost
        if self._scheduled > 0 and now >= self._scheduled:
            ready = self._to_candidates(lost, loads)
            self._reset_delay()
            self._has_revoked = False
            return ready
        empty = [name for name, load in loads.items() if not load]
        self._candidates |= dict.fromkeys(hash_order(empty, len(empty)))
        is_waiting = now < self._scheduled
        self._delay = (
            min(self._scheduled - now, self._max_delay_ms) if is_waiting else self._max_delay_ms
        )
        self._scheduled = now + self._delay
        return []

    def _to_candidates(self, lost: list[ConnectTaskId], loads: Loads) -> list[ConnectTaskId]:
        """Assign to workers that joined empty; returns the rest."""
        here = [name for name in self._candidates if name in loads]
        if not here:
            return lost
        for kind in _kinds(lost):
            for at, item in enumerate(kind):
                loads[here[at % len(here)]][item] = None
        return []

    def _reset_delay(self) -> None:
        self._candidates.clear()
        self._scheduled = self._delay = 0

    # Balance

    def _balance(
        self,
        now: int,
        task_ids: set[ConnectTaskId],
        loads: Loads,
        revoked: dict[str, list[ConnectTaskId]],
    ) -> None:
        """Revoke work above the share of each worker, unless delayed."""
        if self._delay:
            self._has_revoked = False
            return
        over = _over_share(task_ids, loads)
        if not over:
            if self._has_revoked:
                self._revocations_in_a_row = 0
            self._has_revoked = False
            return
        if self._has_revoked:
            self._revocations_in_a_row += 1
            self._delay = self._pauses.backoff(self._revocations_in_a_row, 0.5)
            if self._delay:
                self._scheduled = now + self._delay
                return
        self._has_revoked = True
        for name, items in _take(loads, over.__contains__).items():
            revoked[name] += items


def _kinds(items: Iterable[ConnectTaskId]) -> tuple[list[ConnectTaskId], list[ConnectTaskId]]:
    """Split into connectors and tasks, which are balanced separately."""
    known = list(items)
    connectors = [item for item in known if item.is_connector]
    return connectors, [item for item in known if not item.is_connector]


def _duplicated(loads: Loads) -> set[ConnectTaskId]:
    seen: set[ConnectTaskId] = set()
    twice: set[ConnectTaskId] = set()
    for load in loads.values():
        twice |= seen & load.keys()
        seen |= load.keys()
    return twice


def _take(
    loads: Loads, is_taken: Callable[[ConnectTaskId], bool]
) -> dict[str, list[ConnectTaskId]]:
    """Remove items from all loads; returns them by worker."""
    taken = {name: [item for item in load if is_taken(item)] for name, load in loads.items()}
    for name, items in taken.items():
        for item in items:
            del loads[name][item]
    return taken


def _over_share(task_ids: set[ConnectTaskId], loads: Loads) -> set[ConnectTaskId]:
    """The work above each worker's share; the earliest is revoked first."""
    if not task_ids or not any(loads.values()):
        return set()
    over: set[ConnectTaskId] = set()
    for at, kind in enumerate(_kinds(task_ids)):
        share, extra = divmod(len(kind), len(loads))
        running = [_kinds(load)[at] for load in loads.values()]
        sizes = [len(items) for items in running]
        if sizes.count(share + 1) == extra and sizes.count(share) == len(loads) - extra:
            continue
        for items in running:
            room = share
            if len(items) > share and extra:
                room, extra = share + 1, extra - 1
            over.update(items[: max(len(items) - room, 0)])
    return over


def _deal_out(loads: Loads, items: list[ConnectTaskId]) -> None:
    """Assign each item to a least loaded worker, by kind."""
    for at, kind in enumerate(_kinds(items)):
        by_name = {name: len(_kinds(loads[name])[at]) for name in sorted(loads)}
        sizes = {name: by_name[name] for name in sorted(by_name, key=by_name.__getitem__)}
        for item in kind:
            name = min(sizes, key=sizes.__getitem__)
            loads[name][item] = None
            sizes[name] += 1
