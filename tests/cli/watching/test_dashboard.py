"""The Grafana dashboard uses existing metrics and labels; the documents name them all."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from brokertwin.cli.watching.metrics import HISTOGRAM, METRICS
from tests.support.sources import ROOT

DASHBOARD = json.loads((ROOT / "docker" / "grafana.json").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "watching.md").read_text(encoding="utf-8")
OF_PROMETHEUS = {"instance", "le"}
"""Labels that every target, and every histogram, has."""


def queries(dashboard: dict[str, Any]) -> Iterator[str]:
    """The queries of the panels and of the variables."""
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for variable in dashboard["templating"]["list"]:
        yield variable["query"]


def names_in(query: str) -> set[str]:
    """The metrics in a query, a histogram by its own name."""
    found = set(re.findall(r"\bbrokertwin_\w+", query))
    return {re.sub(r"(?<=seconds)_(bucket|sum|count)$", "", name) for name in found}


def labels_in(query: str) -> set[str]:
    """The labels that a query filters or groups by."""
    by = re.findall(r"\bby \(([^)]*)\)", query)
    inside = re.findall(r"\{([^}]*)\}", query)
    filtered = {label for part in inside for label in re.findall(r"(\w+)\s*[=!]", part)}
    return filtered | {label.strip() for part in by for label in part.split(",")}


def wrong(query: str) -> set[str]:
    """Return the unknown metrics and labels of a query."""
    names = names_in(query)
    known = {label for name in names & METRICS.keys() for label in METRICS[name].labels}
    return (names - METRICS.keys()) | (labels_in(query) - known - OF_PROMETHEUS)


def test_every_query_of_the_dashboard_asks_for_what_there_is() -> None:
    found = {query: wrong(query) for query in queries(DASHBOARD) if query != "prometheus"}
    assert {query: what for query, what in found.items() if what} == {}
    assert len(found) > 20


@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("sum(brokertwin_nothing)", {"brokertwin_nothing"}),
        ("sum by (topic) (rate(brokertwin_errors_total[5m]))", {"topic"}),
        ('brokertwin_groups{kind="x"}', {"kind"}),
        ("sum by (le, api) (rate(brokertwin_gateway_answer_seconds_bucket[5m]))", set()),
    ],
)
def test_a_query_for_what_there_is_not_is_found(query: str, what: set[str]) -> None:
    assert wrong(query) == what


def test_the_dashboard_shows_every_metric_that_changes() -> None:
    shown = {name for query in queries(DASHBOARD) for name in names_in(query)}
    assert METRICS.keys() - shown == {
        "brokertwin_start_time_seconds",
        "brokertwin_batch",
        "brokertwin_batch_events",
        "brokertwin_fetch_session_partitions_cached",
        "brokertwin_producers",
        "brokertwin_check_batch",
        "brokertwin_snapshot_batch",
        "brokertwin_snapshot_offsets",
        "brokertwin_state_time_seconds",
    }
    assert HISTOGRAM in shown


def test_panels_do_not_overlap_and_have_unique_ids() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


def test_the_page_lists_the_metrics_as_the_code_has_them() -> None:
    rows = re.findall(r"(?m)^\| `(brokertwin_\w+)` \| ([^|]*) \| (.*) \|$", PAGE)
    found = {name: (help_, tuple(re.findall(r"`(\w+)`", labels))) for name, labels, help_ in rows}
    assert found == {name: (each.help, each.labels) for name, each in METRICS.items()}
