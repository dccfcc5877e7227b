"""`brokertwin audit`: problems in recorded traffic, each with the lines that show it."""

import gc
import time
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.files import check_new
from brokertwin.cli.options import BrokerConfig, Force, typed_broker_settings
from brokertwin.cli.output import out, progress_bars, say, show_json, warn
from brokertwin.cli.recordings.sources import Where, source_of, with_source
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.recordings.audit.finding import AuditFinding
    from brokertwin.recordings.history.exchange import KnownFacts
    from brokertwin.recordings.history.holes import Hole
    from brokertwin.recordings.history.undecoded import Undecoded
    from brokertwin.recordings.replay.recording import Broken

HEEDED = ("min.insync.replicas", "replica.lag.time.max.ms")
LINES = 1_000
"""Maximum number of evidence lines of a finding in JSON."""

LINES_SHOWN = 3
"""Maximum number of evidence lines of a finding in the table."""

BYTES_OF_SEVERAL = 10_000_000
"""Size of files from which on several processes read them."""

QUIET_S = 2.0
"""Seconds without a new line after which no earlier line is waited for."""

EXIT_CODES = {"info": 1, "warning": 1, "error": 3}
"""Exit code by severity. Code 2 is reserved for usage errors."""


class FailOn(StrEnum):
    """Lowest severity that makes the exit code nonzero."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    NEVER = "never"


Html = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Also write the page of `brokertwin page`: the findings over time.",
    ),
]
FailOnOption = Annotated[
    FailOn,
    typer.Option("--fail-on", help="Lowest severity that makes the exit code nonzero."),
]
FollowOption = Annotated[
    bool,
    typer.Option(
        "--follow",
        help="Go on until interrupted: read what is appended to the files, and report findings that"
        " are new or more frequent.",
    ),
]
EveryOption = Annotated[
    float,
    typer.Option(
        "--interval", metavar="SECONDS", min=0.1, help="How often to look, with --follow."
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        min=1,
        help="Number of processes; default: one for each core, or one if the files are small."
        " --follow and --html use one.",
    ),
]
AuditJson = Annotated[
    bool, typer.Option("--json", "-J", help="Print one JSON line for each finding.")
]


@with_source
def command(
    where: Where,
    html: Html = None,
    force: Force = False,
    fail_on: FailOnOption = FailOn.WARNING,
    broker_config: BrokerConfig = None,
    follow: FollowOption = False,
    every: EveryOption = 10.0,
    jobs: Jobs = None,
    as_json: AuditJson = False,
) -> None:
    """Report problems in recorded traffic, with the lines that show them.

    Findings: fenced producers, out-of-order sequences, duplicate batches, lost fetch sessions and
    the clients that open many, rebalances and their causes, offsets that move back, refused
    commits, growing lag, shrinking in-sync replica sets, writes below min.insync.replicas, and all
    other errors. Use `brokertwin explain` for the timeline of one producer, group or session, and
    `brokertwin replay --compare` to check the responses against the broker model.

    Exits with code 3 if there is an error, with code 1 if there is a warning, otherwise with 0.
    """
    from brokertwin.cli.recordings import page
    from brokertwin.recordings.audit.finders import findings
    from brokertwin.recordings.history.holes import sentences

    if follow:
        _check_follow(where, html)
        raise typer.Exit(_exit_code(_follow(where, broker_config, every, as_json), fail_on))
    check_new(html, force)
    if html is not None:
        history, broken, holes = page.read(where, broker_config)
        found, undecoded = findings(history), history.undecoded
    else:
        count = jobs or _jobs_for(where.files)
        found, broken, holes, undecoded = _passed(where, broker_config, count)
    notes = [f"Could not read {counted(len(broken), 'line')}."] if broken else []
    for line in broken[:LINES_SHOWN]:
        warn(f"{line.place}: {line.reason}")
    for sentence in sentences(holes):
        warn(sentence)
    if undecoded.said:
        warn(undecoded.said)
    if html is not None:
        page.write(html, where, history, found)
        say(f"wrote {html}")
    if as_json:
        for each in found:
            show_json(each.document(LINES))
    else:
        _show(found)
        for note in notes:
            warn(note)
    raise typer.Exit(_exit_code(found, fail_on))


def _jobs_for(files: Sequence[Path]) -> int:
    """Number of processes for files: one for each core, or one if they are soon read."""
    from brokertwin.processes import cores
    from brokertwin.recordings.formats.lines import size_of

    size = size_of(files)
    return 1 if size is not None and size < BYTES_OF_SEVERAL else cores()


def _passed(
    where: Where, broker_config: Path | None, jobs: int
) -> "tuple[list[AuditFinding], Sequence[Broken], Sequence[Hole], Undecoded]":
    """The findings of a source, and its illegible and missing lines; shows a progress bar."""
    from brokertwin.recordings.audit.finders import findings
    from brokertwin.recordings.audit.one_pass import judged
    from brokertwin.recordings.audit.spool import Spool
    from brokertwin.recordings.formats.documents import Texts
    from brokertwin.recordings.formats.pipeline import zone_of

    with Spool(where.headers(), broker_facts(broker_config)) as spool:
        if jobs == 1 or not where.files or where.batches:
            with source_of(where, Texts.REQUEST_LOGS) as source:
                spool.read(source)
        else:
            from brokertwin.recordings.audit.ahead import DecodersAhead

            with (
                DecodersAhead(jobs, zone_of(where.time_zone)) as decoders,
                source_of(where, Texts.REQUEST_LOGS, ahead=decoders.lines) as source,
            ):
                spool.read(source)
        with progress_bars() as bar:
            task = bar.add_task("judging", total=len(spool))
            history = judged(spool, jobs, lambda count: bar.update(task, completed=count))
        return findings(history), spool.broken, spool.holes, spool.undecoded


def _check_follow(where: Where, html: Path | None) -> None:
    """Raises UserError for options that --follow does not go with."""
    if not where.files:
        raise UserError("--follow is for files that grow.", "Name the files.")
    if html is not None:
        raise UserError("Cannot combine --follow with --html.", "Leave out one of them.")


def _follow(
    where: Where, broker_config: Path | None, every: float, as_json: bool
) -> "list[AuditFinding]":
    """Report findings as files grow, until interrupted; return the last ones.

    Each look takes the new lines. What waits for other lines is taken when the files are quiet.
    """
    from brokertwin.recordings.audit.finders import findings
    from brokertwin.recordings.audit.one_pass import OnePass
    from brokertwin.recordings.audit.spool import Spool
    from brokertwin.recordings.formats.documents import Texts
    from brokertwin.recordings.formats.growing import GrowingFiles
    from brokertwin.recordings.formats.pipeline import FileReading, zone_of
    from brokertwin.recordings.history.holes import sentences

    audit_findings: list[AuditFinding] = []
    reported: dict[tuple[str, str, int], int] = {}
    reading = FileReading(where.broker, zone_of(where.time_zone), warn, Texts.REQUEST_LOGS)
    files = GrowingFiles(where.files, reading)
    machines: OnePass | None = None
    said: list[Hole] = []
    with Spool(where.headers(), broker_facts(broker_config), grows=True) as spool:
        grown_at, is_settled = 0.0, True
        try:
            while True:
                spool.read(files.read)
                if len(spool):
                    facts = spool.facts()
                    machines = machines or OnePass(facts)
                    machines.take(spool)
                    new = [each for each in spool.holes if not each.overlaps(said)]
                    for sentence in sentences(new):
                        warn(sentence)
                    said += new
                    grown_at, is_settled = time.monotonic(), False
                if machines is not None and not is_settled:
                    is_settled = time.monotonic() - grown_at >= QUIET_S
                    machines.expire(float("inf") if is_settled else machines.end)
                    audit_findings = findings(machines.findings(spool.undecoded))
                    _report(audit_findings, reported, as_json)
                gc.collect()
                time.sleep(every)
        except KeyboardInterrupt:
            return audit_findings


def _report(
    findings: "Sequence[AuditFinding]", reported: dict[tuple[str, str, int], int], as_json: bool
) -> None:
    """Print the findings that are new or more frequent, and note them."""
    news = [each for each in findings if reported.get(_key(each), 0) < each.total]
    reported |= {_key(each): each.total for each in news}
    if as_json:
        for each in news:
            show_json(each.document(LINES))
    elif news:
        _show(news)


def _key(finding: "AuditFinding") -> tuple[str, str, int]:
    return finding.kind, finding.subject, finding.code


def broker_facts(broker_config: Path | None) -> "KnownFacts":
    """Return the settings of the brokers, as far as they are given."""
    from brokertwin.recordings.history.exchange import KnownFacts

    if broker_config is None:
        return KnownFacts()
    rules = typed_broker_settings(broker_config, (), also_acted_on=HEEDED)
    return KnownFacts(
        min_isr={"": rules.min_insync_replicas}, lag_time_max_ms=rules.replica_lag_time_max_ms
    )


def _exit_code(findings: "Sequence[AuditFinding]", fail_on: FailOn) -> int:
    labels = [each.value for each in FailOn]
    worst = max((labels.index(each.severity.label) for each in findings), default=-1)
    return EXIT_CODES[labels[worst]] if worst >= labels.index(fail_on) else 0


def _show(findings: "Sequence[AuditFinding]") -> None:
    """Print a table of findings by severity, and their counts; each advice once."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    styles = {"error": "red", "warning": "yellow", "info": "blue"}
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("severity", no_wrap=True)
    table.add_column("count", justify="right", no_wrap=True)
    table.add_column("finding", overflow="fold")
    advised = {""}
    for each in findings:
        do = "" if each.severity.label == FailOn.INFO else each.rule.do
        advice = "" if do in advised else f"\ndo: {escape(do)}"
        advised.add(do)
        style = styles[each.severity.label]
        lines = ", ".join(dict.fromkeys(e.place for e in each.evidence[:LINES_SHOWN]))
        more = ", …" if len(each.evidence) > LINES_SHOWN else ""
        table.add_row(
            f"[{style}]{each.severity.label}[/{style}]",
            str(each.total),
            f"[bold]{each.kind}[/bold]  {escape(each.subject)}\n{escape(each.what)}{advice}\n"
            f"[dim]{escape(lines)}{more}[/dim]",
        )
    if findings:
        out.print(table, highlight=False)
    counts = Counter(each.severity.label for each in findings)
    say(", ".join(f"{name}: {counts[name]}" for name in styles))
