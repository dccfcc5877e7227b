"""Virtual time: scheduled actions in order, without waiting."""

import heapq
from collections.abc import Callable

START_MS = 1_700_000_000_000
"""Start of each simulation, in ms since 1970."""

Happening = Callable[[], None]


class VirtualClock:
    """Scheduled actions by time; actions of the same ms run in call order.

    Attributes:
        now: time, in ms since 1970.
    """

    def __init__(self) -> None:
        self.now = START_MS
        self._count = 0
        self._heap: list[tuple[int, int, Happening]] = []

    def __call__(self) -> int:
        """Return the time, in the form of a client's clock."""
        return self.now

    @property
    def elapsed(self) -> int:
        """Time since the start in ms."""
        return self.now - START_MS

    def at(self, time: int, happening: Happening) -> None:
        self._count += 1
        heapq.heappush(self._heap, (max(time, self.now), self._count, happening))

    def after(self, milliseconds: int, happening: Happening) -> None:
        self.at(self.now + milliseconds, happening)

    def step(self) -> None:
        self.now, _, happening = heapq.heappop(self._heap)
        happening()

    def run(self, until: int) -> None:
        while self._heap and self._heap[0][0] <= until:
            self.step()
        self.now = until

    def run_until(self, is_done: Callable[[], bool], patience_ms: int) -> bool:
        """Run until a condition holds, up to a timeout; return whether it does."""
        until = self.now + patience_ms
        while not is_done():
            if not self._heap or self._heap[0][0] > until:
                return False
            self.step()
        return True
