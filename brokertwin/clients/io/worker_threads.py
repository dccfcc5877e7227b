"""Threads of members or workers, which run until one of them fails or all are stopped."""

import threading
from collections.abc import Callable, Mapping

from brokertwin.errors import UserError

JOIN_S = 60.0

Note = Callable[[str, list[str], bool], None]
"""Gets the items that a thread runs, and whether the threads are ending."""


class WorkerThreads:
    """A thread for each name.

    Attributes:
        is_over: set when a thread has ended or `stop` was called.
    """

    def __init__(self, runs: Mapping[str, Callable[[], None]]) -> None:
        self.is_over = threading.Event()
        self._error: str | None = None
        self._threads = [
            threading.Thread(target=self._run, args=(name, run), name=name, daemon=True)
            for name, run in runs.items()
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self, timeout_s: float | None = None) -> None:
        for thread in self._threads:
            thread.join(timeout_s)

    def stop(self) -> None:
        self.is_over.set()
        self.join(JOIN_S)

    def check(self) -> None:
        """Raise UserError if a thread failed."""
        if self._error is not None:
            raise UserError(self._error)

    def fail(self, name: str, why: object) -> None:
        self._error = f"{name} stopped: {why}"
        self.is_over.set()

    def _run(self, name: str, run: Callable[[], None]) -> None:
        try:
            run()
        except Exception as error:  # noqa: BLE001 - ends the threads; `check` reports it
            self.fail(name, error)
        finally:
            self.is_over.set()
