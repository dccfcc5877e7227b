"""`brokertwin exam`: compare a broker with Apache Kafka over the wire."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.output import out, progress_bars, say, show_table, warn
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.gateway.edge_fields import Address
    from brokertwin.testing.exam.model import ExamSubject, Scenario
    from brokertwin.testing.exam.reports import Report
    from brokertwin.testing.exam.verdicts import Key, Result

SHOWN = 3
"""Deviations of a scenario that are printed."""

Broker = Annotated[
    str | None, typer.Argument(metavar="HOST:PORT", help="A listener without TLS and SASL.")
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="NAME", help="Subject, or start of scenario names; repeatable."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Run on a cluster with other topics or groups.")]
Version = Annotated[
    str | None,
    typer.Option(
        "--version",
        metavar="3.9.1|4.4.0",
        help="Accept the known deviations of this Kafka version.",
    ),
]
Baseline = Annotated[
    Path | None,
    typer.Option(
        "--baseline", metavar="FILE", help="Earlier --json report; only new deviations fail."
    ),
]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write a JSON report.")]
Junit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write an HTML page.")]
Jobs = Annotated[int, typer.Option("--jobs", min=1, help="Number of scenarios to run in parallel.")]
Patience = Annotated[
    float, typer.Option("--patience", min=0.1, help="Multiply all time limits, for slow brokers.")
]
Listed = Annotated[bool, typer.Option("--list", help="Print the scenarios and their rules.")]


def command(
    broker: Broker = None,
    only: Only = None,
    yes: Yes = False,
    version: Version = None,
    baseline: Baseline = None,
    json: Json = None,
    junit: Junit = None,
    html: Html = None,
    jobs: Jobs = 4,
    patience: Patience = 1.0,
    listed: Listed = False,
) -> None:
    """Compare the responses of a broker with those of Apache Kafka 4.3.1.

    Plays short scenarios of raw requests. A scenario is skipped if the broker's ApiVersions
    response lacks one of its APIs. Use a cluster for tests: topics and groups have the prefix
    brokertwin-exam- and are deleted at the end.

    The exit code is that of the worst new deviation: 0 none, 3 cosmetic, 4 breaks clients, 5 loses
    data.
    """
    from brokertwin.testing.exam.model import selected
    from brokertwin.testing.exam.reports import baseline as read_baseline
    from brokertwin.testing.exam.verdicts import exit_code, new_deviations

    chosen = list(selected(only or ()))
    if not chosen:
        raise UserError(f"No scenario matches --only {', '.join(only or ())}.", "See --list.")
    if listed:
        show_table(["scenario", "rule"], [(each.name, each.rule) for _, each in chosen])
        return
    if broker is None:
        raise UserError("The broker is missing.", "Pass HOST:PORT, like localhost:9092.")
    known = read_baseline(_read(baseline)) if baseline else set()
    report = _examined(broker, chosen, version, yes, jobs, patience)
    _show(report, known)
    _write(report, known, json, junit, html)
    raise typer.Exit(exit_code(new_deviations(report.results, known)))


def _examined(
    broker: str,
    chosen: "list[tuple[ExamSubject, Scenario]]",
    version: str | None,
    yes: bool,
    jobs: int,
    patience: float,
) -> "Report":
    from brokertwin.testing.exam.examination import ExamOptions, check_is_empty, examine
    from brokertwin.testing.exam.reports import report_of
    from brokertwin.testing.exam.site import look
    from brokertwin.testing.exam.versions import notes_of

    choices = ExamOptions(jobs, patience, notes_of(version) if version else ())
    names = {name for _, scenario in chosen for name in scenario.settings}
    site = look(_address(broker), names, patience)
    if not yes:
        check_is_empty(site)
    began = time.monotonic()
    with progress_bars() as bar:
        task = bar.add_task("scenarios", total=len(chosen))

        def seen(_: "Result") -> None:
            bar.update(task, advance=1)

        results = examine(chosen, site, choices, seen)
    return report_of(broker, results, time.monotonic() - began)


def _address(text: str) -> "Address":
    from brokertwin.gateway.edge_fields import Address

    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise UserError(f"Invalid address {text!r}.", "Write HOST:PORT, like localhost:9092.")
    return Address(host, int(port))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from None


def _show(report: "Report", known: "set[Key]") -> None:
    from brokertwin.testing.exam.reports import described, total, worst_of

    for result in report.results:
        deviations = result.unexplained
        if not deviations:
            continue
        new = [e for e in deviations if (result.scenario, e.step, e.path) not in known]
        mark = worst_of(deviations).value if new else "known"
        out.print(
            f"{result.scenario} ({mark}): {result.rule}", soft_wrap=True, highlight=False,
            markup=False,
        )  # fmt: skip
        for each in deviations[:SHOWN]:
            out.print(f"    {described(each)}", soft_wrap=True, highlight=False, markup=False)
        if len(deviations) > SHOWN:
            out.print(f"    and {len(deviations) - SHOWN} more", highlight=False)
    rows = [
        (s.title, s.percent, s.agrees, s.deviates, s.explained, s.not_claimed, s.other_settings)
        for s in (*report.scores, total(report.scores))
    ]
    heads = ["subject", "score", "agree", "deviate", "explained", "not claimed", "other settings"]
    show_table(heads, rows)
    out.print(
        f"{counted(len(report.results), 'scenario')} in {report.elapsed_s} s,"
        f" compared with Kafka {report.kafka}"
    )


def _write(
    report: "Report",
    known: "set[Key]",
    json: Path | None,
    junit: Path | None,
    html: Path | None,
) -> None:
    from brokertwin.testing.exam.pages import page
    from brokertwin.testing.exam.reports import as_json, as_junit

    made = (
        (json, as_json(report)),
        (junit, as_junit(report, known)),
        (html, page(report).encode()),
    )
    for path, data in made:
        if path is None:
            continue
        try:
            path.write_bytes(data)
        except OSError as error:
            warn(f"cannot write {path}: {error.strerror}")
        else:
            say(f"wrote {path}")
