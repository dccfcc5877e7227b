"""Finds a schedule that explains the recorded answers.

The history is walked moment by moment: a request arrives, or the time by which it had been answered
is over. A request is handled when it arrives, if the machine's answer is then the recorded one;
otherwise it stays pending and is tried again after every other event, as long as `timing.py`
allows. A wait that would end with another answer than the recorded one is held and tried again
likewise. Where an exchange has come to its end without its answer, changes are tried that the rules
of `schedule.py` allow (`Change`): requests that overlap with it and touch the same topics or groups
go behind it, a change of metadata is read or a transaction's markers are written after it, requests
without an answer are lost. What none of them explains is handled as it arrives, and is a
difference.

This is the search for a linearization (Wing and Gong), kept small: nothing is reordered without a
difference that asks for it, and `Limits` bounds what is tried.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from brokerstream.state.cell.cell import Cell
from brokerstream.state.core import outputs, waiting
from brokerstream.state.core.events import Kind
from brokerstream.state.core.outputs import Output
from brokerstream.state.core.settings import CellSettings
from brokerstream.streaming.replay.comparison import (
    Answer,
    Comparer,
    Verdict,
    decode_answer,
)
from brokerstream.streaming.replay.freedoms import Freedom
from brokerstream.streaming.replay.moments import moments_of, previous_on_connection
from brokerstream.streaming.replay.overlap import (
    ENDS_TRANSACTIONS,
    ON_CONTROLLER,
    Footprints,
    unanswered_tails,
)
from brokerstream.streaming.replay.recording import Exchange
from brokerstream.streaming.replay.schedule import Change, Events, Schedule, Step
from brokerstream.streaming.replay.timing import (
    TOLERANCES,
    Times,
    Tolerances,
    has_replicas,
    resolution_ms,
)
from brokerstream.streaming.replay.walking import NOWHERE, Kept, WalkingCell

MAY_BE_LATE = ON_CONTROLLER | ENDS_TRANSACTIONS
"""API keys of requests whose effect on the brokers may come later than their answer."""


class Limits(NamedTuple):
    """What the search may spend, and how far its times may be from the recorded ones.

    Attributes:
        tolerances: how far times may be apart.
        moved_together: requests that one attempt moves behind another.
        lookback_moments: how far back an attempt may begin; each moment kept costs memory.
        moments_per_exchange: moments that all attempts together may walk, for each exchange of
            the history; after that, differences stay unexplained.
    """

    tolerances: Tolerances = TOLERANCES
    moved_together: int = 8
    lookback_moments: int = 600
    moments_per_exchange: int = 8


LIMITS = Limits()


class _Wait(NamedTuple):
    """A wait in the walk; `since` is when a held one might have ended."""

    deadline: int
    is_held: bool
    since: int = 0


class _Snapshot(NamedTuple):
    cell: Kept
    pending: tuple[int, ...]
    waits: dict[int, _Wait]
    unread: tuple[int, ...]
    steps: int
    answers: int


class _Tail(NamedTuple):
    """What a failed attempt puts back."""

    cell: Kept
    pending: list[int]
    waits: dict[int, _Wait]
    unread: list[int]
    steps: list[tuple[Step, int]]
    answers: list[tuple[int, bool, int]]
    snapshots: dict[int, _Snapshot]


class Search:
    """One search over one history.

    Args:
        exchanges: the history, in order.
        events: makes its events.
        comparer: compares answers with the recorded ones.
        settings: of the cell that decides; it must take held requests.
        limits: what may be spent.
        on_progress: called with the number of moments that are decided.
    """

    def __init__(
        self,
        exchanges: Sequence[Exchange],
        events: Events,
        comparer: Comparer,
        settings: CellSettings,
        limits: Limits = LIMITS,
        on_progress: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._exchanges = exchanges
        self._index_of = {exchange.id: index for index, exchange in enumerate(exchanges)}
        self._events = events
        self._comparer = comparer
        self._limits = limits
        self._on_progress = on_progress
        self._footprints = Footprints(exchanges)
        self._tails = unanswered_tails(exchanges)
        self._previous = previous_on_connection(exchanges)
        is_replicated = has_replicas(exchanges)
        tolerances = limits.tolerances.told_in(resolution_ms(exchanges))
        self._times = [
            Times(exchange, None if at is None else exchanges[at], tolerances, is_replicated)
            for exchange, at in zip(exchanges, self._previous, strict=True)
        ]
        self._moments = moments_of(exchanges)
        self._arrival = {m.exchange: n for n, m in enumerate(self._moments) if not m.is_end}
        self._end = {m.exchange: n for n, m in enumerate(self._moments) if m.is_end}
        self._budget = limits.moments_per_exchange * len(exchanges)
        # What attempts leave behind for good: who goes after whom, and who is not explained.
        self._after: dict[int, set[int]] = defaultdict(set)
        self._late: dict[int, set[int]] = defaultdict(set)
        self._lost: set[int] = set()
        self._lost_for: set[int] = set()
        self._forced: set[int] = set()
        # The state of the walk; `_restore` takes it back to an earlier moment.
        self._cell = WalkingCell(Cell(settings))
        self._pending: list[int] = []
        self._waits: dict[int, _Wait] = {}
        self._unread: list[int] = []
        self._steps: list[tuple[Step, int]] = []
        self._answers: list[tuple[int, bool, int]] = []
        self._answered: dict[int, bool] = {}
        self._snapshots: dict[int, _Snapshot] = {}
        self._at = 0
        self._version = 0
        self._tried: dict[int, int] = {}

    def run(self, earlier: Sequence[bytes] = ()) -> Schedule:
        """The schedule, with everything in it that is not the order of arrival.

        Args:
            earlier: events that come before the history.
        """
        for document in earlier:
            self._cell.handle(document)
        self._at = 0
        while self._at < len(self._moments):
            failed = self._decide(self._at)
            self._at = self._at + 1 if failed is None else self._repair(failed)
            self._on_progress(self._at)
        return self._schedule()

    # --- One moment ---------------------------------------------------------------------------

    def _decide(self, at: int) -> int | None:
        """Walks over a moment; gives back the exchange that ends there without its answer."""
        self._at = at
        self._snapshots[at] = _Snapshot(
            self._cell.kept(),
            tuple(self._pending),
            dict(self._waits),
            tuple(self._unread),
            len(self._steps),
            len(self._answers),
        )
        self._snapshots.pop(at - self._limits.lookback_moments, None)
        now, is_end, index = self._moments[at]
        if not is_end:
            self._pending.append(index)
        if self._is_done(index):
            return None
        if self._unread:
            self._deliver_late(now)
        self._settle(now)
        if is_end and index in self._waits:
            self._end_wait(index, now)
            self._settle(now)
        if not is_end or self._is_done(index):
            return None
        if index not in self._forced:
            return index
        self._give_up(index, now)
        return None

    def _is_done(self, index: int) -> bool:
        """Whether an exchange has its answer: the recorded one, unless no schedule explains it."""
        is_right = self._answered.get(index)
        return is_right is not None and (is_right or index in self._forced)

    def _settle(self, now: int) -> None:
        """Handles every pending request that may be handled and is answered as recorded."""
        ready = (i for i in self._pending if self._may(i, now) and self._try(i, now))
        while (handled := next(ready, None)) is not None:
            self._pending.remove(handled)
            self._deliver_late(now)
            self._complete_held(now)
            ready = (i for i in self._pending if self._may(i, now) and self._try(i, now))

    def _may(self, index: int, now: int) -> bool:
        if self._tried.get(index) == self._version or now > self._times[index].latest_start:
            return False
        previous = self._previous[index]
        if previous is not None and previous not in self._answered:
            return False
        return all(self._is_over(other, now) for other in self._after.get(index, ()))

    def _is_over(self, index: int, now: int) -> bool:
        """Whether an exchange is answered, or will be before an event at `now` is handled."""
        wait = self._waits.get(index)
        expires = wait is not None and not wait.is_held and wait.deadline <= now
        return index in self._answered or expires

    def _try(self, index: int, now: int) -> bool:
        """Handles a request; takes it back unless it waits or is answered as recorded."""
        if index in self._lost:
            self._note({index: Answer()})
            return True
        exchange_id = self._exchanges[index].id
        is_late = bool(self._late.get(index))
        before, waits = self._cell.kept(), dict(self._waits)
        answers = self._handle(self._events.request(exchange_id, now, is_late), now)
        own = answers.pop(index, None)
        if own is not None and not self._is_right(index, own):
            self._cell.go_back(before)
            self._waits = waits
            self._tried[index] = self._version
            return False
        self._steps.append((Step(Kind.REQUEST, exchange_id, now), self._at))
        self._unread += [index] if is_late else []
        self._note(answers)
        if own is not None:
            self._note({index: own})
        else:
            waited = waiting.get(self._cell.tables.waiting, exchange_id)
            if waited is not None:
                self._waits[index] = _Wait(waited.deadline, False)
        return True

    def _handle(self, document: bytes, now: int) -> dict[int, Answer]:
        """Handles an event; waits that would end with a wrong answer are held before it."""
        while True:
            before = self._cell.kept()
            answers = self._answers_in(self._cell.handle(document))
            wrong = [
                index
                for index, answer in answers.items()
                if (wait := self._waits.get(index)) is not None
                and not wait.is_held
                and not self._is_right(index, answer)
            ]
            if not wrong:
                return answers
            self._cell.go_back(before)
            for index in wrong:
                self._hold(index, now)

    def _end_wait(self, index: int, now: int) -> None:
        """The end of an exchange that waits: its deadline, or the completion of a held one."""
        wait = self._waits[index]
        if not wait.is_held and wait.deadline <= now:
            self._note(self._handle(self._events.tick(now), now))
        self._complete_held(now)

    def _complete_held(self, now: int) -> None:
        """Completes the held requests that are answered as recorded if they read now."""
        for index in [i for i, wait in self._waits.items() if wait.is_held]:
            may_end = self._times[index].may_hold(self._waits[index].since)
            if not may_end or self._tried.get(index) == self._version:
                continue
            exchange_id = self._exchanges[index].id
            before, waits = self._cell.kept(), dict(self._waits)
            answers = self._handle(self._events.completion(exchange_id, now), now)
            if index in answers and self._is_right(index, answers[index]):
                self._steps.append((Step(Kind.COMPLETE, exchange_id, now), self._at))
                self._note(answers)
            else:
                self._cell.go_back(before)
                self._waits = waits
                self._tried[index] = self._version

    def _deliver_late(self, now: int) -> None:
        """Lets brokers learn what is late, once everyone who must not see it is answered.

        Brokers read metadata in its order, all of it together; markers are written one by one.
        """
        table = self._cell.tables.waiting
        for index in list(self._unread):
            if self._has_markers(index) and self._is_due(index, now):
                self._complete_late(index, now)
        unread = [index for index in self._unread if not self._has_markers(index)]
        if unread and (self._is_due(unread[0], now) or all(map(self._is_seen, unread))):
            if waiting.is_metadata_late(table):
                self._complete_late(unread[0], now)
            self._unread = [index for index in self._unread if index not in unread]

    def _has_markers(self, index: int) -> bool:
        return waiting.has_late_messages(self._cell.tables.waiting, self._exchanges[index].id)

    def _is_due(self, index: int, now: int) -> bool:
        """Whether what is late happens now: everyone has missed it, or it may not be later."""
        latest = self._exchanges[index].end + self._limits.tolerances.late
        return now > latest or self._is_seen(index)

    def _is_seen(self, index: int) -> bool:
        """Whether nobody is left who must not see what is late."""
        return all(other in self._answered for other in self._late[index])

    def _complete_late(self, index: int, now: int) -> None:
        exchange_id = self._exchanges[index].id
        answers = self._handle(self._events.completion(exchange_id, now), now)
        self._steps.append((Step(Kind.COMPLETE, exchange_id, now), self._at))
        self._note(answers)

    def _hold(self, index: int, now: int) -> None:
        """Makes a waiting request one that is completed by an event, as if from its start."""
        tables = self._cell.changing().tables
        waited = waiting.take(tables.waiting, self._exchanges[index].id)
        assert waited is not None
        waiting.add(tables.waiting, msgspec.structs.replace(waited, is_held=True))
        tables.commit()
        since = min(now, waited.deadline) if waited.deadline != waiting.NO_DEADLINE else now
        self._waits[index] = _Wait(waited.deadline, True, since)

    def _give_up(self, index: int, now: int) -> None:
        """An unexplained exchange that has no answer at its end: others go on without it."""
        if index in self._pending:
            self._pending.remove(index)
            self._try(index, now)
        if index not in self._answered:
            self._record_answer(index, False)

    def _is_right(self, index: int, answer: Answer) -> bool:
        return index in self._forced or index in self._answered or self._agrees(index, answer)

    def _agrees(self, index: int, answer: Answer) -> bool:
        """Whether an answer is the recorded one, and does not come long before it."""
        wait, time = self._waits.get(index), answer.response_time
        if time is not None and answer.error is None:
            is_expired = wait is not None and not wait.is_held and 0 <= wait.deadline <= time
            if self._times[index].is_too_early(time, is_expired):
                return False
        outcome = self._comparer.compare(self._exchanges[index].id, answer)
        return outcome.verdict is not Verdict.DIFFER

    def _answers_in(self, rows: Sequence[Output]) -> dict[int, Answer]:
        return {
            self._index_of[row.id]: decode_answer(row.value)
            for row in rows
            if row.topic == outputs.RESPONSES and row.value and row.id in self._index_of
        }

    def _note(self, answers: dict[int, Answer]) -> None:
        self._version += 1
        for index, answer in answers.items():
            self._record_answer(index, self._agrees(index, answer))

    def _record_answer(self, index: int, is_right: bool) -> None:
        self._waits.pop(index, None)
        if index not in self._answered:
            self._answered[index] = is_right
            self._answers.append((index, is_right, self._at))

    # --- Other orders -------------------------------------------------------------------------

    def _repair(self, failed: int) -> int:
        """Looks for an order that explains `failed`; gives back the moment to go on from."""
        at = self._at
        for change in self._changes(failed):
            if self._budget <= 0:
                break
            resumed = self._attempt(failed, change, at)
            if resumed is not None:
                return resumed
        self._forced.add(failed)
        self._after.pop(failed, None)
        start = self._arrival[failed]
        if start not in self._snapshots:
            self._give_up(failed, self._moments[at].time)
            return at + 1
        self._restore(start)
        return start

    def _changes(self, failed: int) -> Iterator[Change]:
        """What may explain `failed`, in the order of trying."""
        seen = [
            index
            for index in dict.fromkeys(
                self._index_of[step.exchange_id] for step, _ in reversed(self._steps)
            )
            if index != failed
            and self._arrival[index] in self._snapshots
            and self._footprints.may_change(index, failed)
        ]
        start = self._exchanges[failed].time
        latest = tuple(
            index
            for index in seen
            if self._exchanges[index].end >= start
            and self._exchanges[index].connection != self._exchanges[failed].connection
            and failed not in self._after.get(index, ())
        )[: self._limits.moved_together]
        yield from (Change(moved=latest[:count]) for count in range(1, len(latest) + 1))
        yield from (Change(moved=(index,)) for index in latest[1:])
        for index in seen:
            is_recent = self._exchanges[index].end + self._limits.tolerances.late >= start
            may_be_late = self._exchanges[index].header.request_api_key in MAY_BE_LATE
            if is_recent and may_be_late and failed not in self._late.get(index, ()):
                yield Change(late=(index,))
        yield from self._losses(set(seen))

    def _losses(self, seen: set[int]) -> Iterator[Change]:
        for tail in self._tails:
            if not seen.intersection(tail):
                continue
            for place in range(min(len(tail), self._limits.moved_together)):
                if self._is_refused(tail[place]):
                    yield Change(lost=tuple(tail[place:]))

    def _is_refused(self, index: int) -> bool:
        """Whether the machine itself closes the connection of a request instead of taking it.

        It is asked as things stood when the request arrived, and as before each change of metadata
        that may be read late: a broker knows of a topic before it has opened its logs.
        """
        arrived = self._exchanges[index].time
        recent = [
            other
            for other, exchange in enumerate(self._exchanges[:index])
            if exchange.header.request_api_key in ON_CONTROLLER
            and exchange.end + self._limits.tolerances.late >= arrived
            and self._footprints.may_change(other, index)
        ]
        return any(self._closes(index, self._arrival[at]) for at in (index, *recent))

    def _closes(self, index: int, moment: int) -> bool:
        snapshot = self._snapshots.get(moment)
        if snapshot is None:
            return False
        exchange = self._exchanges[index]
        rows = snapshot.cell.cell().handle(
            self._events.request(exchange.id, exchange.time), NOWHERE
        )
        answer = self._answers_in(rows).get(index)
        return answer is not None and answer.closes_connection

    def _attempt(self, failed: int, change: Change, at: int) -> int | None:
        """Walks again with a change made; None, and nothing changed, if that does not help."""
        start = min(self._arrival[index] for part in change for index in part)
        right = {index for index, is_right in self._answered.items() if is_right}
        right |= {failed, *change.moved}
        horizon = max([at, *(self._end[index] for index in change.moved)])
        tail = self._cut(start)
        self._make(change, failed)
        for moment in range(start, horizon + 1):
            self._budget -= 1
            wrong = self._decide(moment)
            if wrong is None:
                continue
            if wrong not in right and self._answered.get(failed):
                self._restore(moment)
                return moment
            self._unmake(change, failed)
            self._put_back(start, tail)
            self._at = at
            return None
        return horizon + 1

    def _make(self, change: Change, failed: int) -> None:
        for index in change.moved:
            self._after[index].add(failed)
        for index in change.late:
            self._late[index].add(failed)
        self._lost.update(change.lost)
        self._lost_for.update([failed] if change.lost else [])

    def _unmake(self, change: Change, failed: int) -> None:
        for index in change.moved:
            self._after[index].discard(failed)
        for index in change.late:
            self._late[index].discard(failed)
        self._lost.difference_update(change.lost)
        self._lost_for.difference_update([failed] if change.lost else [])

    def _cut(self, start: int) -> _Tail:
        """Goes back to a moment and keeps what came after it."""
        snapshot = self._snapshots[start]
        tail = _Tail(
            self._cell.kept(),
            self._pending,
            self._waits,
            self._unread,
            self._steps[snapshot.steps :],
            self._answers[snapshot.answers :],
            {moment: kept for moment, kept in self._snapshots.items() if moment > start},
        )
        self._restore(start)
        return tail

    def _put_back(self, start: int, tail: _Tail) -> None:
        self._restore(start)
        self._cell.go_back(tail.cell)
        self._pending, self._waits = tail.pending, tail.waits
        self._unread = tail.unread
        self._steps.extend(tail.steps)
        self._answers.extend(tail.answers)
        self._answered.update({index: is_right for index, is_right, _ in tail.answers})
        for moment in [moment for moment in self._snapshots if moment > start]:
            del self._snapshots[moment]
        self._snapshots.update(tail.snapshots)
        self._version += 1

    def _restore(self, moment: int) -> None:
        snapshot = self._snapshots[moment]
        self._cell.go_back(snapshot.cell)
        self._pending = list(snapshot.pending)
        self._waits = dict(snapshot.waits)
        self._unread = list(snapshot.unread)
        del self._steps[snapshot.steps :]
        for index, _, _ in self._answers[snapshot.answers :]:
            del self._answered[index]
        del self._answers[snapshot.answers :]
        self._version += 1

    # --- The result ---------------------------------------------------------------------------

    def _schedule(self) -> Schedule:
        answered_at = {self._exchanges[index].id: at for index, _, at in self._answers}
        completed = frozenset(s.exchange_id for s, _ in self._steps if s.kind is Kind.COMPLETE)
        late_metadata = frozenset(
            self._exchanges[index].id for index, seen_by in self._late.items() if seen_by
        )
        delayed = {
            step.exchange_id: at
            for step, at in self._steps
            if step.kind is Kind.REQUEST and at > self._arrival[self._index_of[step.exchange_id]]
        }
        queued = {
            exchange_id
            for exchange_id, at in delayed.items()
            if (previous := self._previous[self._index_of[exchange_id]]) is not None
            and answered_at[self._exchanges[previous].id] == at
        }
        moved, held = delayed.keys() - queued, completed - late_metadata
        deadlines = [wait.deadline for wait in self._waits.values()]
        return Schedule(
            steps=[step for step, _ in self._steps],
            final_time=max([exchange.end for exchange in self._exchanges] + deadlines),
            held=held,
            late=late_metadata,
            lost=frozenset(self._exchanges[index].id for index in self._lost),
            moved=frozenset(moved),
            queued=frozenset(queued),
            unexplained=frozenset(
                self._exchanges[index].id for index, is_right, _ in self._answers if not is_right
            ),
            is_exhausted=self._budget <= 0,
            used=self._used(moved, held),
        )

    def _used(self, moved: Iterable[str], held: Iterable[str]) -> dict[str, frozenset[Freedom]]:
        """What each exchange owes to another order than that of arrival, by its id."""
        used: dict[str, set[Freedom]] = defaultdict(set)
        for ids, freedom in ((moved, Freedom.MOVED), (held, Freedom.HELD)):
            for exchange_id in ids:
                used[exchange_id].add(freedom)
        for index in self._lost_for:
            used[self._exchanges[index].id].add(Freedom.LOST)
        for index, unseen_by in self._late.items():
            is_metadata = self._exchanges[index].header.request_api_key in ON_CONTROLLER
            freedom = Freedom.LATE_METADATA if is_metadata else Freedom.LATE_MARKERS
            for other in unseen_by:
                used[self._exchanges[other].id].add(freedom)
        return {exchange_id: frozenset(freedoms) for exchange_id, freedoms in used.items()}
