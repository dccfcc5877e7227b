"""`brokertwin exam-client`: exit codes, and the file of a failing plan."""

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from brokertwin.cli.main import app
from brokertwin.errors import UserError
from tests.support.gateways import running_gateway
from tests.testing.auditor.test_exam import LIAR, PRODUCER


def run(*words: str) -> Result:
    start = ("exam-client", "--work", "produce", "--count", "4", "--plans", "1")
    return CliRunner().invoke(app, [*start, *words], catch_exceptions=True)


def test_a_client_that_keeps_its_promises_ends_with_0(tmp_path: Path) -> None:
    found = run("--keep", str(tmp_path), "--", sys.executable, "-c", PRODUCER)
    assert found.exit_code == 0, found.output
    assert list(tmp_path.iterdir()) == []


def test_a_broken_promise_ends_with_1_and_keeps_a_shrunk_plan_that_replays(tmp_path: Path) -> None:
    """The plan of seed 0 loses a Produce response; without idempotence the retry is a repeat."""
    repeats = PRODUCER.replace('"enable.idempotence": True', '"enable.idempotence": False')
    client = ("--", sys.executable, "-c", repeats)
    found = run("--seed", "0", "--keep", str(tmp_path), *client)
    assert found.exit_code == 1
    assert "broken: records: producer-0 is in the logs" in found.output
    plan = tmp_path / "exam-client-seed-0.json"
    (fault,) = json.loads(plan.read_text())["faults"]
    assert (fault["effect"], fault["api"]) == ("lose", "PRODUCE")
    assert run("--plan", str(plan), *client).exit_code == 1
    refused = run("--seed", "0", "--keep", str(tmp_path), *client)
    assert f"{plan} exists." in str(refused.exception)
    plan.write_text("former")
    assert run("--seed", "0", "--keep", str(tmp_path), "--force", *client).exit_code == 1
    assert json.loads(plan.read_text())["faults"] == [fault]


def test_a_promise_that_is_broken_without_faults_needs_no_plan(tmp_path: Path) -> None:
    found = run("--keep", str(tmp_path), "--", sys.executable, "-c", LIAR)
    assert found.exit_code == 1
    assert "broken: records: producer-0 was acknowledged" in found.output
    assert list(tmp_path.iterdir()) == []
    many = run("--count", "7", "--", sys.executable, "-c", LIAR)
    assert many.output.count("broken: records: producer-") == 5
    assert "broken: records: 2 more" in many.output


def test_a_client_that_does_not_finish_ends_with_3(tmp_path: Path) -> None:
    stuck = f"import time\ntime.sleep(600)\n{PRODUCER}"
    found = run("--timeout", "1", "--keep", str(tmp_path), "--", sys.executable, "-c", stuck)
    assert found.exit_code == 3
    assert "not finished: producer did not finish in time" in found.output
    assert list(tmp_path.iterdir()) == []


def test_an_adapter_that_fails_without_faults_is_an_error_of_usage() -> None:
    found = run("--", sys.executable, "-c", "raise SystemExit('no such topic')")
    assert isinstance(found.exception, UserError)
    assert "The adapter fails as producer without faults:\nno such topic" in str(found.exception)


def test_an_unknown_kind_of_work_is_named() -> None:
    found = run("--work", "sleep", "--", "adapter")
    with pytest.raises(UserError, match="Invalid --work: sleep"):
        raise found.exception or AssertionError(found.output)


def test_a_cluster_with_other_topics_is_refused_unless_it_was_checked() -> None:
    client = ("--", sys.executable, "-c", PRODUCER)
    with running_gateway() as gateway:
        with gateway.client() as admin:
            admin.topic("payments")
        found = run("--bootstrap", gateway.bootstrap, *client)
        assert isinstance(found.exception, UserError)
        assert "already has 1 topic and 0 groups: payments." in str(found.exception)
        with gateway.client() as admin:
            listed = admin.call("METADATA", 9, topics=None)["topics"]
        assert [each["name"] for each in listed] == ["payments"]
        assert run("--bootstrap", gateway.bootstrap, "--yes", *client).exit_code == 0
