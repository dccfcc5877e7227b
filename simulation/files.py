"""Files that Connect's tasks read and write, on a disk that all workers share.

One grows by a line again and again until the clients have no new work; a task may read it from any
byte on. Others are written: what is in them are lines in the order of writing.
"""

from collections import defaultdict

from brokertwin.clients.connect.converters import TextLine
from brokertwin.simulation.clock import START_MS

GROWING = "lines.txt"
LINE_MS = 100
"""How often a line more is there."""

_LINE = "line %06d"
_SIZE = len(_LINE % 0) + 1


class Files:
    """The disk of a run; the growing file has its last line after `active_ms`."""

    def __init__(self, active_ms: int) -> None:
        self.written: defaultdict[str, list[str]] = defaultdict(list)
        self._active_ms = active_ms

    def read(self, now: int, position: int, limit: int) -> list[TextLine]:
        """The growing file's lines from a byte on, at most so many."""
        end = min(now - START_MS, self._active_ms) // LINE_MS
        first = position // _SIZE
        return [
            TextLine((_LINE % number).encode(), _SIZE)
            for number in range(first, min(end, first + limit))
        ]
