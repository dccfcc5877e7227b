"""A cell that a search walks with: forward by events, and back to any moment that was kept.

To keep a moment costs nothing: it is a copy of the cell at a moment before, and the events since.
A copy is made each `EVENTS_SINCE` events, for items are encoded for it, and decoded again after it.
To go back is to copy that copy and to handle the events since again.
"""

from typing import NamedTuple

from brokertwin.recordings.replay.picks import NOWHERE, Pick, own_picks
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.events import Event
from brokertwin.state.core.outputs import Output
from brokertwin.state.core.tables import Tables

EVENTS_SINCE = 16


class Kept(NamedTuple):
    """A moment: a cell that nobody changes, and the events that it has had since."""

    base: Cell
    since: tuple[bytes, ...] = ()

    def cell(self) -> Cell:
        """A cell of one's own, as it was then."""
        cell = self.base.copy()
        for document in self.since:
            cell.handle(document, NOWHERE)
        return cell


class WalkingCell:
    """Copies are made only where somebody asks for a moment.

    Args:
        cell: as it is at the beginning.
    """

    def __init__(self, cell: Cell) -> None:
        self._live: Cell | None = cell
        self._kept: Kept | None = None

    @property
    def tables(self) -> Tables:
        """The tables as they are, to be read only."""
        return self._now().tables

    def own_picks(self, event: Event) -> list[Pick]:
        """The ids that it would give in place of the event's choices, without them."""
        return list(own_picks(self._now(), event, event.choices)) if event.choices else []

    def cell(self) -> Cell:
        """The cell itself, for who goes on without this."""
        return self._now()

    def handle(self, document: bytes) -> list[Output]:
        """What an event causes."""
        rows = self._now().handle(document, NOWHERE)
        if self._kept is not None:
            self._kept = Kept(self._kept.base, (*self._kept.since, document))
        return rows

    def changing(self) -> Cell:
        """The cell, for changing otherwise than by an event."""
        cell = self._now()
        self._kept = None
        return cell

    def kept(self) -> Kept:
        """The state as it is, to go back to."""
        if self._kept is None or len(self._kept.since) >= EVENTS_SINCE:
            self._kept = Kept(self._now().copy())
        return self._kept

    def go_back(self, kept: Kept) -> None:
        """Be as it was when this was kept."""
        self._live, self._kept = None, kept

    def _now(self) -> Cell:
        if self._live is None:
            assert self._kept is not None
            self._live = self._kept.cell()
        return self._live
