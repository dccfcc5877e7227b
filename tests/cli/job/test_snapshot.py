"""`brokertwin snapshot` on snapshots that are there: listed, checked, shown."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from brokertwin.cli.main import app
from brokertwin.cli.watching.metrics import registry
from brokertwin.cli.watching.sources import JobSource
from brokertwin.errors import UserError
from brokertwin.streaming.checkpoint import state_reader
from tests.support import made_checkpoints
from tests.support.snapshots import written


def output_of(*words: str) -> str:
    done = CliRunner().invoke(app, ["snapshot", *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def test_snapshots_are_listed(tmp_path: Path) -> None:
    first, second = (written(tmp_path, batch).path.name for batch in (3, 4))
    text = output_of("list", "--snapshots", str(tmp_path))
    assert text.index(first) < text.index(second)
    assert "2 snapshots in" in text
    lines = [
        json.loads(line)
        for line in output_of("list", "--snapshots", str(tmp_path), "--json").splitlines()
    ]
    assert [(line["name"], line["batch"], line["offsets"]) for line in lines] == [
        (first, 3, 1),
        (second, 4, 1),
    ]


def test_where_there_is_none_the_list_is_empty(tmp_path: Path) -> None:
    assert "0 snapshots in" in output_of("list", "--snapshots", str(tmp_path / "none"))


def test_a_snapshot_is_checked_and_shown(tmp_path: Path) -> None:
    first, second = (written(tmp_path, batch).path for batch in (3, 4))
    assert second.name in output_of("show", "--snapshots", str(tmp_path))
    text = output_of("show", first.name, "--snapshots", str(tmp_path))
    assert "a (1 B), b (5 B)" in text
    assert "p.requests 0:30 1:0" in text
    shown = json.loads(output_of("show", "--snapshots", str(tmp_path), "--json"))
    assert shown["cells"] == {"a": 1, "b": 5}
    (second / "state.parquet").write_bytes(b"other")
    with pytest.raises(UserError, match="is damaged: the SHA-256 of state"):
        output_of("show", "--snapshots", str(tmp_path))


def test_prometheus_metrics_show_each_snapshot(tmp_path: Path) -> None:
    source = JobSource("shop", tmp_path)
    source.snapshot(written(tmp_path, 3), 0.5)
    source.snapshot(written(tmp_path, 4, lambda _: ["bad"]), 0.5)
    source.no_snapshot()
    reported = registry(source.status)

    def value(name: str, **labels: str) -> float | None:
        return reported.get_sample_value(f"brokertwin_{name}", labels)

    assert value("snapshot_batch") == 3
    assert value("snapshot_seconds") == 0.5
    assert value("snapshot_time_seconds") == 1_795_348_803.123
    for result in ("published", "rejected", "failed"):
        assert value("snapshots_total", result=result) == 1


def test_a_restore_prints_the_command_that_starts_the_job(tmp_path: Path) -> None:
    made_checkpoints.taken(tmp_path)
    places = ("--snapshots", str(tmp_path / "snapshots"), "--checkpoint", str(tmp_path / "new"))
    text = output_of("restore", *places)
    assert "has the state of micro-batch 0; continue with" in text
    go_on = f"brokertwin run --prefix p --checkpoint {tmp_path / 'new'} --cluster default"
    assert f"{go_on} --brokers default=1\n" in text
    assert list(state_reader.read_cells(tmp_path / "new")) == ["default"]
    with pytest.raises(UserError, match="already exists"):
        output_of("restore", *places)
