"""Waiting: as long as it takes on a slow, busy machine. Only a failure takes so long."""

import time
from collections.abc import Callable, Iterator

PATIENCE_S = 900
"""How long a test waits for expected events."""


def wait_until(
    holds: Callable[[], object],
    what: str = "it does not become true",
    patience_s: float = PATIENCE_S,
) -> None:
    """Wait for a condition. Raises AssertionError where it does not come to hold."""
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def growing(first: float) -> Iterator[float]:
    """Yield increasing times, for events that have to happen *within* a time.

    A loop over them ends with the first time that is long enough for this machine.
    """
    for power in range(4):
        yield first * 5**power
