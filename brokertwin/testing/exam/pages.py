"""The HTML page of an exam: score by subject, and each deviation. It loads nothing."""

import json
from collections.abc import Mapping, Sequence
from html import escape

from brokertwin.testing.exam.model import ExamSeverity
from brokertwin.testing.exam.reports import (
    PLAYED,
    Report,
    Score,
    api_summary,
    printable,
    shown,
    total,
)
from brokertwin.testing.exam.verdicts import Deviation, Outcome, Result

DEVIATIONS_SHOWN = 20
"""Deviations of a scenario on the page; the JSON report has all."""

STYLE = """
:root { --back: #ffffff; --text: #1c1e21; --dim: #5c6370; --edge: #d9dce1; --card: #f6f7f9;
  --bad: #c62828; --warn: #a86200; --good: #2e7d32; --track: #e3e6ea; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14161a; --text: #e7e9ec; --dim: #9aa2ad; --edge: #343a43; --card: #1d2026;
    --bad: #ff7b76; --warn: #f2b34c; --good: #7bc67e; --track: #343a43; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 1160px; background: var(--back);
  color: var(--text); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: .2rem 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
p { margin: .2rem 0 .5rem; overflow-wrap: anywhere; } .dim { color: var(--dim); }
.tiles { display: flex; gap: .6rem; flex-wrap: wrap; margin: 1rem 0; }
.tile { flex: 1 1 6rem; background: var(--card); border: 1px solid var(--edge);
  border-radius: 8px; padding: .5rem .8rem; }
.tile b { display: block; font-size: 1.6rem; line-height: 1.2; }
.bad { color: var(--bad); } .warn { color: var(--warn); } .good { color: var(--good); }
table { border-collapse: collapse; width: 100%; }
td, th { text-align: right; padding: .3rem .5rem; border-bottom: 1px solid var(--edge); }
td { white-space: nowrap; }
td:first-child, th:first-child { text-align: left; white-space: normal; }
th { color: var(--dim); font-weight: 500; font-size: .85rem; }
.bar { display: block; height: 6px; border-radius: 3px; background: var(--track);
  margin-top: .25rem; overflow: hidden; }
.bar i { display: block; height: 100%; background: var(--good); }
details { border: 1px solid var(--edge); border-radius: 8px; margin: .5rem 0; }
summary { cursor: pointer; padding: .5rem .8rem; overflow-wrap: anywhere; }
summary b { font-weight: 600; } summary span { display: block; color: var(--dim); }
details > div { padding: .4rem .8rem .6rem; border-top: 1px solid var(--edge); }
.deviation { margin: .6rem 0; padding-left: .7rem; border-left: 3px solid var(--edge); }
dl { display: grid; grid-template-columns: 5rem 1fr; gap: .15rem .6rem; margin: .3rem 0; }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; min-width: 0; }
code, pre { font: .82rem/1.4 ui-monospace, monospace; }
pre { overflow-wrap: anywhere; white-space: pre-wrap; margin: 0; max-height: 16rem;
  overflow-y: auto; }
@media (max-width: 600px) { body { padding: .7rem; } .tile { flex-basis: 40%; }
  .wide { display: none; } td, th { padding: .3rem .25rem; } dl { grid-template-columns: 1fr; }
  dd { margin-bottom: .3rem; } }
"""

TONES = {
    ExamSeverity.DATA: "bad",
    ExamSeverity.CLIENTS: "bad",
    ExamSeverity.FIELD: "warn",
    ExamSeverity.UNREAD: "dim",
}


def page(report: Report) -> str:
    whole = total(report.scores)
    deviating = [each for each in report.results if each.outcome is Outcome.DEVIATES]
    explained = [each for each in report.results if each.outcome is Outcome.EXPLAINED]
    rest = [each for each in report.results if each.outcome not in PLAYED]
    summary = f"{len(report.results)} scenarios in {report.elapsed_s} s"
    parts = [
        "<!DOCTYPE html><html lang=en><head><meta charset=utf-8>",
        '<meta name=viewport content="width=device-width, initial-scale=1">',
        f"<title>Exam of {escape(report.broker)}</title><style>{STYLE}</style></head><body>",
        f"<h1>Exam of {escape(report.broker)}</h1>",
        f"<p class=dim>Compared with Apache Kafka {escape(report.kafka)}; {summary}</p>",
        _tiles(whole, report.headline),
        f"<p>{escape(api_summary(report.apis))}</p>",
        _scores([*report.scores, whole]),
        _section("Deviations", deviating),
        _section("Explained by the version", explained),
        _unplayed(rest),
        "</body></html>",
    ]
    return "\n".join(part for part in parts if part)


