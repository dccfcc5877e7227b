"""Virtual time: what is to happen, in order. Nothing waits, and nobody looks at a real clock."""

import heapq
from collections.abc import Callable

START_MS = 1_700_000_000_000
"""When each simulation begins, in ms since 1970."""

Happening = Callable[[], None]


class VirtualClock:
    """What is to happen, by its time; what falls on one ms happens in the order of the calls.

    Attributes:
        now: the time, in ms since 1970.
    """

    def __init__(self) -> None:
        self.now = START_MS
        self._count = 0
        self._heap: list[tuple[int, int, Happening]] = []

    def __call__(self) -> int:
        """The time, as clients ask for it."""
        return self.now

    @property
    def elapsed(self) -> int:
        """The ms since the beginning."""
        return self.now - START_MS

    def at(self, time: int, happening: Happening) -> None:
        """Lets something happen then, or now where that is past."""
        self._count += 1
        heapq.heappush(self._heap, (max(time, self.now), self._count, happening))

    def after(self, milliseconds: int, happening: Happening) -> None:
        """Lets something happen so much later."""
        self.at(self.now + milliseconds, happening)

    def step(self) -> None:
        """What is next happens."""
        self.now, _, happening = heapq.heappop(self._heap)
        happening()

    def run(self, until: int) -> None:
        """All that happens up to a time, which it is then."""
        while self._heap and self._heap[0][0] <= until:
            self.step()
        self.now = until

    def run_until(self, is_done: Callable[[], bool], patience_ms: int) -> bool:
        """Until something holds, at most so long; whether it does."""
        until = self.now + patience_ms
        while not is_done():
            if not self._heap or self._heap[0][0] > until:
                return False
            self.step()
        return True
