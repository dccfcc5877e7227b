"""Dashboards and alert rules use existing metrics and labels; the documents name them all."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from brokertwin.cli.watching.metrics import HISTOGRAM, METRICS
from tests.support.sources import ROOT

DOCKER = ROOT / "docker"
DASHBOARDS = {
    name: json.loads((DOCKER / name).read_text(encoding="utf-8"))
    for name in ("grafana.json", "grafana-live.json")
}
RULES = [
    rule
    for group in yaml.safe_load((DOCKER / "alerts.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
RECORDED = {rule["record"]: rule["expr"] for rule in RULES if "record" in rule}
AUDIT = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "watching.md").read_text(encoding="utf-8")
OF_PROMETHEUS = {"instance", "le"}
"""Labels that every target, and every histogram, has."""


def queries(dashboard: dict[str, Any]) -> Iterator[str]:
    for panel in dashboard["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for variable in dashboard["templating"]["list"]:
        yield variable["query"]


def names_in(query: str) -> set[str]:
    found = set(re.findall(r"\bbrokertwin_\w+", query))
    return {re.sub(r"(?<=seconds)_(bucket|sum|count)$", "", name) for name in found}


def labels_in(query: str) -> set[str]:
    by = re.findall(r"\bby \(([^)]*)\)", query)
    inside = re.findall(r"\{([^}]*)\}", query)
    filtered = {label for part in inside for label in re.findall(r"(\w+)\s*[=!]", part)}
    return filtered | {label.strip() for part in by for label in part.split(",")}


def wrong(query: str) -> set[str]:
    names = names_in(query)
    known = {label for name in names & METRICS.keys() for label in METRICS[name].labels}
    return (names - METRICS.keys()) | (labels_in(query) - known - OF_PROMETHEUS)


@pytest.mark.parametrize(("name", "least"), [("grafana.json", 20), ("grafana-live.json", 12)])
def test_queries_of_a_dashboard_use_existing_metrics_and_labels(name: str, least: int) -> None:
    found = {q: wrong(q) for q in queries(DASHBOARDS[name]) if q != "prometheus"}
    assert {query: what for query, what in found.items() if what} == {}
    assert len(found) > least


def expanded(expression: str) -> str:
    """A rule's expression, with those of recorded series inside it."""
    for name, recorded in RECORDED.items():
        expression = expression.replace(name, f"({recorded})")
    return expression


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert", rule.get("record")))
def test_alert_rules_use_existing_metrics_labels_and_kinds(rule: dict[str, Any]) -> None:
    expression = expanded(rule["expr"])
    assert names_in(expression)
    assert "brokertwin:" not in expression
    assert wrong(expression) == set()
    kinds = {
        kind for found in re.findall(r'kind=~?"([^"]*)"', expression) for kind in found.split("|")
    }
    assert {kind for kind in kinds if f"`{kind}`" not in AUDIT} == set()
    by = labels_in(expression) if "sum by" in expression else OF_PROMETHEUS
    shown = {
        label
        for text in rule.get("annotations", {}).values()
        for label in re.findall(r"\$labels\.(\w+)", text)
    }
    assert shown <= by


def test_metrics_of_the_live_audit_are_on_its_dashboard_and_its_counters_in_alerts() -> None:
    ours = {name for name in METRICS if name.startswith("brokertwin_live_")}
    shown = {n for query in queries(DASHBOARDS["grafana-live.json"]) for n in names_in(query)}
    assert ours <= shown
    alerted = {name for rule in RULES for name in names_in(rule["expr"])}
    assert ours - alerted == {
        "brokertwin_live_lines_total",
        "brokertwin_live_exchanges_total",
        "brokertwin_live_ignored_exchanges_total",
    }


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
    shown = {name for query in queries(DASHBOARDS["grafana.json"]) for name in names_in(query)}
    jobs_and_gateways = {name for name in METRICS if not name.startswith("brokertwin_live_")}
    assert jobs_and_gateways - shown == {
        "brokertwin_start_time_seconds",
        "brokertwin_batch",
        "brokertwin_batch_events",
        "brokertwin_fetch_session_partitions_cached",
        "brokertwin_producers",
        "brokertwin_check_batch",
        "brokertwin_snapshot_batch",
        "brokertwin_snapshot_offsets",
        "brokertwin_lag_time_seconds",
        "brokertwin_state_time_seconds",
    }
    assert HISTOGRAM in shown


@pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=list(DASHBOARDS))
def test_panels_do_not_overlap_and_have_unique_ids(dashboard: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))


def test_the_page_lists_the_metrics_as_the_code_has_them() -> None:
    section = PAGE.partition("## Prometheus")[2].partition("\n## ")[0]
    found = re.findall(r"`(brokertwin_\w+)(?:\{([\w,]+)\})?`", section)
    assert sorted(found) == sorted((name, ",".join(each.labels)) for name, each in METRICS.items())
