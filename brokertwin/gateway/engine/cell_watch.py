"""Liveness of a cell of a job.

A cell processes its events in order. A response therefore proves that all earlier events have been
processed; those without a response are pending requests, such as a JoinGroup or a Fetch, and may
stay so for long. If there are no responses at all, the job is not running.
"""

from collections import OrderedDict


class CellWatch:
    """Watches one cell. Times are monotonic seconds.

    Args:
        patience_s: time without responses after which the cell is considered silent.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._pending: OrderedDict[str, float] = OrderedDict()
        self._newest = 0.0

    def written(self, event_id: str, now: float) -> None:
        self._pending[event_id] = self._newest = now

    def responded(self, event_id: str) -> None:
        """Note a response; ignore those to events of other cells."""
        if event_id in self._pending:
            while self._pending.popitem(last=False)[0] != event_id:
                pass

    def is_silent(self, now: float) -> bool:
        """True if an old event and all later ones have no response."""
        oldest = next(iter(self._pending.values()), now)
        return now - oldest >= self._patience_s

    def forget(self) -> None:
        """Forget all events; their requests have failed."""
        self._pending.clear()

    def wants_probe(self, now: float) -> bool:
        """True if only a new event can show whether the cell is alive."""
        return now - self._newest >= self._patience_s / 2
