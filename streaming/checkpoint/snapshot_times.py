"""When the next snapshot or check of a running query is due."""

from typing import NamedTuple


class Interval(NamedTuple):
    """An interval, in micro-batches or seconds."""

    batches: int | None = None
    seconds: float | None = None


def parse_interval(text: str) -> Interval:
    """Parse `100 batches`, `90 seconds`, `5 minutes`, `1 hour`. See `settings.SNAPSHOT_EVERY`."""
    number, unit = text.split()
    if unit.startswith("batch"):
        return Interval(batches=int(number))
    seconds = {"second": 1, "minute": 60, "hour": 3600}[unit.rstrip("s")]
    return Interval(seconds=int(number) * seconds)


class DueSnapshot:
    """When the next snapshot or check is due; only after a new micro-batch.

    Args:
        every: the interval.
        batch: the newest committed micro-batch at the start.
        now: monotonic time in seconds.
    """

    def __init__(self, every: Interval, batch: int, now: float) -> None:
        self._every = every
        self.taken(batch, now)

    def taken(self, batch: int, now: float) -> None:
        self._batch, self._at = batch, now

    def is_due(self, batch: int, now: float) -> bool:
        if batch <= self._batch:
            return False
        if self._every.batches is not None:
            return batch - self._batch >= self._every.batches
        return self._every.seconds is not None and now - self._at >= self._every.seconds
