"""A cell: the machines of one cluster, and the loop from an event to its output rows.

    event -> due deadlines -> handler -> records, response, messages -> ... -> quiet -> commit

An event that raises an exception becomes a dead letter. The tables roll back, and the next event is
handled. Items are encoded once for many events. Therefore a rollback goes back to the last commit,
and the events since then are decided again. Outputs depend on the events alone, not on the limits
of micro-batches.
"""

from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from brokertwin.state.cell import between_cells, expiry
from brokertwin.state.cell.delivery import AtOnce, DeliveryOrder
from brokertwin.state.cell.event_loop import CellLoop, refusal_for
from brokertwin.state.cell.output_rows import Rows
from brokertwin.state.core import pending
from brokertwin.state.core.dead_letters import dead_letter, refused_event
from brokertwin.state.core.decision import PendingRequest
from brokertwin.state.core.events import (
    BETWEEN_CELLS,
    INTERVENTIONS,
    REQUEST,
    Event,
    Kind,
    Reason,
    Refusal,
    decode_event,
)
from brokertwin.state.core.layers import DamagedError
from brokertwin.state.core.outputs import Output, Position
from brokertwin.state.core.pending import NEVER, NO_DEADLINE
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.core.tables import COLUMN_OF, MORE, CellTables, ReadBaseOf

STATE_VERSION = 7
"""The version of the state row; `upgrades.py` has the step from each former version."""

COMMIT_EVENTS_MAX = 500
"""Events between two commits. A commit encodes items; a fault repeats the events since then."""


NOT_KNOWN = -1
"""In place of the time of the next expiry check: the next event computes it."""


class Meta(msgspec.Struct):
    """State of a cell that is in no table. Times are ms since 1970.

    Attributes:
        outstanding: the last deadline sent to the clock and not reached yet; NO_DEADLINE if none.
    """

    now: int = 0
    outstanding: int = NO_DEADLINE


