"""A cell: the machines of one cluster, and the loop that takes an event to its outputs.

    event -> due deadlines -> handler -> records applied, answer, messages -> ... -> quiet -> commit

The guard covers an event and everything that it causes: where something raises, the tables go back
to what they were, the event becomes a dead letter, and the next one is handled. Items are encoded
once for many events, so going back means: to the last commit, and the events since decided again.
Outputs depend on the events alone, not on how they were cut into micro-batches.
"""

from collections.abc import Callable, Mapping

import msgspec

from brokertwin.state.cell import between_cells, expiry
from brokertwin.state.cell.delivery import AtOnce, Schedule
from brokertwin.state.cell.output_rows import Rows
from brokertwin.state.cell.requests import refusal_for
from brokertwin.state.cell.run import Run
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import waiting
from brokertwin.state.core.dead_letters import dead_letter, refused_event
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
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.core.tables import TABLE_NAMES, ReadBaseOf, Tables
from brokertwin.state.core.waiting import NO_DEADLINE

STATE_VERSION = 5
"""The version of the state row; `upgrades.py` has the step from each former one."""

COMMIT_EVENTS_MAX = 500
"""Events between two commits: an item is encoded once for all, a fault has them decided again."""


NOT_KNOWN = -1
"""As the time of the next check for what has expired: it is found out with the next event."""


class Meta(msgspec.Struct):
    """What a cell remembers besides its tables. Times are ms since 1970.

    `outstanding` is the deadline last given to the clock and not yet reached, -1 where none is.
    """

    now: int = 0
    outstanding: int = NO_DEADLINE


