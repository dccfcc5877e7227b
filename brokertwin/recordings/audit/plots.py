"""Plots of the page: epochs, sequences, sessions, groups, lag, offsets and in-sync sets.

A plot has rows, which are plain, and a Vega-Lite specification as wide as its container. Of many
subjects those with findings are drawn first; of many rows some are left out evenly.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from brokertwin.recordings.audit import producers, sessions
from brokertwin.recordings.audit.finding import AuditFinding
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.findings import (
    LagSeen,
    Rebalance,
    SessionEnded,
    SessionLost,
    SessionOpened,
    SessionOutOfTurn,
    WatermarkSample,
)
from brokertwin.recordings.history.groups import GROUPS
from brokertwin.recordings.history.lag import LAGS
from brokertwin.recordings.history.sessions import CACHES
from brokertwin.recordings.observed.plots import in_sync_chart, offsets_chart, tooltips
from brokertwin.recordings.sentences import rebalance_cause

SUBJECTS = 6
"""Partitions that are drawn, of each kind of plot."""

ROWS = 2_000
"""Points of a plot."""

HEIGHT, STEP, STRIP = 220, 26, 70
"""Heights of a plot, a row of a timeline and a strip, in pixels."""

FINE_MS, DAY_MS = 10_000, 86_400_000
"""Spans below which the axis has milliseconds, and days."""

TICKS = 6

OUTCOMES = ["written", "written again", "refused"]
"""Outcomes of a batch."""

GREY = "#8a8f98"
"""A colour that is visible on white and on black."""

Row = dict[str, Any]


class Plot(NamedTuple):
    """A title, a sentence about the content, and the specification for Vega-Lite."""

    title: str
    said: str
    spec: dict[str, Any]


def plots(history: History, findings: Sequence[AuditFinding]) -> list[Plot]:
    """The plots for which a recording has anything to draw."""
    import altair

    found: list[Plot] = []
    for make in (_epochs, _sequences, _sessions, _groups, _lags, _replicas):
        found += make(altair, history, findings)
    begin, end = history.span
    for each in found:
        _set_times(each.spec, begin, end)
    return found


def _set_times(spec: dict[str, Any], begin: float, end: float) -> None:
    """Gives all plots the same time axis."""
    for below in spec.get("layer", ()):
        _set_times(below, begin, end)
    if "x" in spec.get("encoding", ()):
        span_ms = end - begin
        fine = "%H:%M:%S.%L" if span_ms < FINE_MS else "%H:%M:%S"
        format_ = fine if span_ms < DAY_MS else "%m-%d %H:%M"
        axis = {"format": format_, "labelFlush": True, "tickCount": TICKS}
        spec["encoding"]["x"] |= {
            "scale": {"type": "utc", "domain": [begin, end]},
            "axis": axis,
            "title": None,
        }


def epochs(history: History) -> list[Row]:
    """Each epoch that a producer was given."""
    return [
        {
            "time": each.line.time,
            "producer": each.producer.id,
            "epoch": each.epoch,
            "client": each.line.name,
            "line": each.line.place,
        }
        for each in producers.given(history)
    ]


def sequences(history: History) -> dict[str, list[Row]]:
    """The batches of each partition: their first sequence, and what became of them."""
    found: dict[str, list[Row]] = defaultdict(list)
    seen: set[tuple[Any, ...]] = set()
    for exchange in history.of("PRODUCE"):
        for batch in bodies.sent(exchange.request, exchange.response):
            is_again = not batch.error and batch in seen
            seen.add(batch)
            outcome = "refused" if batch.error else "written again" if is_again else "written"
            found[f"{history.named(batch.topic)}-{batch.partition}"].append(
                {
                    "time": exchange.line.time,
                    "producer": f"{batch.producer_id}, epoch {batch.epoch}",
                    "sequence": batch.first,
                    "outcome": outcome,
                    "line": exchange.line.place,
                }
            )
    return found


def session_events(history: History) -> list[Row]:
    """What happened to fetch sessions."""
    return [
        {
            "time": each.line.time,
            "client": each.line.name,
            "what": sessions.EVENTS[type(each)],
            "session": each.session,
            "line": each.line.place,
        }
        for each in history.found(
            CACHES, SessionOpened, SessionEnded, SessionLost, SessionOutOfTurn
        )
    ]


def rebalances(history: History) -> list[Row]:
    """Each rebalance of a group, once for each who began it."""
    found = []
    for each in history.found(GROUPS, Rebalance):
        causes = [(rebalance_cause(why), getattr(why, "client", "?")) for why in each.causes]
        found += [
            {
                "time": each.line.end,
                "group": each.group,
                "generation": each.number,
                "because": what,
                "client": client,
                "line": each.line.place,
            }
            for what, client in causes or [("not recorded", "?")]
        ]
    return found


def lags(history: History) -> list[Row]:
    """The lag at each commit, at least; negative if committed beyond the high watermark."""
    return [
        {
            "time": each.line.time,
            "group": f"{each.partition.place} of {each.group}",
            "lag": each.lag,
            "line": each.line.place,
        }
        for each in history.found(LAGS, LagSeen)
    ]


def thinned(rows: Sequence[Row], is_kept: Callable[[Row], bool] = lambda _: False) -> list[Row]:
    """`ROWS` of the rows at most, evenly, and all that have to be kept."""
    every = -(-len(rows) // ROWS) or 1
    return [row for n, row in enumerate(rows) if n % every == 0 or is_kept(row)]


def _first(names: Iterable[str], findings: Sequence[AuditFinding]) -> list[str]:
    """The subjects to draw: those in findings above information first, then those with most."""
    counts = Counter(names)
    reported = " ".join(each.subject + " " for each in findings if each.severity)
    ranked = sorted(counts, key=lambda name: (f"{name} " not in reported, -counts[name], name))
    return ranked[:SUBJECTS]


def _some(shown: int, total: int) -> str:
    return f" {shown} of {total} are drawn." if shown < total else ""


def _epochs(altair: Any, history: History, findings: Sequence[AuditFinding]) -> Iterator[Plot]:
    rows = epochs(history)
    names = _first((f"{row['producer']}" for row in rows), findings)
    kept = thinned([row for row in rows if row["producer"] in names])
    if kept:
        chart = _chart(altair, kept).mark_line(interpolate="step-after", point=True)
        chart = chart.encode(
            x=_time(altair),
            y=altair.Y("epoch:Q", axis=altair.Axis(tickMinStep=1)),
            color=altair.Color("producer:N", title="producer"),
            tooltip=tooltips(altair, "producer:N", "epoch:Q", "client:N", "line:N"),
        )
        some = _some(len(names), len({row["producer"] for row in rows}))
        yield _plot("Producer epochs", f"Each point is an epoch that was given.{some}", chart)


def _sequences(altair: Any, history: History, findings: Sequence[AuditFinding]) -> Iterator[Plot]:
    found = sequences(history)
    names = _first((name for name, rows in found.items() for _ in rows), findings)
    for name in names:
        rows = thinned(found[name], lambda row: row["outcome"] != "written")
        chart = _chart(altair, rows).mark_point(filled=True, size=36, opacity=0.7)
        chart = chart.encode(
            x=_time(altair),
            y=altair.Y("sequence:Q", title="first sequence"),
            color=_outcome(altair),
            shape=_shape(altair),
            tooltip=tooltips(altair, "producer:N", "sequence:Q", "outcome:N", "line:N"),
        )
        some = _some(len(rows), len(found[name]))
        yield _plot(f"Sequences in {name}", f"Each point is a batch.{some}", chart)


def _outcome(altair: Any) -> Any:
    scale = altair.Scale(domain=OUTCOMES, range=["#4c8bf5", "#e8a317", "#d9383a"])
    return altair.Color("outcome:N", title=None, scale=scale)


def _shape(altair: Any) -> Any:
    """The same by shape: with one scale for both there is one legend."""
    scale = altair.Scale(domain=OUTCOMES, range=["circle", "triangle-up", "square"])
    return altair.Shape("outcome:N", title=None, scale=scale)


def _sessions(altair: Any, history: History, findings: Sequence[AuditFinding]) -> Iterator[Plot]:
    rows = session_events(history)
    if rows:
        said = "When clients opened, closed and lost their sessions."
        chart = _timeline(altair, thinned(rows), "client", "what", ["session:N", "line:N"])
        yield _plot("Fetch sessions", said, chart)


def _groups(altair: Any, history: History, findings: Sequence[AuditFinding]) -> Iterator[Plot]:
    rows = rebalances(history)
    if rows:
        fields = ["generation:Q", "client:N", "line:N"]
        chart = _timeline(altair, thinned(rows), "group", "because", fields)
        yield _plot("Rebalances", "Each mark is a generation, by who began it.", chart)


def _lags(altair: Any, history: History, findings: Sequence[AuditFinding]) -> Iterator[Plot]:
    rows = lags(history)
    names = _first((row["group"] for row in rows), findings)
    kept = thinned([row for row in rows if row["group"] in names])
    if kept:
        chart = (
            _chart(altair, kept)
            .mark_line(point=True)
            .encode(
                x=_time(altair),
                y=altair.Y("lag:Q", title="records"),
                color=_color(altair, "group"),
                tooltip=tooltips(altair, "group:N", "lag:Q", "line:N"),
            )
        )
        some = _some(len(names), len({row["group"] for row in rows}))
        yield _plot(
            "Lag at commits", f"By the last high watermark before each commit.{some}", chart
        )


def _replicas(altair: Any, history: History, findings: Sequence[AuditFinding]) -> Iterator[Plot]:
    by_name: dict[str, list[WatermarkSample]] = defaultdict(list)
    for sample in history.replication.samples:
        if sample.high_watermark >= 0 or max(sample.ends.values(), default=-1) >= 0:
            by_name[f"{sample.topic}-{sample.partition}"].append(sample)
    names = _first((name for name, found in by_name.items() for _ in found), findings)
    end = history.replication.time
    for name in names:
        every = -(-len(by_name[name]) // ROWS)
        samples = by_name[name][::every]
        chart = offsets_chart(altair, samples, end, GREY).properties(height=HEIGHT)
        some = _some(len(names), len(by_name)) if name == names[-1] else ""
        said = f"Log end offsets by broker; dashed is the high watermark.{some}"
        yield _plot(f"Offsets of {name}", said, chart)
        if len({broker for sample in samples for broker in sample.ends}) > 1:
            strip = in_sync_chart(altair, by_name[name], end).properties(height=STRIP)
            yield _plot(f"In sync in {name}", "Which brokers were in sync, and led.", strip)


def _timeline(altair: Any, rows: list[Row], subject: str, what: str, fields: list[str]) -> Any:
    height = STEP * max(2, len({row[subject] for row in rows}))
    chart = _chart(altair, rows).mark_point(filled=True, size=60, opacity=0.8)
    return chart.encode(
        x=_time(altair),
        y=altair.Y(f"{subject}:N", title=None, axis=altair.Axis(labelLimit=110)),
        color=_color(altair, what),
        shape=altair.Shape(f"{what}:N", title=None),
        tooltip=tooltips(altair, f"{subject}:N", f"{what}:N", *fields),
    ).properties(height=height)


def _chart(altair: Any, rows: list[Row]) -> Any:
    return altair.Chart(altair.Data(values=rows)).properties(height=HEIGHT)


def _time(altair: Any) -> Any:
    return altair.X("time:T")


def _color(altair: Any, field: str) -> Any:
    return altair.Color(f"{field}:N", title=None)


def _plot(title: str, said: str, chart: Any) -> Plot:
    return Plot(title, said, chart.properties(width="container").to_dict())
