"""Finds a schedule that explains the recorded responses.

The search walks over the history moment by moment (`walk.py`). If an exchange ends without its
response, it tries the changes that `schedule.py` allows (`ScheduleChange`). Overlapping requests on
the same topics or groups move after it, metadata changes or markers become late, or requests are
lost. An exchange that none of these explains is handled at arrival and is a difference.

This is a small linearization search (Wing and Gong): it reorders nothing without a difference, and
`SearchLimits` bounds it.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from brokertwin.protocol.errors import Error, error_codes
from brokertwin.protocol.kafka_apis import CONSUMER_GROUP_HEARTBEAT, FIND_COORDINATOR, Trait
from brokertwin.recordings.replay.comparison import Comparer
from brokertwin.recordings.replay.freedoms import Freedom
from brokertwin.recordings.replay.overlap import Footprints, acks_0_tails
from brokertwin.recordings.replay.picks import differing
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.recordings.replay.schedule import DeliverySchedule, Events, ScheduleChange
from brokertwin.recordings.replay.timing import TOLERANCES, Tolerances
from brokertwin.recordings.replay.walk import Decided, Walk
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.events import Kind
from brokertwin.state.groups.regex_resolution import REFRESH_MIN_INTERVAL_MS, TIMING_MS

OF_NEW_COORDINATORS = frozenset({Error.COORDINATOR_LOAD_IN_PROGRESS, Error.NOT_COORDINATOR})


class SearchLimits(NamedTuple):
    """Limits of the search.

    Attributes:
        moved_together: maximum number of requests that an attempt moves.
        lookback_moments: how far back an attempt may start; each moment costs memory.
        moments_per_exchange: total moments of all attempts for each exchange; after that,
            differences stay unexplained.
        hopeless: number of exchanges without any order that explains them, from which on no other
            orders are tried if they are more than a quarter of all so far.
    """

    tolerances: Tolerances = TOLERANCES
    moved_together: int = 8
    lookback_moments: int = 600
    moments_per_exchange: int = 8
    hopeless: int = 100


LIMITS = SearchLimits()


class Search:
    """A search over one history.

    Args:
        exchanges: the history, in order.
        events: creates its events.
        comparer: compares responses with the recorded ones.
        cell: the initial cell; it must accept held requests.
        limits: the limits.
        on_progress: called with the number of processed moments.

    Attributes:
        cell: the final cell after `run`; None if a wait was held or something is unexplained,
            because responses may then differ.
    """

    def __init__(
        self,
        exchanges: Sequence[Exchange],
        events: Events,
        comparer: Comparer,
        cell: Cell,
        limits: SearchLimits = LIMITS,
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self.cell: Cell | None = None
        self._exchanges = exchanges
        self._limits = limits
        self._on_progress = on_progress
        self._footprints = Footprints(exchanges)
        self._tails = acks_0_tails(exchanges)
        self._budget = limits.moments_per_exchange * len(exchanges)
        self._failures = 0
        self._decided = Decided()
        self._walk = Walk(
            exchanges,
            events,
            comparer,
            cell,
            self._decided,
            limits.tolerances,
            limits.lookback_moments,
        )

    def run(self) -> DeliverySchedule:
        """Return the schedule and its deviations from arrival order."""
        walk, at = self._walk, 0
        while at < len(walk.moments):
            failed = walk.over(at)
            at = at + 1 if failed is None else self._repair(failed)
            self._on_progress(at)
        schedule = self._schedule()
        if not (schedule.held or schedule.unexplained):
            self.cell = walk.finish()
            schedule.responses = {
                self._exchanges[index].id: response
                for index, response in walk.responses_by_exchange.items()
                if index not in self._decided.lost and self._exchanges[index].kind is Kind.REQUEST
            }
            handled = [s.exchange_id for s in schedule.steps if s.kind is Kind.REQUEST]
            schedule.ids = differing((each, walk.picks[walk.index_of[each]]) for each in handled)
        return schedule

    # --- Other orders -------------------------------------------------------------------------

    def _repair(self, failed: int) -> int:
        """Find an order that explains `failed`; returns the moment to continue at."""
        walk = self._walk
        at = walk.at
        for change in self._changes(failed):
            if self._budget <= 0:
                break
            resumed = self._attempt(failed, change, at)
            if resumed is not None:
                return resumed
        self._decided.force(failed)
        self._failures += 1
        if self._failures >= self._limits.hopeless and self._failures * 4 > failed:
            self._budget = 0
        start = walk.arrival[failed]
        if start not in walk.snapshots:
            walk.give_up(failed, walk.moments[at].time)
            return at + 1
        walk.restore(start)
        return start

    def _attempt(self, failed: int, change: ScheduleChange, at: int) -> int | None:
        """Walk again with a change; returns None and undoes it on failure."""
        walk = self._walk
        start = min(walk.arrival[index] for part in change for index in part)
        right = {index for index, is_right in walk.verdicts.items() if is_right}
        right |= {failed, *change.moved}
        horizon = max([at, *(walk.end[index] for index in change.moved)])
        tail = walk.cut(start)
        self._decided.make(change, failed)
        for moment in range(start, horizon + 1):
            self._budget -= 1
            wrong = walk.over(moment)
            if wrong is None:
                continue
            if wrong not in right and walk.verdicts.get(failed):
                walk.restore(moment)
                return moment
            self._decided.unmake(change, failed)
            walk.put_back(start, tail)
            return None
        return horizon + 1

    def _changes(self, failed: int) -> Iterator[ScheduleChange]:
        """Yield changes that may explain `failed`, in the order of trying."""
        seen = [
            index
            for index in dict.fromkeys(
                self._walk.index_of[step.exchange_id] for step, _ in reversed(self._walk.steps)
            )
            if index != failed
            and self._walk.arrival[index] in self._walk.snapshots
            and self._footprints.may_change(index, failed)
        ]
        start = self._exchanges[failed].time
        latest = tuple(
            index
            for index in seen
            if self._exchanges[index].end >= start
            and self._exchanges[index].connection != self._exchanges[failed].connection
            and failed not in self._decided.after.get(index, ())
        )[: self._limits.moved_together]
        yield from (ScheduleChange(moved=latest[:count]) for count in range(1, len(latest) + 1))
        yield from (ScheduleChange(moved=(index,)) for index in latest[1:])
        for index in seen:
            is_recent = self._exchanges[index].end + self._limits.tolerances.late >= start
            exchange = self._exchanges[index]
            may_be_late = exchange.changes_metadata or exchange.has(Trait.ENDS_TRANSACTION)
            if is_recent and may_be_late and failed not in self._decided.late.get(index, ()):
                yield ScheduleChange(late=(index,))
        if self._is_unready(failed):
            yield ScheduleChange(lost=(failed,))
        yield from self._resolutions(failed, seen)
        yield from self._losses(set(seen))

    def _is_unready(self, failed: int) -> bool:
        """Whether a broker that knew a new partition may not have opened its log yet."""
        exchange = self._exchanges[failed]
        codes = set(error_codes(exchange.response))
        of_new_coordinator = bool(codes) and codes <= OF_NEW_COORDINATORS
        is_refused = codes - {Error.NONE} == {Error.NOT_LEADER_OR_FOLLOWER}
        if not (of_new_coordinator or (is_refused and exchange.has(Trait.READS))):
            return False
        recent = [
            index
            for index, other in enumerate(self._exchanges[:failed])
            if other.end + self._limits.tolerances.opened >= exchange.time
        ]
        if of_new_coordinator:
            return any(_began_creation(self._exchanges[index]) for index in recent)
        return any(
            self._exchanges[index].changes_metadata and self._footprints.may_change(index, failed)
            for index in recent
        )

    def _resolutions(self, failed: int, seen: Sequence[int]) -> Iterator[ScheduleChange]:
        """Heartbeats of the same group that may or may not resolve expressions."""
        if self._exchanges[failed].header.request_api_key != CONSUMER_GROUP_HEARTBEAT.key:
            return
        heartbeats = self._heartbeats[self._exchanges[failed].body().get("groupId")]
        times = [self._exchanges[index].time for index in heartbeats if index < failed]
        for index in seen:
            if index not in heartbeats or index in self._decided.resolves:
                continue
            since = [self._exchanges[index].time - time - REFRESH_MIN_INTERVAL_MS for time in times]
            if any(0 < each <= TIMING_MS for each in since):
                yield ScheduleChange(later=(index,))
            if any(-TIMING_MS < each <= 0 for each in since):
                yield ScheduleChange(sooner=(index,))

    @cached_property
    def _heartbeats(self) -> dict[Any, dict[int, None]]:
        """Group id to the places of its consumer heartbeats, in order."""
        found: dict[Any, dict[int, None]] = defaultdict(dict)
        for index, exchange in enumerate(self._exchanges):
            if exchange.header.request_api_key == CONSUMER_GROUP_HEARTBEAT.key:
                found[exchange.body().get("groupId")][index] = None
        return found

    def _losses(self, seen: set[int]) -> Iterator[ScheduleChange]:
        for tail in self._tails:
            if not seen.intersection(tail):
                continue
            for place in range(min(len(tail), self._limits.moved_together)):
                if self._is_refused(tail[place]):
                    yield ScheduleChange(lost=tuple(tail[place:]))

    def _is_refused(self, index: int) -> bool:
        """Whether the model closes the connection of a request.

        Tried in the state at the request's arrival, and before each metadata change that may be
        late, because a broker knows a topic before it opens its logs.
        """
        arrived = self._exchanges[index].time
        recent = [
            other
            for other, exchange in enumerate(self._exchanges[:index])
            if exchange.changes_metadata
            and exchange.end + self._limits.tolerances.late >= arrived
            and self._footprints.may_change(other, index)
        ]
        return any(self._walk.closes(index, self._walk.arrival[at]) for at in (index, *recent))

    # --- The result ---------------------------------------------------------------------------

    def _schedule(self) -> DeliverySchedule:
        walk = self._walk
        handled_moment = {self._exchanges[index].id: at for index, _, at in walk.outcomes}
        completed = frozenset(s.exchange_id for s, _ in walk.steps if s.kind is Kind.COMPLETE)
        late_metadata = frozenset(
            self._exchanges[index].id for index, seen_by in self._decided.late.items() if seen_by
        )
        delayed = {
            step.exchange_id: at
            for step, at in walk.steps
            if step.kind is Kind.REQUEST and at > walk.arrival[walk.index_of[step.exchange_id]]
        }
        queued = {
            exchange_id
            for exchange_id, at in delayed.items()
            if (previous := walk.previous[walk.index_of[exchange_id]]) is not None
            and handled_moment[self._exchanges[previous].id] == at
        }
        moved, held = delayed.keys() - queued, completed - late_metadata
        return DeliverySchedule(
            steps=[step for step, _ in walk.steps],
            final_time=walk.final_time(),
            held=held,
            late=late_metadata,
            lost=frozenset(self._exchanges[index].id for index in self._decided.lost),
            resolves={
                self._exchanges[index].id: resolves
                for index, resolves in self._decided.resolves.items()
            },
            moved=frozenset(moved),
            queued=frozenset(queued),
            unexplained=frozenset(
                self._exchanges[index].id for index, is_right, _ in walk.outcomes if not is_right
            ),
            is_exhausted=self._budget <= 0,
            used=self._used(moved, held),
        )

    def _used(self, moved: Iterable[str], held: Iterable[str]) -> dict[str, frozenset[Freedom]]:
        used: dict[str, set[Freedom]] = defaultdict(set)
        for ids, freedom in ((moved, Freedom.MOVED), (held, Freedom.HELD)):
            for exchange_id in ids:
                used[exchange_id].add(freedom)
        for index in self._decided.lost_for:
            used[self._exchanges[index].id].add(Freedom.LOST)
        for index in self._decided.resolved_for:
            used[self._exchanges[index].id].add(Freedom.REGEXES)
        for index, unseen_by in self._decided.late.items():
            is_metadata = self._exchanges[index].changes_metadata
            freedom = Freedom.LATE_METADATA if is_metadata else Freedom.LATE_MARKERS
            for other in unseen_by:
                used[self._exchanges[other].id].add(freedom)
        return {exchange_id: frozenset(freedoms) for exchange_id, freedoms in used.items()}


def _began_creation(exchange: Exchange) -> bool:
    """Whether a coordinator lookup met a missing internal topic."""
    is_lookup = exchange.header.request_api_key == FIND_COORDINATOR.key
    return is_lookup and Error.COORDINATOR_NOT_AVAILABLE in error_codes(exchange.response)
