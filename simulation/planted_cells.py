"""Rules of what cells decide again that are broken on purpose; `planted.py` has the others."""

from brokerstream.simulation.planting import Planted

PLANTED_CELLS: tuple[Planted, ...] = (
    Planted(
        "again-in-time",
        "events that are decided again are decided at their time",
        "brokerstream.state.cell.cell",
        "        self.meta = self._meta_before\n",
        "",
    ),
)
