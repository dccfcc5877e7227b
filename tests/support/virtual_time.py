"""Threads in virtual time: it passes only while all of them wait.

time = VirtualTime(threads=2)      # replaces threading.Condition and the clock
with time.thread():                # in each of the two threads
    time.sleep(500)
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.patience import PATIENCE_S

NEVER = 2**62


class VirtualTime:
    """A lock and its waits, and a clock in ms.

    Attributes:
        now: the time; it jumps to the earliest deadline when all threads wait.
    """

    def __init__(self, threads: int, now: int = 0) -> None:
        self.now = now
        self._running = threads
        self._condition = threading.Condition()
        self._waiting: dict[int, tuple[Callable[[], bool], int]] = {}
        self._notifications = 0

    def __call__(self) -> int:
        return self.now

    def __enter__(self) -> bool:
        return self._condition.__enter__()

    def __exit__(self, *error: object) -> None:
        self._condition.__exit__(*error)  # type: ignore[arg-type]

    @contextmanager
    def thread(self) -> Iterator[None]:
        try:
            yield
        finally:
            with self._condition:
                self._running -= 1
                self._condition.notify_all()

    def notify_all(self) -> None:
        self._notifications += 1
        self._condition.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        seen = self._notifications
        return self.wait_for(lambda: self._notifications > seen, timeout)

    def sleep(self, milliseconds: int) -> None:
        with self:
            self.wait_for(lambda: False, milliseconds / 1000)

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """As `Condition.wait_for`: the predicate counts after a notification, and at the end."""
        if predicate():
            return True
        deadline = NEVER if timeout is None else self.now + round(timeout * 1000)
        me, seen = threading.get_ident(), self._notifications

        def is_ready() -> bool:
            return self._notifications > seen and predicate()

        self._waiting[me] = (is_ready, deadline)
        try:
            while not is_ready() and self.now < deadline:
                if not self._pass():
                    assert self._condition.wait(PATIENCE_S), "threads wait for nothing"
            return predicate()
        finally:
            del self._waiting[me]

    def _pass(self) -> bool:
        """Let time pass if all threads wait and none can go on."""
        waits = self._waiting.values()
        if len(waits) < self._running or any(
            deadline <= self.now or predicate() for predicate, deadline in waits
        ):
            return False
        self.now = min(deadline for _, deadline in waits)
        self._condition.notify_all()
        return True
