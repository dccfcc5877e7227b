"""Permitted deviations ("freedoms") of the comparison.

The report counts the exchanges that agree only because of each. docs/comparison.md has the same
list, and a test injects faults next to each.
"""

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum


class Freedom(StrEnum):
    """A deviation that an exchange used, in the report's words."""

    LIST_ORDER = "lists without an order, by key"
    CONTROLLER = "any live broker id as controller id"
    MARKER_TIME = "end markers and dead letters as if written at the recorded time"
    WITHIN = "any offset inside the right batch"
    RECORDS_ERROR = "corrupt record bytes (the recording has none)"
    BATCHES = "batches that the recording does not have"
    BEFORE = "entries from before the recording"
    MOVED = "handled later than it arrived"
    HELD = "long polls that ended late"
    LATE_METADATA = "a change of metadata read later"
    LATE_MARKERS = "markers written later"
    REGEXES = "regular expressions resolved a moment sooner or later"
    LOST = "requests with acks 0 lost with their connection"
    UNREADY = "refused before the log of a new partition was open"


INSIDE = frozenset({Freedom.WITHIN, Freedom.RECORDS_ERROR, Freedom.BATCHES})
"""Freedoms for missing records."""


def counted(used: Iterable[Iterable[Freedom]]) -> Counter[Freedom]:
    counts = Counter(freedom for freedoms in used for freedom in freedoms)
    return Counter({freedom: counts[freedom] for freedom in Freedom})
