"""`brokertwin replay`: run recorded exchanges through the broker model."""

import difflib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from brokertwin import extras
from brokertwin.cli.files import check_new, writing
from brokertwin.cli.job import state_tables
from brokertwin.cli.job.state import All
from brokertwin.cli.options import (
    BrokerConfig,
    BrokerSet,
    Force,
    broker_settings,
    checked_broker_settings,
    kafka_of,
    selected_cluster,
    typed_broker_settings,
)
from brokertwin.cli.output import err, progress_bars, say, show_json, warn
from brokertwin.cli.output import out as output
from brokertwin.cli.recordings import kept_states, state_diffs
from brokertwin.cli.recordings.recordings import in_effect
from brokertwin.cli.recordings.sources import Where, source_of, with_source
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.recordings.replay.comparison import ModelResponse
    from brokertwin.recordings.replay.kept import KeptState
    from brokertwin.recordings.replay.plan import ReplayPlan
    from brokertwin.recordings.replay.recording import Recording
    from brokertwin.recordings.replay.report import Compared
    from brokertwin.recordings.replay.search import SearchLimits
    from brokertwin.settings import Settings
    from brokertwin.state.cell.cell import Cell
    from brokertwin.state.core.settings import BrokerSettings
    from brokertwin.tables.state_rows import Columns, ItemKind

DIFFERS = 1

VIOLATIONS_SHOWN = 20
"""Maximum number of --check violations to print."""
STANDARD_OUTPUT = Path("-")
RECORDED = "recorded"
"""Default name of a recording's cluster."""


class Engine(StrEnum):
    """Location of the broker model."""

    LOCAL = "local"
    SPARK = "spark"


EngineOption = Annotated[
    Engine, typer.Option("--engine", help="local: this process. spark: Kafka and a Spark job.")
]
Compare = Annotated[
    bool, typer.Option("--compare", help="Compare the responses with the recorded ones.")
]
Only = Annotated[
    str | None,
    typer.Option("--only", metavar="API,…", help="Report only these APIs; all are handled."),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE|-",
        help="Write a JSON line for each exchange: client, time, verdict, response.",
    ),
]
Check = Annotated[
    bool,
    typer.Option(
        "--check",
        help="Check the invariants of the state after each event and print violations. Requires"
        " --engine local; takes several times as long.",
    ),
]
TimeTolerance = Annotated[
    float,
    typer.Option(
        "--time-tolerance",
        metavar="FACTOR",
        min=0.0,
        help="Multiply the allowed difference of response times by FACTOR; use 2 if the recorded"
        " broker was slow.",
    ),
]
State = Annotated[
    str | None,
    typer.Option(
        "--state",
        metavar=state_tables.KINDS,
        help="Show the items of this kind at the end, as `brokertwin state` does, instead of the"
        " responses. Requires --engine local.",
    ),
]
Until = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="TIME|FILE:LINE",
        help="With --state or --keep: stop at this time (2026-03-01T12:00:03, in the zone of"
        " --time-zone) or after this exchange.",
    ),
]
Keep = Annotated[
    Path | None,
    typer.Option(
        "--keep",
        metavar="DIR",
        help="Write the final state to this directory, for --from, `query`, `explain --checkpoint`"
        " and --diff. A former state in it is replaced.",
    ),
]
From = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="DIR",
        help="Continue from the state that --keep wrote. Without files, show that state with"
        " --state.",
    ),
]
Diff = Annotated[
    tuple[str, str] | None,
    typer.Option(
        "--diff",
        metavar="A B",
        help="Show differences between the states A and B, of all kinds or of the --state kind."
        " Each is a moment as in --until, `beginning`, `end`, another recording (its end), or a"
        " directory of --keep.",
    ),
]
Records = Annotated[
    Path | None,
    typer.Option(
        "--records",
        metavar="FILE",
        help="With --job: write the rows that the job's topic `records` has, or would have with"
        " `run --records`, and nothing else.",
    ),
]
ReplayJson = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print one JSON document: with --compare the counts, all differing exchanges and the"
        " order of events, with --state the items, otherwise the responses.",
    ),
]


