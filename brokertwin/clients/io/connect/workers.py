"""Workers of one command, each in a thread."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from threading import Event, Lock

from brokertwin.clients.io.connect.distributed import DistributedWorker
from brokertwin.clients.io.connect.standalone import StandaloneWorker
from brokertwin.clients.io.connect.threads import Threads
from brokertwin.clients.io.worker_threads import Note, WorkerThreads

LOOK_S = 0.05


class Workers(WorkerThreads):
    """Runs workers.

    Args:
        workers: all standalone or all distributed.
        warn: gets a line for each failed task.
        note: gets the tasks of a worker.

    Attributes:
        failed: names of failed tasks.
    """

    def __init__(
        self,
        workers: Sequence[StandaloneWorker | DistributedWorker],
        warn: Callable[[str], None],
        note: Note,
    ) -> None:
        self.failed: set[str] = set()
        self._workers = workers
        self._warn, self._note = warn, note
        self._lock = Lock()
        super().__init__({each.name: partial(self._work, each) for each in workers})
        self.start()

    def wait(self, over: Event, idle_s: float | None) -> None:
        """Return at `over`, with the first worker, or if nothing was copied for `idle_s`."""
        moved, heard = 0, time.monotonic()
        while not over.wait(LOOK_S) and not self.is_over.is_set():
            now = self.moved().total()
            if now != moved or not self._has_begun:
                moved, heard = now, time.monotonic()
            if idle_s and time.monotonic() - heard >= idle_s:
                return

    def moved(self) -> Counter[str]:
        """Return the number of lines and records that each task has copied."""
        counts: Counter[str] = Counter()
        for worker in self._workers:
            counts.update({str(item): count for item, count in list(worker.threads.moved.items())})
        return counts

    @property
    def _has_begun(self) -> bool:
        busy = [each.threads for each in self._workers if not each.threads.is_empty]
        return bool(busy) and all(threads.have_begun for threads in busy)

    def _work(self, worker: StandaloneWorker | DistributedWorker) -> None:
        worker.run(self.is_over.is_set, partial(self._look, worker.name))

    def _look(self, name: str, threads: Threads) -> None:
        with self._lock:
            for item, trace in list(threads.failed.items()):
                if str(item) not in self.failed:
                    self.failed.add(str(item))
                    reason = " ".join(trace.strip().splitlines()[-1:])
                    self._warn(f"{name}: {item} failed: {reason}")
        self._note(name, [str(item) for item in threads.running], self.is_over.is_set())
        time.sleep(LOOK_S)
