"""Return freed memory to the operating system after large deletions.

glibc keeps freed memory below the top of its heap for later allocations. `malloc_trim` returns it.
Other C libraries have no such function, and nothing happens there.
"""

import asyncio
import ctypes
import sys
import time
from collections.abc import Callable

BATCHES_LEAST = 100
"""The least number of deleted batches."""

EVERY_S = 10.0
"""The least time between two calls, which lock the heap for some milliseconds."""


def malloc_trim() -> Callable[[int], int] | None:
    """Return glibc's function, or None if the process has another C library."""
    if sys.platform != "linux":
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


class FreedMemory:
    """Decides when freed memory is returned.

    Args:
        trim: returns it; None if the C library cannot.
        clock: seconds.
    """

    def __init__(
        self, trim: Callable[[int], int] | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._trim, self._clock = trim, clock
        self._batches, self._last = 0, -EVERY_S

    async def give_back(self, batches: int) -> bool:
        """Return freed memory if enough of all `batches` were deleted since the last time.

        The result is whether it was returned.
        """
        now, deleted = self._clock(), batches - self._batches
        if self._trim is None or deleted < BATCHES_LEAST or now - self._last < EVERY_S:
            return False
        self._batches, self._last = batches, now
        await asyncio.to_thread(self._trim, 0)
        return True