@with_source
def command(
    where: Where,
    engine: EngineOption = Engine.LOCAL,
    compare: Compare = False,
    only: Only = None,
    check: Check = False,
    state: State = None,
    until: Until = None,
    diff: Diff = None,
    keep: Keep = None,
    begin_from: From = None,
    all_items: All = False,
    out: Out = None,
    force: Force = False,
    records: Records = None,
    broker_set: BrokerSet = None,
    broker_config: BrokerConfig = None,
    time_tolerance: TimeTolerance = 1.0,
    as_json: ReplayJson = False,
) -> None:
    """Run recorded requests through the broker model and compare the responses.

    Files are merged by time. With --compare the exit code is 1 unless every response matches the
    recorded one, at about the recorded time. Broker settings come from --broker-config, otherwise
    from the files that `capture` wrote beside the recordings, from the job, or from the state of
    --from. Request logs have no batch headers; pass them with --batches.
    """
    from brokertwin.recordings.replay import report
    from brokertwin.recordings.replay.documents import response_documents
    from brokertwin.recordings.replay.search import SearchLimits
    from brokertwin.recordings.replay.timing import TOLERANCES

    spark = engine is Engine.SPARK
    _check_output(out, as_json)
    for file in (out, records):
        if file != STANDARD_OUTPUT:
            check_new(file, force)
    kind = _kind_of(state, until, diff, out, spark, compare, check, keep, begin_from)
    apis = _apis(only)
    begins = kept_states.begin(begin_from)
    if diff is None and (begins is None or not where.is_nowhere()):
        where.check()
    name = where.cluster or (begins.cluster if begins is not None else RECORDED)
    settings = where.settings(clusters=(name,))
    limits = SearchLimits(TOLERANCES.scaled(time_tolerance))
    said = functools.partial(_broker_settings, file=broker_config, pairs=broker_set, begins=begins)
    if records is not None:
        _write(_rebuilt_records(where, said(where)), records)
        return
    planned_of = _planner(name, limits, said, begins, spark)
    if diff is not None:
        state_diffs.show(planned_of, where, diff, kind, all_items, as_json)
        return
    is_state = kind is not None or keep is not None
    history, planned = planned_of(where, compare or is_state, compare)
    documents = _until(planned, until, where.time_zone)
    responses, cell, is_fine = _decide(planned, documents, settings, engine, check)
    if keep is not None:
        kept_states.keep(keep, cell, where, documents, until, begins, history)
    if compare:
        compared = report.compare_all(history.exchanges, planned.schedule, responses, apis)
        _report(history, planned, compared, out, as_json)
        report.show_slowness(err, history.exchanges, compared, limits.tolerances)
        is_fine = is_fine and report.is_fine(compared)
    else:
        if kind is not None and cell is not None:
            _show_state(kind, cell, (history, begins), until, all_items, as_json)
        if not is_state or out is not None:
            given = response_documents(history.exchanges, responses, apis)
            _give(given, out, as_json and not is_state)
        if not where.is_nowhere():
            report.show_summary(err, history.exchanges, responses)
    if not is_fine:
        raise typer.Exit(DIFFERS)


def _check_output(out: Path | None, as_json: bool) -> None:
    """Raise UserError if --out and --json write to the same place."""
    if as_json and out == STANDARD_OUTPUT:
        raise UserError(
            "Cannot combine --json with `--out -`: both write to standard output.",
            "Pass a file to --out, or leave out --json.",
        )


def states_around(
    where: Where, place: str, broker_config: Path | None
) -> "tuple[Columns, Columns, frozenset[str]]":
    """Return the tables before and after an exchange of a recording.

    The third value has the topics whose log ends are not known. Raises UserError.
    """
    from brokertwin.recordings.replay.search import LIMITS
    from brokertwin.recordings.replay.unknown_ends import topics_without_headers
    from brokertwin.recordings.replay.until import events_around

    given = functools.partial(_broker_settings, file=broker_config, pairs=None, begins=None)
    history, planned = _planner(where.cluster or RECORDED, LIMITS, given, None, False)(where)
    before, after = (planned.state_after(each) for each in events_around(planned.documents, place))
    return before.columns(), after.columns(), topics_without_headers(history.exchanges)


