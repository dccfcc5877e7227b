"""Tables for people: they fit the terminal, and no header is cut within a word."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from rich import box
from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

TEXT_WIDTH_MIN = 12
"""A text may be folded to so many columns of the screen where there is no room for more."""

EDGE, GUTTER = 1, 3
"""Columns of the screen for the left edge, and for each column's padding and right edge."""

NARROW_GUTTER = 1
"""Where there is no room for lines between columns, a space parts them."""

_WORD_END = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[-/]) ?| ")
_NUMBER = re.compile(r"-?[\d,]+(\.\d+)?( [kMGT]?B)?|-")


class _Column(NamedTuple):
    """A column with its values as text."""

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
        """With a line for each word where it is wider than the column may have to be."""
        fits = " " in self.header or len(self.header) <= self.least_width
        return self.header if fits else "\n".join(self.words)


def table(
    console: Console,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    title: str = "",
    whole: Collection[str] = (),
) -> Group:
    """Rows as a table as wide as the console at most.

    Numbers are right-aligned. Where there is no room, lines between columns go, then headers break
    between their words and texts are folded; where that does not do, each row becomes a block of
    names and values.

    Args:
        console: where it is to be printed.
        columns: the headers.
        rows: the values; None is empty.
        title: a line above it.
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
    """Whether rows have room as a table, however narrow; otherwise they become blocks."""
    return _fit(console, _made(columns, rows, ())[1])


def _made(
    columns: Sequence[str], rows: Iterable[Sequence[object]], whole: Collection[str]
) -> tuple[list[list[str]], list[_Column]]:
    """The rows as text, and their columns."""
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    return cells, [
        _Column(name, [row[number] for row in cells], name in whole)
        for number, name in enumerate(columns)
    ]


def _fit(console: Console, columns: Iterable[_Column]) -> bool:
    return sum(column.least_width + NARROW_GUTTER for column in columns) <= console.width


def _titles(title: str) -> list[Text]:
    """Above the table, not of its width: a narrow one would fold it."""
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
