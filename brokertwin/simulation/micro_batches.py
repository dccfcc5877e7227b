"""A model of Spark's micro-batches: repetitions and losses.

A micro-batch takes each cell's events after the last commit, up to a random end. It starts with the
committed state as bytes and takes a random time. Then its rows are in their topics and its state is
committed. If a task or the job is lost, some of its rows are in the topics, its state is discarded,
and the same events are processed again. Rows can thus be repeated; each repetition must have the
same bytes, and readers drop it by its id. Messages between cells can be repeated or out of order,
which the receiving cell must detect.

If no message between cells is in flight, their states are occasionally merged, and must be valid as
one cell.
"""

from collections.abc import Callable
from functools import partial
from random import Random

import msgspec

from brokertwin.simulation.clock import VirtualClock
from brokertwin.simulation.cluster import CLUSTER, SimulatedCluster
from brokertwin.simulation.deliveries import Counted
from brokertwin.simulation.plan import RunPlan
from brokertwin.simulation.reach import Reach
from brokertwin.state.cell import resharding
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cell.check import ViolationError, hold
from brokertwin.state.cell.delivery import AtOnce, DeliveryOrder
from brokertwin.state.core import outputs
from brokertwin.state.core.layers import Base
from brokertwin.state.core.outputs import Output

TAKES_MIN_MS, TAKES_MAX_MS = 5, 90
GAPS = 0.7
"""Probability that a lost task wrote any subset of its rows, not the first ones."""

TOGETHER_EVERY = 10
"""Interval of checks of merged cells, in opportunities."""

SPLIT = 0.3
"""Probability that a micro-batch ends before the last event."""

RESTART_MS = 1_500


