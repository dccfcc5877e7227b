"""Recordings and the order of their events, for `replay`, its subcommands and `explain line`."""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.files import writing
from brokertwin.cli.options import (
    broker_settings,
    checked_broker_settings,
    kafka_of,
    selected_cluster,
    typed_broker_settings,
)
from brokertwin.cli.output import err, progress_bars, say, warn
from brokertwin.cli.recordings import kept_states
from brokertwin.cli.recordings.recordings import in_effect
from brokertwin.cli.recordings.sources import Where, source_of
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.recordings.replay.kept import KeptState
    from brokertwin.recordings.replay.plan import ReplayPlan
    from brokertwin.recordings.replay.recording import Recording
    from brokertwin.recordings.replay.search import SearchLimits
    from brokertwin.state.core.settings import BrokerSettings
    from brokertwin.tables.state_rows import Columns

STANDARD_OUTPUT = Path("-")
RECORDED = "recorded"
"""Default name of a recording's cluster."""

At = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="TIME|FILE:LINE",
        help="Stop at this time (2026-03-01T12:00:03, in the zone of --time-zone) or after this"
        " exchange.",
    ),
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="DIR",
        help="Continue from the state that `replay --keep` wrote, or without files take that"
        " state.",
    ),
]


def states_around(
    where: Where, place: str, broker_config: Path | None
) -> "tuple[Columns, Columns, frozenset[str]]":
    """Return the tables before and after an exchange of a recording.

    The third value has the topics whose log ends are not known. Raises UserError.
    """
    from brokertwin.recordings.replay.search import LIMITS
    from brokertwin.recordings.replay.unknown_ends import topics_without_headers
    from brokertwin.recordings.replay.until import events_around

    given = functools.partial(settings_given, file=broker_config, pairs=None, begins=None)
    history, planned = planner(where.cluster or RECORDED, LIMITS, given, None, False)(where)
    before, after = (planned.state_after(each) for each in events_around(planned.documents, place))
    return before.columns(), after.columns(), topics_without_headers(history.exchanges)


def planner(
    cluster: str,
    limits: "SearchLimits",
    settings_for: "Callable[[Where], BrokerSettings]",
    begins: "KeptState | None",
    is_spark: bool,
) -> "Callable[..., tuple[Recording, ReplayPlan]]":
    """Return a function that reads a recording and plans the order of its events.

    The order is the one that explains the recorded responses, or, if `follows` is false, that of
    arrival. The order of a job's own events is known.
    """
    from brokertwin.recordings.replay.lacks import beginning, lacks
    from brokertwin.recordings.replay.plan import plan

    def planned_of(
        where: Where, follows: bool = True, needs_responses: bool = False
    ) -> "tuple[Recording, ReplayPlan]":
        history, settings = _history(where, begins), settings_for(where)
        if begins is not None:
            kept_states.warn_of_overlap(begins, history)
        elif not is_spark:
            as_decided = _as_decided(where, history, settings)
            if as_decided is not None:
                return history, as_decided
            for sentence in (lacks if needs_responses else beginning)(history.exchanges):
                warn(sentence)
        with progress("finding the order of events", 2 * len(history.events)) as advance:
            planned = plan(
                history, cluster, settings, follows, limits, advance, needs_responses, begins
            )
            return history, planned

    return planned_of


def _as_decided(
    where: Where, history: "Recording", options: "BrokerSettings"
) -> "ReplayPlan | None":
    """Return the plan of a job's events in the job's own order; None if that is not possible."""
    from brokertwin.recordings.replay import of_job

    if not where.job or not history.exchanges:
        return None
    settings = where.settings()
    was = of_job.given(kafka_of(settings), settings.prefix, where.cluster)
    if isinstance(was, str):
        warn(f"the job's own order of events is not known, so it is searched: {was}")
        return None
    say(f"using the job's own order of {counted(len(was.documents), 'event')}")
    with progress("handling requests", len(was.documents)) as advance:
        return of_job.plan(was, history.exchanges, options, advance)


def _history(where: Where, begins: "KeptState | None") -> "Recording":
    """Read the recording and report unreadable lines; may be empty with --from."""
    from brokertwin.recordings.replay import recording, report

    if where.is_nowhere() and begins is not None:
        return recording.Recording([], [])
    headers = where.headers()
    with source_of(where) as source:
        history = recording.read_from(source, headers).of_clients()
    report.show_broken(err, history.broken)
    report.show_left_out(err, history.left_out)
    return history


def until(planned: "ReplayPlan", at: str | None, time_zone: str) -> Sequence[bytes]:
    from brokertwin.recordings.formats.pipeline import zone_of
    from brokertwin.recordings.replay.until import events_until

    if at is None:
        return planned.documents
    return events_until(planned.documents, at, zone_of(time_zone), "--at")


def settings_given(
    where: Where, file: Path | None, pairs: list[str] | None, begins: "KeptState | None"
) -> "BrokerSettings":
    """Return the settings of --broker-config or of the recorded broker, overridden by --set.

    The recorded broker's settings come from a file beside the recording, a job or a kept state.
    """
    beside = _recorded_settings(where) if file is None else {}
    if begins is not None and file is None and not beside:
        return kept_states.settings_of(begins, broker_settings(None, pairs))
    if not beside:
        return typed_broker_settings(file, pairs)
    place = "of the job" if where.job else "beside the recording"
    say(f"broker settings {place}: {in_effect(beside)}")
    return checked_broker_settings({**beside, **broker_settings(None, pairs)})[0]


def _recorded_settings(where: Where) -> dict[str, str]:
    """Return the known settings of the recorded broker. Raises UserError."""
    if not where.job:
        from brokertwin.recordings.replay.settings_beside import settings_beside

        return settings_beside(where.files)
    from brokertwin.kafka_io import placement

    settings = where.settings()
    placements = placement.read(kafka_of(settings), settings.prefix)
    return placements[selected_cluster(placements, where.cluster)].broker_settings


@contextmanager
def progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    with progress_bars() as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)


def write(lines: Iterable[str], out: Path) -> None:
    """Write lines to a new file or to standard output."""
    if out == STANDARD_OUTPUT:
        for line in lines:
            typer.echo(line)
        return
    with writing(out) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
