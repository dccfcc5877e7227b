"""`brokertwin replay state`: the broker model's state after a recording, or at a moment in it."""

import functools
from typing import Annotated

import typer

from brokertwin.cli.job import state_tables
from brokertwin.cli.job.state import All
from brokertwin.cli.options import AsJson, BrokerConfig, BrokerSet
from brokertwin.cli.output import show_json
from brokertwin.cli.recordings import kept_states
from brokertwin.cli.recordings.planning import (
    RECORDED,
    At,
    From,
    planner,
    settings_given,
    until,
)
from brokertwin.cli.recordings.sources import Where, with_source

Kind = Annotated[str, typer.Argument(metavar=state_tables.KINDS, help="Kind of items to show.")]


@with_source
def command(
    kind: Kind,
    where: Where,
    at: At = None,
    begin_from: From = None,
    all_items: All = False,
    broker_set: BrokerSet = None,
    broker_config: BrokerConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the state that recorded requests leave, as `brokertwin state` does of a job.

    Runs the requests through the broker model, up to --at. Broker settings come from the same
    places as those of `replay`.
    """
    from brokertwin.recordings.replay.search import LIMITS
    from brokertwin.recordings.replay.unknown_ends import topics_without_headers
    from brokertwin.tables import state_rows

    item_kind = state_tables.kind_of(kind)
    assert item_kind is not None
    begins = kept_states.begin(begin_from)
    if begins is None or not where.is_nowhere():
        where.check()
    name = where.cluster or (begins.cluster if begins is not None else RECORDED)
    given = functools.partial(settings_given, file=broker_config, pairs=broker_set, begins=begins)
    history, planned = planner(name, LIMITS, given, begins, False)(where)
    cell = planned.state_after(None if at is None else until(planned, at, where.time_zone))
    without_ends = topics_without_headers(history.exchanges, begins)
    rows = state_rows.rows(item_kind, {cell.settings.name: cell.columns()}, without_ends)
    shown = state_tables.listed(rows, all_items)
    if as_json:
        show_json(shown)
        return
    state_tables.show(item_kind, shown, f"at {at}" if at is not None else "at the end")
    state_tables.show_hidden(rows, shown)
