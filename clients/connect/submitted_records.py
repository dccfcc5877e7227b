"""Which of a source's offsets may be stored: those before which everything is acknowledged.

Source: `SubmittedRecords` in Kafka Connect. Records are submitted in order, and acknowledged in
any; the offset of one that is behind an unacknowledged one of the same source partition waits.
"""

from collections import deque
from typing import Generic, TypeVar

Offset = TypeVar("Offset")


class SubmittedRecords(Generic[Offset]):
    """Those of one source partition."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Offset]] = deque()
        self._acked: set[int] = set()
        self._committable: Offset | None = None

    def submit(self, record_id: int, offset: Offset) -> None:
        """A record was sent; `offset` is where the source goes on after it."""
        self._waiting.append((record_id, offset))

    def acked(self, record_id: int) -> None:
        """It is in the log."""
        self._acked.add(record_id)
        while self._waiting and self._waiting[0][0] in self._acked:
            first, self._committable = self._waiting.popleft()
            self._acked.discard(first)

    def committable(self) -> Offset | None:
        """The offset to store, once; None where there is no new one."""
        offset, self._committable = self._committable, None
        return offset

    @property
    def count(self) -> int:
        """Records whose offsets wait."""
        return len(self._waiting)
