"""The times of log lines.

A log prints the time of its JVM's zone without naming it. When clocks go back, an hour comes
twice; the second one is told from the first because lines are in order.
"""

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo

TIMESTAMP = re.compile(
    rb"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d):(\d\d)(?:[.,](\d{1,9}))?(?: ?(Z|[+-]\d\d:?\d\d)(?!\d))?"
)
"""Log4j's `%d`, `%d{ISO8601}` and the like, with or without fraction and zone."""

BACK_MS = 30 * 60 * 1000
"""A line that is so much earlier than the one before it shows that clocks have gone back."""


class Clock:
    """Reads the times of one log's lines, in their order.

    Args:
        zone: that of the JVM which wrote the log; a time that names its own zone is taken by that.

    Attributes:
        unit_ms: how exact the time was that was read last: 1, or 1000 where it had no fraction.
    """

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self.unit_ms = 1
        self._latest = 0
        self._minute = b""
        self._minute_ms = 0

    def ms(self, text: bytes) -> int | None:
        """The first time in a text in ms since 1970; None where there is none."""
        found = TIMESTAMP.search(text)
        if found is None:
            return None
        minute, seconds, fraction, zone = found.groups()
        try:
            start = self._start_of(minute) if zone is None else _start(minute, _zone(zone), 0)
        except (ValueError, OverflowError):
            return None
        self.unit_ms = 1000 if fraction is None else 1
        ms = int((fraction or b"0").ljust(3, b"0")[:3])
        time = start + int(seconds) * 1000 + ms
        self._latest = max(self._latest, time)
        return time

    def _start_of(self, minute: bytes) -> int:
        """Lines of one minute share its start."""
        if minute != self._minute:
            start = _start(minute, self._zone, 0)
            if start + BACK_MS < self._latest:
                start = _start(minute, self._zone, 1)
            self._minute, self._minute_ms = minute, start
        return self._minute_ms


def _start(minute: bytes, zone: tzinfo, fold: int) -> int:
    """The start of a minute; `fold` 1 is the second of two that read the same."""
    local = datetime.fromisoformat(minute.decode("ascii")).replace(tzinfo=zone, fold=fold)
    return round(local.timestamp() * 1000)


def _zone(text: bytes) -> tzinfo:
    """The zone of `Z`, `+02:00` or `-0330`. Raises ValueError for what cannot be one."""
    if text == b"Z":
        return UTC
    digits = text[1:].replace(b":", b"")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return timezone(-offset if text[:1] == b"-" else offset)
