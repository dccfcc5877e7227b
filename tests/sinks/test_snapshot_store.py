"""Snapshots of a job: complete or missing, judged before publication, kept by count and age."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from brokertwin.errors import UserError
from brokertwin.sinks import offsets_snapshot, snapshot_store
from brokertwin.sinks.offsets_snapshot import SnapshotError
from brokertwin.sinks.snapshot_store import Keep
from tests.support.patience import PATIENCE_S
from tests.support.snapshots import NOON_MS, taken, written
from tests.support.sources import ROOT

HOUR_MS = 3_600_000


def names(directory: Path) -> list[int]:
    return [snapshot_manifest.batch for snapshot_manifest in snapshot_store.list_all(directory)]


def test_a_snapshot_is_a_directory_with_all_its_content(tmp_path: Path) -> None:
    published = written(tmp_path)
    path = tmp_path / "2026-11-22T12-00-03.123Z-batch-3"
    assert (published.path, published.reasons) == (path, [])
    assert snapshot_store.find(tmp_path) == snapshot_store.find(tmp_path, path.name) == path
    assert snapshot_store.verify(path) == published.snapshot
    assert published.snapshot.cells == {"a": 1, "b": 5}
    assert snapshot_store.read_cells(path) == taken().cells
    assert snapshot_store.read_spark(path) == taken().spark
    rows = offsets_snapshot.read_rows(offsets_snapshot.manifest_path(path, 3))
    assert rows == taken().offsets
    assert snapshot_store.taken_ms(path.name) == NOON_MS + 3000
    assert {each.name for each in tmp_path.iterdir()} == {path.name, ".lock"}


def test_two_snapshots_of_one_millisecond_have_two_names(tmp_path: Path) -> None:
    first, second = (snapshot_store.write(tmp_path, taken()) for _ in range(2))
    assert first.path < second.path
    assert len(snapshot_store.list_all(tmp_path)) == 2


def test_the_newest_is_the_last_one_taken(tmp_path: Path) -> None:
    snapshot_store.write(tmp_path, taken(batch=100, at_ms=NOON_MS))
    restored = snapshot_store.write(tmp_path, taken(batch=2, at_ms=NOON_MS + 1))
    assert snapshot_store.find(tmp_path) == restored.path


def test_a_judge_sees_an_unpublished_complete_snapshot(tmp_path: Path) -> None:
    def judge(directory: Path) -> list[str]:
        assert snapshot_store.verify(directory).batch == 3
        assert names(tmp_path) == []
        return []

    assert written(tmp_path, judge=judge).reasons == []
    assert names(tmp_path) == [3]


def test_a_rejected_snapshot_is_kept_aside_with_the_reasons(tmp_path: Path) -> None:
    good = written(tmp_path, 1)
    bad = written(tmp_path, 2, lambda _: ["an offset went back", "two rows"])
    assert bad.path.parent == tmp_path / "rejected"
    reasons = msgspec.json.decode((bad.path / "rejected.json").read_bytes())
    assert reasons == bad.reasons == ["an offset went back", "two rows"]
    assert snapshot_store.find(tmp_path) == good.path
    assert snapshot_store.verify(bad.path).batch == 2


def test_a_failing_judge_leaves_nothing(tmp_path: Path) -> None:
    def judge(_: Path) -> list[str]:
        raise UserError("no suite")

    with pytest.raises(UserError, match="no suite"):
        written(tmp_path, judge=judge)
    assert [each.name for each in tmp_path.iterdir()] == [".lock"]


def test_snapshots_are_kept_by_count_and_age_and_the_newest_always(tmp_path: Path) -> None:
    for batch in range(5):
        written(tmp_path, batch)
        written(tmp_path, batch + 10, lambda _: ["bad"])
    removed = snapshot_store.prune(tmp_path, Keep(3), NOON_MS)
    assert len(removed) == 2 + 2
    assert names(tmp_path) == [2, 3, 4]
    assert names(tmp_path / "rejected") == [12, 13, 14]
    now = NOON_MS + 3500 + HOUR_MS
    snapshot_store.prune(tmp_path, Keep(3, hours=1), now)
    assert names(tmp_path) == [4]
    snapshot_store.prune(tmp_path, Keep(3, hours=1), now * 2)
    assert names(tmp_path) == [4]
    assert names(tmp_path / "rejected") == [14]


@pytest.mark.parametrize("name", ["state.parquet", "spark/schema", "offsets-3.parquet"])
def test_a_changed_or_missing_file_is_found(tmp_path: Path, name: str) -> None:
    path = written(tmp_path).path
    (path / name).write_bytes(b"x" + (path / name).read_bytes()[1:])
    with pytest.raises(SnapshotError, match=f"SHA-256 of {name}"):
        snapshot_store.read_cells(path)
    (path / name).unlink()
    with pytest.raises(SnapshotError, match=f"{name} is missing"):
        snapshot_store.verify(path)


def test_an_invalid_or_newer_manifest_is_rejected(tmp_path: Path) -> None:
    published = written(tmp_path)
    later = msgspec.structs.replace(published.snapshot, format=2)
    (published.path / "snapshot.json").write_bytes(msgspec.json.encode(later))
    with pytest.raises(SnapshotError, match="written by a newer brokertwin"):
        snapshot_store.verify(published.path)
    (published.path / "snapshot.json").write_text("{")
    with pytest.raises(SnapshotError, match="its manifest is invalid"):
        snapshot_store.list_all(tmp_path)


def test_a_missing_snapshot_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="no snapshot in"):
        snapshot_store.find(tmp_path / "nowhere")
    with pytest.raises(SnapshotError, match="no snapshot other in"):
        snapshot_store.find(tmp_path, "other")
    assert snapshot_store.list_all(tmp_path) == []


def test_an_unwritable_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="Cannot write the snapshot to"):
        written(tmp_path / "file" / "below")


WRITER = """
import sys
from pathlib import Path
from brokertwin.sinks import snapshot_store
from brokertwin.sinks.snapshot_store import Keep
from tests.support.snapshots import NOON_MS, taken

