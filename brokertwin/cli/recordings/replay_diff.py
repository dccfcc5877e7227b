"""`brokertwin replay diff`: differences between two states of recordings."""

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from brokertwin.cli.job import state_tables
from brokertwin.cli.job.state import All
from brokertwin.cli.options import AsJson, BrokerConfig, BrokerSet
from brokertwin.cli.output import out, show_json, show_table
from brokertwin.cli.recordings.planning import RECORDED, planner, settings_given
from brokertwin.cli.recordings.sources import Where, with_source

if TYPE_CHECKING:
    from brokertwin.recordings.replay.plan import ReplayPlan
    from brokertwin.recordings.replay.recording import Recording
    from brokertwin.recordings.replay.state_diff import StateChange
    from brokertwin.tables.state_rows import Columns

BEGINNING, END = "beginning", "end"

Before = Annotated[
    str,
    typer.Argument(
        metavar="BEFORE",
        help="A time or an exchange of the recording (orders.jsonl:120), `beginning`, `end`,"
        " another recording (its end), or a directory of `replay --keep`.",
    ),
]
After = Annotated[str, typer.Argument(metavar="AFTER", help="The same of the other state.")]
Kind = Annotated[
    str | None,
    typer.Option("--kind", metavar=state_tables.KINDS, help="Compare only items of this kind."),
]


@with_source
def command(
    before: Before,
    after: After,
    where: Where,
    kind: Kind = None,
    all_items: All = False,
    broker_set: BrokerSet = None,
    broker_config: BrokerConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show what differs between two states: of one recording, of two, or of kept states.

    Runs the requests through the broker model. Broker settings come from the same places as those
    of `replay`. Prints a table of each kind of items.
    """
    from brokertwin.recordings.replay.search import LIMITS
    from brokertwin.recordings.replay.state_diff import changes
    from brokertwin.tables.state_rows import WHOLE

    item_kind, moments = state_tables.kind_of(kind), (before, after)
    given = functools.partial(settings_given, file=broker_config, pairs=broker_set, begins=None)
    planned_of = planner(where.cluster or RECORDED, LIMITS, given, None, False)
    (first, unknown), (second, others) = _states(planned_of, where, moments)
    kinds = [item_kind] if item_kind is not None else WHOLE
    found = changes(first, second, kinds, all_items, unknown | others)
    if as_json:
        show_json([change.document for change in found])
        return
    show_changes(found, moments)
    if not found:
        out.print(f"no difference between {before} and {after}", highlight=False)


def show_changes(changes: "Sequence[StateChange]", moments: tuple[str, str]) -> None:
    """Print a table of each kind; `moments` are the titles of the two states."""
    for name, group in groupby(changes, key=lambda change: change.kind):
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
            state = kept.read(other)
            yield state.columns, state.without_ends
            continue
        history, plan = planned(where._replace(files=(other,)) if other.is_file() else where)
        documents: Sequence[bytes] | None = None
        if moment == BEGINNING:
            documents = []
        elif moment != END and not other.is_file():
            documents = events_until(
                plan.documents, moment, zone_of(where.time_zone), "BEFORE or AFTER"
            )
        without_ends = topics_without_headers(history.exchanges)
        yield plan.state_after(documents).columns(), without_ends


def _rows(changes: "Sequence[StateChange]") -> list[tuple[Any, ...]]:
    """Return a line for each field; the item is in its first line only."""
    lines: list[tuple[Any, ...]] = []
    for change in changes:
        item = " ".join(map(str, change.item.values()))
        fields = [(name, a, b) for name, (a, b) in change.fields.items() if (a, b) != (None, None)]
        for number, (name, a, b) in enumerate(fields or [("", None, None)]):
            values = name, state_tables.formatted(name, a), state_tables.formatted(name, b)
            lines.append((item, change.what, *values) if not number else ("", "", *values))
    return lines
