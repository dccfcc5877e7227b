"""The rows of a `__consumer_offsets` on disk: each once, complete, of one cluster."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from brokertwin.offsets import store as offset_history
from brokertwin.offsets.history import CoordinatorRow
from brokertwin.offsets.store import SCHEMA, HistoryError, HistoryFacts, OffsetHistoryStore
from tests.support.offset_rows import HOUR_MS, classic_row, offset_row, written
from tests.support.sources import ROOT

ROWS = written(
    [
        classic_row("g", 1, {"m": {"orders": [0]}}),
        offset_row("g", "orders", 0, 5, at=HOUR_MS),
        (offset_row("g", "orders", 0, 5)[0], None),
    ]
)
LATER = written([offset_row("g", "orders", 0, 9)], begin=3)
RECORDED = ROOT / "tests" / "consumer_offsets"


def test_added_rows_are_returned_import_by_import(tmp_path: Path) -> None:
    store = OffsetHistoryStore(tmp_path / "new")
    assert store.facts() is None
    store.add("c", ROWS, {0: 3})
    store.add("c", LATER, {0: 4})
    assert list(store.rows()) == [*ROWS, *LATER]
    assert store.facts() == HistoryFacts("c", {0: 4})


def test_offsets_can_be_queried_with_sql(tmp_path: Path) -> None:
    OffsetHistoryStore(tmp_path).add("c", ROWS, {})
    table = pq.read_table(tmp_path / "rows-000001.parquet")
    assert table.schema.equals(SCHEMA)
    assert table.column("group").to_pylist() == [None, "g", "g"]
    assert table.column("offset").to_pylist() == [None, 5, None]
    committed = table.column("commit_timestamp").to_pylist()
    assert committed == [None, datetime(1970, 1, 1, 1, tzinfo=UTC), None]


def test_undecodable_bytes_are_kept(tmp_path: Path) -> None:
    store = OffsetHistoryStore(tmp_path)
    row = CoordinatorRow(0, 0, 0, b"\x00\x01\xff", b"\xff")
    store.add("c", [row], {})
    assert list(store.rows()) == [row]


def test_an_unfinished_file_is_ignored(tmp_path: Path) -> None:
    store = OffsetHistoryStore(tmp_path)
    store.add("c", ROWS, {0: 3})
    (tmp_path / ".rows-000002.parquet.tmp").write_bytes(b"half a fi")
    assert list(store.rows()) == ROWS
    store.add("c", LATER, {0: 4})
    assert list(store.rows()) == [*ROWS, *LATER]


def test_a_directory_is_of_one_cluster(tmp_path: Path) -> None:
    store = OffsetHistoryStore(tmp_path)
    store.check_cluster("any")
    store.add("c", ROWS, {})
    store.check_cluster("c")
    with pytest.raises(HistoryError, match="of cluster c, not of d"):
        store.check_cluster("d")
    with pytest.raises(HistoryError, match="of cluster c, not of d"):
        store.add("d", LATER, {0: 4})


def test_another_directory_is_reported(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="has no offsets"):
        list(OffsetHistoryStore(tmp_path).rows())
    pq.write_table(pa.table({"a": [1]}), tmp_path / "rows-000001.parquet")
    with pytest.raises(HistoryError, match="was not written by `brokertwin offsets import`"):
        OffsetHistoryStore(tmp_path).facts()


def test_rows_of_a_real_broker_are_all_read() -> None:
    store = OffsetHistoryStore(RECORDED)
    facts = store.facts()
    assert facts is not None
    rows = list(store.rows())
    assert rows == sorted(rows)
    ends = {row.partition: row.offset + 1 for row in rows}
    assert facts.next_offsets == ends


def one_by_one(store: OffsetHistoryStore, count: int, begin: int = 0) -> list[CoordinatorRow]:
    """Import rows one by one and return them."""
    rows = written([offset_row("g", "orders", 0, n) for n in range(count)], begin=begin)
    for row in rows:
        store.add("c", [row], {0: row.offset + 1})
    return rows


def names(directory: Path) -> list[str]:
    return sorted(path.name.removeprefix("rows-") for path in directory.glob("*.parquet"))


def test_many_imports_become_one_file_with_the_same_rows(tmp_path: Path) -> None:
    store = OffsetHistoryStore(tmp_path)
    rows = one_by_one(store, 33)
    assert names(tmp_path) == ["000001-000032.parquet", "000033.parquet"]
    assert list(store.rows()) == rows
    assert store.facts() == HistoryFacts("c", {0: 33})
    merged = pq.read_table(tmp_path / "rows-000001-000032.parquet")
    assert merged.schema.equals(SCHEMA)
    assert merged.column("offset").to_pylist() == list(range(32))


def test_merged_files_are_merged_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_history, "FAN", 3)
    store = OffsetHistoryStore(tmp_path)
    rows = one_by_one(store, 22)
    assert names(tmp_path) == [
        *("000001-000009.parquet", "000010-000018.parquet", "000019-000021.parquet"),
        "000022.parquet",
    ]
    assert list(store.rows()) == rows


def test_large_files_are_left_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_history, "FAN", 2)
    monkeypatch.setattr(offset_history, "MERGED_MAX", 1)
    one_by_one(OffsetHistoryStore(tmp_path), 2)
    assert names(tmp_path) == ["000001.parquet", "000002.parquet"]


def test_a_kill_before_the_removal_of_merged_files_gives_no_duplicates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_history, "FAN", 4)
    store = OffsetHistoryStore(tmp_path)

    def is_killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(Path, "unlink", is_killed)
        with pytest.raises(KeyboardInterrupt):
            one_by_one(store, 4)
    rows = written([offset_row("g", "orders", 0, n) for n in range(4)])
    assert len(names(tmp_path)) == 5
    assert list(store.rows()) == rows
    assert store.facts() == HistoryFacts("c", {0: 4})
    more = one_by_one(store, 1, begin=4)
    assert list(store.rows()) == rows + more
    assert names(tmp_path) == ["000001-000004.parquet", "000005.parquet"]


def test_a_reader_continues_while_files_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_history, "FAN", 4)
    store = OffsetHistoryStore(tmp_path)
    rows = one_by_one(store, 3)
    reading = store.rows()
    assert next(reading) == rows[0]
    one_by_one(store, 1, begin=3)
    assert names(tmp_path) == ["000001-000004.parquet"]
    assert list(reading) == rows[1:]


@pytest.mark.parametrize("gone", [1, 3])
def test_a_listing_during_a_merge_misses_no_file(
    gone: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The merged file is listed late, and its parts early."""
    monkeypatch.setattr(offset_history, "FAN", 4)
    store = OffsetHistoryStore(tmp_path)
    rows = one_by_one(store, 3)
    kept = {path: path.read_bytes() for path in sorted(tmp_path.glob("*.parquet"))[gone:]}
    rows += one_by_one(store, 1, begin=3)
    for path, content in kept.items():
        path.write_bytes(content)
    whole, looks = Path.glob, [list(kept)]
    monkeypatch.setattr(Path, "glob", lambda *body: looks.pop() if looks else whole(*body))
    assert list(store.rows()) == rows