class Cell:
    """The state of one cell, and the events that change it.

    Args:
        settings: of the cell.
        columns: the stored state; None for an empty one.
        make_rows: creates the collector of output rows. A caller in the same process can collect
            some of them without encoding.
        make_schedule: creates the delivery within the cell (`delivery.py`).
        read_base: reads the base of a column in layers (`state/core/layers.py`).
    """

    def __init__(
        self,
        settings: CellSettings,
        columns: Mapping[str, bytes] | None = None,
        make_rows: Callable[[CellSettings], Rows] = Rows,
        make_schedule: Callable[[], DeliveryOrder] = AtOnce,
        read_base: ReadBaseOf | None = None,
    ) -> None:
        self._settings = settings
        self._make_rows = make_rows
        self._make_schedule = make_schedule
        self.tables = CellTables(columns, read_base)
        meta = (columns or {}).get("meta")
        self.meta = msgspec.msgpack.decode(meta, type=Meta) if meta else Meta()
        self._since_commit: list[tuple[Event | bytes, Position]] = []
        self._begin()

    @property
    def settings(self) -> CellSettings:
        """Settings of the cell; a change does not affect earlier decisions."""
        return self._settings

    @settings.setter
    def settings(self, settings: CellSettings) -> None:
        self.commit()
        self._settings = settings
        self._look_afresh()

    def columns(self) -> dict[str, bytes]:
        """The state as the columns of a state row, without layers."""
        self._make_final()
        return self._with_the_rest(self.tables.columns())

    def stored(self) -> dict[str, bytes]:
        """Return the columns of a state row, large tables in layers."""
        self._make_final()
        return self._with_the_rest(self.tables.stored())

    def _with_the_rest(self, columns: dict[str, bytes]) -> dict[str, bytes]:
        columns["meta"] = msgspec.msgpack.encode(self.meta)
        return columns

    def copy(self) -> "Cell":
        """Return a cell in the same state, between two events, for example to try events on it."""
        self.commit()
        twin = Cell(self.settings, make_rows=self._make_rows, make_schedule=self._make_schedule)
        twin.tables = self.tables.copy()
        twin.meta = msgspec.structs.replace(self.meta)
        twin._begin()
        return twin

    def load(self, tables: Mapping[str, Mapping[str, bytes]], meta: Meta) -> None:
        """Take another state, between two events, as encoded items by table and key.

        Cheap if most items are those of the present state: an exhaustive search (`simulation/`)
        goes from state to state. `tables.differences()` has the changes since.
        """
        self.tables.load(tables)
        self.meta = msgspec.structs.replace(meta)
        self._begin()

    def handle(self, document: Event | bytes, position: Position) -> list[Output]:
        """Decide on an event and return its rows. Never raises for its content.

        A caller in the same process passes an `Event`, all others a document.

        Raises:
            DamagedError: the state is not as stored; no event can be decided.
        """
        if self._commits != self.tables.commits:
            self._begin()
        try:
            rows = self._decide(document, position)
            self._since_commit.append((document, position))
        except DamagedError:
            raise
        except Exception:  # noqa: BLE001 (the guard: no event may stop the job)
            self._undo()
            rows = self._decide(document, position)  # committed, like all events before it by now
            self._begin()
        if len(self._since_commit) >= COMMIT_EVENTS_MAX:
            self.commit()
        return rows

    def commit(self) -> None:
        """Commit and encode the changes of the events so far."""
        self._make_final()
        self._begin()

    def _make_final(self) -> None:
        """Commit without `_begin`: a cell of a job has no further event."""
        try:
            self.tables.commit()
        except Exception:  # noqa: BLE001 (an item that cannot be encoded; its event is undone)
            self._undo()

    def _begin(self) -> None:
        """Note the point that a rollback returns to."""
        self._commits = self.tables.commits
        self._is_careful = False
        self._since_commit.clear()
        self._meta_before = msgspec.structs.replace(self.meta)
        self._look_afresh()

    def _look_afresh(self) -> None:
        """Clear the caches that last from event to event."""
        settings = self._settings
        self.tables.given = settings.broker_settings
        self.tables.may_clean = settings.may_clean
        self._brokers_here = settings.brokers_here
        self._deadlines = pending.deadlines(self.tables.pending)
        self._rows = self._make_rows(settings)
        self._run = CellLoop(self.tables, settings, self._rows, self._make_schedule())
        self.broker = self._run.broker
        self._next_check = NOT_KNOWN

    def _undo(self) -> None:
        """Roll back to the last commit, and decide the events since then one by one.

        Each event is committed separately, so that the next one can be rolled back alone. Decisions
        are the same because they depend only on the events and their order.
        """
        self.tables.rollback()
        self.meta = self._meta_before
        self._is_careful = True
        self._look_afresh()
        for document, position in self._since_commit:
            self._decide(document, position)

    def _decide(self, document: Event | bytes, position: Position) -> list[Output]:
        event = document if isinstance(document, Event) else decode_event(document)
        if type(event) is Refusal:
            return self._refused(event, document, position, event)
        refusal = self._refusal_of(event)
        if refusal is not None:
            return self._refused(event, document, position, refusal)
        if event.kind is not REQUEST and self._is_repeat(event):
            return []
        meta, rows = self.meta, self._rows
        time = event.time if position.timestamp < 0 else self._time_of(event, position)
        now = meta.now if time < meta.now else time
        rows.begin(position)
        if now >= self._next_check or now >= self._deadlines.first:
            self._pass_time(now, rows, document)
        fault = None
        if self._is_careful:
            fault = self._guarded(rows, partial(self._run.handle, event, now))
        else:
            self._run.handle(event, now)
        if fault is None:
            meta.now = now
        else:
            rows.extend(self._refused(event, document, position, fault))
            self._pass_over(event)
        if self._deadlines.first != NEVER or meta.outstanding != NO_DEADLINE:
            self._announce_deadline(rows)
        return rows.rows

    def _is_repeat(self, event: Event) -> bool:
        """Whether an event of another cell has arrived before."""
        if event.kind not in BETWEEN_CELLS:
            return False
        return between_cells.is_repeat(self.tables.cluster, self._settings, event)

    def _refused(
        self, event: Event | Refusal, document: Event | bytes, position: Position, refusal: Refusal
    ) -> list[Output]:
        """Return the dead letter of an event, with an error response if it is from a client."""
        if isinstance(event, Event) and event.kind in BETWEEN_CELLS:
            is_not_taken = refusal.reason in (Reason.OUT_OF_SEQUENCE, Reason.INTERNAL_KIND)
            if is_not_taken or event.kind is not Kind.FORWARD:
                return [dead_letter(self.settings, document, position, refusal)]
        return refused_event(self.settings, document, position, refusal)

    def _pass_over(self, event: Event) -> None:
        """Count a failed event of another cell as received, because others follow it."""
        if event.kind in BETWEEN_CELLS:
            between_cells.take(self.tables.cluster, event)
            self.tables.commit()

    def _guarded(self, rows: Rows, step: Callable[[], object]) -> Refusal | None:
        """Run a step; return why it was rolled back, if it raised.

        Only repeated events are committed one by one. Otherwise `handle` catches the exception and
        repeats the events since the last commit.
        """
        if not self._is_careful:
            step()
            return None
        mark = rows.mark()
        try:
            step()
            self.tables.commit()
        except DamagedError:
            raise
        except Exception as error:  # noqa: BLE001 (the guard: no event may stop the job)
            self.tables.rollback()
            self._look_afresh()
            rows.reset(mark)
            return refusal_for(error)
        return None

    def _refusal_of(self, event: Event) -> Refusal | None:
        settings = self._settings
        if event.cluster != settings.cluster:
            return Refusal(
                Reason.UNKNOWN_CLUSTER,
                f"this cell is of cluster {settings.cluster!r}, the event of {event.cluster!r}",
            )
        if event.kind is not REQUEST:
            if event.kind is Kind.TICK:
                return None
            if event.kind in BETWEEN_CELLS:
                return self._refusal_of_sender(event)
            is_taken = settings.may_intervene if event.kind in INTERVENTIONS else settings.may_hold
            if event.kind is Kind.CLEAN_LOG:
                is_taken = settings.may_clean
            if event.kind is Kind.DISCONNECT:
                is_taken = bool(event.connection)
            if event.kind is Kind.TELL_SETTINGS:
                is_taken = True
            if not is_taken:
                return Refusal(Reason.INTERNAL_KIND, f"events of kind {event.kind!r} are not taken")
        if event.broker not in self._brokers_here:
            return Refusal(
                Reason.UNKNOWN_BROKER, f"broker {event.broker} is not one of {self._brokers_here}"
            )
        if not 0 <= event.reply_to < settings.responses_partitions:
            return Refusal(
                Reason.REPLY_TO,
                f"replyTo is {event.reply_to}, `responses` has"
                f" {settings.responses_partitions} partitions",
            )
        return None

    def _refusal_of_sender(self, event: Event) -> Refusal | None:
        """Return why an event of another cell is refused, or None."""
        settings = self.settings
        if event.sender not in between_cells.others(settings):
            detail = f"no other cell of this cluster is {event.sender!r}, the sender"
            return Refusal(Reason.INTERNAL_KIND, detail)
        table = self.tables.cluster
        is_known = between_cells.is_repeat(table, settings, event)
        if not is_known and not between_cells.is_next(table, settings, event):
            detail = f"{event.sender!r} has sent others before its {event.sequence}"
            return Refusal(Reason.OUT_OF_SEQUENCE, detail)
        return None

    def _time_of(self, event: Event, position: Position) -> int:
        if self._settings.event_time == "recorded":
            return event.time
        skew = self._settings.event_time_max_skew_ms
        return min(max(event.time, position.timestamp - skew), position.timestamp + skew)

    def _pass_time(self, now: int, rows: Rows, document: Event | bytes) -> None:
        """Fire the deadlines and run the expiry checks that are due by `now`, in order of time."""
        settings = self._settings.broker_settings
        for check, expired in expiry.checks_due(settings, self.meta.now, now):
            self._fire_deadlines(check, now, rows, document)
            self._expire(check, now, expired, rows, document)
        self._fire_deadlines(now, now, rows, document)
        self._next_check = expiry.next_check(settings, self.meta.now)

    def _expire(
        self,
        check: int,
        event_time: int,
        expired: expiry.Expired,
        rows: Rows,
        document: Event | bytes,
    ) -> None:
        """Remove expired items. Without any, a refused event leaves the cell unchanged."""

        def step() -> None:
            self._run.begin(check, event_time)
            if self._run.expire(expired):
                self.meta.now = check

        fault = self._guarded(rows, step)
        if fault is not None:
            rows.dead_letter(document, fault)

    def _fire_deadlines(
        self, until: int, event_time: int, rows: Rows, document: Event | bytes
    ) -> None:
        while self._deadlines.first <= until:
            earliest = self._deadlines.earliest(until)
            if earliest is None:
                return
            self.meta.now = max(self.meta.now, earliest[0])
            self._fire(earliest[1], event_time, rows, document)

    def _fire(self, event_id: str, event_time: int, rows: Rows, document: Event | bytes) -> None:
        """Fire a deadline; drop one that raises, so that it is not repeated."""

        def step() -> None:
            self._run.begin(self.meta.now, event_time)
            self._run.due(event_id)

        fault = self._guarded(rows, step)
        if fault is None:
            return
        taken = pending.take(self.tables.pending, event_id)
        pending.set_timer(self.tables.pending, pending.timer_name(event_id) or "", None)
        self.tables.commit()
        if isinstance(taken, PendingRequest):
            rows.error(taken, fault)
        rows.dead_letter(document, fault)

    def _announce_deadline(self, rows: Rows) -> None:
        meta, first = self.meta, self._deadlines.first
        if meta.outstanding <= meta.now:
            meta.outstanding = NO_DEADLINE
        elif first >= meta.outstanding:
            return
        earliest = pending.earliest(self.tables.pending) if first != NEVER else None
        if earliest is None:
            return
        if meta.outstanding == NO_DEADLINE or earliest[0] < meta.outstanding:
            meta.outstanding = earliest[0]
            rows.timer(earliest[0])


def state_columns() -> tuple[str, ...]:
    """Return the binary columns of a state row, in the order of the checkpoint's schema."""
    return (*COLUMN_OF.values(), "meta", MORE)
