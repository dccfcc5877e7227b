"""`brokertwin exam`: its reports, its baseline and its exit codes."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from brokertwin.cli.main import app
from brokertwin.errors import UserError
from brokertwin.testing.exam.model import selected
from brokertwin.testing.exam.versions import references
from tests.exam.planted import Plant, planted, put
from tests.support.gateways import Running, running_gateway
from tests.support.sources import ROOT

OTHER_IN_4_4 = min(references()["4.4"].goldens)
NOT_KAFKA = {"transaction.max.timeout.ms": "900000", "group.min.session.timeout.ms": "6000"}


def run(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["exam", *words])
    assert done.exit_code == code, done.output
    return done.output


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with running_gateway(NOT_KAFKA) as running:
        yield running


def test_scenarios_are_listed_with_their_rules() -> None:
    assert "idem_sequence_gap" in run("--list", "--only", "idem_seq")


def test_a_scenario_is_shown_with_its_requests_and_the_responses_of_a_release() -> None:
    shown, of_4_4 = (
        json.loads(run("--show", OTHER_IN_4_4, *words)) for words in ((), ("--version", "4.4"))
    )
    ((_, scenario),) = selected([OTHER_IN_4_4])
    assert (shown["name"], shown["rule"]) == (OTHER_IN_4_4, scenario.rule)
    assert [step.get("api") for step in shown["steps"]] == [s.api or None for s in scenario.steps]
    assert [each["label"] for each in shown["golden"]] == scenario.labels
    assert of_4_4["golden"] != shown["golden"]


def test_a_setting_that_a_scenario_needs_is_named(gateway: Running) -> None:
    printed = run(gateway.bootstrap, "--only", "idem_expired_", "--yes", code=2)
    assert "No scenario was played" in printed
    assert "5 not played: needs producer.id.expiration.ms=2000\n" in printed


def test_reports_are_written(gateway: Running, tmp_path: Path) -> None:
    kinds = ("out", "junit", "html", "sarif", "card")
    files = {kind: tmp_path / f"exam.{kind}" for kind in kinds}
    options = [word for kind, path in files.items() for word in (f"--{kind}", str(path))]
    printed = run(gateway.bootstrap, "--only", "idem_in", "--yes", *options)
    assert "2 of 2 played scenarios agree" in printed
    report = json.loads(files["out"].read_text())
    assert report["broker"] == gateway.bootstrap
    assert report["total"]["agrees"] == len(report["results"]) > 0
    assert ElementTree.parse(files["junit"]).getroot().tag == "testsuites"
    assert gateway.bootstrap in files["html"].read_text()
    assert gateway.bootstrap in files["card"].read_text()
    assert json.loads(files["sarif"].read_text())["version"] == "2.1.0"


def test_a_deviation_has_the_exit_code_of_its_severity_unless_it_is_known(
    gateway: Running, tmp_path: Path
) -> None:
    known = tmp_path / "known.json"
    with planted(gateway.addresses[1], put("Fetch", "records", b"")) as broker:
        options = [f"{broker.host}:{broker.port}", "--only", "txn_commit", "--yes"]
        printed = run(*options, "--out", str(known), code=5)
        assert "txn_commit (loses or duplicates data)" in printed
        printed = run(*options, "--baseline", str(known))
        assert "(known)" in printed
        assert re.search(r"^ +0 new, \d+ known deviations?$", printed, re.MULTILINE)


def test_a_refused_preparation_is_named_and_says_nothing_about_data(gateway: Running) -> None:
    refused = {"errorCode": 31, "producerId": -1, "producerEpoch": -1}
    plant = Plant("InitProducerId", "is refused", lambda body: {**body, **refused})
    with planted(gateway.addresses[1], plant) as broker:
        options = [f"{broker.host}:{broker.port}", "--only", "idem_duplicates_of_last", "--yes"]
        printed = run(*options, code=4)
    assert "idem_duplicates_of_last_five (breaks clients)" in printed
    assert "got 14, prepared by InitProducerId: got 31 CLUSTER_AUTHORIZATION_FAILED" in printed


def test_the_example_for_ci_compares_with_a_baseline_and_writes_its_reports(
    gateway: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    steps = yaml.safe_load((ROOT / "examples/exam_in_ci.yml").read_text())["jobs"]["exam"]["steps"]
    (command,) = (step["run"] for step in steps if "brokertwin exam" in step.get("run", ""))
    command = command.replace("${{ inputs.bootstrap || 'localhost:9092' }}", gateway.bootstrap)
    words = command.replace("${{ inputs.options }}", "").split()
    assert words[:3] == ["brokertwin", "exam", gateway.bootstrap]
    with planted(gateway.addresses[1], put("Fetch", "records", b"")) as broker:
        address = f"{broker.host}:{broker.port}"
        run(address, "--only", "txn_commit", "--yes", "--out", "exam-baseline.json", code=5)
        run(address, *words[3:], "--only", "txn_commit", "--yes")
        run(address, *words[3:], "--only", "idem_in", "--yes", "--force", code=5)
    run(*words[2:], "--only", "idem_in", "--yes", "--force")
    kept = next(step["with"]["path"] for step in steps if "upload" in step.get("uses", ""))
    assert all((tmp_path / name).is_file() for name in kept.split())


def test_a_version_is_judged_with_its_notes(gateway: Running) -> None:
    printed = run(gateway.bootstrap, "--only", "idem_in", "--yes", "--version", "3.9.1")
    assert "2 of 2 played scenarios agree" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "Invalid value of HOST:PORT: 'nowhere'"),
        (["--only", "nothing"], "No scenario matches nothing"),
        (["--show", "nothing"], "No scenario matches nothing"),
        ([], "The broker is missing"),
        (["localhost:1", "--version", "0.8"], "Kafka 0.8 is not known"),
        (["localhost:1", "--baseline", "/no/file"], "Cannot read /no/file"),
    ],
)
def test_a_mistake_is_explained(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        CliRunner().invoke(app, ["exam", *words], catch_exceptions=False)
