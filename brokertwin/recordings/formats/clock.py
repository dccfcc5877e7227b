"""Times of log lines.

Most logs have times in the JVM's zone without its name. If another time in a line has a zone, the
difference gives the log's offset. When clocks go back, one hour occurs twice; the order of lines
distinguishes them.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, tzinfo

from brokertwin.recordings.formats.stamps import DateOrder, Stamp, stamps

_START = datetime(1970, 1, 1)  # noqa: DTZ001
MINUTE_MS = 60_000
BACK_MS = 30 * MINUTE_MS
"""A line this much earlier than the previous one means clocks went back."""

QUARTER_MS = 15 * MINUTE_MS
"""Zone offsets are multiples of this."""

OFFSET_MAX_MS = 14 * 60 * MINUTE_MS
LAG_MAX_MS = 2_000
"""Maximum delay between the log's time and a container runtime's stamp."""


class LineClock:
    """Reads the times of a log's lines, in order.

    Args:
        zone: zone of the JVM; not used for times with a zone.
        date_order: the order of dates such as `05/06/26`; called if such a date is read.

    Attributes:
        unit_ms: precision of the last time: 1, or 1000 without a fraction.
        unknown_zones: unknown zone names, whose times are read in `zone`.
    """

    def __init__(self, zone: tzinfo, date_order: Callable[[], DateOrder]) -> None:
        self._zone = zone
        self._date_order = date_order
        self.unit_ms = 1
        self.unknown_zones: set[str] = set()
        self._offset_ms: int | None = None
        self._latest = 0
        self._text, self._text_ms = b"", 0
        self._minute = -1
        self._minute_ms = 0

    def ms(self, before: bytes, behind: bytes = b"", others: Sequence[Stamp] = ()) -> int | None:
        """Return the time of a line in ms since 1970; None without one.

        The most precise time is used. Among equals it is the last one before the message, then one
        after it, then one of the wrapper.

        Args:
            before: the text before the message.
            behind: the text after it.
            others: times in the fields of a wrapper, nearest first.
        """
        found = [*reversed(stamps(before)), *(stamps(behind) if behind else ()), *others]
        if not found:
            return None
        if any(each.readings for each in found):
            found = self._dated(found)
        best = min(found, key=lambda each: each.unit_ms)
        self.unit_ms = best.unit_ms
        if best.unknown_zone:
            self.unknown_zones.add(best.unknown_zone)
        offset = best.offset_ms if best.offset_ms is not None else self._learn(best, found)
        time = best.local_ms - offset if offset is not None else self._local(best.local_ms)
        self._latest = max(self._latest, time)
        return time

    def in_minute(self, minute: bytes, ms: int) -> int | None:
        """Return the time of a line in Kafka's default layout, as `ms` does.

        Args:
            minute: `2026-11-21 01:22`.
            ms: the time in this minute.
        """
        if minute != self._text:
            try:
                local = datetime.fromisoformat(minute.decode("ascii"))
            except ValueError:
                return None
            self._text = minute
            self._text_ms = (local - _START) // timedelta(milliseconds=1)
        self.unit_ms = 1
        local_ms = self._text_ms + ms
        offset = self._offset_ms
        time = local_ms - offset if offset is not None else self._local(local_ms)
        self._latest = max(self._latest, time)
        return time

    def _dated(self, found: list[Stamp]) -> list[Stamp]:
        """The times with the numbers of their dates in the order that another time shows."""
        sure = next((each for each in found if not each.readings), None)
        if sure is None:
            order = self._date_order()
            return [dict(each.readings).get(order, each) for each in found]
        return [
            min(
                (each, *(reading for _, reading in each.readings)),
                key=lambda it: abs(it.local_ms - sure.local_ms),
            )
            for each in found
        ]

    def _learn(self, best: Stamp, found: Sequence[Stamp]) -> int | None:
        """The log's zone offset, if a time with a zone has shown it."""
        for other in found:
            if other.offset_ms is not None:
                difference = best.local_ms - (other.local_ms - other.offset_ms)
                offset = round(difference / QUARTER_MS) * QUARTER_MS
                if abs(difference - offset) <= LAG_MAX_MS and abs(offset) <= OFFSET_MAX_MS:
                    self._offset_ms = offset
        return self._offset_ms

    def _local(self, ms: int) -> int:
        """Convert a local time; the start of its minute is cached."""
        into = ms % MINUTE_MS
        if ms - into != self._minute:
            start = _start(ms - into, self._zone, 0)
            if start + BACK_MS < self._latest:
                start = _start(ms - into, self._zone, 1)
            self._minute, self._minute_ms = ms - into, start
        return self._minute_ms + into


def _start(minute: int, zone: tzinfo, fold: int) -> int:
    """The start of a minute; `fold` 1 is the second of two equal ones."""
    naive = _START + timedelta(milliseconds=minute)
    return round(naive.replace(tzinfo=zone, fold=fold).timestamp() * 1000)
