"""Checks of a running job: each policy against a planted violation."""

import threading
from pathlib import Path

import pytest
import typer

from brokertwin.cli.job.run_checks import Checks, gate
from brokertwin.cli.job.run_snapshots import Snapshots
from brokertwin.cli.watching.metrics import registry
from brokertwin.cli.watching.sources import JobSource
from brokertwin.errors import UserError
from brokertwin.settings import load
from brokertwin.sinks import snapshot_store
from brokertwin.streaming.checks import snapshot_checks as checks
from brokertwin.streaming.checks import suites
from brokertwin.streaming.checks.batch_checks import BatchCheck, NewestChecks, Policy, check_newest
from brokertwin.streaming.checks.snapshot_checks import Checked, UnmetExpectation
from tests.support import made_checkpoints
from tests.support.patience import PATIENCE_S

GOOD = Checked(3, [])
HINT = Checked(3, [UnmetExpectation("expect_rows", ["topic"], 1, ["t"], "warning")])
BAD = Checked(3, [UnmetExpectation("expect_rows", ["offset"], 2, ["-7", "-8"])])
HELD = "the check of micro-batch 5 is not met: expect_rows offset: 2 rows, such as -7, -8."


@pytest.mark.parametrize(
    ("policy", "held", "is_stopped"),
    [(Policy.WARN, "", False), (Policy.HOLD, HELD, False), (Policy.STOP, HELD, True)],
)
def test_violations_follow_the_policy(policy: Policy, held: str, is_stopped: bool) -> None:
    stop = threading.Event()
    standing = NewestChecks(policy, stop)
    for batch, checked in ((3, GOOD), (4, HINT)):
        standing.add(batch, [BatchCheck(batch, checked)])
        assert (standing.holds, stop.is_set()) == ("", False)
    standing.add(5, [BatchCheck(5, GOOD), BatchCheck(5, BAD)])
    assert (standing.holds, stop.is_set()) == (held, is_stopped)
    assert standing.has_stopped == is_stopped
    standing.add(6, [BatchCheck(6, GOOD)])
    assert standing.holds == (held if is_stopped else ""), "held until one is met again"
    assert standing.has_stopped == is_stopped


class Job:
    """A checkpoint whose one offset our suite is against, and what `run` keeps beside it."""

    def __init__(self, directory: Path, policy: str, offset: int = -1, **flags: str) -> None:
        bench = made_checkpoints.bench()
        bench.request("FIND_COORDINATOR", 4, {"keyType": 0, "coordinatorKeys": ["g"]})
        response = bench.request(
            "OFFSET_COMMIT",
            8,
            groupId="g",
            generationIdOrMemberEpoch=-1,
            memberId="",
            name="orders",
            partitionIndex=0,
            committedOffset=offset,
        )
        assert response["topics"][0]["partitions"][0]["errorCode"] == 0
        self.hidden, self.checkpoint = directory / "hidden", directory / "checkpoint"
        made_checkpoints.made(self.hidden, bench.cell.columns())
        given = {"checkpoint": self.checkpoint, "snapshots": directory / "snapshots"}
        every = {"check_every": "1 batch", "check_policy": policy}
        self.settings = load(given | every | flags).settings
        self.stop = threading.Event()
        self.watched = JobSource("shop", self.checkpoint)
        self.checks = Checks(self.settings, self.watched, self.stop)
        judge = gate(self.settings)
        self.snapshots = Snapshots(self.settings, self.watched, judge, self.checks.holds)

    def commit(self) -> None:
        """Micro-batch 0 commits."""
        self.hidden.rename(self.checkpoint)

    def end(self) -> None:
        """As `run` does at its end."""
        self.checks.at_end(never, 0)
        self.snapshots.at_end(never, 0)

    def metric(self, name: str, **labels: str) -> float | None:
        return registry(self.watched.status).get_sample_value(f"brokertwin_{name}", labels)

    @property
    def taken(self) -> list[int]:
        return [each.batch for each in snapshot_store.list_all(self.settings.snapshots_dir)]


def never() -> None:  # type: ignore[misc]
    """A made checkpoint is read without Spark."""
    raise AssertionError


