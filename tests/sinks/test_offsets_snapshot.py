"""Snapshots of committed offsets: complete or missing, and reproducible."""

from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.sinks import files, offsets_snapshot
from brokertwin.sinks.offsets_snapshot import Manifest, SnapshotError, SnapshotRow
from tests.support.machine import Bench

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(
    st.builds(SnapshotRow, *[st.text()] * 3, INT32, INT64, INT32, st.text(), INT64, INT64)
)
SOURCE = {"requests": {"0": 7, "1": 4}}


def row(group: str = "g", partition: int = 0, offset: int = 5) -> SnapshotRow:
    return SnapshotRow("c", group, "t", partition, offset, -1, "m", 1_000, -1)


def written(directory: Path, *rows: SnapshotRow, batch: int = 3) -> Path:
    offsets_snapshot.write(directory, batch, rows, SOURCE, 1)
    return offsets_snapshot.manifest_path(directory, batch)


def test_a_snapshot_is_a_parquet_file_and_a_manifest(tmp_path: Path) -> None:
    manifest = offsets_snapshot.write(tmp_path / "new", 3, [row("h"), row("g")], SOURCE, 1)
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "offsets-3.json",
        "offsets-3.parquet",
    ]
    assert offsets_snapshot.verify(tmp_path / "new" / "offsets-3.json") == manifest
    assert manifest == Manifest(
        batch=3,
        source_offsets=SOURCE,
        row_count=2,
        checksum=manifest.checksum,
        state_version=1,
        file="offsets-3.parquet",
    )
    table = pq.read_table(tmp_path / "new" / "offsets-3.parquet")
    assert table.column_names == list(SnapshotRow._fields)
    assert table.column("group").to_pylist() == ["g", "h"]


@given(ROWS)
def test_every_row_comes_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[SnapshotRow]
) -> None:
    path = written(tmp_path_factory.mktemp("snapshot"), *rows)
    assert offsets_snapshot.read_rows(path) == sorted(rows)


def test_the_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    rows = [row("g", number) for number in range(20)]
    first = offsets_snapshot.write(tmp_path / "a", 1, rows, SOURCE, 1)
    second = offsets_snapshot.write(tmp_path / "b", 1, reversed(rows), SOURCE, 1)
    assert first == second


def test_a_snapshot_may_be_empty_and_may_be_taken_again(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert offsets_snapshot.read_rows(path) == []
    assert written(tmp_path, row()) == path
    assert offsets_snapshot.read_rows(path) == [row()]


def test_without_a_manifest_there_is_no_snapshot(tmp_path: Path) -> None:
    path = written(tmp_path, row())
    path.unlink()
    with pytest.raises(SnapshotError, match="no snapshot manifest") as error:
        offsets_snapshot.verify(path)
    assert error.value.hint


def test_an_interrupted_snapshot_keeps_the_previous_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError("disk full")

    path = written(tmp_path, row())
    with monkeypatch.context() as patched:
        patched.setattr(offsets_snapshot.pq, "write_table", fail)
        with pytest.raises(OSError, match="disk full"):
            written(tmp_path, row("other"))
        with pytest.raises(OSError, match="disk full"):
            written(tmp_path, row(), batch=4)
    assert offsets_snapshot.read_rows(path) == [row()]
    assert not offsets_snapshot.manifest_path(tmp_path, 4).exists()


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"batch": "three"}'])
def test_an_invalid_manifest_is_rejected(tmp_path: Path, text: str) -> None:
    path = tmp_path / "offsets-1.json"
    path.write_text(text)
    with pytest.raises(SnapshotError, match="is not a snapshot manifest"):
        offsets_snapshot.read_manifest(path)


def test_a_missing_or_changed_file_is_found(tmp_path: Path) -> None:
    path = written(tmp_path, row())
    data = offsets_snapshot.data_path(tmp_path, 3)
    content = data.read_bytes()
    data.write_bytes(content[:-1])
    with pytest.raises(SnapshotError, match="its SHA-256 is"):
        offsets_snapshot.verify(path)
    data.unlink()
    with pytest.raises(SnapshotError, match="the file is missing"):
        offsets_snapshot.read_rows(path)


def test_a_manifest_of_other_rows_is_found(tmp_path: Path) -> None:
    path = written(tmp_path, row())
    manifest = offsets_snapshot.read_manifest(path)
    other = msgspec.structs.replace(manifest, row_count=2)
    path.write_bytes(msgspec.json.encode(other))
    with pytest.raises(SnapshotError, match="it has 1 row, not 2"):
        offsets_snapshot.verify(path)


def test_a_file_with_other_columns_is_found(tmp_path: Path) -> None:
    path = written(tmp_path, row())
    data = offsets_snapshot.data_path(tmp_path, 3)
    pq.write_table(pq.read_table(data).drop_columns(["metadata"]), data)
    manifest = offsets_snapshot.read_manifest(path)
    checksum = files.checksum(data)
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(manifest, checksum=checksum)))
    with pytest.raises(SnapshotError, match="its columns are not those of an offsets snapshot"):
        offsets_snapshot.verify(path)


def test_the_offsets_of_a_cell_are_the_rows_of_its_snapshot(tmp_path: Path) -> None:
    bench = Bench(offsets_topic_replication_factor=1)
    bench.topic("a", 2)
    for _ in range(2):
        bench.request("FIND_COORDINATOR", 4, keyType=0, coordinatorKeys=["g/1"])
    partitions = [
        {
            "partitionIndex": partition,
            "committedOffset": 7,
            "committedLeaderEpoch": 2,
            "committedMetadata": "m",
        }
        for partition in (1, 0)
    ]
    commit = {
        "groupId": "g/1",
        "generationIdOrMemberEpoch": -1,
        "memberId": "",
        "topics": [{"name": "a", "partitions": partitions}],
    }
    bench.request("OFFSET_COMMIT", 8, commit)
    rows = offsets_snapshot.rows_of_cell("bench", bench.cell.columns()["groups"])
    assert rows == [
        SnapshotRow("bench", "g/1", "a", partition, 7, 2, "m", bench.now, -1)
        for partition in (0, 1)
    ]
    assert offsets_snapshot.read_rows(written(tmp_path, *rows)) == rows