def _tiles(whole: Score, headline: Mapping[ExamSeverity, int]) -> str:
    unplayed = whole.not_claimed + whole.other_settings + whole.not_asked
    tiles = [
        *(
            (str(count), severity.value, TONES[severity] if count else "dim")
            for severity, count in headline.items()
        ),
        (f"{whole.agrees} / {whole.played}", "played scenarios agree", "dim"),
        (str(unplayed), "not played", "dim"),
    ]
    inner = "".join(
        f"<div class=tile><b class={tone}>{escape(value)}</b>{escape(name)}</div>"
        for value, name, tone in tiles
    )
    return f"<div class=tiles>{inner}</div>"


def _scores(scores: Sequence[Score]) -> str:
    rows = []
    for score in scores:
        share = 100 * score.agrees / score.played if score.played else 0
        rows.append(
            f"<tr><td>{escape(score.title)}<span class=bar><i style=width:{share:.1f}%></i></span>"
            f"<td>{escape(score.percent)}<td>{score.agrees}<td>{score.deviates}"
            f"<td class=wide>{score.explained}<td class=wide>{score.not_claimed}"
            f"<td class=wide>{score.other_settings}</tr>"
        )
    head = (
        "<tr><th>subject<th>score<th>agree<th>deviate<th class=wide>explained"
        "<th class=wide>not claimed<th class=wide>other settings</tr>"
    )
    return f"<h2>Score by subject</h2><table>{head}{''.join(rows)}</table>"


def _section(title: str, results: Sequence[Result]) -> str:
    if not results:
        return ""
    return f"<h2>{escape(title)}</h2>" + "".join(map(_scenario, results))


def _scenario(result: Result) -> str:
    severities = {each.severity for each in result.deviations}
    worst = next(each for each in ExamSeverity if each in severities)
    source = escape(", ".join(part for part in (result.kip, result.source) if part))
    shown_ones = "".join(map(_deviation, result.deviations[:DEVIATIONS_SHOWN]))
    more = len(result.deviations) - DEVIATIONS_SHOWN
    rest = f"<p class=dim>{more} more in the JSON report</p>" if more > 0 else ""
    return (
        f"<details><summary><b>{escape(result.scenario)}</b>"
        f" <em class={TONES[worst]}>{escape(worst.value)}</em>"
        f"<span>{escape(result.rule)}</span></summary>"
        f"<div><p class=dim>{source}</p>{shown_ones}{rest}</div></details>"
    )


def _deviation(each: Deviation) -> str:
    request_name = f"{each.api} v{each.version}" if each.api else ""
    rows = [
        ("step", escape(each.step)),
        ("field", f"<code>{escape(each.path)}</code>"),
        ("expected", f"<code>{escape(printable(shown(each.path, each.expected)))}</code>"),
        ("got", f"<code>{escape(printable(shown(each.path, each.got)))}</code>"),
    ]
    if request_name:
        body = json.dumps(each.request, ensure_ascii=False)
        rows.append(("request", f"<pre>{escape(request_name)} {escape(printable(body))}</pre>"))
    if each.ended:
        rows.append(("ended", escape(each.ended)))
    if each.prepared:
        rows.append(("prepared by", escape(each.prepared)))
    if each.note:
        rows.append(("note", escape(each.note)))
    inner = "".join(f"<dt>{name}<dd>{value}" for name, value in rows)
    return f"<div class=deviation><dl>{inner}</dl></div>"


def _unplayed(results: Sequence[Result]) -> str:
    if not results:
        return ""
    lines = "".join(
        f"<p>{escape(each.scenario)} <span class=dim>{escape(each.outcome.value)}:"
        f" {escape(each.reason)}</span></p>"
        for each in results
    )
    return (
        f"<h2>Not played</h2><details><summary>{len(results)} scenarios</summary>"
        f"<div>{lines}</div></details>"
    )
