"""`brokertwin replay`: run recorded exchanges through the broker model."""

import difflib
import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from brokertwin import extras
from brokertwin.cli.files import check_new
from brokertwin.cli.options import BrokerConfig, BrokerSet, Force
from brokertwin.cli.output import err, say, show_json, warn
from brokertwin.cli.output import out as output
from brokertwin.cli.recordings import kept_states
from brokertwin.cli.recordings.planning import (
    RECORDED,
    STANDARD_OUTPUT,
    At,
    From,
    planner,
    progress,
    settings_given,
    until,
    write,
)
from brokertwin.cli.recordings.sources import Where, with_source
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.recordings.replay.comparison import ModelResponse
    from brokertwin.recordings.replay.plan import ReplayPlan
    from brokertwin.recordings.replay.recording import Recording
    from brokertwin.recordings.replay.report import Compared
    from brokertwin.settings import Settings
    from brokertwin.state.cell.cell import Cell

DIFFERS = 1

VIOLATIONS_SHOWN = 20
"""Maximum number of --check violations to print."""

Engine = Literal["local", "spark"]
EngineOption = Annotated[
    Engine, typer.Option("--engine", help="local: this process. spark: Kafka and a Spark job.")
]
Compare = Annotated[
    bool, typer.Option("--compare", help="Compare the responses with the recorded ones.")
]
Only = Annotated[
    str | None,
    typer.Option("--api", metavar="API,…", help="Report only these APIs; all are handled."),
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
Keep = Annotated[
    Path | None,
    typer.Option(
        "--keep",
        metavar="DIR",
        help="Write the state at the end, or at --at, to this directory, for --from, `query`,"
        " `explain --checkpoint` and `replay diff`. A former state in it is replaced. Without"
        " --compare, no responses are printed.",
    ),
]
ReplayJson = Annotated[
    bool,
    typer.Option(
        "--json",
        "-J",
        help="Print one JSON document: with --compare the counts, all differing exchanges and the"
        " order of events, otherwise the responses.",
    ),
]


@with_source
def command(
    where: Where,
    engine: EngineOption = "local",
    compare: Compare = False,
    only: Only = None,
    check: Check = False,
    keep: Keep = None,
    at: At = None,
    begin_from: From = None,
    out: Out = None,
    force: Force = False,
    broker_set: BrokerSet = None,
    broker_config: BrokerConfig = None,
    time_tolerance: TimeTolerance = 1.0,
    as_json: ReplayJson = False,
) -> None:
    """Run recorded requests through the broker model and compare the responses.

    Files are merged by time. With --compare the exit code is 1 unless every response matches the
    recorded one, at about the recorded time. Broker settings come from --broker-config, otherwise
    from the files that `capture` wrote beside the recordings, from the job, or from the state of
    --from. Request logs have no batch headers; pass them with --batches. `replay state` shows the
    state at any moment, `replay diff` what changed between two.
    """
    from brokertwin.recordings.replay import report
    from brokertwin.recordings.replay.documents import response_documents
    from brokertwin.recordings.replay.search import SearchLimits
    from brokertwin.recordings.replay.timing import TOLERANCES

    spark = engine == "spark"
    _check_output(out, as_json)
    if out != STANDARD_OUTPUT:
        check_new(out, force)
    if at is not None and (compare or keep is None):
        raise UserError(
            "--at requires --keep, without --compare.", "Or run `brokertwin replay state`."
        )
    _check_engine(spark, {"--check": check, "--keep": keep, "--from": begin_from})
    apis = _apis(only)
    begins = kept_states.begin(begin_from)
    if begins is None or not where.is_nowhere():
        where.check()
    name = where.cluster or (begins.cluster if begins is not None else RECORDED)
    settings = where.settings(clusters=(name,))
    limits = SearchLimits(TOLERANCES.scaled(time_tolerance))
    given = functools.partial(settings_given, file=broker_config, pairs=broker_set, begins=begins)
    planned_of = planner(name, limits, given, begins, spark)
    history, planned = planned_of(where, compare or keep is not None, compare)
    documents = until(planned, at, where.time_zone)
    responses, cell, is_fine = _decide(planned, documents, settings, engine, check)
    if keep is not None:
        kept_states.keep(keep, cell, where, documents, at, begins, history)
    if compare:
        compared = report.compare_all(history.exchanges, planned.schedule, responses, apis)
        _report(history, planned, compared, out, as_json)
        report.show_slowness(err, history.exchanges, compared, limits.tolerances)
        is_fine = is_fine and report.is_fine(compared)
    else:
        if keep is None or out is not None:
            found = response_documents(history.exchanges, responses, apis)
            _give(found, out, as_json and keep is None)
        if not where.is_nowhere():
            report.show_summary(err, history.exchanges, responses)
    if not is_fine:
        raise typer.Exit(DIFFERS)


def _check_engine(is_spark: bool, others: dict[str, object]) -> None:
    """Raise UserError for options that need the state, which Spark has in another process."""
    if not is_spark:
        return
    extras.need("`brokertwin replay --engine spark`", *extras.SPARK)
    for option, value in others.items():
        if value:
            raise UserError(
                f"Cannot combine {option} with --engine spark, whose state is in another process.",
                "Use --engine local.",
            )


def _check_output(out: Path | None, as_json: bool) -> None:
    """Raise UserError if --out and --json write to the same place."""
    if as_json and out == STANDARD_OUTPUT:
        raise UserError(
            "Cannot combine --json with `--out -`: both write to standard output.",
            "Pass a file to --out, or leave out --json.",
        )


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
    with progress("deciding", len(documents)) as advance:
        if engine == "spark":
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
        show_json({"requests": len(documents), "responses": documents})
    if out is not None or not as_json:
        write(map(as_line, documents), out or STANDARD_OUTPUT)


def _report(
    history: "Recording",
    planned: "ReplayPlan",
    compared: "list[Compared]",
    out: Path | None,
    is_json: bool,
) -> None:
    from brokertwin.recordings.replay import report
    from brokertwin.recordings.replay.documents import comparison_document, json_lines

    if out is not None:
        write(json_lines(compared), out)
    if is_json:
        show_json(comparison_document(history, compared, planned.schedule, planned.earlier))
        return
    report.show(output, compared, planned.schedule, planned.earlier)


def _apis(only: str | None) -> frozenset[str]:
    """Return the APIs of `--api` by their request log names; accepts both of Kafka's spellings.

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
            raise UserError(f"Unknown API in --api: {name}.", hint)
        chosen.add(names[plain])
    return frozenset(chosen)
