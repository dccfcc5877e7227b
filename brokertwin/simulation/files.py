"""Files of Connect tasks, on a disk shared by all workers.

One file grows by a line periodically until clients have no new work; it can be read from any
position. Output files contain lines in write order.
"""

from collections import defaultdict

from brokertwin.clients.connect.converters import TextLine
from brokertwin.simulation.clock import START_MS

GROWING = "lines.txt"
LINE_MS = 100
"""Interval of new lines."""

_LINE = "line %06d"
_SIZE = len(_LINE % 0) + 1


class Files:
    """The disk of a run; the growing file ends after `active_ms`."""

    def __init__(self, active_ms: int) -> None:
        self.written: defaultdict[str, list[str]] = defaultdict(list)
        self._active_ms = active_ms

    def read(self, now: int, position: int, limit: int) -> list[TextLine]:
        """Return up to `limit` lines of the growing file from a position."""
        end = min(now - START_MS, self._active_ms) // LINE_MS
        first = position // _SIZE
        return [
            TextLine((_LINE % number).encode(), _SIZE)
            for number in range(first, min(end, first + limit))
        ]
