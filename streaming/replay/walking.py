"""A cell that a search walks with: forward by events, and back to any moment that was kept."""

from brokerstream.state.cell.cell import Cell
from brokerstream.state.core.outputs import Output, Position
from brokerstream.state.core.tables import Tables

NOWHERE = Position(0, 0)


class WalkingCell:
    """What it keeps of a state is made once, and only where somebody asks for it.

    Args:
        cell: as it is at the beginning.
    """

    def __init__(self, cell: Cell) -> None:
        self._live: Cell | None = cell
        self._kept: Cell | None = None

    @property
    def tables(self) -> Tables:
        """The tables as they are, to be read only."""
        return (self._live or self.kept()).tables

    def handle(self, document: bytes) -> list[Output]:
        """What an event causes."""
        return self.changing().handle(document, NOWHERE)

    def changing(self) -> Cell:
        """The cell, for changing."""
        if self._live is None:
            self._live = self.kept().copy()
        self._kept = None
        return self._live

    def kept(self) -> Cell:
        """The state as it is, to go back to: nobody changes it."""
        if self._kept is None:
            assert self._live is not None
            self._kept = self._live.copy()
        return self._kept

    def go_back(self, kept: Cell) -> None:
        """Be as it was when this was kept."""
        self._live, self._kept = None, kept
