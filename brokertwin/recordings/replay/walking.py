"""A cell with cheap snapshots for a search.

A snapshot is a copy of the cell at an earlier moment and the events since. A copy is made every
`EVENTS_SINCE` events, because copying encodes the items. Going back copies the copy and handles the
events again.
"""

from typing import NamedTuple

from brokertwin.recordings.replay.picks import NOWHERE, Pick, own_picks
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.events import Event
from brokertwin.state.core.outputs import Output
from brokertwin.state.core.tables import CellTables

EVENTS_SINCE = 16


class KeptWalk(NamedTuple):
    """A snapshot: a cell that is never modified, and the events since."""

    base: Cell
    since: tuple[bytes, ...] = ()

    def cell(self) -> Cell:
        cell = self.base.copy()
        for document in self.since:
            cell.handle(document, NOWHERE)
        return cell


class WalkingCell:
    """A cell that copies itself only for requested snapshots."""

    def __init__(self, cell: Cell) -> None:
        self._live: Cell | None = cell
        self._kept: KeptWalk | None = None

    @property
    def tables(self) -> CellTables:
        """The current tables; read only."""
        return self.cell().tables

    def own_picks(self, event: Event) -> list[Pick]:
        """The ids that it would generate without the event's choices."""
        return list(own_picks(self.cell(), event, event.choices)) if event.choices else []

    def handle(self, document: bytes) -> list[Output]:
        rows = self.cell().handle(document, NOWHERE)
        if self._kept is not None:
            self._kept = KeptWalk(self._kept.base, (*self._kept.since, document))
        return rows

    def changing(self) -> Cell:
        cell = self.cell()
        self._kept = None
        return cell

    def kept(self) -> KeptWalk:
        """Return a snapshot of the current state."""
        if self._kept is None or len(self._kept.since) >= EVENTS_SINCE:
            self._kept = KeptWalk(self.cell().copy())
        return self._kept

    def go_back(self, kept: KeptWalk) -> None:
        self._live, self._kept = None, kept

    def cell(self) -> Cell:
        """Return the cell; only its owner may change it."""
        if self._live is None:
            assert self._kept is not None
            self._live = self._kept.cell()
        return self._live
