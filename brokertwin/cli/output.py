"""Printing: tables for people, JSON for programs, errors with a hint."""

import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from brokertwin.cli import logs, tables
from brokertwin.cli.visible import visible, visible_json
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from rich.progress import Progress

PLAIN_WIDTH = 1000
"""Width for output that is not a terminal, large enough that tables are not truncated."""


class _Console(Console):
    """A console that shows control characters of texts as escapes."""

    def render_str(self, text: str, **given: Any) -> Text:
        return super().render_str(visible(text), **given)


out = _Console()
"""Standard output: results."""

err = _Console(stderr=True)
"""Standard error: progress, warnings, errors."""


def fit() -> None:
    """Set the width of both consoles: `COLUMNS`, else the terminal's, else `PLAIN_WIDTH`."""
    columns = os.environ.get("COLUMNS", "")
    for console in (out, err):
        if columns.isdigit():
            console.width = int(columns)
        elif not console.is_terminal:
            console.width = PLAIN_WIDTH


fit()


def show_error(error: UserError) -> None:
    """Print an error in red and its hint below."""
    if logs.is_json():
        logs.write("error", error.message, **({"hint": error.hint} if error.hint else {}))
        return
    err.print(f"[red]{escape(error.message)}[/red]", soft_wrap=True, highlight=False)
    if error.hint:
        err.print(escape(error.hint), soft_wrap=True, highlight=False)


def warn(text: str) -> None:
    _print("warning", text, f"[yellow]warning:[/yellow] {escape(text)}")


def say(text: str) -> None:
    """Print a line of progress on standard error."""
    _print("info", text, escape(text))


def _print(level: logs.Level, text: str, for_people: str) -> None:
    """Print a line on standard error if its level is enabled."""
    if logs.is_json():
        logs.write(level, text)
    elif logs.shows(level):
        err.print(for_people, soft_wrap=True, highlight=False)


def say_at(text: str) -> None:
    """Print a line of progress with the time of day, for slow steps and events."""
    say(text if logs.is_json() else f"{time.strftime('%H:%M:%S')} {text}")


def show_json(value: object) -> None:
    """Print a JSON document on one line; other types (paths, times) are strings."""
    typer.echo(visible_json(json.dumps(value, default=str, ensure_ascii=False)))


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """Print a table; see `tables.table`."""
    out.print(tables.table(out, columns, rows, title))


def show_rows(
    columns: Sequence[str], rows: Iterable[Sequence[object]], as_json: bool, title: str = ""
) -> None:
    if as_json:
        for row in rows:
            show_json(dict(zip(columns, row, strict=True)))
    else:
        show_table(columns, rows, title)


def show_fields(values: Mapping[str, Any]) -> None:
    table = Table.grid(padding=(0, 2))
    for name, value in values.items():
        table.add_row(f"[bold]{escape(name)}[/bold]", escape("-" if value is None else str(value)))
    out.print(table)


def progress_bars(counts_bytes: bool = False) -> "Progress":
    """Return progress bars with their ends for a terminal; other outputs get nothing.

    Args:
        counts_bytes: whether the tasks count bytes; then the rate is shown, too.
    """
    from rich.progress import Progress, TransferSpeedColumn

    columns = [*Progress.get_default_columns(), *([TransferSpeedColumn()] * counts_bytes)]
    return Progress(*columns, console=err, transient=True, disable=not err.is_terminal)
