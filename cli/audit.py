"""`brokertwin audit`: what went wrong in recorded traffic, each finding with its lines."""

import os
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.options import BrokerConfig, typed_broker_settings
from brokertwin.cli.output import out, say, show_json, warn
from brokertwin.cli.sources import Where, source_of, with_source
from brokertwin.errors import NothingRecordedError, UserError

if TYPE_CHECKING:
    from brokertwin.state.observed.replication import ReplicationObserver
    from brokertwin.streaming.audit.finding import Finding

HEEDED = ("min.insync.replicas", "replica.lag.time.max.ms")
LINES = 1_000
"""Lines of evidence that a finding has in JSON."""

LINES_SHOWN = 3
"""The same in the table."""

EXIT_CODES = {"info": 1, "warning": 1, "error": 3}
"""2 is that of a command that cannot do what it is asked to."""


class FailOn(StrEnum):
    """From which severity on the exit code is not 0."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    NEVER = "never"


Html = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        help="Write a page there with the findings, their lines and plots; it needs nothing else.",
    ),
]
FailOnOption = Annotated[
    FailOn,
    typer.Option("--fail-on", help="The least severity at which the exit code is not 0."),
]
Decide = Annotated[
    bool,
    typer.Option(
        "--decide",
        help="Decide every request again, and report the answers that differ from the rules. For a"
        " recording that begins with its broker, and for --job.",
    ),
]
FollowOption = Annotated[
    bool,
    typer.Option(
        "--follow",
        help="Go on until interrupted: read files that have grown again, and report findings that"
        " are new or more frequent.",
    ),
]
EveryOption = Annotated[
    float,
    typer.Option("--every", metavar="SECONDS", min=0.1, help="How often to look, with --follow."),
]
AuditJson = Annotated[bool, typer.Option("--json", help="Print a line of JSON for each finding.")]


@with_source
def command(
    where: Where,
    html: Html = None,
    fail_on: FailOnOption = FailOn.WARNING,
    decide: Decide = False,
    broker_config: BrokerConfig = None,
    follow: FollowOption = False,
    every: EveryOption = 10.0,
    as_json: AuditJson = False,
) -> None:
    """Report what went wrong in recorded traffic, and the lines that show it.

    Producers that were fenced or out of order, batches written twice, fetch sessions that were lost
    and who opens many, rebalances and who began them, offsets that go back, refused commits, lag
    that grows, in-sync sets that shrink, writes below min.insync.replicas, and all other errors.
    Nothing is decided again but with --decide; `explain` tells the story of a producer, a group or
    a session.

    The exit code is 3 where there is an error, 1 where there is a warning, else 0.
    """
    from brokertwin.streaming.audit import page
    from brokertwin.streaming.audit.finders import findings, in_order
    from brokertwin.streaming.audit.finding import counted
    from brokertwin.streaming.audit.reading import read_from

    if follow:
        _check_follow(where, html, decide)
        raise typer.Exit(_exit_code(_follow(where, broker_config, every, as_json), fail_on))
    if html is not None:
        page.look()
    headers = where.headers()
    with source_of(where) as source:
        done = read_from(source, headers, _observer(broker_config))
    found = findings(done.history)
    if decide:
        found = in_order([*found, *_decided(where, broker_config)])
    lines = counted(len(done.broken), "line")
    notes = [f"{lines} could not be read."] if done.broken else []
    for broken in done.broken[:LINES_SHOWN]:
        warn(f"{broken.place}: {broken.reason}")
    if html is not None:
        page.write(html, where.names, done.history, found, notes)
        say(f"wrote {html}")
    if as_json:
        for each in found:
            show_json(each.document(LINES))
    else:
        _show(found)
        for note in notes:
            warn(note)
    raise typer.Exit(_exit_code(found, fail_on))


def _check_follow(where: Where, html: Path | None, decide: bool) -> None:
    """Raises UserError for options that --follow does not go with."""
    if not where.files:
        raise UserError("--follow is for files that grow.", "Name the files.")
    if html is not None or decide:
        raise UserError("--follow does not go with --html and --decide.", "Leave them out.")


def _follow(
    where: Where, broker_config: Path | None, every: float, as_json: bool
) -> "list[Finding]":
    """Report findings as files grow, until interrupted; return the last ones.

    The files are read again from their beginning, because findings compare lines that lie far
    apart. A file that has no exchange yet is waited for.
    """
    from brokertwin.streaming.audit.finders import findings
    from brokertwin.streaming.audit.reading import read_from

    found: list[Finding] = []
    told: dict[tuple[str, str, int], int] = {}
    sizes: list[tuple[int, int]] = []
    try:
        while True:
            now = [(status.st_size, status.st_mtime_ns) for status in map(_status, where.files)]
            if now != sizes:
                sizes = now
                with suppress(NothingRecordedError), source_of(where) as source:
                    done = read_from(source, where.headers(), _observer(broker_config))
                    found = findings(done.history)
                news = [each for each in found if told.get(_key(each), 0) < each.total]
                told |= {_key(each): each.total for each in found}
                if as_json:
                    for each in news:
                        show_json(each.document(LINES))
                elif news:
                    _show(news)
            time.sleep(every)
    except KeyboardInterrupt:
        return found


def _status(path: Path) -> os.stat_result:
    """Size and time of a file. Raises UserError if it cannot be read."""
    try:
        return path.stat()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None


def _key(finding: "Finding") -> tuple[str, str, int]:
    return finding.kind, finding.subject, finding.code


def _decided(where: Where, broker_config: Path | None) -> "list[Finding]":
    """What differs from the rules. Raises UserError where the recording cannot be held to them."""
    from brokertwin.cli.replay import compared_again
    from brokertwin.streaming.audit import decided

    return list(decided.differing(compared_again(where, broker_config)))


def _observer(broker_config: Path | None) -> "ReplicationObserver":
    from brokertwin.state.observed.replication import ReplicationObserver

    if broker_config is None:
        return ReplicationObserver()
    rules = typed_broker_settings(broker_config, (), also_acted_on=HEEDED)
    return ReplicationObserver(rules.min_insync_replicas, rules.replica_lag_time_max_ms)


def _exit_code(found: "Sequence[Finding]", fail_on: FailOn) -> int:
    labels = [each.value for each in FailOn]
    worst = max((labels.index(each.severity.label) for each in found), default=-1)
    return EXIT_CODES[labels[worst]] if worst >= labels.index(fail_on) else 0


def _show(found: "Sequence[Finding]") -> None:
    """A table by severity, as wide as the terminal, and how many there are."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    styles = {"error": "red", "warning": "yellow", "info": "blue"}
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("severity", no_wrap=True)
    table.add_column("count", justify="right", no_wrap=True)
    table.add_column("finding", overflow="fold")
    for each in found:
        style = styles[each.severity.label]
        lines = ", ".join(dict.fromkeys(e.place for e in each.evidence[:LINES_SHOWN]))
        more = ", …" if len(each.evidence) > LINES_SHOWN else ""
        table.add_row(
            f"[{style}]{each.severity.label}[/{style}]",
            str(each.total),
            f"[bold]{each.kind}[/bold]  {escape(each.subject)}\n{escape(each.what)}\n"
            f"[dim]{escape(lines)}{more}[/dim]",
        )
    if found:
        out.print(table, highlight=False)
    counts = Counter(each.severity.label for each in found)
    say(", ".join(f"{name}: {counts[name]}" for name in styles))
