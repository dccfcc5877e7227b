"""Tables that fit the terminal; headers only break between words."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from brokertwin.cli.visible import visible

TEXT_WIDTH_MIN = 12
"""Minimum width to which a text column is folded."""

EDGE, GUTTER = 1, 3
"""Width of the left edge, and of each column's padding and right edge."""

NARROW_GUTTER = 1
"""Width between columns if there is no room for lines."""

BOLD = Style(bold=True)

_WORD_END = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[-/]) ?| ")
_NUMBER = re.compile(r"-?[\d,]+(\.\d+)?( [kMGT]?B)?|-")


@dataclass
class _Column:
    header: str
    values: list[str]
    is_whole: bool

    @cached_property
    def is_number(self) -> bool:
        return bool(self.values) and all(map(_NUMBER.fullmatch, self.values))

    @property
    def words(self) -> list[str]:
        return [word for word in _WORD_END.split(self.header) if word]

    @cached_property
    def longest(self) -> int:
        return max(map(cell_len, self.values), default=0)

    @property
    def width(self) -> int:
        return max(cell_len(self.header), self.longest)

    @property
    def least_width(self) -> int:
        may_fold = not self.is_number and not self.is_whole
        least = min(self.longest, TEXT_WIDTH_MIN) if may_fold else self.longest
        return max(*map(len, self.words), least)

    @property
    def broken_header(self) -> str:
        fits = " " in self.header or len(self.header) <= self.least_width
        return self.header if fits else "\n".join(self.words)


class _Drawn:
    """A table with fixed widths. Rich's own takes a millisecond for each row."""

    def __init__(self, columns: list[_Column], width: int) -> None:
        self.columns = columns
        self.has_edges = EDGE + sum(column.width + GUTTER for column in columns) <= width
        self.headers = [column.header for column in columns]
        self.widths = [column.width for column in columns]
        if sum(width + NARROW_GUTTER for width in self.widths) > width:
            self.headers = [column.broken_header for column in columns]
            self.widths = _narrowed(columns, width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        frame = (box.HEAVY_HEAD if self.has_edges else box.SIMPLE_HEAD).substitute(options)
        right = [column.is_number for column in self.columns]
        head, body = ("", frame.head_vertical, ""), ("", frame.mid_vertical, "")
        within = self.widths
        if self.has_edges:
            head = (f"{frame.head_left} ", f" {frame.head_vertical} ", f" {frame.head_right}")
            body = (f"{frame.mid_left} ", f" {frame.mid_vertical} ", f" {frame.mid_right}")
            within = [width + 2 for width in self.widths]
            yield Segment(f"{frame.get_top(within)}\n")
        yield from _lines(console, self.headers, self.widths, right, head, BOLD)
        yield Segment(f"{frame.get_row(within, 'head', edge=self.has_edges)}\n")
        for row in zip(*(column.values for column in self.columns), strict=True):
            yield from _lines(console, row, self.widths, right, body)
        if self.has_edges:
            yield Segment(f"{frame.get_bottom(within)}\n")


class _Blocks:
    """A block of names and values for each row, for consoles too narrow for a table."""

    def __init__(self, columns: list[_Column]) -> None:
        self.columns = columns

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        width = max(cell_len(column.header) for column in self.columns)
        rest = max(options.max_width - width - 2, 1)
        for number, row in enumerate(zip(*(each.values for each in self.columns), strict=True)):
            if number:
                yield Segment.line()
            for column, value in zip(self.columns, row, strict=True):
                for at, part in enumerate(_parts(console, value, rest)):
                    name = "" if at else column.header
                    yield Segment(set_cell_size(name, width), BOLD)
                    yield Segment(f"  {part}\n")


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
    made = _made(columns, rows, whole)
    # the title is its own line, because a narrow table would fold it
    titles = [Text(title, style="italic")] if title else []
    return Group(*titles, _Drawn(made, console.width) if _fit(console, made) else _Blocks(made))


def fits(console: Console, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> bool:
    """True if rows fit as a table; otherwise they become blocks."""
    return _fit(console, _made(columns, rows, ()))


def _made(
    columns: Sequence[str], rows: Iterable[Sequence[object]], whole: Collection[str]
) -> list[_Column]:
    cells = [["" if cell is None else visible(str(cell)) for cell in row] for row in rows]
    return [
        _Column(name, [row[number] for row in cells], name in whole)
        for number, name in enumerate(columns)
    ]


def _fit(console: Console, columns: Iterable[_Column]) -> bool:
    return sum(column.least_width + NARROW_GUTTER for column in columns) <= console.width


def _narrowed(columns: list[_Column], width: int) -> list[int]:
    """Return widths that fit: the widest columns are folded, down to their least width."""
    wanted = [max(each.longest, *map(len, each.broken_header.split("\n"))) for each in columns]
    least = [column.least_width for column in columns]
    for most in range(max(wanted), 0, -1):
        widths = [max(low, min(want, most)) for low, want in zip(least, wanted, strict=True)]
        if sum(widths) + NARROW_GUTTER * len(columns) <= width:
            return widths
    return least


def _lines(
    console: Console,
    row: Sequence[str],
    widths: Sequence[int],
    right: Sequence[bool],
    sides: tuple[str, str, str],
    style: Style | None = None,
) -> Iterator[Segment]:
    """Draw one row, which has several lines if a cell is folded."""
    left, middle, end = sides
    parts = [_parts(console, cell, width) for cell, width in zip(row, widths, strict=True)]
    for line in zip_longest(*parts, fillvalue=""):
        yield Segment(left)
        for number, text in enumerate(line):
            spaces = " " * (widths[number] - cell_len(text))
            yield Segment(spaces + text if right[number] else text + spaces, style)
            yield Segment(middle if number < len(line) - 1 else end)
        yield Segment.line()


def _parts(console: Console, text: str, width: int) -> list[str]:
    if cell_len(text) <= width and text.isprintable():
        return [text]
    return [part.plain.rstrip() for part in Text(text).wrap(console, width, overflow="fold")]
