"""A path to a violation as a sequence diagram: text, SVG, HTML."""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from brokertwin.simulation.explore.api import Model
from brokertwin.simulation.explore.world import Exchange, Explorer, Happening, Step

LANE, TOP, ROW = 220, 56, 44
"""Width of a lane, height of the names and of a line of an SVG, in pixels."""

COLUMN, COLUMN_MAX = 38, 48
"""Characters between two lanes of a text, if these are enough for its arrows, and at most."""

ARROW = 7
"""Characters of a lane and of an arrow without its text."""


class Story(NamedTuple):
    """A path to a violation.

    Attributes:
        committed: names of the records that read_committed shows in the end, by partition.
    """

    model: Model
    lines: list[Exchange]
    violation: str
    committed: dict[tuple[str, int], list[str]]


def told(model: Model, path: Sequence[Step], violation: str) -> Story:
    """Take the steps of a path again, and return their exchanges."""
    explorer = Explorer(model)
    explorer.is_traced = True
    world = explorer.first()
    for step in path:
        world = explorer.take(world, step)
    view = explorer.view
    view.begin(world.cell)
    committed = {place: view.committed(*place) for place in view.places()}
    return Story(model, explorer.trace, violation, committed)


def lanes(trace: Sequence[Exchange]) -> list[str]:
    """Return the names of the participants: clients, brokers, the controller."""
    found = dict.fromkeys(name for each in trace for name in (each.sender, each.receiver) if name)
    return sorted(found, key=lambda name: (name == "controller", name.startswith("broker "), name))


def as_text(story: Story) -> str:
    """Return a diagram of lines and arrows."""
    names = lanes(story.lines)
    texts = (text for each in story.lines for text in (each.text, each.response))
    longest = max(map(len, texts), default=0)
    column = min(max(COLUMN, longest + ARROW), COLUMN_MAX)
    ats = {name: 4 + number * column for number, name in enumerate(names)}
    lines = [_placed({ats[name]: name for name in names})]
    for number, each in enumerate(story.lines, 1):
        lines += _rows(each, number, ats)
    lines.append(f"violated: {story.violation}")
    return "\n".join(lines)


def _rows(each: Exchange, number: int, ats: dict[str, int]) -> list[str]:
    bars = dict.fromkeys(ats.values(), "│")
    head = f"{number:>2}"
    if each.kind is Happening.WAIT:
        return [f"{head}  ┄┄ {each.text} ┄┄"]
    start, end = ats[each.sender], ats[each.receiver]
    note = f"  ({each.note})" if each.note else ""
    if start == end:
        return [_placed({**bars, 0: head, start: f"● {each.text}{note}"})]
    if each.kind is Happening.RESPONSE:
        return [_arrow(head, bars, start, end, f"{each.text}: {each.response}", note)]
    is_lost = each.kind is Happening.GIVEN_UP
    rows = [_arrow(head, bars, start, end, each.text, note, is_lost=is_lost)]
    if each.response:
        note = "  (lost)" if each.is_lost else ""
        rows.append(_arrow("", bars, end, start, each.response, note, is_lost=each.is_lost))
    return rows


def _arrow(
    head: str,
    bars: dict[int, str],
    start: int,
    end: int,
    text: str,
    note: str,
    is_lost: bool = False,
) -> str:
    low, high = sorted((start, end))
    room = high - low - 1
    text = f" {text} "[: room - 4]
    line = text.center(room - 2, "─")
    tip = "✗" if is_lost else None
    body = f"─{line}{tip or '▶'}" if start < end else f"{tip or '◀'}{line}─"
    return _placed({**bars, 0: head, low + 1: body}) + note


def _placed(parts: dict[int, str]) -> str:
    line = ""
    for at, text in sorted(parts.items()):
        if at >= len(line):
            line = line.ljust(at) + text
    return line


def as_svg(story: Story) -> str:
    """Return an SVG image."""
    names = lanes(story.lines)
    ats = {name: LANE // 2 + number * LANE for number, name in enumerate(names)}
    width = max(LANE * len(names), LANE * 2)
    rows: list[str] = []
    at = TOP
    for number, each in enumerate(story.lines, 1):
        at += ROW
        rows.append(_text(8, at, str(number), "n"))
        if each.kind is Happening.WAIT:
            rows.append(_text(width // 2, at, each.text, "note"))
            continue
        start, end = ats[each.sender], ats[each.receiver]
        text = f"{each.text}  ({each.note})" if each.note else each.text
        if start == end:
            rows.append(f'<circle cx="{start}" cy="{at - 4}" r="4"/>')
            rows.append(_text(start + 10, at, text, "note left"))
            continue
        if each.kind is Happening.RESPONSE:
            text = f"{each.text}: {each.response}"
        rows.append(_text((start + end) // 2, at - 6, text, "label"))
        rows.append(_line(start, end, at, each.kind))
        if each.response and each.kind is not Happening.RESPONSE:
            at += ROW // 2
            text = f"{each.response}  (lost)" if each.is_lost else each.response
            rows.append(_text((start + end) // 2, at - 6, text, "label back"))
            kind = Happening.GIVEN_UP if each.is_lost else Happening.RESPONSE
            rows.append(_line(end, start, at, kind))
    height = at + ROW + 20
    heads = [_text(x, 24, name, "name") for name, x in ats.items()]
    heads += [
        f'<line class="lane" x1="{x}" y1="36" x2="{x}" y2="{height - 36}"/>' for x in ats.values()
    ]
    end_text = _text(8, height - 12, f"violated: {story.violation}", "bad left")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' width="{width}" height="{height}" role="img">\n<style>{_STYLE}</style>\n{_MARKER}\n'
        + "\n".join([*heads, *rows, end_text])
        + "\n</svg>\n"
    )


_STYLE = (
    "text{font:12px sans-serif;fill:#222;text-anchor:middle}.left,.n{text-anchor:start}"
    ".name{font-weight:bold}.n{fill:#888}.note{fill:#555;font-style:italic}.back{fill:#555}"
    ".bad{fill:#b00020;font-weight:bold}line{stroke:#222;stroke-width:1.2}"
    ".lane{stroke:#bbb}.back-line{stroke-dasharray:5 3}.lost{stroke:#b00020}circle{fill:#b00020}"
)
_MARKER = (
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8"'
    ' orient="auto"><path d="M0 0L8 4L0 8z" fill="#222"/></marker></defs>'
)


def _text(x: int, y: int, text: str, kind: str) -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{escape(text)}</text>'


def _line(start: int, end: int, y: int, kind: Happening) -> str:
    name = {Happening.RESPONSE: "back-line", Happening.GIVEN_UP: "lost"}.get(kind, "")
    if kind is Happening.GIVEN_UP:
        end = start + (end - start) * 2 // 3
    return (
        f'<line class="{name}" x1="{start}" y1="{y}" x2="{end}" y2="{y}" marker-end="url(#tip)"/>'
    )


def as_html(story: Story) -> str:
    """Return a page with the diagram."""
    title = story.model.name
    return (
        '<!doctype html>\n<html lang="en"><meta charset="utf-8">'
        f"<title>{escape(title)}</title>\n"
        "<style>body{font:15px sans-serif;margin:2em}</style>\n"
        f"<h1>{escape(title)}</h1>\n<p>{escape(story.model.about)}</p>\n{as_svg(story)}</html>\n"
    )
