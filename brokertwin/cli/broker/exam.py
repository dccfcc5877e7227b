"""`brokertwin exam`: compare a broker with Apache Kafka over the wire."""

import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin import unpacked
from brokertwin.cli.files import check_new, writing
from brokertwin.cli.options import ConfigFile, Force, KafkaConfig, address, settings_of
from brokertwin.cli.output import out, progress_bars, say, show_table
from brokertwin.errors import UserError
from brokertwin.kafka_io.jars import KAFKA_VERSION
from brokertwin.testing.exam.rights import Rights
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.clients.io.security import ClientSecurity
    from brokertwin.testing.exam.examination import ExamOptions
    from brokertwin.testing.exam.model import ExamSubject, Scenario
    from brokertwin.testing.exam.reports import Report
    from brokertwin.testing.exam.verdicts import Key, Result

SHOWN = 3
"""Deviations of a scenario that are printed."""

Broker = Annotated[str | None, typer.Argument(metavar="HOST:PORT", help="A broker of the cluster.")]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="NAME", help="Subject, or start of scenario names; repeatable."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Run on a cluster with other topics or groups.")]
Version = Annotated[
    str | None,
    typer.Option(
        "--version",
        metavar="4.4|3.9.1",
        help="Compare with Kafka 4.4, or accept the known deviations of Kafka 3.9.1.",
    ),
]
Baseline = Annotated[
    Path | None,
    typer.Option(
        "--baseline", metavar="FILE", help="Report of an earlier --out; only new deviations fail."
    ),
]
Json = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write a JSON report.")]
Junit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML.")]
Sarif = Annotated[
    Path | None, typer.Option("--sarif", metavar="FILE", help="Write deviations as SARIF 2.1.0.")
]
Card = Annotated[
    Path | None, typer.Option("--card", metavar="FILE", help="Write a card in Markdown.")
]
RightsOption = Annotated[
    Rights,
    typer.Option(
        "--rights",
        help="Rights of the user. With `user`, scenarios that need rights on the cluster, or get"
        " an authorization error, are not asked.",
    ),
]
ReadOnly = Annotated[
    bool, typer.Option("--read-only", help="Play only scenarios that change nothing.")
]
Prefix = Annotated[
    str, typer.Option("--prefix", metavar="NAME", help="Prefix of all created names.")
]
RestartCommand = Annotated[
    str | None,
    typer.Option(
        "--restart-command",
        metavar="COMMAND",
        help="Shell command that restarts the broker; without it, scenarios with a restart are"
        " not played.",
    ),
]
Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write an HTML page.")]
Jobs = Annotated[int, typer.Option("--jobs", min=1, help="Number of scenarios to run in parallel.")]
Patience = Annotated[
    float, typer.Option("--patience", min=0.1, help="Multiply all time limits, for slow brokers.")
]
Listed = Annotated[bool, typer.Option("--list", help="Print the scenarios and their rules.")]
Shown = Annotated[
    str | None,
    typer.Option(
        "--show", metavar="NAME", help="Print a scenario: its rule, requests, Kafka's responses."
    ),
]


def command(
    broker: Broker = None,
    only: Only = None,
    yes: Yes = False,
    version: Version = None,
    baseline: Baseline = None,
    json: Json = None,
    junit: Junit = None,
    html: Html = None,
    sarif: Sarif = None,
    card: Card = None,
    force: Force = False,
    rights: RightsOption = Rights.ADMIN,
    read_only: ReadOnly = False,
    prefix: Prefix = "brokertwin-exam-",
    restart_command: RestartCommand = None,
    jobs: Jobs = 4,
    patience: Patience = 1.0,
    listed: Listed = False,
    show: Shown = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
) -> None:
    """Compare the responses of a broker with those of Apache Kafka 4.3.1.

    Plays short scenarios of raw requests. A scenario is skipped if the broker's ApiVersions
    response lacks one of its APIs. Use a cluster for tests: topics and groups have the prefix
    brokertwin-exam- and are deleted at the end. On a shared cluster, pass --read-only.

    The exit code is that of the worst new deviation: 0 none, 3 differs in a field, 4 breaks
    clients, 5 loses or duplicates data; 2 if no scenario was played.
    """
    from brokertwin.clients.io.security import security_of
    from brokertwin.kafka_io.kafka_clients import broker_client
    from brokertwin.testing.exam.examination import ExamOptions
    from brokertwin.testing.exam.model import as_text, selected
    from brokertwin.testing.exam.reports import baseline as read_baseline
    from brokertwin.testing.exam.verdicts import exit_code, new_deviations
    from brokertwin.testing.exam.versions import inheriting, notes_of, reference_of

    names = [show] if show else only or ()
    chosen = list(selected(names))
    if not chosen:
        raise UserError(f"No scenario matches {', '.join(names)}.", "See --list.")
    reference = reference_of(version) if version else None
    if show:
        for _, scenario in inheriting(chosen, reference) if reference else chosen:
            out.print(as_text(scenario), soft_wrap=True, highlight=False, markup=False)
        return
    if listed:
        show_table(["scenario", "rule"], [(each.name, each.rule) for _, each in chosen])
        return
    for file in (json, junit, html, sarif, card):
        check_new(file, force)
    if broker is None:
        raise UserError("The broker is missing.", "Pass HOST:PORT, like localhost:9092.")
    baseline_keys = (
        read_baseline(unpacked.read(baseline, unpacked.LINE_BYTES_MAX)) if baseline else set()
    )
    chosen = inheriting(chosen, reference)
    notes = notes_of(version) if version and reference is None else ()
    options = ExamOptions(jobs, patience, notes, prefix, rights, read_only)
    settings = settings_of(config, kafka_config=kafka_config)
    security = security_of(broker_client(broker, settings))
    kafka = reference.kafka if reference is not None else KAFKA_VERSION
    report = _examined(broker, chosen, security, yes or read_only, restart_command, options, kafka)
    _show(report, baseline_keys)
    _write(report, baseline_keys, json, junit, html, sarif, card)
    if not any(each.played for each in report.scores):
        say("No scenario was played; the table says why. Choose others, or give more rights.")
        raise typer.Exit(2)
    raise typer.Exit(exit_code(new_deviations(report.results, baseline_keys)))


