"""Who runs what, and since when: noted while it runs, shown afterwards as a table and a picture.

Source: seed 001's figures of threads and their tasks. What is run is named by its text: a partition
of a consumer, a task of Connect or of Streams. Times are ms on the caller's clock.

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
    """A time in which somebody ran something; `end` is None while it goes on."""

    who: str
    what: str
    begin: int
    end: int | None


class Timeline:
    """What has been noted since `began`."""

    def __init__(self, began: int) -> None:
        self.began = began
        self.spans: list[RunSpan] = []
        self._open: dict[tuple[str, str], int] = {}
        self._order: dict[str, None] = {}

    def note(self, now: int, who: str, owned: Iterable[str]) -> bool:
        """From now on `who` runs exactly `owned`; whether that is news."""
        self._order.setdefault(who)
        wanted = set(owned)
        had = {what for owner, what in self._open if owner == who}
        for what in had - wanted:
            self._close(now, who, what)
        for what in wanted - had:
            self._open[who, what] = now
        return had != wanted

    def gone(self, now: int, who: str) -> None:
        """`who` runs nothing any more."""
        self.note(now, who, ())

    def _close(self, now: int, who: str, what: str) -> None:
        begin = self._open.pop((who, what))
        self.spans.append(RunSpan(who, what, begin, now))

    def owned(self) -> dict[str, list[str]]:
        """What everybody runs now."""
        return {
            who: natural(what for owner, what in self._open if owner == who) for who in self._order
        }

    def all_spans(self) -> list[RunSpan]:
        """Every span, by who and what they are about; those that go on have no end."""
        going_on = [RunSpan(who, what, begin, None) for (who, what), begin in self._open.items()]
        return sorted([*self.spans, *going_on], key=lambda span: (span.what, span.begin))

    def twice(self) -> list[tuple[RunSpan, RunSpan]]:
        """Pairs of spans in which two ran the same at the same time."""
        spans = self.all_spans()
        return [
            (first, second)
            for at, first in enumerate(spans)
            for second in spans[at + 1 :]
            if first.what == second.what
            and first.who != second.who
            and (first.end is None or second.begin < first.end)
        ]

    def picture(self, now: int, columns: int = 60) -> list[str]:
        """A line for each thing that is run, a letter for who runs it, a column for each moment."""
        columns = max(columns, 1)
        step = max((now - self.began) / columns, 1e-9)
        letters = {who: LETTERS[at % len(LETTERS)] for at, who in enumerate(self._order)}
        things = natural({span.what for span in self.all_spans()})
        width = max((len(each) for each in things), default=0)
        lines = [" " * (width + 2) + _scale(now - self.began, columns)]
        for what in things:
            spans = [span for span in self.all_spans() if span.what == what]
            cells = [
                self._cell(spans, letters, self.began + at * step, step) for at in range(columns)
            ]
            lines.append(f"{what:<{width}}  {''.join(cells)}")
        names = ", ".join(f"{letter} {who}" for who, letter in letters.items())
        return [*lines, f"{names}; {NOBODY} nobody, {SEVERAL} several at once"]

    def _cell(
        self, spans: Sequence[RunSpan], letters: dict[str, str], begin: float, step: float
    ) -> str:
        """Who ran it in the middle of a column's time."""
        middle = begin + step / 2
        at = {s.who for s in spans if s.begin <= middle and (s.end is None or middle < s.end)}
        if len(at) > 1:
            return SEVERAL
        return letters[at.pop()] if at else NOBODY


def _scale(elapsed_ms: int, columns: int) -> str:
    """Seconds above the columns, at every tenth."""
    marks = ""
    for at in range(0, columns, TICK_COLUMNS):
        marks = f"{marks:<{at}}" + f"{elapsed_ms * at / columns / 1000:.1f}"
    return marks[:columns].rstrip() + " s"


def natural(names: Iterable[str]) -> list[str]:
    """Names in order, numbers at their ends by their value: t-2 before t-10."""

    def key(name: str) -> tuple[str, int]:
        stem = name.rstrip("0123456789")
        return stem, int(name[len(stem) :] or -1)

    return sorted(names, key=key)
