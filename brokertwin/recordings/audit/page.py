"""The page: a summary, the findings with their lines, and plots. It loads nothing else.

Vega is in the page once, for all plots. Text from a recording is escaped.
"""

import json
from collections import Counter
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path
from string import Template

from brokertwin import extras
from brokertwin.protocol.errors import error_name
from brokertwin.recordings.audit.finding import AuditFinding, Evidence
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.audit.plots import Plot, plots
from brokertwin.recordings.history.findings import Severity
from brokertwin.recordings.history.words import clock, moment

LINES_SHOWN = 50
"""Lines of a finding's evidence that the page has."""

STYLE = """
:root { --back: #ffffff; --text: #1c1e21; --dim: #5c6370; --edge: #d9dce1; --card: #f6f7f9;
  --error: #c62828; --warning: #a86200; --info: #3367b0; }
@media (prefers-color-scheme: dark) {
  :root { --back: #14161a; --text: #e7e9ec; --dim: #9aa2ad; --edge: #343a43; --card: #1d2026;
    --error: #ff7b76; --warning: #f2b34c; --info: #8ab4f8; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 1160px; background: var(--back);
  color: var(--text); font: 15px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: .2rem 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .1rem; overflow-wrap: anywhere; }
p { margin: .2rem 0 .5rem; } .names { overflow-wrap: anywhere; }
.dim { color: var(--dim); }
.tiles { display: flex; gap: .6rem; flex-wrap: wrap; margin: 1rem 0; }
.tile { flex: 1 1 6rem; background: var(--card); border: 1px solid var(--edge);
  border-radius: 8px; padding: .5rem .8rem; }
.tile b { display: block; font-size: 1.6rem; line-height: 1.2; }
.error { color: var(--error); } .warning { color: var(--warning); } .info { color: var(--info); }
details { border: 1px solid var(--edge); border-radius: 8px; margin: .5rem 0; }
summary { cursor: pointer; padding: .5rem .8rem; overflow-wrap: anywhere; }
details > div { padding: 0 .8rem .6rem; border-top: 1px solid var(--edge); }
summary .kind { font-weight: 600; } summary .what { display: block; color: var(--dim); }
dl { display: grid; grid-template-columns: 4.5rem 1fr; gap: .15rem .6rem; margin: .6rem 0; }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
.lines { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; width: 100%; }
td, th { text-align: left; padding: .15rem .8rem .15rem 0; vertical-align: top;
  border-bottom: 1px solid var(--edge); }
td.place, td.time { white-space: nowrap; font-family: ui-monospace, monospace; }
.plot { width: 100%; min-height: 60px; } .plot svg { display: block; max-width: 100%; }
#vg-tooltip-element { max-width: 90vw; overflow-wrap: anywhere; }
@media (max-width: 600px) { body { padding: .7rem; } .tile { flex-basis: 28%; }
  td { display: inline-block; border: 0; padding: 0 .8rem 0 0; }
  tr { display: block; padding: .3rem 0;
  border-bottom: 1px solid var(--edge); } thead { display: none; }
  td.place { white-space: normal; overflow-wrap: anywhere; } }
"""

SCRIPT = """
const specs = JSON.parse(document.getElementById("specs").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
function look() {
  const shade = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const text = {labelColor: shade("--dim"), titleColor: shade("--dim")};
  return {background: "transparent", view: {stroke: shade("--edge")},
    axis: {...text, gridColor: shade("--edge"), domainColor: shade("--edge"),
      tickColor: shade("--edge"), labelOverlap: true},
    axisX: {labelSeparation: 12},
    legend: {...text, orient: "bottom", columns: innerWidth < 600 ? 1 : 2,
      labelLimit: Math.min(innerWidth - 80, 480)}};
}
function theme() { return dark.matches ? "dark" : "light"; }
function draw() {
  specs.forEach((spec, n) => vegaEmbed("#plot-" + n, spec,
    {actions: false, renderer: "svg", config: look(), tooltip: {theme: theme()}})
    .catch(error => { document.getElementById("plot-" + n).textContent = String(error); }));
}
dark.addEventListener("change", draw);
draw();
"""

PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Audit of $title</title>
<style>$style</style>
</head>
<body>
<h1>Audit</h1>
<p class="names">$title</p>
<p class="dim">$span</p>
<div class="tiles">$tiles</div>
$notes
<h2>Findings</h2>
$findings
<h2>Plots</h2>
<p class="dim">Times are in UTC.</p>
$places
<script type="application/json" id="specs">$specs</script>
<script>$script</script>
</body>
</html>
""")


def look() -> None:
    """Checks that the page can be made, before any work is done. Raises UserError."""
    extras.need("audit --html", "altair", "vl_convert")


def write(
    path: Path,
    names: Sequence[str],
    history: History,
    findings: Sequence[AuditFinding],
    notes: Sequence[str],
) -> None:
    """Writes the page.

    Args:
        path: where it goes.
        names: of the files.
        history: the data of the plots.
        findings: the worst first.
        notes: further remarks, a sentence each.
    """
    drawn = plots(history, findings)
    text = PAGE.substitute(
        title=escape(", ".join(names)),
        style=STYLE,
        span=escape(_span(history)),
        tiles=_tiles(findings),
        notes="".join(f"<p>{escape(note)}</p>" for note in notes),
        findings="".join(map(_finding, findings)) or "<p>Nothing was found.</p>",
        places="".join(_place(n, plot) for n, plot in enumerate(drawn)) or "<p>None.</p>",
        specs=_inert([plot.spec for plot in drawn]),
        script=_script(),
    )
    path.write_text(text, encoding="utf-8")


@cache
def _script() -> str:
    """What draws the plots, with all that it needs; bundling it takes a second."""
    import vl_convert

    bundled: str = vl_convert.javascript_bundle(SCRIPT)
    return bundled


def _inert(value: object) -> str:
    """JSON that cannot end the element that contains it."""
    return json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")


def _span(history: History) -> str:
    if not history.recording.exchanges:
        return "No exchange was answered."
    begin, end = history.span
    return (
        f"{len(history.recording.exchanges):,} exchanges from {moment(begin)} to {moment(end)} UTC"
    )


def _tiles(findings: Sequence[AuditFinding]) -> str:
    counts = Counter(each.severity for each in findings)
    return "".join(
        f'<div class="tile"><b class="{each.label}">{counts[each]}</b>{each.label}'
        f"{'' if each == Severity.INFO or counts[each] == 1 else 's'}</div>"
        for each in sorted(Severity, reverse=True)
    )


def _finding(each: AuditFinding) -> str:
    facts = {
        "error": f"{each.code} {error_name(each.code)}" if each.code else "",
        "from": moment(each.begin),
        "to": moment(each.end) if each.end != each.begin else "",
        "clients": ", ".join(each.clients),
        "by": ", ".join(each.by),
        "rule": f"{each.rule.why} [{each.rule.source}]",
        "do": each.rule.do,
    }
    shown = each.evidence[:LINES_SHOWN]
    hidden = len(each.evidence) - len(shown)
    return (
        f'<details><summary><span class="kind {each.severity.label}">{each.severity.label}:'
        f' {each.kind}</span> {escape(each.subject)} <span class="dim">&times;{each.total}</span>'
        f'<span class="what">{escape(each.what)}</span></summary><div><dl>'
        + "".join(f"<dt>{name}</dt><dd>{escape(v)}</dd>" for name, v in facts.items() if v)
        + '</dl><div class="lines"><table><thead><tr><th>line</th><th>time</th><th>client</th>'
        "<th>evidence</th></tr></thead><tbody>"
        + "".join(map(_line, shown))
        + "</tbody></table>"
        + (f'<p class="dim">and {hidden} more (--json has up to 1,000)</p>' if hidden else "")
        + "</div></div></details>"
    )


def _line(each: Evidence) -> str:
    return (
        f'<tr><td class="place">{escape(each.place)}</td>'
        f'<td class="time">{clock(each.time)}</td>'
        f"<td>{escape(each.client)}</td><td>{escape(each.said)}</td></tr>"
    )


def _place(number: int, plot: Plot) -> str:
    return (
        f'<h3>{escape(plot.title)}</h3><p class="dim">{escape(plot.said)}</p>'
        f'<div class="plot" id="plot-{number}"></div>'
    )