def _examined(
    broker: str,
    chosen: "list[tuple[ExamSubject, Scenario]]",
    security: "ClientSecurity",
    is_checked: bool,
    restart_command: str | None,
    choices: "ExamOptions",
    kafka: str,
) -> "Report":
    from brokertwin.testing.exam.examination import check_is_empty, examine
    from brokertwin.testing.exam.reports import claims_of, report_of
    from brokertwin.testing.exam.site import look

    at = address("HOST:PORT", broker)
    names = {name for _, scenario in chosen for name in scenario.described_settings}
    site = look(at, names, choices.patience, security)
    if restart_command is not None:
        site = site.restarted_by(restart_command, at, choices.patience)
    if not is_checked:
        check_is_empty(site, choices.prefix)
    began = time.monotonic()
    with progress_bars() as bar:
        task = bar.add_task("scenarios", total=len(chosen))

        def seen(_: "Result") -> None:
            bar.update(task, advance=1)

        results = examine(chosen, site, choices, seen)
    return report_of(broker, kafka, results, time.monotonic() - began, claims_of(site, kafka))


def _show(report: "Report", baseline_keys: "set[Key]") -> None:
    from brokertwin.testing.exam.reports import api_summary, described, total, worst_of
    from brokertwin.testing.exam.verdicts import Outcome, keys_of

    for result in report.results:
        deviations = result.unexplained
        if not deviations:
            continue
        new = [e for e in deviations if (result.scenario, e.step, e.path) not in baseline_keys]
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
        (s.title, s.agrees, s.deviates, s.explained, s.not_claimed, s.other_settings, s.not_asked)
        for s in (*report.scores, total(report.scores))
    ]
    heads = ["subject", "agree", "deviate", "explained", "not claimed", "other settings"]
    show_table([*heads, "not asked"], rows)
    whole = total(report.scores)
    out.print(
        f"{whole.agrees:,} of {whole.played:,} played scenarios agree with Kafka"
        f" {report.kafka}, in {report.elapsed_s} s."
    )
    for severity, count in report.headline.items():
        out.print(f"{count:>5} {severity.value}", highlight=False)
    if baseline_keys:
        keys = keys_of(report.results)
        known = counted(len(keys & baseline_keys), "known deviation")
        out.print(f"{len(keys - baseline_keys):>5} new, {known}", highlight=False)
    others = (each for each in report.results if each.outcome is Outcome.OTHER_SETTINGS)
    for reason, count in Counter(each.reason for each in others).items():
        out.print(f"{count:>5} not played: {reason}", soft_wrap=True, highlight=False, markup=False)
    out.print(api_summary(report.apis))


def _write(
    report: "Report",
    baseline_keys: "set[Key]",
    json: Path | None,
    junit: Path | None,
    html: Path | None,
    sarif: Path | None,
    card: Path | None,
) -> None:
    from brokertwin.testing.exam.pages import page
    from brokertwin.testing.exam.reports import as_card, as_json, as_junit, as_sarif

    made = (
        (json, as_json(report)),
        (junit, as_junit(report, baseline_keys)),
        (html, page(report).encode()),
        (sarif, as_sarif(report, baseline_keys)),
        (card, as_card(report).encode()),
    )
    for path, data in made:
        if path is None:
            continue
        with writing(path) as temporary:
            temporary.write_bytes(data)
        say(f"wrote {path}")
