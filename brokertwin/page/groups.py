"""States of groups at a moment. Members that expire, or become silent, do so without a request."""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Any

from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.entity import EntityKey
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange
from brokertwin.recordings.history.groups import ObservedGroup
from brokertwin.recordings.history.memberships import AWAY, ObservedMember
from brokertwin.recordings.history.words import clock

MEMBER_REQUESTS = ("JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "OFFSET_COMMIT")
"""Requests that a coordinator accepts from members only."""


class GroupsOverTime:
    """Samples groups after their requests, and when a member expires or becomes silent."""

    def __init__(self, exchanges: Sequence[RecordedExchange], facts: KnownFacts) -> None:
        self._known = facts
        self._groups: dict[EntityKey, ObservedGroup] = {}
        self._due: list[tuple[int, EntityKey]] = []
        self._armed: dict[EntityKey, int] = {}
        self._alive: dict[str, int] = {}
        for each in exchanges:
            is_members = each.line.api in MEMBER_REQUESTS and each.has_response
            if is_members and not bodies.errors(each.response):
                self._alive[each.request.get("memberId") or ""] = each.line.end

    def after(
        self, key: EntityKey, group: ObservedGroup, exchange: RecordedExchange
    ) -> dict[str, Any]:
        """The state of a group after an exchange."""
        self._groups[key] = group
        return self._state(key, exchange.line.end)

    def until(self, time: float) -> Iterator[tuple[int, EntityKey, dict[str, Any]]]:
        """The states that begin before a time without a request. Times are in ms since 1970."""
        while self._due and self._due[0][0] <= time:
            at, key = heappop(self._due)
            if self._armed.get(key) == at:
                del self._armed[key]
                yield at, key, self._state(key, at)

    def _state(self, key: EntityKey, time: int) -> dict[str, Any]:
        membership, offsets = self._groups[key].membership, self._groups[key].offsets
        members = membership.alive_at(time, self._known)
        later = {m: e for m, e in membership.members.items() if self._alive.get(m, 0) > time}
        members |= later  # a request is accepted later: the session has not ended
        self._arm(key, time, members, membership.silence_ms)
        silent = membership.silent_at(time).keys() & members.keys()
        number, _, is_empty = membership.state_of(members)
        state: dict[str, Any] = {}
        if is_empty is not None or membership.deleted:
            state["members"] = len(members)
            state |= {"silent": len(silent)} if silent else {}
        if membership.deleted:
            state["deleted by"] = membership.deleted.name
        if number >= 0:
            state["epoch" if membership.is_modern else "generation"] = number
        if membership.leader in members:
            state["leader"] = membership.leader
        for name, each in members.items():
            state[f"member {name}"] = each.last.name + (", away" if each.epoch == AWAY else "")
            if name in silent:
                state[f"member {name}"] += f", silent since {clock(each.last.end)}"
        state |= {f"offset {each.place}": each.offset for each in offsets.offsets.values()}
        return state | {f"pending {each.place}": each.offset for each in offsets.pending}

    def _arm(
        self, key: EntityKey, time: int, members: dict[str, ObservedMember], silence: int
    ) -> None:
        """Note when the state may change next without a request."""
        ends = (each.last.end + (silence or each.session_timeout_ms) for each in members.values())
        due = min((end + 1 for end in ends if end >= time), default=None)
        if due is not None and due < self._armed.get(key, due + 1):
            self._armed[key] = due
            heappush(self._due, (due, key))
