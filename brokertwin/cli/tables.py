"""Tables that fit the terminal; headers only break between words."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from brokertwin.cli.visible import visible

TEXT_WIDTH_MIN = 12
"""Minimum width to which a text column is folded."""

EDGE, GUTTER = 1, 3
"""Width of the left edge, and of each column's padding and right edge."""

NARROW_GUTTER = 1
"""Width between columns if there is no room for lines."""

_WORD_END = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[-/]) ?| ")
_NUMBER = re.compile(r"-?[\d,]+(\.\d+)?( [kMGT]?B)?|-")


class _Column(NamedTuple):
    header: str
    values: list[str]
    is_whole: bool

    @property
    def is_number(self) -> bool:
        return bool(self.values) and all(map(_NUMBER.fullmatch, self.values))

    @property
    def words(self) -> list[str]:
        return [word for word in _WORD_END.split(self.header) if word]

    @property
    def width(self) -> int:
        return max(map(len, [self.header, *self.values]))

    @property
    def least_width(self) -> int:
        longest = max(map(len, self.values), default=0)
        may_fold = not self.is_number and not self.is_whole
        return max(*map(len, self.words), min(longest, TEXT_WIDTH_MIN) if may_fold else longest)

    @property
    def broken_header(self) -> str:
        fits = " " in self.header or len(self.header) <= self.least_width
        return self.header if fits else "\n".join(self.words)


def table(
    console: Console,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    title: str = "",
    whole: Collection[str] = (),
) -> Group:
    """Format rows as a table that is at most as wide as the console.

    Numbers are right-aligned. In a narrow console, lines between columns are dropped first, then
    headers break between words and texts are folded. If that is not enough, each row becomes a
    block of names and values.

    Args:
        console: where the table is printed.
        columns: headers.
        rows: values; None is empty.
        title: a line above the table.
        whole: headers of columns whose texts are not folded.
    """
    cells, made = _made(columns, rows, whole)
    if not _fit(console, made):
        return Group(*_titles(title), *_blocks(columns, cells))
    drawn = Table()
    if EDGE + sum(column.width + GUTTER for column in made) > console.width:
        drawn.box, drawn.show_edge, drawn.padding = box.SIMPLE_HEAD, False, 0
    is_narrow = sum(column.width + NARROW_GUTTER for column in made) > console.width
    for column in made:
        drawn.add_column(
            escape(column.broken_header if is_narrow else column.header),
            justify="right" if column.is_number else "left",
            overflow="fold",
            no_wrap=column.is_number or column.is_whole,
            min_width=column.least_width,
        )
    for row in cells:
        drawn.add_row(*map(escape, row))
    return Group(*_titles(title), drawn)


def fits(console: Console, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> bool:
    """True if rows fit as a table; otherwise they become blocks."""
    return _fit(console, _made(columns, rows, ())[1])


def _made(
    columns: Sequence[str], rows: Iterable[Sequence[object]], whole: Collection[str]
) -> tuple[list[list[str]], list[_Column]]:
    cells = [["" if cell is None else visible(str(cell)) for cell in row] for row in rows]
    return cells, [
        _Column(name, [row[number] for row in cells], name in whole)
        for number, name in enumerate(columns)
    ]


def _fit(console: Console, columns: Iterable[_Column]) -> bool:
    return sum(column.least_width + NARROW_GUTTER for column in columns) <= console.width


def _titles(title: str) -> list[Text]:
    """Return the title as its own line, which a narrow table would fold."""
    return [Text(title, style="italic")] if title else []


def _blocks(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[RenderableType]:
    for number, row in enumerate(rows):
        if number:
            yield Text()
        block = Table.grid(padding=(0, 2))
        block.add_column(no_wrap=True)
        block.add_column(overflow="fold")
        for name, value in zip(columns, row, strict=True):
            block.add_row(f"[bold]{escape(name)}[/bold]", escape(value))
        yield block
