"""`brokertwin simulate`: one run with its trace, or many with the drawn events."""

import json
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from brokertwin.cli.broker import simulate
from brokertwin.cli.main import app
from brokertwin.errors import UserError
from brokertwin.simulation import campaign
from brokertwin.simulation.campaign import CampaignTally
from brokertwin.simulation.plan import FaultKind, RunPlan
from brokertwin.simulation.run import Outcomes


def run(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["simulate", *words])
    assert done.exit_code == code, done.output
    return done.output


def outcomes(*violations: str) -> Outcomes:
    return Outcomes(
        list(violations), Counter(), Counter(), Counter(), 7, 100, 3, ["     1 ms  a line"]
    )


def test_trace_prints_a_run_line_by_line() -> None:
    output = run("--seed", "2", "--trace")
    assert "local engine, 3 brokers in 1 cell" in output
    assert "producer-1: idempotent producer" in output
    assert "producer-1 sends to broker" in output
    assert output.rstrip().endswith(", ok")


def test_a_run_that_fails_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(plan: RunPlan, *, is_traced: bool = False) -> Outcomes:
        has_broken = any(each.fault is FaultKind.BREAK for each in plan.injections)
        return outcomes("a record is lost") if has_broken else outcomes()

    monkeypatch.setattr(campaign, "outcome_of", fails)
    document = json.loads(run("--seed", "2", "--json", code=1))
    assert [each["fault"] for each in document["plan"]["injections"]] == [FaultKind.BREAK]
    assert document["violations"] == ["a record is lost"]


def test_campaign_fails_if_a_kind_is_never_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tally = CampaignTally(seeds=campaign.MINIMUM_SEEDS, failed={17: ["a record is lost"]})
    monkeypatch.setattr(simulate, "_tally", lambda *_: tally)
    output = run(code=1)
    assert "missing: FETCH was never drawn" in output
    assert "missing: broker is killed was never drawn" in output
    assert "brokertwin simulate --seed 17 --trace" in output


def test_a_trace_is_of_one_run() -> None:
    done = CliRunner().invoke(app, ["simulate", "--trace"])
    assert isinstance(done.exception, UserError)


def test_logs_of_a_seed_are_read_by_audit_and_come_with_what_happened(tmp_path: Path) -> None:
    run("--seed", "3", "--logs", str(tmp_path))
    facts = (tmp_path / "truth.jsonl").read_text().splitlines()
    assert '"what":"topic"' in facts[0]
    logs = [str(each) for each in sorted(tmp_path.glob("*.log"))]
    audited = CliRunner().invoke(app, ["audit", *logs, "--json"])
    assert '"kind":"rebalances"' in "".join(audited.stdout.split())


def test_logs_are_of_one_run(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--logs requires --seed"):
        simulate.command(logs=tmp_path)
