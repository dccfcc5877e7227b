"""A thread for each task of a worker; a connector itself has none.

Source: `Worker`, `WorkerTask` in Kafka Connect.
"""

import threading
import traceback
from collections.abc import Callable
from functools import partial

from brokertwin.clients.connect.work import ConnectTaskId

Run = Callable[[Callable[[], bool], Callable[[int], None]], None]
"""The work of a task: runs until `is_over`, and reports lines to `moved`."""


class Threads:
    """The tasks of one worker.

    Attributes:
        failed: tracebacks of failed tasks, until `stop`.
        moved: number of lines by task, ended ones included.
    """

    def __init__(self, name: str) -> None:
        self.failed: dict[ConnectTaskId, str] = {}
        self.moved: dict[ConnectTaskId, int] = {}
        self._name = name
        self._over: dict[ConnectTaskId, threading.Event] = {}
        self._threads: dict[ConnectTaskId, threading.Thread] = {}

    def start(self, item: ConnectTaskId, run: Run | None) -> None:
        """Start a task; without `run` it has no thread."""
        over = self._over[item] = threading.Event()
        if run is None:
            return
        thread = threading.Thread(
            target=self._run, args=(item, run, over), name=f"{self._name}-{item}"
        )
        self._threads[item] = thread
        thread.start()

    def stop(self, item: ConnectTaskId) -> None:
        """Stop a task; `ended` reports when it has ended."""
        self._over[item].set()

    def ended(self) -> list[ConnectTaskId]:
        """Return the stopped tasks that ended since the last call."""
        alive = {item for item, thread in self._threads.items() if thread.is_alive()}
        connect_task_ids = [
            item for item, over in self._over.items() if over.is_set() and item not in alive
        ]
        for item in connect_task_ids:
            del self._over[item]
            self._threads.pop(item, None)
            self.failed.pop(item, None)
        return connect_task_ids

    @property
    def running(self) -> list[ConnectTaskId]:
        """Started work that has neither ended nor failed."""
        return [item for item in list(self._over) if item not in self.failed]

    @property
    def have_begun(self) -> bool:
        begun = self.moved.keys() | self.failed.keys()
        return bool(self._over) and all(item.is_connector or item in begun for item in self._over)

    @property
    def is_empty(self) -> bool:
        """Whether no work is left, failed work included."""
        return not self._over

    def _run(self, item: ConnectTaskId, run: Run, over: threading.Event) -> None:
        try:
            run(over.is_set, partial(self._moved, item))
        except Exception:  # noqa: BLE001 - a failure ends its task only
            self.failed[item] = traceback.format_exc(limit=-3)

    def _moved(self, item: ConnectTaskId, count: int) -> None:
        self.moved[item] = self.moved.get(item, 0) + count
