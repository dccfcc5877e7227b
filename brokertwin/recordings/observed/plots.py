"""Plots of the observer's samples, one for each partition: offsets and in-sync replicas."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from brokertwin import extras
from brokertwin.errors import UserError
from brokertwin.recordings import sentences
from brokertwin.recordings.history.findings import WatermarkSample
from brokertwin.recordings.history.replicas import UNKNOWN

WIDTH, HEIGHT, STRIP = 900, 220, 60
"""Width and height of a plot, and height of the strip below it, in pixels."""

FORMATS = (".html", ".svg", ".png")

HIGH_WATERMARK = "high watermark"


def look(path: Path) -> None:
    """Checks that plots can be written there, before any work is done.

    Raises:
        UserError: what draws is not installed, or the name says no format.
    """
    extras.need("report --plot", "altair", "vl_convert")
    if path.suffix not in FORMATS:
        raise UserError(f"Unknown plot format: {path}.", f"End the name with one of {FORMATS}.")


def write(path: Path, suffix: str, samples: Sequence[WatermarkSample], end: float) -> None:
    """Writes the plots.

    Args:
        path: the file.
        suffix: one of `FORMATS`; an HTML file has in it all that it needs.
        samples: the changes of some partitions, in order.
        end: until when the last of them lasted, in ms since 1970.
    """
    import altair

    named: dict[str, list[WatermarkSample]] = {}
    for sample in samples:
        named.setdefault(f"{sample.topic}-{sample.partition}", []).append(sample)
    charts = [_plot(altair, name, found, end) for name, found in sorted(named.items())]
    whole = altair.vconcat(*charts).configure_view(strokeOpacity=0)
    options = {"inline": True} if suffix == ".html" else {}
    whole.save(str(path), format=suffix.removeprefix("."), **options)


def offsets(samples: Sequence[WatermarkSample], end: float) -> list[dict[str, Any]]:
    """Rows of a plot: time, which offset, its value; every line goes on until `end`."""
    rows = []
    for sample in samples:
        values = {HIGH_WATERMARK: sample.high_watermark}
        values |= {f"LEO at broker {broker}": leo for broker, leo in sorted(sample.ends.items())}
        why = sentences.moved(sample.why)
        rows += [
            {"time": sample.time, "line": line, "offset": value, "why": why}
            for line, value in values.items()
            if value != UNKNOWN
        ]
    last = {row["line"]: row for row in rows}
    return [*rows, *({**row, "time": end, "why": ""} for row in last.values())]


def in_sync(samples: Sequence[WatermarkSample], end: float) -> list[dict[str, Any]]:
    """Rows of the strip: from when to when a broker was in sync, and whether it led."""
    rows: list[dict[str, Any]] = []
    running: dict[int, dict[str, Any]] = {}
    for sample in samples:
        roles = {b: "leads" if b == sample.leader else "in sync" for b in sample.isr}
        ended = [broker for broker, row in running.items() if roles.get(broker) != row["role"]]
        rows += [running.pop(broker) | {"to": sample.time} for broker in ended]
        for broker, role in roles.items():
            running.setdefault(broker, {"broker": str(broker), "from": sample.time, "role": role})
    return [*rows, *(row | {"to": end} for row in running.values())]


def _plot(altair: Any, name: str, samples: Sequence[WatermarkSample], end: float) -> Any:
    lines = offsets_chart(altair, samples, end).properties(
        title=f"{name}: log end offsets, high watermark (dashed)", width=WIDTH, height=HEIGHT
    )
    strip = in_sync_chart(altair, samples, end).properties(width=WIDTH, height=STRIP)
    return altair.vconcat(lines, strip).resolve_scale(x="shared", color="independent")


def offsets_chart(altair: Any, samples: Sequence[WatermarkSample], end: float) -> Any:
    """The offsets of a partition as lines; the high watermark is black and dashed."""
    rows = offsets(samples, end)
    ends = _line(altair, [row for row in rows if row["line"] != HIGH_WATERMARK]).encode(
        color=altair.Color("line:N", title=None)
    )
    high_watermark = _line(
        altair,
        [row for row in rows if row["line"] == HIGH_WATERMARK],
        color="black",
        strokeDash=[4, 2],
    )
    return altair.layer(ends, high_watermark)


def in_sync_chart(altair: Any, samples: Sequence[WatermarkSample], end: float) -> Any:
    """A strip for each broker of a partition: when it was in sync, when it led."""
    return (
        altair.Chart(altair.Data(values=in_sync(samples, end)))
        .mark_bar()
        .encode(
            x=altair.X("from:T", title=None),
            x2=altair.X2("to:T"),
            y=altair.Y("broker:N", title="in sync"),
            color=altair.Color("role:N", title=None),
            tooltip=tooltips(altair, "broker:N", "role:N"),
        )
    )


def tooltips(altair: Any, *fields: str) -> list[Any]:
    """Return the text of a point; without it, Altair searches long for the types of texts."""
    return [altair.Tooltip(field) for field in fields]


def _line(altair: Any, rows: list[dict[str, Any]], **mark: Any) -> Any:
    return (
        altair.Chart(altair.Data(values=rows))
        .mark_line(interpolate="step-after", **mark)
        .encode(
            x=altair.X("time:T", title=None),
            y=altair.Y("offset:Q", title="offset", scale=altair.Scale(zero=False)),
            tooltip=[
                *tooltips(altair, "line:N", "offset:Q", "why:N"),
                altair.Tooltip("time:T", format="%H:%M:%S.%L"),
            ],
        )
    )
