"""Clocks for our broker that a test moves on, or that are faster than the machine's."""

import time
from collections.abc import Callable

from brokertwin.gateway.engine.engine import now_ms
from tests.support.goldens import IS_LIVE, WRITTEN_MS


class SteppedClock:
    """The time in ms since 1970, which a test moves on.

    An engine fires the deadlines that have passed with its next request.

    Attributes:
        tick_ms: how much time passes with each reading, that is, with each request.
    """

    def __init__(self) -> None:
        self.now = WRITTEN_MS
        self.tick_ms = 0

    def __call__(self) -> int:
        self.now += self.tick_ms
        return self.now


class SkippingClock:
    """Return the machine's time in ms since 1970 plus the time skipped by a test."""

    def __init__(self) -> None:
        self.skipped_ms = 0

    def __call__(self) -> int:
        return now_ms() + self.skipped_ms


def fast_clock(factor: int) -> Callable[[], int]:
    """Return a clock that runs faster than the machine's by this factor during a replay.

    Only for deadlines of brokers, such as sessions and lags: an engine fires them in order, however
    slow the machine is.
    """
    begin, began = now_ms(), time.monotonic()
    if IS_LIVE:
        return now_ms
    return lambda: begin + int((time.monotonic() - began) * 1000 * factor)