class JobCluster(SimulatedCluster):
    """Cells in micro-batches.

    Attributes:
        lost_tasks: number of the next micro-batches that lose a task.
        on_batch: called with the number of events of a micro-batch, and whether it was committed.
    """

    def __init__(self, plan: RunPlan, clock: VirtualClock) -> None:
        super().__init__(plan, clock)
        brokers = self.settings.brokers
        names = [f"{CLUSTER}/{number}" for number in range(plan.cells)]
        held = {name: brokers[at :: plan.cells] for at, name in enumerate(names)}
        is_one = plan.cells == 1
        self.settings.cells = {} if is_one else held
        self.lost_tasks = 0
        self.on_batch: Callable[[int, bool], None] = lambda *_: None
        self._chance = Random(f"{plan.seed}/micro-batches")
        self._topic: dict[str, list[bytes]] = {n: [] for n in ([CLUSTER] if is_one else names)}
        self._committed = dict.fromkeys(self._topic, 0)
        self._columns: dict[str, dict[str, bytes] | None] = dict.fromkeys(self._topic)
        self._bases: dict[tuple[str, str], Base] = {}
        self._rows: dict[tuple[str, str], Output] = {}
        self._is_running = False
        self._starts_at = self._quiet = 0
        for name in self._topic:
            self.begin(name, self._cell(name))

    def take(self, cell: str, document: bytes) -> None:
        self._topic[cell].append(document)
        self._begin()

    def restart(self) -> None:
        """Kill the job and restart it later; uncommitted state is lost."""
        self._starts_at = self._clock.now + RESTART_MS
        self.lost_tasks += self._is_running
        self._clock.at(self._starts_at, self._begin)

    def _cell(self, name: str) -> Cell:
        settings = msgspec.structs.replace(self.settings, name=name)
        read_base = partial(self._read_base, name)
        return Cell(
            settings, self._columns[name], read_base=read_base, make_schedule=self._schedule
        )

    def _schedule(self) -> DeliveryOrder:
        return Counted(AtOnce(), self.reached)

    def _read_base(self, name: str, table: str, packed: bytes) -> Base:
        """Cache bases like a worker (`streaming/job/kept_bases.py`)."""
        base = self._bases.get((name, table))
        if base is None or base.packed != packed:
            base = self._bases[name, table] = Base(packed)
        return base

    def _begin(self) -> None:
        """Start the next micro-batch if there are events and none is running."""
        ends = {name: len(topic) for name, topic in self._topic.items()}
        is_late = self._clock.now < self._starts_at
        if self._is_running or is_late or ends == self._committed:
            return
        for name, end in ends.items():
            begin = self._committed[name]
            if end > begin + 1 and self._chance.random() < SPLIT:
                ends[name] = self._chance.randint(begin + 1, end)
        self._is_running = True
        self._run(ends)

    def _run(self, ends: dict[str, int]) -> None:
        """Process the events; deliver the rows after the drawn time."""
        rows: list[tuple[str, Output]] = []
        for name, end in ends.items():
            begin = self._committed[name]
            if end > begin:
                self.begin(name, self._cell(name))
                for offset in range(begin, end):
                    found = self.handle(name, self._topic[name][offset], offset)
                    rows += [(name, row) for row in found]
        takes = self._chance.randint(TAKES_MIN_MS, TAKES_MAX_MS)
        self._clock.after(takes, lambda: self._end(ends, rows))

    def _end(self, ends: dict[str, int], rows: list[tuple[str, Output]]) -> None:
        events = sum(ends.values()) - sum(self._committed.values())
        if self.lost_tasks:
            self.lost_tasks -= 1
            self.on_batch(events, False)
            self._put(self._lost(rows))
            again = max(self._starts_at, self._clock.now + TAKES_MIN_MS)
            self._clock.at(again, lambda: self._run(ends))
            return
        self.on_batch(events, True)
        for name, end in ends.items():
            if end > self._committed[name]:
                self._columns[name] = self.cells[name].stored()
        self._committed = ends
        self._is_running = False
        self._put(rows)
        self._quiet += self._is_quiet
        if self._is_quiet and self._quiet % TOGETHER_EVERY == 0:
            self._hold_together()
        self._clock.after(0, self._begin)

    def _lost(self, rows: list[tuple[str, Output]]) -> list[tuple[str, Output]]:
        """Return the rows that a micro-batch with a lost task has written."""
        count = self._chance.randint(0, len(rows))
        if self._chance.random() >= GAPS:
            return rows[:count]
        kept = sorted(self._chance.sample(range(len(rows)), count))
        self.reached[Reach.GAPS] += kept != list(range(count))
        return [rows[at] for at in kept]

    @property
    def _is_quiet(self) -> bool:
        """True if there are several cells and no events are pending."""
        ends = self._committed.items()
        return len(ends) > 1 and all(len(self._topic[name]) == end for name, end in ends)

    def hold(self) -> None:
        """Check every cell, and their merged state. Raises ViolationError."""
        super().hold()
        if self._is_quiet:
            self._hold_together()

    def _hold_together(self) -> None:
        """Raise ViolationError if the merged state of all cells is invalid."""
        columns = {name: cell.columns() for name, cell in self.cells.items()}
        found = resharding.resharded(columns, {CLUSTER: self.settings.brokers})
        if isinstance(found, str):
            if "under way" in found:
                raise ViolationError(f"nothing is in the topic, and {found}")
            return
        self.reached[Reach.TOGETHER] += 1
        hold(Cell(msgspec.structs.replace(self.settings, cells={}), found[CLUSTER]))

    def _put(self, rows: list[tuple[str, Output]]) -> None:
        """Deliver rows: those for cells every time, others once."""
        for name, row in rows:
            before = self._rows.setdefault((row.topic, row.id), row)
            is_repeat = before is not row
            self.reached[Reach.REPEATED] += is_repeat
            if is_repeat and before != row:
                self.differing.append(f"{row.topic} {row.id}: {before.value!r}, then {row.value!r}")
            if row.topic == outputs.REQUESTS:
                self.take((row.key or b"").decode(), row.value or b"")
            elif not is_repeat:
                self.deliver(name, row)
