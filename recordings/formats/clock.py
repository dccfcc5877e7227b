"""The times of log lines.

Most logs print the time of their JVM's zone without naming it. If another time in the same line
names its zone, the difference between both is the offset of the log. When clocks go back, an hour
comes twice; the second one is told from the first because lines are in order.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo

from brokertwin.recordings.formats.stamps import Stamp, stamps

MINUTE_MS = 60_000
BACK_MS = 30 * MINUTE_MS
"""A line that is so much earlier than the one before it shows that clocks have gone back."""

QUARTER_MS = 15 * MINUTE_MS
"""Offsets of zones are multiples of it."""

OFFSET_MAX_MS = 14 * 60 * MINUTE_MS
LAG_MAX_MS = 2_000
"""How much later than the log's own time a container runtime may stamp a line."""


class Clock:
    """Reads the times of one log's lines, in their order.

    Args:
        zone: of the JVM that wrote the log; a time that names its own zone is taken by that.

    Attributes:
        unit_ms: how exact the time is that was read last: 1, or 1000 if it has no fraction.
        unknown_zones: names of zones that are not known; such times are taken by `zone`.
    """

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self.unit_ms = 1
        self.unknown_zones: set[str] = set()
        self._offset_ms: int | None = None
        self._latest = 0
        self._minute = -1
        self._minute_ms = 0

    def ms(self, before: bytes, behind: bytes = b"", others: Sequence[Stamp] = ()) -> int | None:
        """The time of a log line in ms since 1970; None if there is none.

        The most exact time counts. Among equals it is the last one before the message, then one
        behind it, then one of the wrapper.

        Args:
            before: the text before the message.
            behind: the text behind it.
            others: times in the fields of a wrapper, the nearest first.
        """
        found = [*reversed(stamps(before)), *(stamps(behind) if behind else ()), *others]
        if not found:
            return None
        best = min(found, key=lambda each: each.unit_ms)
        self.unit_ms = best.unit_ms
        if best.unknown_zone:
            self.unknown_zones.add(best.unknown_zone)
        offset = best.offset_ms if best.offset_ms is not None else self._learn(best, found)
        time = best.local_ms - offset if offset is not None else self._local(best.local_ms)
        self._latest = max(self._latest, time)
        return time

    def _learn(self, best: Stamp, found: Sequence[Stamp]) -> int | None:
        """The offset of the log's zone as far as a time that names its own zone has shown it."""
        for other in found:
            if other.offset_ms is not None:
                difference = best.local_ms - (other.local_ms - other.offset_ms)
                offset = round(difference / QUARTER_MS) * QUARTER_MS
                if abs(difference - offset) <= LAG_MAX_MS and abs(offset) <= OFFSET_MAX_MS:
                    self._offset_ms = offset
        return self._offset_ms

    def _local(self, ms: int) -> int:
        """A time of the log's zone; times of one minute share its start."""
        into = ms % MINUTE_MS
        if ms - into != self._minute:
            start = _start(ms - into, self._zone, 0)
            if start + BACK_MS < self._latest:
                start = _start(ms - into, self._zone, 1)
            self._minute, self._minute_ms = ms - into, start
        return self._minute_ms + into


def _start(minute: int, zone: tzinfo, fold: int) -> int:
    """The start of a minute; `fold` 1 is the second of two that read the same."""
    naive = datetime(1970, 1, 1) + timedelta(milliseconds=minute)  # noqa: DTZ001
    return round(naive.replace(tzinfo=zone, fold=fold).timestamp() * 1000)
