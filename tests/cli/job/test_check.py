"""`brokertwin check`: snapshots, Parquet files, user-defined suites, exit codes, pages."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from brokertwin.sinks import offsets_snapshot, snapshot_store
from tests.support.console import brokertwin
from tests.support.snapshots import taken

SUITE = """
name: mine
expectations:
  - type: expect_column_values_to_be_in_set
    kwargs: {column: topic, value_set: [orders]}
    severity: warning
"""


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A snapshot of one offset, which a user-defined suite can reject."""
    return snapshot_store.write(tmp_path / "snapshots", taken()).path


def test_a_snapshot_is_checked_with_ours_or_a_suite_of_ones_own(
    snapshot: Path, tmp_path: Path
) -> None:
    good = brokertwin("check", snapshot.parent, "--docs", "docs", cwd=tmp_path)
    assert (good.returncode, good.stderr.splitlines()[0]) == (0, f"snapshot {snapshot}")
    assert "snapshot: 18 of 18 expectations met, 1 row" in good.stdout
    page = (tmp_path / "docs" / "snapshot.html").read_text(encoding="utf-8")
    assert "expire_timestamp" in page
    (tmp_path / "mine.yaml").write_text(SUITE)
    mine = brokertwin("check", snapshot, "--suite", "mine.yaml", "--json", cwd=tmp_path)
    assert mine.returncode == 1, mine.stderr
    [finding] = [json.loads(line) for line in mine.stdout.splitlines()]
    assert (finding["severity"], finding["columns"]) == ("warning", ["topic"])
    assert (finding["unexpected"], finding["examples"]) == (1, ["t"])


def test_a_parquet_file_with_a_planted_violation_has_exit_code_3(
    snapshot: Path, tmp_path: Path
) -> None:
    table = pq.read_table(offsets_snapshot.data_path(snapshot, 3))
    wrong = table.set_column(4, "offset", [[-7]])
    pq.write_table(wrong.cast(table.schema), tmp_path / "wrong.parquet")
    done = brokertwin("check", "wrong.parquet", cwd=tmp_path, COLUMNS="80")
    assert done.returncode == 3, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "critical" in done.stdout and "-7" in done.stdout
    assert done.stdout.splitlines()[-1] == "snapshot: 16 of 17 expectations met, 1 row"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--suite", "none.yaml"), "Cannot read the suite none.yaml"),
        (("--suite", "list.json"), "list.json is not a great-expectations suite."),
        (("here.parquet", "--suite", "typo.yaml"), "expect_column_valeus not found"),
        (("here.parquet", "--on", "records"), "with --on records, which checks topics"),
        (("--from", "3"), "--from and --to are offsets in a topic, but no topic is checked."),
        (("list.json",), "Cannot read list.json as a Parquet file"),
        (("nowhere",), "There is no snapshot in nowhere."),
    ],
)
def test_what_cannot_be_checked_is_refused_in_words(
    snapshot: Path, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "typo.yaml").write_text("expectations: [{type: expect_column_valeus, kwargs: {}}]")
    offsets = offsets_snapshot.data_path(snapshot, 3)
    (tmp_path / "here.parquet").write_bytes(offsets.read_bytes())
    done = brokertwin("check", *words, cwd=tmp_path)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr
