"""An event loop in a thread, for objects that other threads use."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from brokertwin.errors import UserError

TIMEOUT_S = 30.0
"""Timeout of a call, which normally takes milliseconds."""

Found = TypeVar("Found")


class LoopThread:
    """Runs coroutines and functions in a thread with an event loop.

    Args:
        name: name of the thread, and of what it runs in errors.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._has_ended = False

    @property
    def is_running(self) -> bool:
        """True between `start` and `end`."""
        return self._loop is not None

    def start(self) -> None:
        """Start the thread. Raises UserError if it runs or has ended."""
        if self._loop is not None:
            raise UserError(f"The {self._name} is already running.")
        if self._has_ended:
            raise UserError(f"The {self._name} is closed.", "Create a new one.")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name=f"kafka_{self._name}", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        loop, thread = self._loop, self._thread
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(TIMEOUT_S)
            loop.close()
        self._loop = self._thread = None
        self._has_ended = True

    def call(self, work: Callable[[], Found]) -> Found:
        async def do() -> Found:
            return work()

        return self.run(do())

    def run(self, work: Coroutine[Any, Any, Found]) -> Found:
        """Run a coroutine in the thread. Raises UserError if it does not run."""
        if self._loop is None:
            work.close()
            raise UserError(
                f"The {self._name} is not running.", "Use it in a `with`, or call start()."
            )
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(TIMEOUT_S)
