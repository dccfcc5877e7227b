"""Worker processes."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from threading import Thread
from typing import Any, Generic, TypeVar

from brokertwin.errors import UserError

A = TypeVar("A")
R = TypeVar("R")

_inherited: list[Callable[[Any], Any]] = []


def cores() -> int:
    """Number of cores that this process may use."""
    available = getattr(os, "sched_getaffinity", None)
    return len(available(0)) if available is not None else os.cpu_count() or 1


class Forked(ProcessPoolExecutor, Generic[A, R]):
    """Processes that do one kind of work with the objects of this one, and end with it.

    Args:
        count: number of processes.
        work: takes and returns what can be pickled.
    """

    def __init__(self, count: int, work: Callable[[A], R]) -> None:
        super().__init__(count, get_context("fork"), _begin, (work,))
        self.submit(int).result()  # starts all of them

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """End the processes. Raises UserError: one of them was killed."""
        self.shutdown(cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise UserError(
                "A process ended before its work was done, perhaps for lack of memory.",
                "Use fewer processes.",
            ) from error

    def do(self, argument: A) -> Future[R]:
        """Let a process do its work."""
        return self.submit(_inherited_work, argument)


def end_with_parent() -> None:
    Thread(target=_wait_for_parent, daemon=True).start()


def _begin(work: Callable[[Any], Any]) -> None:
    _inherited.append(work)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    end_with_parent()


def _inherited_work(argument: Any) -> Any:
    return _inherited[-1](argument)


def _wait_for_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
