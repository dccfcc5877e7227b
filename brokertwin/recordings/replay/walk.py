"""Walks over a history by moments: arrivals and recorded ends.

A request is handled at arrival if the model's response is then the recorded one. Otherwise it stays
pending and is tried again after every event, as long as `timing.py` allows. A wait that would end
with another response is held and retried likewise. The walk follows the decisions of the search
(`Decided`) and can go back to any recent moment.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from brokertwin.recordings.replay import local
from brokertwin.recordings.replay.comparison import Comparer, CompareVerdict, ModelResponse
from brokertwin.recordings.replay.picks import NOWHERE, Pick
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.recordings.replay.schedule import DeliveryStep, Events, ScheduleChange
from brokertwin.recordings.replay.timing import (
    ExchangeTimes,
    Tolerances,
    has_replicas,
    resolution_ms,
)
from brokertwin.recordings.replay.walking import KeptWalk, WalkingCell
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core import pending
from brokertwin.state.core.events import Kind
from brokertwin.state.core.outputs import Output


class HistoryMoment(NamedTuple):
    """Arrival or end of an exchange, by its index; in ms since 1970."""

    time: int
    is_end: bool
    exchange: int


def moments_of(exchanges: Sequence[Exchange]) -> list[HistoryMoment]:
    """Arrivals and ends in order; arrivals first, so that they overlap."""
    moments = [HistoryMoment(e.time, False, index) for index, e in enumerate(exchanges)]
    moments += [HistoryMoment(e.end, True, index) for index, e in enumerate(exchanges)]
    return sorted(moments)


def previous_on_connection(exchanges: Sequence[Exchange]) -> list[int | None]:
    """The index of the previous exchange on each connection, or None."""
    latest: dict[str, int] = {}
    previous: list[int | None] = []
    for index, exchange in enumerate(exchanges):
        previous.append(latest.get(exchange.connection) if exchange.connection else None)
        latest[exchange.connection] = index
    return previous


class DelayedRequest(NamedTuple):
    """A delayed request in the walk; `since` is when a held one could have ended."""

    deadline: int
    is_held: bool
    since: int = 0


class _Snapshot(NamedTuple):
    cell: KeptWalk
    pending: tuple[int, ...]
    delayed: dict[int, DelayedRequest]
    unread: tuple[int, ...]
    steps: int
    outcomes: int


class Tail(NamedTuple):
    """The state to restore after a failed attempt."""

    at: int
    cell: KeptWalk
    pending: list[int]
    delayed: dict[int, DelayedRequest]
    unread: list[int]
    steps: list[tuple[DeliveryStep, int]]
    outcomes: list[tuple[int, bool, int]]
    snapshots: dict[int, _Snapshot]


class Decided:
    """Decisions of a search, by exchange index.

    Attributes:
        after: exchanges that each one is handled after.
        late: exchanges that must not see its metadata change or markers.
        lost: requests that reached no log.
        lost_for: the exchanges that losses explain.
        resolves: whether heartbeats resolve regular expressions.
        resolved_for: the exchanges that these choices explain.
        forced: unexplained exchanges, handled anyway.
    """

    def __init__(self) -> None:
        self.after: dict[int, set[int]] = defaultdict(set)
        self.late: dict[int, set[int]] = defaultdict(set)
        self.lost: set[int] = set()
        self.lost_for: set[int] = set()
        self.resolves: dict[int, bool] = {}
        self.resolved_for: set[int] = set()
        self.forced: set[int] = set()

    def make(self, change: ScheduleChange, sake: int) -> None:
        for index in change.moved:
            self.after[index].add(sake)
        for index in change.late:
            self.late[index].add(sake)
        self.lost.update(change.lost)
        self.lost_for.update([sake] if change.lost else [])
        self.resolves |= dict.fromkeys(change.sooner, True) | dict.fromkeys(change.later, False)
        self.resolved_for.update([sake] if change.sooner or change.later else [])

    def unmake(self, change: ScheduleChange, sake: int) -> None:
        for index in change.moved:
            self.after[index].discard(sake)
        for index in change.late:
            self.late[index].discard(sake)
        self.lost.difference_update(change.lost)
        self.lost_for.difference_update([sake] if change.lost else [])
        for index in (*change.sooner, *change.later):
            del self.resolves[index]
            self.resolved_for.discard(sake)

    def force(self, index: int) -> None:
        self.forced.add(index)
        self.after.pop(index, None)


class Walk:
    """The state of a search over a history.

    Args:
        exchanges: the history, in order.
        events: creates its events.
        comparer: compares responses with the recorded ones.
        cell: the initial cell; it must accept held requests.
        decided: the decisions of the search, which adds to them.
        tolerances: tolerances for times.
        lookback_moments: how far back it can go.

    Attributes:
        at: the current moment.
        steps: handled events and their moments.
        outcomes: exchanges with a response, whether it is right, and the moment.
        verdicts: whether the response is right, by exchange.
        picks: the ids that it would have generated.
        snapshots: the moments to go back to.
    """

    def __init__(
        self,
        exchanges: Sequence[Exchange],
        events: Events,
        comparer: Comparer,
        cell: Cell,
        decided: Decided,
        tolerances: Tolerances,
        lookback_moments: int,
    ) -> None:
        self.exchanges = exchanges
        self.index_of = {exchange.id: index for index, exchange in enumerate(exchanges)}
        self.previous = previous_on_connection(exchanges)
        self.moments = moments_of(exchanges)
        self.arrival = {m.exchange: n for n, m in enumerate(self.moments) if not m.is_end}
        self.end = {m.exchange: n for n, m in enumerate(self.moments) if m.is_end}
        self._events = events
        self._comparer = comparer
        self._decided = decided
        self._late_ms = tolerances.late
        self._lookback_moments = lookback_moments
        is_replicated = has_replicas(exchanges)
        scaled = tolerances.at_resolution(resolution_ms(exchanges))
        self._times = [
            ExchangeTimes(exchange, None if at is None else exchanges[at], scaled, is_replicated)
            for exchange, at in zip(exchanges, self.previous, strict=True)
        ]
        self.at = 0
        self.steps: list[tuple[DeliveryStep, int]] = []
        self.outcomes: list[tuple[int, bool, int]] = []
        self.verdicts: dict[int, bool] = {}
        self.responses_by_exchange: dict[int, ModelResponse] = {}
        self.picks: dict[int, list[Pick]] = {}
        self.snapshots: dict[int, _Snapshot] = {}
        self._cell = WalkingCell(cell)
        self._pending: list[int] = []
        self._delayed: dict[int, DelayedRequest] = {}
        self._unread: list[int] = []
        self._version = 0
        self._tried: dict[int, int] = {}

    def over(self, at: int) -> int | None:
        """Process a moment; returns the exchange that ends without its response."""
        self.at = at
        self.snapshots.pop(at - self._lookback_moments, None)
        now, is_end, index = self.moments[at]
        if is_end and self._is_done(index):
            return None
        self.snapshots[at] = _Snapshot(
            self._cell.kept(),
            tuple(self._pending),
            dict(self._delayed),
            tuple(self._unread),
            len(self.steps),
            len(self.outcomes),
        )
        if not is_end:
            self._pending.append(index)
        if self._unread:
            self._deliver_late(now)
        self._settle(now)
        if is_end and index in self._delayed:
            self._end_delayed(index, now)
            self._settle(now)
        if not is_end or self._is_done(index):
            return None
        if index not in self._decided.forced:
            return index
        self.give_up(index, now)
        return None

    def give_up(self, index: int, now: int) -> None:
        """Accept an unexplained exchange without a response."""
        if index in self._pending:
            self._pending.remove(index)
            self._try(index, now)
        if index not in self.verdicts:
            self._record_response(index, False)

    def closes(self, index: int, moment: int) -> bool:
        """Whether the model, at a moment, would close a request's connection."""
        snapshot = self.snapshots.get(moment)
        if snapshot is None:
            return False
        exchange = self.exchanges[index]
        rows = snapshot.cell.cell().handle(
            self._events.request(exchange.id, exchange.time), NOWHERE
        )
        response = self._responses_in(rows).get(index)
        return response is not None and response.closes_connection

    def finish(self) -> Cell:
        """Complete all pending requests; returns the final cell."""
        self._note(self._responses_in(self._cell.handle(self._events.tick(self.final_time()))))
        return self._cell.cell()

    def final_time(self) -> int:
        """When all pending requests have ended, in ms since 1970."""
        deadlines = [delayed.deadline for delayed in self._delayed.values()]
        return max([exchange.end for exchange in self.exchanges] + deadlines)

    # --- Backtracking ---------------------------------------------------------------------

    def restore(self, moment: int) -> None:
        snapshot = self.snapshots[moment]
        self._cell.go_back(snapshot.cell)
        self._pending = list(snapshot.pending)
        self._delayed = dict(snapshot.delayed)
        self._unread = list(snapshot.unread)
        del self.steps[snapshot.steps :]
        for index, _, _ in self.outcomes[snapshot.outcomes :]:
            del self.verdicts[index]
        del self.outcomes[snapshot.outcomes :]
        self._version += 1

    def cut(self, start: int) -> Tail:
        """Go back to a moment, and return the state after it."""
        snapshot = self.snapshots[start]
        tail = Tail(
            self.at,
            self._cell.kept(),
            self._pending,
            self._delayed,
            self._unread,
            self.steps[snapshot.steps :],
            self.outcomes[snapshot.outcomes :],
            {moment: kept for moment, kept in self.snapshots.items() if moment > start},
        )
        self.restore(start)
        return tail

    def put_back(self, start: int, tail: Tail) -> None:
        """Restore the state from before a cut."""
        self.restore(start)
        self.at = tail.at
        self._cell.go_back(tail.cell)
        self._pending, self._delayed = tail.pending, tail.delayed
        self._unread = tail.unread
        self.steps.extend(tail.steps)
        self.outcomes.extend(tail.outcomes)
        self.verdicts.update({index: is_right for index, is_right, _ in tail.outcomes})
        for moment in [moment for moment in self.snapshots if moment > start]:
            del self.snapshots[moment]
        self.snapshots.update(tail.snapshots)
        self._version += 1

    # --- One moment ---------------------------------------------------------------------------

    def _is_done(self, index: int) -> bool:
        """Whether an exchange has its recorded response, or is forced."""
        is_right = self.verdicts.get(index)
        return is_right is not None and (is_right or index in self._decided.forced)

    def _settle(self, now: int) -> None:
        """Handle the pending requests that now get their recorded response."""
        while (handled := self._handled(now)) is not None:
            self._pending.remove(handled)
            if self._unread:
                self._deliver_late(now)
            if self._delayed:
                self._complete_held(now)

    def _handled(self, now: int) -> int | None:
        """Handle the first pending request possible, and return it."""
        for index in self._pending:
            if self._may(index, now) and self._try(index, now):
                return index
        return None

    def _may(self, index: int, now: int) -> bool:
        if self._tried.get(index) == self._version or now > self._times[index].latest_start:
            return False
        previous = self.previous[index]
        if previous is not None and previous not in self.verdicts:
            return False
        return all(self._is_over(other, now) for other in self._decided.after.get(index, ()))

    def _is_over(self, index: int, now: int) -> bool:
        """Whether an exchange has a response, or expires by `now`."""
        delayed = self._delayed.get(index)
        expires = delayed is not None and not delayed.is_held and delayed.deadline <= now
        return index in self.verdicts or expires

    def _try(self, index: int, now: int) -> bool:
        """Handle a request; undone unless it waits or gets its response."""
        if index in self._decided.lost:
            self._note({index: ModelResponse(self.exchanges[index].response)})
            return True
        exchange_id = self.exchanges[index].id
        is_late = bool(self._decided.late.get(index))
        before, all_delayed = self._cell.kept(), dict(self._delayed)
        request = self._events.request(exchange_id, now, is_late, self._decided.resolves.get(index))
        picks = self._cell.own_picks(self._events.event(exchange_id))
        responses = self._handle(request, now)
        own = responses.pop(index, None)
        kind = self.exchanges[index].kind
        if kind is not Kind.REQUEST:
            own = ModelResponse()
        if own is not None and not self._is_right(index, own):
            self._cell.go_back(before)
            self._delayed = all_delayed
            self._tried[index] = self._version
            return False
        self.steps.append((DeliveryStep(kind, exchange_id, now), self.at))
        self.picks[index] = picks
        if is_late:
            self._unread.append(index)
        if own is not None:
            responses[index] = own
        self._note(responses)
        if own is None:
            waited = pending.get(self._cell.tables.pending, exchange_id)
            if waited is not None:
                self._delayed[index] = DelayedRequest(waited.deadline, False)
        return True

    def _handle(self, document: bytes, now: int) -> dict[int, ModelResponse]:
        """Handle an event; delayed requests that would end wrongly are held first."""
        while True:
            before = self._cell.kept()
            responses = self._responses_in(self._cell.handle(document))
            wrong = [
                index
                for index, response in responses.items()
                if (delayed := self._delayed.get(index)) is not None
                and not delayed.is_held
                and not self._is_right(index, response)
            ]
            if not wrong:
                return responses
            self._cell.go_back(before)
            for index in wrong:
                self._hold(index, now)

    def _end_delayed(self, index: int, now: int) -> None:
        """Complete a delayed request by its deadline or, if it is held, by an event."""
        delayed = self._delayed[index]
        if not delayed.is_held and delayed.deadline <= now:
            self._note(self._handle(self._events.tick(now), now))
        self._complete_held(now)

    def _complete_held(self, now: int) -> None:
        """Complete held requests that now get their recorded response."""
        for index in [i for i, each in self._delayed.items() if each.is_held]:
            may_end = self._times[index].may_hold(self._delayed[index].since)
            if not may_end or self._tried.get(index) == self._version:
                continue
            exchange_id = self.exchanges[index].id
            before, all_delayed = self._cell.kept(), dict(self._delayed)
            responses = self._handle(self._events.completion(exchange_id, now), now)
            if index in responses and self._is_right(index, responses[index]):
                self.steps.append((DeliveryStep(Kind.COMPLETE, exchange_id, now), self.at))
                self._note(responses)
            else:
                self._cell.go_back(before)
                self._delayed = all_delayed
                self._tried[index] = self._version

    def _deliver_late(self, now: int) -> None:
        """Deliver late changes once no exchange must miss them any more.

        Brokers read metadata changes in order. Markers are delivered one by one.
        """
        for index in list(self._unread):
            if self._has_markers(index) and self._is_due(index, now):
                self._complete_late(index, now)
        last = None
        for name in pending.late_events(self._cell.tables.pending):
            if name in self.index_of:
                index = self.index_of[name]
                if index in self._unread and not self._is_due(index, now):
                    break
                last = index
        if last is not None:
            self._complete_late(last, now)
        left = pending.late_events(self._cell.tables.pending)
        self._unread = [
            index
            for index in self._unread
            if self._has_markers(index) or self.exchanges[index].id in left
        ]

    def _has_markers(self, index: int) -> bool:
        return pending.has_late_messages(self._cell.tables.pending, self.exchanges[index].id)

    def _is_due(self, index: int, now: int) -> bool:
        """Whether a late change is due: all exchanges missed it, or time is up."""
        return now > self.exchanges[index].end + self._late_ms or self._is_seen(index)

    def _is_seen(self, index: int) -> bool:
        """Whether all exchanges that must miss a late change are done."""
        return all(other in self.verdicts for other in self._decided.late[index])

    def _complete_late(self, index: int, now: int) -> None:
        exchange_id = self.exchanges[index].id
        responses = self._handle(self._events.completion(exchange_id, now), now)
        self.steps.append((DeliveryStep(Kind.COMPLETE, exchange_id, now), self.at))
        self._note(responses)

    def _hold(self, index: int, now: int) -> None:
        """Turn a pending request into one that an event completes."""
        tables = self._cell.changing().tables
        waited = pending.take(tables.pending, self.exchanges[index].id)
        assert waited is not None
        pending.add(tables.pending, msgspec.structs.replace(waited, is_held=True))
        tables.commit()
        since = min(now, waited.deadline) if waited.deadline != pending.NO_DEADLINE else now
        self._delayed[index] = DelayedRequest(waited.deadline, True, since)

    # --- Responses ----------------------------------------------------------------------

    def _is_right(self, index: int, response: ModelResponse) -> bool:
        is_open = index not in self._decided.forced and index not in self.verdicts
        return not is_open or self._agrees(index, response)

    def _agrees(self, index: int, response: ModelResponse) -> bool:
        delayed, time = self._delayed.get(index), response.response_time
        if time is not None and response.error is None:
            is_expired = (
                delayed is not None and not delayed.is_held and 0 <= delayed.deadline <= time
            )
            if self._times[index].is_too_early(time, is_expired):
                return False
        outcome = self._comparer.compare(self.exchanges[index].id, response)
        return outcome.verdict is not CompareVerdict.DIFFER

    def _responses_in(self, rows: Sequence[Output]) -> dict[int, ModelResponse]:
        return {
            self.index_of[name]: response
            for name, response in local.responses_in(rows).items()
            if name in self.index_of
        }

    def _note(self, responses: dict[int, ModelResponse]) -> None:
        self._version += 1
        for index, response in responses.items():
            self.responses_by_exchange[index] = response
            self._record_response(index, self._agrees(index, response))

    def _record_response(self, index: int, is_right: bool) -> None:
        self._delayed.pop(index, None)
        if index not in self.verdicts:
            self.verdicts[index] = is_right
            self.outcomes.append((index, is_right, self.at))
