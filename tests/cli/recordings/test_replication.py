"""`brokertwin replication`: its output for a recorded cluster, and its exit code."""

import gzip
import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from brokertwin.cli.main import app
from tests.support.observed import snapshots
from tests.support.requestlogs import logs_of

LOGS = [str(path) for path in logs_of("follower_stop")]


def report(*words: str) -> Result:
    return CliRunner().invoke(app, ["replication", *words], env={"COLUMNS": "200"})


def test_report_shows_partitions_and_unexplained_changes() -> None:
    output = report(*LOGS)
    assert output.exit_code == 0, output.output
    assert "isr-0" in output.output
    assert "1:≥169 2:169 3:169" in output.output
    assert "586 agree, 0 assumed, 4 a race" in output.output


def test_one_partition_with_its_changes() -> None:
    output = report(*LOGS, "--topic-partition", "isr-0")
    assert "isr-1" not in output.output
    assert "[1, 2]" in output.output


def test_json_has_everything() -> None:
    document = json.loads(report(*LOGS, "--json", "--topic-partition", "isr-0").stdout)
    state = document["partitions"]["isr-0"]
    assert (state["leader"], state["isr"], state["highWatermark"]) == (1, [1, 2, 3], 169)
    assert document["highWatermarks"]["a race"] == 3
    assert {"time", "high_watermark", "why"} <= document["changes"][0].keys()


def test_lines_with_fields_of_another_type_are_reported(tmp_path: Path) -> None:
    lines = gzip.decompress(Path(LOGS[0]).read_bytes()).decode().splitlines()
    place = next(i for i, line in enumerate(lines) if '"replicaState":' in line)
    lines[place] = re.sub(r'"maxWaitMs":\d+', '"maxWaitMs":"long"', lines[place])
    (tmp_path / "broker-1.log").write_text("\n".join(lines) + "\n")
    output = report(str(tmp_path / "broker-1.log"))
    assert output.exit_code == 1
    reason = "Expected `int`, got `str` - at `$.request.maxWaitMs`"
    assert "1 line could not be read:" in output.output
    assert f"broker-1.log:{place + 1}: {reason}" in output.output
    document = json.loads(report(str(tmp_path / "broker-1.log"), "--json").stdout)
    assert document["unreadable"] == {reason: 1}


def test_a_partition_that_is_not_there() -> None:
    output = report(*LOGS, "--topic-partition", "isr-9")
    assert output.exit_code != 0
    assert "The recording has no partition isr-9" in str(output.exception)


def test_checkpoints_are_compared_with_derived_offsets(tmp_path: Path) -> None:
    for number, snapshot in enumerate(snapshots("follower_stop")):
        for broker, text in snapshot["checkpoints"].items():
            place = tmp_path / str(number) / broker / "replication-offset-checkpoint"
            place.parent.mkdir(parents=True)
            place.write_text(text)
    output = report(*LOGS, "--checkpoints", str(tmp_path))
    assert "checkpoints: 156 of 156 entries as expected" in output.output
    place.write_text("0\n1\nisr 0 9999\n")
    output = report(*LOGS, "--checkpoints", str(tmp_path))
    assert output.exit_code == 1
    assert "has 9999 for isr-0: beyond the recording" in output.output


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0\n2\nisr 0 1\n", "instead of 2"),
        ("1\n0\n", "version 1 is not 0"),
        ("0\n1\nisr 0\n", "is not"),
    ],
)
def test_a_checkpoint_that_cannot_be_read(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "broker-1").mkdir()
    (tmp_path / "broker-1" / "replication-offset-checkpoint").write_text(text)
    output = report(*LOGS, "--checkpoints", str(tmp_path))
    assert why in str(output.exception)


def test_a_directory_without_checkpoints(tmp_path: Path) -> None:
    output = report(*LOGS, "--checkpoints", str(tmp_path))
    assert "There is no replication-offset-checkpoint below" in str(output.exception)
