"""Differences between two states, for `brokertwin replay --diff`."""

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brokertwin.cli.job import state_tables
from brokertwin.cli.output import out, show_json, show_table
from brokertwin.cli.recordings.sources import Where

if TYPE_CHECKING:
    from brokertwin.recordings.replay.plan import ReplayPlan
    from brokertwin.recordings.replay.recording import Recording
    from brokertwin.recordings.replay.state_diff import StateChange
    from brokertwin.tables.state_rows import Columns, ItemKind

BEGINNING, END = "beginning", "end"


def show(
    planned_of: "Callable[[Where], tuple[Recording, ReplayPlan]]",
    where: Where,
    moments: tuple[str, str],
    kind: "ItemKind | None",
    all_items: bool,
    as_json: bool,
) -> None:
    """Print the differences between two moments or recordings: a table of each kind, or JSON.

    Each moment is a time or an exchange of the recording, `BEGINNING`, `END`, another recording, or
    a directory with a kept state. `kind` None compares all kinds. Raises UserError.
    """
    from brokertwin.recordings.replay.state_diff import changes
    from brokertwin.tables.state_rows import WHOLE

    (before, unknown), (after, others) = _states(planned_of, where, moments)
    kinds = [kind] if kind is not None else WHOLE
    found = changes(before, after, kinds, all_items, unknown | others)
    if as_json:
        show_json([change.document for change in found])
        return
    show_changes(found, moments)
    if not found:
        out.print(f"no difference between {moments[0]} and {moments[1]}", highlight=False)


def show_changes(found: "Sequence[StateChange]", moments: tuple[str, str]) -> None:
    """Print a table of each kind; `moments` are the titles of the two states."""
    for name, group in groupby(found, key=lambda change: change.kind):
        title = f"{name.value}: {moments[0]} and {moments[1]}"
        show_table(("item", "change", "field", "before", "after"), _rows(list(group)), title)


def _states(
    planned_of: "Callable[[Where], tuple[Recording, ReplayPlan]]",
    where: Where,
    moments: tuple[str, str],
) -> "Iterator[tuple[Columns, frozenset[str]]]":
    """Return the tables after a recording at each moment, or after another recording.

    With each, the topics whose log ends are not known.
    """
    from brokertwin.recordings.formats.pipeline import zone_of
    from brokertwin.recordings.replay import kept
    from brokertwin.recordings.replay.unknown_ends import topics_without_headers
    from brokertwin.recordings.replay.until import events_until

    planned = functools.cache(planned_of)
    for moment in moments:
        other = Path(moment)
        if kept.is_kept(other):
            found = kept.read(other)
            yield found.columns, found.without_ends
            continue
        history, plan = planned(where._replace(files=(other,)) if other.is_file() else where)
        documents: Sequence[bytes] | None = None
        if moment == BEGINNING:
            documents = []
        elif moment != END and not other.is_file():
            documents = events_until(plan.documents, moment, zone_of(where.time_zone), "--diff")
        without_ends = topics_without_headers(history.exchanges)
        yield plan.state_after(documents).columns(), without_ends


def _rows(found: "Sequence[StateChange]") -> list[tuple[Any, ...]]:
    """Return a line for each field; the item is in its first line only."""
    lines: list[tuple[Any, ...]] = []
    for change in found:
        item = " ".join(map(str, change.item.values()))
        fields = [(name, a, b) for name, (a, b) in change.fields.items() if (a, b) != (None, None)]
        for number, (name, a, b) in enumerate(fields or [("", None, None)]):
            values = name, state_tables.formatted(name, a), state_tables.formatted(name, b)
            lines.append((item, change.what, *values) if not number else ("", "", *values))
    return lines