def test_files_merged_between_listing_and_reading_are_listed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_history, "FAN", 4)
    store = OffsetHistoryStore(tmp_path)
    one_by_one(store, 3)
    read = pq.read_schema

    def late(path: Path) -> pa.Schema:
        monkeypatch.setattr(pq, "read_schema", read)
        one_by_one(store, 1, begin=3)
        return read(path)

    monkeypatch.setattr(pq, "read_schema", late)
    assert store.facts() == HistoryFacts("c", {0: 4})


def test_two_simultaneous_writers_add_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each starts at the end it saw; files are merged meanwhile."""
    monkeypatch.setattr(offset_history, "FAN", 3)
    rows = written([offset_row("g", "orders", 0, number) for number in range(60)])

    def write() -> int:
        store, count = OffsetHistoryStore(tmp_path), 0
        for number in range(len(rows)):
            facts = store.facts()
            begin = facts.next_offsets[0] if facts else 0
            read = rows[begin : number + 1]
            count += store.add("c", read, {0: read[-1].offset + 1}) if read else 0
            seen = list(store.rows())
            assert number < len(seen)
            assert seen == rows[: len(seen)]
        return count

    with ThreadPoolExecutor(2) as pool:
        counts = [task.result() for task in [pool.submit(write) for _ in range(2)]]
    assert sum(counts) == len(rows)
    assert list(OffsetHistoryStore(tmp_path).rows()) == rows