def _planner(
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
    from brokertwin.recordings.replay.lacks import lacks
    from brokertwin.recordings.replay.plan import plan

    def planned_of(
        where: Where, follows: bool = True, needs_responses: bool = False
    ) -> "tuple[Recording, ReplayPlan]":
        history, given = _history(where, begins), settings_for(where)
        if begins is not None:
            kept_states.warn_of_overlap(begins, history)
        elif not is_spark:
            as_decided = _as_decided(where, history, given)
            if as_decided is not None:
                return history, as_decided
            for sentence in lacks(history.exchanges) if needs_responses else ():
                warn(sentence)
        with _progress("finding the order of events", 2 * len(history.events)) as advance:
            planned = plan(
                history, cluster, given, follows, limits, advance, needs_responses, begins
            )
            return history, planned

    return planned_of


def _as_decided(where: Where, history: "Recording", given: "BrokerSettings") -> "ReplayPlan | None":
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
    with _progress("handling requests", len(was.documents)) as advance:
        return of_job.plan(was, history.exchanges, given, advance)


def _history(where: Where, begins: "KeptState | None") -> "Recording":
    """Read the recording and report unreadable lines; may be empty with --from."""
    from brokertwin.recordings.replay import recording, report

    if where.is_nowhere() and begins is not None:
        return recording.Recording([], [])
    headers = where.headers()
    with source_of(where) as source:
        history = recording.read_from(source, headers)
    report.show_broken(err, history.broken)
    report.show_left_out(err, history.left_out)
    return history


def _until(planned: "ReplayPlan", until: str | None, time_zone: str) -> Sequence[bytes]:
    """Return the events up to --until, or all."""
    from brokertwin.recordings.formats.pipeline import zone_of
    from brokertwin.recordings.replay.until import events_until

    if until is None:
        return planned.documents
    return events_until(planned.documents, until, zone_of(time_zone))


def _decide(
    planned: "ReplayPlan",
    documents: Sequence[bytes],
    settings: "Settings",
    engine: Engine,
    check: bool,
) -> "tuple[dict[str, ModelResponse], Cell | None, bool]":
    """Return an engine's responses, its cell if it is local, and False if --check failed.

    Responses that the search for the order has computed are reused.
    """
    violations: list[str] | None = [] if check else None
    with _progress("deciding", len(documents)) as advance:
        if engine is Engine.SPARK:
            from brokertwin.streaming.job import replay_engine as spark

            return spark.run(documents, planned.settings, settings, advance), None, True
        from brokertwin.recordings.replay import local

        said = planned.schedule.responses
        if not check and planned.ends is not None and said and documents is planned.documents:
            return said, planned.ends, True
        cell = planned.cell()
        on_violation = None if violations is None else violations.append
        responses = local.run(documents, planned.settings, advance, on_violation, cell)
    return responses, cell, _show_violations(violations)


def _kind_of(
    state: str | None,
    until: str | None,
    diff: tuple[str, str] | None,
    out: Path | None,
    is_spark: bool,
    compare: bool,
    check: bool,
    keep: Path | None,
    begin_from: Path | None,
) -> "ItemKind | None":
    """Return the kind of items to show. Raises UserError if options conflict."""
    if is_spark:
        extras.need("`brokertwin replay --engine spark`", *extras.SPARK)
    if check and is_spark:
        raise UserError(
            "Cannot combine --check with --engine spark, whose state is in another process.",
            "Use --engine local.",
        )
    others = (until, out, keep, compare, check, is_spark)
    if diff is not None and any(others):
        raise UserError(
            "--diff can only be combined with --state.",
            "Leave out --until, --out, --keep, --compare, --check and --engine spark.",
        )
    if until is not None and (compare or (state, keep) == (None, None)):
        raise UserError(
            "--until requires --state or --keep, without --compare.",
            "Add for example --state groups.",
        )
    if is_spark and (state is not None or keep or begin_from):
        option = "--state" if state is not None else "--keep" if keep else "--from"
        raise UserError(
            f"Cannot combine {option} with --engine spark, whose state is in another process.",
            "Use --engine local.",
        )
    if state is not None and compare:
        raise UserError("Cannot combine --state with --compare.", "Run the command once with each.")
    return state_tables.kind_of(state)


def _rebuilt_records(where: Where, given: "BrokerSettings") -> Iterator[str]:
    """Handle a job's requests again; yields the values of the rows of its topic `records`.

    Raises UserError: no job, a job of several cells, or the start of its topic was deleted.
    """
    from brokertwin.recordings.replay import of_job

    if not where.job:
        raise UserError(
            "--records requires --job: it writes the rows of a job's topic `records`.",
            "Add --job, and leave out files.",
        )
    settings = where.settings()
    was = of_job.given(kafka_of(settings), settings.prefix, where.cluster)
    if isinstance(was, str):
        raise UserError(f"Cannot rebuild the job's records: {was}.")
    count = 0
    with _progress("deciding", len(was.documents)) as advance:
        for row in of_job.records(was, given, advance):
            count += 1
            yield (row.value or b"").decode()
    say(f"{counted(count, 'record')} of {counted(len(was.documents), 'event')}")


def _show_state(
    kind: "ItemKind",
    cell: "Cell",
    replayed: "tuple[Recording, KeptState | None]",
    until: str | None,
    all_items: bool,
    as_json: bool,
) -> None:
    """Print the items of a kind after the events."""
    from brokertwin.recordings.replay.unknown_ends import topics_without_headers
    from brokertwin.tables import state_rows

    without_ends = topics_without_headers(replayed[0].exchanges, replayed[1])
    found = state_rows.rows(kind, {cell.settings.name: cell.columns()}, without_ends)
    shown = state_tables.listed(found, all_items)
    if as_json:
        show_json(shown)
        return
    state_tables.show(kind, shown, f"at {until}" if until is not None else "at the end")
    state_tables.show_hidden(found, shown)


def _show_violations(violations: list[str] | None) -> bool:
    """Print violations of --check; returns True if there are none."""
    if violations is None:
        return True
    for violation in violations[:VIOLATIONS_SHOWN]:
        warn(violation)
    say(f"checked after each event: {counted(len(violations), 'violation')}")
    return not violations


def _give(documents: list[dict[str, Any]], out: Path | None, as_json: bool) -> None:
    """Print or write the responses, as lines or as one document."""
    from brokertwin.recordings.replay.documents import as_line

    if as_json:
        show_json({"requests": len(documents), "answers": documents})
    if out is not None or not as_json:
        _write(map(as_line, documents), out or STANDARD_OUTPUT)


def _report(
    history: "Recording",
    planned: "ReplayPlan",
    compared: "list[Compared]",
    out: Path | None,
    is_json: bool,
) -> None:
    """Write and print a comparison."""
    from brokertwin.recordings.replay import report
    from brokertwin.recordings.replay.documents import comparison_document, json_lines

    if out is not None:
        _write(json_lines(compared), out)
    if is_json:
        show_json(comparison_document(history, compared, planned.schedule, planned.earlier))
        return
    report.show_comparison(output, compared)
    report.show_earlier(output, planned.earlier)
    report.show_schedule(output, planned.schedule)
    report.show_touched(output, compared)
    report.show_freedoms(output, compared)
    report.show_last_line(output, compared)


def _broker_settings(
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


def _apis(only: str | None) -> frozenset[str]:
    """Return the APIs of `--only` by their request log names; accepts both of Kafka's spellings.

    Raises:
        UserError: Kafka has no such API.
    """
    from brokertwin.protocol.kafka_apis import KAFKA_APIS

    names = {api.name.replace("_", ""): api.name for api in KAFKA_APIS.values()}
    chosen = set()
    for name in filter(None, (part.strip() for part in (only or "").split(","))):
        plain = name.upper().replace("_", "")
        if plain not in names:
            near = difflib.get_close_matches(plain, names, n=3, cutoff=0.5)
            hint = f"Did you mean {' or '.join(names[one] for one in near)}?" if near else ""
            raise UserError(f"Unknown API in --only: {name}.", hint)
        chosen.add(names[plain])
    return frozenset(chosen)


@contextmanager
def _progress(title: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal."""
    with progress_bars() as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)


def _write(lines: Iterable[str], out: Path) -> None:
    if out == STANDARD_OUTPUT:
        for line in lines:
            typer.echo(line)
        return
    with writing(out) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