directory, first = Path(sys.argv[1]), int(sys.argv[2])
for batch in range(first, first + 10_000):
    made = taken(batch, NOON_MS + batch, payload=batch.to_bytes(4, "big") * 20_000)
    snapshot_store.write(directory, made)
    snapshot_store.prune(directory, Keep(4), NOON_MS)
    print(batch, flush=True)
"""


@pytest.mark.processes
def test_after_kill_9_of_the_writer_the_newest_snapshot_is_complete(tmp_path: Path) -> None:
    """Killed repeatedly at random points: every named snapshot is complete."""
    pick = random.Random(7)
    newest = -1
    for _ in range(4):
        begun = [sys.executable, "-c", WRITER, str(tmp_path), str(newest + 1)]
        with subprocess.Popen(begun, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline(), "it has not written one"
            time.sleep(pick.random() * 0.05)
            os.kill(writer.pid, signal.SIGKILL)
            printed = writer.stdout.read().splitlines()
            assert writer.wait(PATIENCE_S) == -signal.SIGKILL
        snapshot_manifests = snapshot_store.list_all(tmp_path)
        assert 1 <= len(snapshot_manifests) <= 5
        for each in snapshot_manifests:
            cells = snapshot_store.read_cells(tmp_path / each.name)
            assert cells["b"]["logs"] == each.batch.to_bytes(4, "big") * 20_000
        assert snapshot_manifests[-1].batch >= max(map(int, printed), default=newest + 1)
        newest = snapshot_manifests[-1].batch
    assert newest >= 3, "each has written one at least"
    written(tmp_path, newest + 1)
    hidden = [each for each in tmp_path.rglob(".*") if each.name != ".lock"]
    assert hidden == [], "what the killed have left is gone"
