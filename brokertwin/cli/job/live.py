"""Progress of a running job: a live table on a terminal, lines elsewhere."""

import time
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live as RichLive
from rich.table import Table

from brokertwin.cli.watching.rates import Rate
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.state.fetch.fetch_session_counts import CacheCounts
    from brokertwin.streaming.job.measures import QueryProgress

LINE_INTERVAL_S = 1.0
_UNITS = ("B", "kB", "MB", "GB", "TB")


class Live:
    """Show a job's progress while entered.

    Args:
        console: destination; a terminal gets a table, other outputs at most one line a second.
    """

    def __init__(self, console: Console) -> None:
        self.requests = 0
        self._console = console
        self._rate = Rate()
        self._last_line = 0.0
        self._pending: QueryProgress | None = None
        self._rich = RichLive(console=console, auto_refresh=False)

    def __enter__(self) -> "Live":
        if self._console.is_terminal:
            self._rich.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop redrawing, and print the last line of a short job."""
        self._rich.stop()
        if self._pending is not None:
            self._print(self._pending)

    def show(self, progress: "QueryProgress") -> None:
        """Show the progress after a micro-batch."""
        now = time.monotonic()
        self.requests = progress.counts.get("requests", 0)
        self._rate.add(progress.events, progress.seconds)
        if self._console.is_terminal:
            self._rich.update(self._table(progress), refresh=True)
        elif now - self._last_line >= LINE_INTERVAL_S:
            self._last_line = now
            self._print(progress)
        else:
            self._pending = progress

    def values(self, progress: "QueryProgress") -> dict[str, str]:
        """The displayed values by name."""
        return {
            "requests": f"{self.requests:,}",
            "responses": f"{progress.counts.get('responses', 0):,}",
            "dead letters": f"{progress.counts.get('dead-letters', 0):,}",
            "rate": f"{self._rate.value():,.0f} rows/s",
            "lag": f"{progress.lag:,}",
            "state": size_text(progress.state_bytes),
            "fetch sessions": _sessions_text(progress.fetch_sessions),
            "batch": f"{progress.batch} in {progress.seconds:.2f} s",
        }

    def _table(self, progress: "QueryProgress") -> Table:
        values = self.values(progress)
        table = Table(*values)
        table.add_row(*values.values())
        return table

    def _print(self, progress: "QueryProgress") -> None:
        self._pending = None
        text = ", ".join(f"{name} {value}" for name, value in self.values(progress).items())
        line = f"{time.strftime('%H:%M:%S')} {text}"
        self._console.print(line, soft_wrap=True, highlight=False)


def _sessions_text(sessions: "CacheCounts") -> str:
    text = f"{sessions.sessions:,} with {counted(sessions.partitions_cached, 'partition')}"
    return f"{text}, {sessions.evictions:,} evicted" if sessions.evictions else text


def size_text(size: float) -> str:
    """Format a number of bytes: `20.4 MB`."""
    unit = 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size /= 1000
        unit += 1
    return f"{size:.0f} {_UNITS[unit]}" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"
