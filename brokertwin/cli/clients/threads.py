"""Assignments of tasks to threads: boxes, a chart over time, and a line for each change."""

import threading
from collections.abc import Iterable
from typing import Annotated

import typer
from rich.columns import Columns
from rich.panel import Panel

from brokertwin.cli.output import err, say_at

COLUMNS_MIN, COLUMNS_MAX = 20, 100
LABEL_COLUMNS = 6
"""Width beside a chart's columns and names."""

ShowThreads = Annotated[
    bool,
    typer.Option(
        "--show-threads",
        help="Print each change of the task assignment on standard error, and a chart at the end.",
    ),
]
SessionMs = Annotated[
    int, typer.Option("--session-timeout-ms", min=1, metavar="MS", help="session.timeout.ms")
]


class ThreadTimeline:
    """Tasks of each thread over time; any thread may report its own.

    Args:
        is_shown: whether to print changes and the chart.
        names: names of threads that have no task yet.
    """

    def __init__(self, is_shown: bool, names: Iterable[str] = ()) -> None:
        from brokertwin.clients.io.sockets import monotonic_ms
        from brokertwin.clients.timeline import Timeline

        self._clock = monotonic_ms
        self._timeline = Timeline(monotonic_ms())
        self._is_shown = is_shown
        self._lock = threading.Lock()
        self._last: dict[str, list[str]] = {name: [] for name in names}
        for name in self._last:
            self._timeline.note(self._timeline.began, name, [])

    def note(self, name: str, tasks: list[str], is_ending: bool) -> None:
        """Note the tasks of a thread; at the end, the last ones before it are shown."""
        with self._lock:
            last = self._last.setdefault(name, [])
            if not self._timeline.note(self._clock(), name, tasks):
                return
            if not is_ending or not last:
                self._last[name] = self._timeline.owned()[name]
            if self._is_shown and not is_ending:
                owned = self._timeline.owned().items()
                say_at(" | ".join(f"{who}: {' '.join(tasks) or '-'}" for who, tasks in owned))

    def show(self) -> None:
        """Print a box for each thread with its tasks, and the chart, on standard error."""
        if not self._is_shown:
            return
        boxes = [
            Panel("\n".join(tasks) or "-", title=who, title_align="left")
            for who, tasks in self._last.items()
        ]
        err.print(Columns(boxes, equal=True))
        widest = max((len(task) for tasks in self._last.values() for task in tasks), default=0)
        columns = min(max(err.width - widest - LABEL_COLUMNS, COLUMNS_MIN), COLUMNS_MAX)
        for line in self._timeline.picture(self._clock(), columns):
            err.print(line, markup=False, highlight=False, soft_wrap=True)
