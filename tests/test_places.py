"""Paths: local ones, those that are refused, and those in an object store."""

import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokertwin import places, tables
from brokertwin.errors import UserError
from brokertwin.places import place
from brokertwin.settings import load
from brokertwin.sinks import snapshot_store
from brokertwin.streaming.checkpoint import checkpoint_log, facts, restore, snapshots, torn_logs
from tests.support.made_checkpoints import made
from tests.support.s3 import BUCKET, object_store
from tests.support.snapshots import NOON_MS, taken
from tests.support.sources import ROOT


@pytest.mark.parametrize(
    ("text", "shown", "is_remote"),
    [
        ("checkpoint", "checkpoint", False),
        ("/data/a:b", "/data/a:b", False),
        ("file:///data/orders", "/data/orders", False),
        ("file:/data/orders", "/data/orders", False),
        ("s3a://bucket/orders", "s3a://bucket/orders", True),
        ("s3://bucket/orders/", "s3a://bucket/orders", True),
        (Path("s3a://bucket/orders"), "s3a://bucket/orders", True),
        (place("s3a://bucket/orders") / "1", "s3a://bucket/orders/1", True),
        ("hdfs://name:8020/orders", "hdfs://name:8020/orders", True),
    ],
)
def test_a_path_names_its_file_system(text: str | Path, shown: str, is_remote: bool) -> None:
    found = place(text)
    assert (str(found), places.is_remote(found)) == (shown, is_remote)
    assert pickle.loads(pickle.dumps(found)) == found and place(found) == found


@pytest.mark.parametrize("scheme", ["gs", "abfss", "ftp", "dbfs", "https"])
def test_other_file_systems_are_refused(scheme: str) -> None:
    with pytest.raises(UserError, match=f"the file system {scheme} is not supported"):
        load({"checkpoint": Path(f"{scheme}://bucket/orders")})
    with pytest.raises(UserError, match=f"Cannot use {scheme}://bucket/snapshots"):
        load({"snapshots": f"{scheme}://bucket/snapshots"})
    with pytest.raises(UserError, match="is not supported"):
        tables.read(f"{scheme}://bucket/orders")


def test_a_file_address_is_a_local_directory(tmp_path: Path) -> None:
    made(tmp_path / "checkpoint")
    assert tables.read(f"file://{tmp_path}/checkpoint").arrow("topics").num_rows == 1


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with object_store(tmp_path_factory.mktemp("s3") / "log"):
        yield place(f"s3a://{BUCKET}")


@pytest.mark.processes
def test_the_methods_are_those_of_pathlib(store: Path, tmp_path: Path) -> None:
    for root in (tmp_path / "methods", store / "methods"):
        (root / "a").mkdir(parents=True)
        (root / "a" / "1").write_text("one")
        (root / "a" / "2.zip").write_bytes(b"two")
        (root / "b-1.parquet").write_bytes(b"")
        (root / "a" / "1").replace(root / "a" / "3")
        assert sorted(each.name for each in root.iterdir()) == ["a", "b-1.parquet"]
        assert [each.name for each in root.glob("b-*.parquet")] == ["b-1.parquet"]
        assert [each.name for each in root.glob("*/3")] == ["3"]
        files = sorted(str(e.relative_to(root)) for e in root.rglob("*") if e.is_file())
        assert files == ["a/2.zip", "a/3", "b-1.parquet"]
        assert ((root / "a" / "3").read_text(), (root / "a").is_dir()) == ("one", True)
        with zipfile.ZipFile((root / "z.zip").open("wb"), "w") as archive:  # type: ignore[arg-type]
            archive.writestr("inside", "text")
        with (root / "z.zip").open("rb") as file, zipfile.ZipFile(file) as archive:
            assert archive.read("inside") == b"text"
        (root / "a" / "3").unlink()
        (root / "a" / "3").unlink(missing_ok=True)
        assert not (root / "a" / "3").exists()
        with pytest.raises(FileNotFoundError):
            (root / "a" / "3").read_bytes()
        places.remove_directory(root)
        assert not root.exists()


@pytest.mark.processes
def test_snapshots_are_taken_listed_pruned_and_restored(store: Path, tmp_path: Path) -> None:
    cells = made(tmp_path / "checkpoint")
    directory = store / "snapshots"
    for number in range(3):
        snapshot_store.write(directory, taken(number, NOON_MS + number)._replace(cells=cells))
    rejected = snapshot_store.write(directory, taken(9), lambda _: ["wrong"])
    assert rejected.path.parent == directory / "rejected"
    names = [each.name for each in snapshot_store.list_all(directory)]
    assert len(names) == 3
    removed = snapshot_store.prune(directory, snapshot_store.Keep(1), NOON_MS)
    assert removed == names[:2]
    assert [each.name for each in snapshot_store.list_all(directory)] == names[2:]
    (directory / "2030-01-01T00-00-00.000Z-batch-7" / "state.parquet").write_bytes(b"half")
    assert snapshot_store.find(directory).name == names[2], "one without a manifest is none"

    published = snapshots.take(tmp_path / "checkpoint", directory)
    restored = store / "restored"
    restore.restore(published.path, restored)
    assert tables.read(restored).cells == cells
    known = facts.read(restored)
    assert known is not None and known.restored_from == published.snapshot.name
    with pytest.raises(UserError, match="already exists"):
        restore.restore(published.path, restored)


@pytest.mark.processes
def test_checkpoints_of_spark_are_read(store: Path) -> None:
    for name in ("run", "live"):
        local = ROOT / "checkpoints.example" / name
        for file in (each for each in local.rglob("*") if each.is_file()):
            (store / name / file.relative_to(local)).write_bytes(file.read_bytes())
        remote = tables.read(f"s3a://{BUCKET}/{name}")
        state = tables.read(local)
        assert state.names == remote.names
        for table in state.names:
            assert remote.arrow(table).equals(state.arrow(table)), table
    torn = store / "run" / "offsets" / "99"
    torn.write_text("v1\n{")
    assert checkpoint_log.planned(store / "run") == 99
    torn_logs.mend(store / "run")
    assert not torn.exists()


@pytest.mark.processes
def test_one_job_holds_the_lock_and_renews_it(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "RENEWED_S", 0.01)
    checkpoint, waits = store / "locked", []
    lock = checkpoint / facts.LOCK_NAME

    def patient(seconds: float) -> None:
        waits.append(seconds)
        before = lock.read_bytes()
        while lock.read_bytes() == before:
            pass

    assert facts.is_held(checkpoint) is None
    with places.leased(lock, waits.append):
        assert facts.is_held(checkpoint) is True
        with pytest.raises(BlockingIOError), places.leased(lock, patient):
            pass
    assert not lock.exists()


@pytest.mark.processes
def test_a_lock_of_a_killed_job_ends(store: Path) -> None:
    lock, waits = store / "killed" / facts.LOCK_NAME, []
    lock.write_bytes(b'{"owner":"killed","renewed":1.0}')
    with places.leased(lock, waits.append):
        assert sum(waits) >= places.LEASE_S
    assert not lock.exists()


@pytest.mark.processes
def test_of_two_jobs_that_start_at_once_one_stops(store: Path) -> None:
    lock = store / "both" / facts.LOCK_NAME

    def other(_seconds: float) -> None:
        lock.write_bytes(b'{"owner":"other","renewed":1.0}')

    with pytest.raises(BlockingIOError), places.leased(lock, other):
        pass
