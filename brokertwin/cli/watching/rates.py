"""Rows or responses per second."""

import time
from collections import deque
from collections.abc import Callable

RATE_WINDOW_S = 10.0


class Rate:
    """Rows or responses per second over `RATE_WINDOW_S`, by the machine's monotonic clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._recent: deque[tuple[float, int, float]] = deque()

    def add(self, count: int, seconds: float) -> None:
        """Add rows or responses that took some time until now."""
        self._recent.append((self._clock(), count, seconds))
        self._drop_old()

    def value(self) -> float:
        """Return the current rate; 0 if nothing was added in the window."""
        self._drop_old()
        if not self._recent:
            return 0.0
        first, _, took = self._recent[0]
        span = max(self._clock() - first + took, 0.001)
        return sum(count for _, count, _ in self._recent) / span

    def _drop_old(self) -> None:
        while self._recent and self._clock() - self._recent[0][0] > RATE_WINDOW_S:
            self._recent.popleft()
