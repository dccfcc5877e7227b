"""Prometheus' own test tool makes each alert rule fire."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.sources import ROOT

CASES = Path(__file__).with_name("alerts.test.yaml")
RULES = ROOT / "docker" / "alerts.yaml"


@pytest.mark.promtool
def test_each_alert_fires_in_its_case_and_not_before() -> None:
    done = subprocess.run(
        ["promtool", "test", "rules", CASES.name], cwd=CASES.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_a_case_in_which_it_fires() -> None:
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    alerts = {rule["alert"] for group in rules for rule in group["rules"] if "alert" in rule}
    cases = yaml.safe_load(CASES.read_text(encoding="utf-8"))["tests"]
    firing = {
        each["alertname"]
        for case in cases
        for each in case["alert_rule_test"]
        if each.get("exp_alerts")
    }
    assert firing == alerts
