"""Assignments of tasks to threads: boxes, a chart over time, and a line for each change."""

from typing import TYPE_CHECKING

from rich.columns import Columns
from rich.panel import Panel

from brokertwin.cli.output import err, say_at

if TYPE_CHECKING:
    from brokertwin.clients.timeline import Timeline

COLUMNS_MIN, COLUMNS_MAX = 20, 100
LABEL_COLUMNS = 6
"""Width beside a chart's columns and names."""


def say_change(timeline: "Timeline") -> None:
    """Print each thread's current tasks on one line of standard error."""
    parts = [f"{who}: {' '.join(owned) or '-'}" for who, owned in timeline.owned().items()]
    say_at(" | ".join(parts))


def show_threads(timeline: "Timeline", now: int, owned: dict[str, list[str]]) -> None:
    """Print a box for each thread with its tasks, and the chart, on standard error."""
    boxes = [
        Panel("\n".join(tasks) or "-", title=who, title_align="left")
        for who, tasks in owned.items()
    ]
    err.print(Columns(boxes, equal=True))
    widest = max((len(task) for tasks in owned.values() for task in tasks), default=0)
    columns = min(max(err.width - widest - LABEL_COLUMNS, COLUMNS_MIN), COLUMNS_MAX)
    for line in timeline.picture(now, columns):
        err.print(line, markup=False, highlight=False, soft_wrap=True)
