"""Whether a cell of a job still handles events.

A cell takes its events in order. So the answer to one of them shows that all before it have been
handled, too: those that have no answer yet wait in the cell, as a JoinGroup or a Fetch does, and
may do so for long. Where nothing is answered at all, the job does not run.
"""

from collections import OrderedDict


class CellWatch:
    """Watches one cell. Times are in s, by a clock that never goes back.

    Args:
        patience_s: how long no answer may come to what was written.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._unheard: OrderedDict[str, float] = OrderedDict()
        self._newest = 0.0

    def written(self, event_id: str, now: float) -> None:
        """An event was written."""
        self._unheard[event_id] = self._newest = now

    def heard(self, event_id: str) -> None:
        """An event was answered; those of other cells say nothing."""
        if event_id in self._unheard:
            while self._unheard.popitem(last=False)[0] != event_id:
                pass

    def is_silent(self, now: float) -> bool:
        """Whether an event was written long ago and neither it nor a later one was answered."""
        oldest = next(iter(self._unheard.values()), now)
        return now - oldest >= self._patience_s

    def forget(self) -> None:
        """Begin anew: nobody waits for an answer to what was written so far."""
        self._unheard.clear()

    def wants_probe(self, now: float) -> bool:
        """Whether, for the lack of events, only a new one can tell if the cell handles them."""
        return now - self._newest >= self._patience_s / 2
