"""The page: it loads nothing else, has all findings, and its plots can be drawn."""

import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import vl_convert

from brokertwin.recordings.audit import page, plots
from brokertwin.recordings.audit.finding import AuditFinding, Evidence
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.history.findings import Severity
from tests.support.audits import whole
from tests.support.synthetic_recording import SyntheticRecording

FETCHES = {"src", "href", "action", "data", "poster", "srcset", "background"}
"""Attributes by which a page asks for something."""


class Elements(HTMLParser):
    """The elements of a page: their attributes, and the text in each."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.ids: set[str] = set()
        self.texts: dict[str, list[str]] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids |= {value for name, value in attrs if name == "id" and value}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)


@cache
def written(name: str) -> tuple[str, Elements]:
    """The page of a recording."""
    audited = whole(name)
    with TemporaryDirectory() as directory:
        path = Path(directory, "a.html")
        page.write(path, [name], audited.history, audited.findings, [])
        text = path.read_text(encoding="utf-8")
    return text, Elements(text)


@cache
def drawn(name: str) -> dict[str, Any]:
    """The specification of each plot of a recording, by its title."""
    return {each.title: each.spec for each in plots.plots(whole(name).history, [])}


@pytest.mark.parametrize("name", ["txn_fencing_ck", "follower_stop", "raw_fetch_errors"])
def test_page_loads_nothing_and_has_all_findings(name: str) -> None:
    text, elements = written(name)
    assert elements.open == []
    assert [each for each in elements.attributes if each[1] in FETCHES] == []
    assert not re.search(r"@import|url\(", page.STYLE)
    assert "prefers-color-scheme: dark" in page.STYLE
    assert 'name="viewport" content="width=device-width' in text
    output = " ".join(elements.texts["span"] + elements.texts["summary"])
    for each in whole(name).findings:
        assert each.what in output
    places = elements.texts["td"]
    assert {e.place for f in whole(name).findings for e in f.evidence[:50]} <= {*places}


@pytest.mark.parametrize("name", ["txn_fencing_ck", "follower_stop", "classic_rebalance_range"])
def test_every_plot_can_be_drawn_and_has_its_place(name: str) -> None:
    _, elements = written(name)
    (specs, *_) = [json.loads(each) for each in elements.texts["script"] if each[0] == "["]
    assert specs
    assert {f"plot-{number}" for number in range(len(specs))} <= elements.ids
    for spec in specs:
        assert spec["width"] == "container"
        drawing = vl_convert.vegalite_to_svg({**spec, "width": 330})
        assert "<path" in drawing


def test_text_of_a_recording_is_escaped(tmp_path: Path) -> None:
    recording = SyntheticRecording()
    evil = "</script><img src=x onerror=alert(1)>"
    recording.init(evil, 1)
    (first,) = recording.exchanges
    rule = whole("txn_fencing_ck").findings[0].rule
    found = AuditFinding(
        "k", Severity.ERROR, evil, evil, rule, [Evidence(first.id, first.time, evil, evil, (evil,))]
    )
    page.write(tmp_path / "a.html", [evil], History(recording.exchanges), [found], [evil])
    elements = Elements((tmp_path / "a.html").read_text(encoding="utf-8"))
    assert "img" not in {tag for tag, _, _ in elements.attributes}
    assert elements.open == []


def test_plots_of_a_recording() -> None:
    assert list(drawn("txn_fencing_ck")) == [
        "Producer epochs",
        "Sequences in txn_fencing_ck.14.events-0",
        "Sequences in txn_fencing_ck.14.events-1",
        "Offsets of txn_fencing_ck.14.events-0",
        "Offsets of txn_fencing_ck.14.events-1",
    ]
    assert {"Fetch sessions", "Rebalances", "Lag at commits"} <= {*drawn("group_kp")}
    assert "In sync in lk-0" in drawn("leader_kill")


def test_rows_have_outcomes() -> None:
    recording = SyntheticRecording()
    recording.produce(0, 0)
    recording.produce(0, 0)
    recording.produce(9, -1, error=45)
    rows = plots.sequences(History(recording.exchanges))["orders-0"]
    assert [row["outcome"] for row in rows] == ["written", "written again", "refused"]
    because = {row["because"] for row in plots.rebalances(whole("classic_rebalance_range").history)}
    assert because == {"joined", "left"}
    events = plots.session_events(whole("raw_fetch_errors").history)
    assert {row["what"] for row in events} == {"opened", "closed", "lost", "out of turn"}


def test_thinned_points_keep_all_refusals() -> None:
    rows = [{"n": number} for number in range(10 * plots.ROWS)]
    kept = plots.thinned(rows, lambda row: row["n"] == 7)
    assert len(kept) == plots.ROWS + 1
    assert {"n": 7} in kept


def test_all_plots_have_the_same_times() -> None:
    history = whole("leader_kill").history
    found = drawn("leader_kill").values()
    xs = [
        layer["encoding"]["x"]
        for spec in found
        for layer in (spec, *spec.get("layer", ()))
        if "x" in layer.get("encoding", ())
    ]
    assert {tuple(x["scale"]["domain"]) for x in xs} == {history.span}
