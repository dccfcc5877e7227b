"""Worker processes."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, Self, TypeVar

from brokertwin.errors import UserError

A = TypeVar("A")
R = TypeVar("R")


def cores() -> int:
    """Number of cores that this process may use."""
    available = getattr(os, "sched_getaffinity", None)
    return len(available(0)) if available is not None else os.cpu_count() or 1


class Forked(Generic[A, R]):
    """Processes that do one kind of work with the objects of this one, and end with it.

    Each has a pipe of its own: one that is killed while it writes holds up no other.

    Args:
        count: number of processes.
        work: takes and returns what can be pickled.
    """

    def __init__(self, count: int, work: Callable[[A], R]) -> None:
        self._threads = ThreadPoolExecutor(count)
        self._idle: SimpleQueue[Connection] = SimpleQueue()
        self._processes = []
        fork = get_context("fork")
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # for the processes
        try:
            for _ in range(count):
                own, theirs = fork.Pipe()
                process = fork.Process(target=_serve, args=(theirs, work), daemon=True)
                process.start()
                theirs.close()  # before the next one inherits it
                self._idle.put(own)
                self._processes.append(process)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes, whatever they do."""
        for process in self._processes:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.join()

    def do(self, argument: A) -> Future[R]:
        """Let a process do its work. The result raises UserError: the process was killed."""
        return self._threads.submit(self._done, argument)

    def _done(self, argument: A) -> R:
        pipe = self._idle.get()
        try:
            pipe.send(argument)
            result, error = pipe.recv()
        except (EOFError, OSError) as broken:
            raise UserError(
                "A process ended before its work was done, perhaps for lack of memory.",
                "Use fewer processes.",
            ) from broken
        finally:
            self._idle.put(pipe)
        if error is not None:
            raise error
        return result  # type: ignore[no-any-return]


def end_with_parent() -> None:
    Thread(target=_wait_for_parent, daemon=True).start()


def _serve(pipe: Connection, work: Callable[[Any], Any]) -> None:
    end_with_parent()
    while True:
        argument = pipe.recv()
        answer: tuple[Any, Exception | None]
        try:
            answer = work(argument), None
        except Exception as error:  # noqa: BLE001 the other process raises it
            answer = None, error
        pipe.send(answer)


def _wait_for_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