def test_all_items_of_the_state_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(tmp_path, "warn", offset=0, check_on="state")
    job.commit()
    job.end()
    output = " ".join(capsys.readouterr().err.split())
    for kind, suite in suites.OF_STATE.items():
        number = len(suite["expectations"])
        assert (
            f"micro-batch 0: {number} of {number} expectations met, " in output and kind in output
        )
    assert job.metric("checks_total", result="met") == 1


def test_a_violation_is_reported_and_the_job_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(tmp_path, "warn")
    job.commit()
    job.end()
    output = " ".join(capsys.readouterr().err.split())
    assert "check of micro-batch 0: 17 of 18 expectations met, 1 offsets" in output
    assert "expect_column_values_to_be_between offset: 1 row, such as -1" in output
    assert (job.taken, job.stop.is_set()) == ([0], False)
    assert (job.metric("checks_total", result="unmet"), job.metric("check_findings")) == (1, 1)


def test_violations_suspend_snapshots_and_their_removal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(tmp_path, "hold")
    job.commit()
    job.end()
    output = " ".join(capsys.readouterr().err.split())
    assert (
        "took no snapshot: The snapshot was held back: the check of micro-batch 0 is not met"
        in output
    )
    assert (job.taken, job.stop.is_set()) == ([], False)
    assert job.metric("snapshots_total", result="failed") == 1


def test_a_thread_stops_the_query_after_its_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(tmp_path, "stop")
    with job.checks.while_running(never):
        assert not job.stop.is_set()
        job.commit()
        assert job.stop.wait(PATIENCE_S)
    with pytest.raises(typer.Exit) as ended:
        job.end()
    assert ended.value.exit_code == 3
    assert "A failed check stopped the job: the check of micro-batch 0" in capsys.readouterr().err
    assert job.taken == []


def test_met_expectations_suspend_nothing(tmp_path: Path) -> None:
    job = Job(tmp_path, "stop", offset=0, snapshot_suite="default")
    with job.checks.while_running(never):
        job.commit()
    job.end()
    assert (job.taken, job.stop.is_set()) == ([0], False)
    assert job.metric("checks_total", result="met") == 1
    assert job.metric("check_batch") == 0


def test_a_suite_keeps_a_snapshot_aside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = Job(tmp_path, "warn", snapshot_suite="default")
    job.commit()
    job.end()
    assert "was rejected and set aside at" in " ".join(capsys.readouterr().err.split())
    [aside] = snapshot_store.list_all(job.settings.snapshots_dir / "rejected")
    assert (job.taken, aside.batch) == ([], 0)
    assert job.metric("snapshots_total", result="rejected") == 1


def test_a_check_that_fails_does_not_end_the_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job(tmp_path, "stop")
    job.checks.at_end(never, 0)
    assert "check failed to run: " in capsys.readouterr().err
    assert (job.metric("checks_total", result="failed"), job.stop.is_set()) == (1, False)


def test_a_custom_suite_has_a_severity(tmp_path: Path) -> None:
    job = Job(tmp_path, "stop")
    job.commit()
    for severity, critical in (("warning", []), ("critical", ["expect_table_row_count_to_equal"])):
        mine = tmp_path / f"{severity}.yaml"
        mine.write_text(
            "expectations: [{type: expect_table_row_count_to_equal, kwargs: {value: 9},"
            f" severity: {severity}}}]"
        )
        found = check_newest(job.checkpoint, checks.suite_named("--check-suite", str(mine)))
        assert [each.expectation for each in found.checked.findings] == [
            "expect_table_row_count_to_equal"
        ]
        assert found.checked.critical == [f"{each} is not met" for each in critical]


def test_an_invalid_suite_is_rejected_before_the_job_starts(tmp_path: Path) -> None:
    (tmp_path / "typo.yaml").write_text("expectations: [{type: expect_column_valeus, kwargs: {}}]")
    with pytest.raises(UserError, match="expect_column_valeus not found"):
        Job(tmp_path, "warn", check_suite=str(tmp_path / "typo.yaml"))