class Cell:
    """The state of one cell between `columns` in and `columns` out.

    Args:
        settings: the cell's.
        columns: the state as it was stored; None: an empty one.
        make_rows: makes what collects the rows of events; who takes them in this process may want
            some of them as they are, not as bytes.
        make_schedule: makes what delivers within the cell (`delivery.py`).
        read_base: reads the base of a column in layers (`state/core/layers.py`).
    """

    def __init__(
        self,
        settings: CellSettings,
        columns: Mapping[str, bytes] | None = None,
        make_rows: Callable[[CellSettings], Rows] = Rows,
        make_schedule: Callable[[], Schedule] = AtOnce,
        read_base: ReadBaseOf | None = None,
    ) -> None:
        self._settings = settings
        self._make_rows = make_rows
        self._make_schedule = make_schedule
        self.tables = Tables(columns, read_base)
        meta = (columns or {}).get("meta")
        self.meta = msgspec.msgpack.decode(meta, type=Meta) if meta else Meta()
        self._more = (columns or {}).get("more") or b""
        self._since_commit: list[tuple[bytes, Position]] = []
        self._begin()

    @property
    def settings(self) -> CellSettings:
        """The cell's settings; what was decided under former ones is final."""
        return self._settings

    @settings.setter
    def settings(self, settings: CellSettings) -> None:
        self.commit()
        self._settings = settings
        self._look_afresh()

    def columns(self) -> dict[str, bytes]:
        """The state: one column for each table, `meta` and `more`."""
        self._make_final()
        return self._with_the_rest(self.tables.columns())

    def stored(self) -> dict[str, bytes]:
        """The same as a state row has it: the columns of large tables are in layers."""
        self._make_final()
        return self._with_the_rest(self.tables.stored())

    def _with_the_rest(self, columns: dict[str, bytes]) -> dict[str, bytes]:
        columns["meta"] = msgspec.msgpack.encode(self.meta)
        columns["more"] = self._more
        return columns

    def broker(self, broker: int) -> Broker:
        """A broker of this cell as it is between two events, to be read only."""
        return self._run.broker(broker)

    def copy(self) -> "Cell":
        """A cell in the same state, between two events; a search tries events on it."""
        self.commit()
        twin = Cell(self.settings, make_rows=self._make_rows, make_schedule=self._make_schedule)
        twin.tables = self.tables.copy()
        twin.meta = msgspec.structs.replace(self.meta)
        twin._more = self._more
        twin._begin()
        return twin

    def handle(self, document: bytes, position: Position) -> list[Output]:
        """What the event in `document` causes. Never raises for what the document holds.

        Raises:
            DamagedError: the state is not what was stored; no event can be decided.
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
            rows = self._decide(document, position)  # made final, as all before it are by now
            self._begin()
        if len(self._since_commit) >= COMMIT_EVENTS_MAX:
            self.commit()
        return rows

    def commit(self) -> None:
        """Makes what the events so far have changed final, and encodes it."""
        self._make_final()
        self._begin()

    def _make_final(self) -> None:
        """The same; `handle` begins anew where there is another event: a job's cell has none."""
        try:
            self.tables.commit()
        except Exception:  # noqa: BLE001 (an item that cannot be encoded; its event is undone)
            self._undo()

    def _begin(self) -> None:
        """Notes the point that a fault goes back to."""
        self._commits = self.tables.commits
        self._is_careful = False
        self._since_commit.clear()
        self._meta_before = msgspec.structs.replace(self.meta)
        self._look_afresh()

    def _look_afresh(self) -> None:
        """Forgets what was kept from one event to the next so as not to look at it again."""
        settings = self._settings
        self.tables.given = settings.broker_settings
        self.tables.may_clean = settings.may_clean
        self._brokers_here = settings.brokers_here
        self._deadlines = waiting.deadlines(self.tables.waiting)
        self._rows = self._make_rows(settings)
        self._run = Run(self.tables, settings, self._rows, self._make_schedule())
        self._next_check = NOT_KNOWN

    def _undo(self) -> None:
        """Goes back to the last commit, and decides again what came since, one by one.

        The events are decided as before: nothing but them, and their order, goes into a decision.
        Now each is made final by itself, so that what comes next can be undone by itself, too.
        """
        self.tables.rollback()
        self.meta = self._meta_before
        self._is_careful = True
        self._look_afresh()
        for document, position in self._since_commit:
            self._decide(document, position)

    def _decide(self, document: bytes, position: Position) -> list[Output]:
        event = decode_event(document)
        if type(event) is Refusal:
            return self._refused(event, document, position, event)
        refusal = self._refusal_of(event)
        if refusal is not None:
            return self._refused(event, document, position, refusal)
        if event.kind is not REQUEST and self._is_repeat(event):
            return []
        now, time = self.meta.now, self._time_of(event, position)
        if time > now:
            now = time
        rows = self._rows
        rows.begin(position)
        if now >= self._next_check or now >= self._deadlines.first:
            self._pass_time(now, rows, document)
        run = self._run
        run.begin(event, now, now)
        fault = None
        if self._is_careful:
            fault = self._guarded(rows, run.start)
        else:
            run.start()
        if fault is not None:
            rows.extend(self._refused(event, document, position, fault))
            self._pass_over(event)
        else:
            self.meta.now = now
        self._announce_deadline(rows)
        return rows.rows

    def _is_repeat(self, event: Event) -> bool:
        """Whether another cell has told this already."""
        is_told = event.kind in BETWEEN_CELLS
        return is_told and between_cells.is_repeat(self.tables.waiting, self._settings, event)

    def _refused(
        self, event: Event | Refusal, document: bytes, position: Position, refusal: Refusal
    ) -> list[Output]:
        """The dead letter of an event; what a client has sent gets an answer, too."""
        if isinstance(event, Event) and event.kind in BETWEEN_CELLS:
            is_not_taken = refusal.reason in (Reason.OUT_OF_SEQUENCE, Reason.INTERNAL_KIND)
            if is_not_taken or event.kind is not Kind.FORWARD:
                return [dead_letter(self.settings, document, position, refusal)]
        return refused_event(self.settings, document, position, refusal)

    def _pass_over(self, event: Event) -> None:
        """One that another cell has told is taken, though it raises: others come behind it."""
        if event.kind in BETWEEN_CELLS:
            between_cells.take(self.tables.waiting, event)
            self.tables.commit()

    def _guarded(self, rows: Rows, step: Callable[[], object]) -> Refusal | None:
        """Does a step that is undone by itself where it raises; gives back why, if it has.

        Only while events are decided again is a step made final by itself. Otherwise what it
        raises goes on to `handle`, which has the events since the last commit decided again.
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
                Reason.UNKNOWN_BROKER,
                f"broker {event.broker} is not one of {self._brokers_here}",
            )
        if not 0 <= event.reply_to < settings.responses_partitions:
            return Refusal(
                Reason.REPLY_TO,
                f"replyTo is {event.reply_to}, `responses` has"
                f" {settings.responses_partitions} partitions",
            )
        return None

    def _refusal_of_sender(self, event: Event) -> Refusal | None:
        """Why an event is not taken as one from another cell, if so."""
        settings = self.settings
        if event.sender not in between_cells.others(settings):
            detail = f"no other cell of this cluster is {event.sender!r}, the sender"
            return Refusal(Reason.INTERNAL_KIND, detail)
        table = self.tables.waiting
        is_known = between_cells.is_repeat(table, settings, event)
        if not is_known and not between_cells.is_next(table, settings, event):
            detail = f"{event.sender!r} has sent others before its {event.sequence}"
            return Refusal(Reason.OUT_OF_SEQUENCE, detail)
        return None

    def _time_of(self, event: Event, position: Position) -> int:
        if self._settings.event_time == "recorded" or position.timestamp < 0:
            return event.time
        skew = self._settings.event_time_max_skew_ms
        return min(max(event.time, position.timestamp - skew), position.timestamp + skew)

    def _pass_time(self, now: int, rows: Rows, document: bytes) -> None:
        """Does what is due by `now`: deadlines and checks for what has expired, each in time."""
        settings = self._settings.broker_settings
        for check, expired in expiry.checks_due(settings, self.meta.now, now):
            self._fire_deadlines(check, now, rows, document)
            self._expire(check, now, expired, rows, document)
        self._fire_deadlines(now, now, rows, document)
        self._next_check = expiry.next_check(settings, self.meta.now)

    def _expire(
        self, check: int, event_time: int, expired: expiry.Expired, rows: Rows, document: bytes
    ) -> None:
        """Drops what has expired; where nothing has, a refused event leaves the cell as it was."""

        def step() -> None:
            self._run.begin(None, check, event_time)
            if self._run.expire(expired):
                self.meta.now = check

        fault = self._guarded(rows, step)
        if fault is not None:
            rows.dead_letter(document, fault)

    def _fire_deadlines(self, until: int, event_time: int, rows: Rows, document: bytes) -> None:
        while True:
            earliest = waiting.earliest(self.tables.waiting)
            if earliest is None or earliest[0] > until:
                return
            self.meta.now = max(self.meta.now, earliest[0])
            self._fire(earliest[1], event_time, rows, document)

    def _fire(self, event_id: str, event_time: int, rows: Rows, document: bytes) -> None:
        """Lets a deadline fire; one that raises is dropped, and not repeated for ever."""

        def step() -> None:
            self._run.begin(None, self.meta.now, event_time)
            self._run.due(event_id)

        fault = self._guarded(rows, step)
        if fault is None:
            return
        waited = waiting.take(self.tables.waiting, event_id)
        waiting.set_timer(self.tables.waiting, waiting.timer_name(event_id) or "", None)
        self.tables.commit()
        if waited is not None and waited.api_key != waiting.COMMITTING:
            rows.error(waited, fault)
        rows.dead_letter(document, fault)

    def _announce_deadline(self, rows: Rows) -> None:
        meta, first = self.meta, self._deadlines.first
        if meta.outstanding <= meta.now:
            meta.outstanding = NO_DEADLINE
        elif first >= meta.outstanding:
            return
        earliest = waiting.earliest(self.tables.waiting) if first != waiting.NEVER else None
        if earliest is None:
            return
        if meta.outstanding == NO_DEADLINE or earliest[0] < meta.outstanding:
            meta.outstanding = earliest[0]
            rows.timer(earliest[0])


def state_columns() -> tuple[str, ...]:
    """The binary columns of a cell's state row, in the order of the checkpoint's schema."""
    return (*TABLE_NAMES, "meta", "more")
