"""Checks of snapshots with great-expectations: findings, without analytics."""

import socket
from pathlib import Path
from typing import Any

import pytest

from brokertwin.sinks import offsets_snapshot
from brokertwin.sinks.offsets_snapshot import SnapshotError, SnapshotRow
from brokertwin.streaming.checks import snapshot_checks as checks

GOOD = SnapshotRow("c", "g", "t", 0, 5, -1, "m", 1_000, -1)


def checked(directory: Path, *rows: SnapshotRow) -> checks.Checked:
    offsets_snapshot.write(directory, 1, rows, {}, 1)
    return checks.check_snapshot(offsets_snapshot.manifest_path(directory, 1))


def test_a_good_snapshot_has_no_findings(tmp_path: Path) -> None:
    result = checked(tmp_path, GOOD, GOOD._replace(partition=1, metadata="", group=""))
    assert result.is_good
    assert result.expectations > 10


def test_an_empty_snapshot_is_good(tmp_path: Path) -> None:
    assert checked(tmp_path).is_good


WRONG: list[tuple[str, Any]] = [
    ("offset", -1),
    ("partition", -1),
    ("leader_epoch", -2),
    ("commit_timestamp", -1),
    ("expire_timestamp", -2),
    ("topic", ""),
    ("topic", "t" * 250),
]


def test_invalid_values_are_found(tmp_path: Path) -> None:
    rows = [GOOD._replace(group=f"{n}", **{column: to}) for n, (column, to) in enumerate(WRONG)]
    findings = checked(tmp_path, GOOD, *rows).findings
    shown = {(*one.columns, example) for one in findings for example in one.examples}
    assert shown == {(column, str(value)) for column, value in WRONG}
    assert sum(one.unexpected for one in findings) == len(WRONG)


def test_a_duplicate_partition_is_found(tmp_path: Path) -> None:
    [finding] = checked(tmp_path, GOOD, GOOD._replace(offset=6)).findings
    assert (finding.columns, finding.unexpected) == (checks.KEY, 2)
    assert finding.expectation == "expect_compound_columns_to_be_unique"


def test_a_broken_snapshot_is_not_checked(tmp_path: Path) -> None:
    checked(tmp_path, GOOD)
    offsets_snapshot.data_path(tmp_path, 1).write_bytes(b"")
    with pytest.raises(SnapshotError, match="SHA-256"):
        checks.check_snapshot(offsets_snapshot.manifest_path(tmp_path, 1))


def test_no_analytics_and_no_leftovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reached: list[object] = []
    monkeypatch.setattr(socket.socket, "connect", lambda _, address: reached.append(address))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *place, **_: reached.append(place))
    monkeypatch.chdir(tmp_path)
    assert checked(tmp_path / "snapshots", GOOD).is_good
    assert reached == []
    assert [path.name for path in tmp_path.iterdir()] == ["snapshots"]
    assert capfd.readouterr() == ("", "")


def test_a_suite_with_a_missing_column_reports_it(tmp_path: Path) -> None:
    offsets_snapshot.write(tmp_path, 1, [GOOD], {}, 1)
    kwargs = {"column": "lag", "min_value": 0}
    wanted = [{"type": "expect_column_values_to_be_between", "kwargs": kwargs}]
    suite = {"name": "mine", "expectations": wanted}
    result = checks.check_snapshot(offsets_snapshot.manifest_path(tmp_path, 1), suite)
    assert result.critical == ["expect_column_values_to_be_between lag: there is no column lag"]
