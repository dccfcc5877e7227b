"""The committable offset of a source: all records before it are acked.

Source: `SubmittedRecords` in Kafka Connect. Records are submitted in order and acknowledged in any
order. An offset waits while an earlier record of its source partition is unacknowledged.
"""

from collections import deque


class SubmittedRecords:
    """Submitted records of one source partition."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int]] = deque()
        self._acked: set[int] = set()
        self._committable: int | None = None

    def submit(self, record_id: int, offset: int) -> None:
        """Add a record; the source continues at `offset` after it."""
        self._waiting.append((record_id, offset))

    def acked(self, record_id: int) -> None:
        self._acked.add(record_id)
        while self._waiting and self._waiting[0][0] in self._acked:
            first, self._committable = self._waiting.popleft()
            self._acked.discard(first)

    def committable(self) -> int | None:
        """Return the new committable offset once, or None."""
        offset, self._committable = self._committable, None
        return offset

    @property
    def count(self) -> int:
        return len(self._waiting)
