"""A timeline of who runs which partition or task, as a table and a picture.

Source: seed 001's figures of threads and their tasks. An item is a partition of a consumer, or a
task of Connect or Streams, as text. Times are ms on the caller's clock.

         0 s       4 s       8 s
    t-0    ..AAAAAAAAAAAAAAAAAAAA      A member 1
    t-1    ..AAAAAAAA.BBBBBBBBBBB      B member 2
"""

from collections.abc import Iterable, Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import NamedTuple

NOBODY, SEVERAL = "·", "#"
LETTERS = ascii_uppercase + ascii_lowercase
TICK_COLUMNS = 10


class RunSpan(NamedTuple):
    """A time in which a member ran an item; `end` is None while it runs."""

    member: str
    item: str
    begin: int
    end: int | None


class Timeline:
    """The spans since `began`."""

    def __init__(self, began: int) -> None:
        self.began = began
        self.spans: list[RunSpan] = []
        self._open: dict[tuple[str, str], int] = {}
        self._order: dict[str, None] = {}

    def note(self, now: int, member: str, owned: Iterable[str]) -> bool:
        """Set the items that a member runs; returns whether they changed."""
        self._order.setdefault(member)
        items = set(owned)
        had = {item for owner, item in self._open if owner == member}
        for item in had - items:
            begin = self._open.pop((member, item))
            self.spans.append(RunSpan(member, item, begin, now))
        for item in items - had:
            self._open[member, item] = now
        return had != items

    def gone(self, now: int, member: str) -> None:
        self.note(now, member, ())

    def owned(self) -> dict[str, list[str]]:
        return {
            member: natural(item for owner, item in self._open if owner == member)
            for member in self._order
        }

    def all_spans(self) -> list[RunSpan]:
        """All spans by item and start; running ones have no end."""
        going_on = [
            RunSpan(member, item, begin, None) for (member, item), begin in self._open.items()
        ]
        return sorted([*self.spans, *going_on], key=lambda span: (span.item, span.begin))

    def twice(self) -> list[tuple[RunSpan, RunSpan]]:
        """Pairs of spans in which two members ran the same item at once."""
        spans = self.all_spans()
        return [
            (first, second)
            for at, first in enumerate(spans)
            for second in spans[at + 1 :]
            if first.item == second.item
            and first.member != second.member
            and (first.end is None or second.begin < first.end)
        ]

    def picture(self, now: int, columns: int = 60) -> list[str]:
        """A line for each item and a column for each moment. A letter is a member."""
        columns = max(columns, 1)
        step = max((now - self.began) / columns, 1e-9)
        letters = {member: LETTERS[at % len(LETTERS)] for at, member in enumerate(self._order)}
        things = natural({span.item for span in self.all_spans()})
        width = max((len(each) for each in things), default=0)
        lines = [" " * (width + 2) + _scale(now - self.began, columns)]
        for item in things:
            spans = [span for span in self.all_spans() if span.item == item]
            cells = [
                self._cell(spans, letters, self.began + at * step, step) for at in range(columns)
            ]
            lines.append(f"{item:<{width}}  {''.join(cells)}")
        names = ", ".join(f"{letter} {member}" for member, letter in letters.items())
        return [*lines, f"{names}; {NOBODY} none, {SEVERAL} several at once"]

    def _cell(
        self, spans: Sequence[RunSpan], letters: dict[str, str], begin: float, step: float
    ) -> str:
        """The letter of the member that ran the item mid-column."""
        middle = begin + step / 2
        at = {s.member for s in spans if s.begin <= middle and (s.end is None or middle < s.end)}
        if len(at) > 1:
            return SEVERAL
        return letters[at.pop()] if at else NOBODY


def _scale(elapsed_ms: int, columns: int) -> str:
    """Seconds above every tenth column."""
    marks = ""
    for at in range(0, columns, TICK_COLUMNS):
        marks = f"{marks:<{at}}" + f"{elapsed_ms * at / columns / 1000:.1f}"
    return marks[:columns].rstrip() + " s"


def natural(names: Iterable[str]) -> list[str]:
    """Sort names with numbers at their ends by value: t-2 before t-10."""

    def key(name: str) -> tuple[str, int]:
        stem = name.rstrip("0123456789")
        return stem, int(name[len(stem) :] or -1)

    return sorted(names, key=key)
