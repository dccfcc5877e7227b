"""The rows of a `__consumer_offsets` on disk: each once, complete, of one cluster."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from brokertwin.offsets import store as offset_history
from brokertwin.offsets.history import CoordinatorRow, is_of
from brokertwin.offsets.store import (
    SCHEMA,
    HistoryError,
    HistoryFacts,
    OffsetHistoryStore,
    Verified,
)
from tests.support.offset_rows import HOUR_MS, classic_row, member_row, offset_row, written
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


def damage(directory: Path) -> str:
    """Return the error of the first command that reads the directory."""
    with pytest.raises(HistoryError) as raised:
        list(OffsetHistoryStore(directory).rows())
    assert OffsetHistoryStore(directory).verify().damage == [raised.value.message]
    return raised.value.message


@pytest.mark.parametrize("number", range(0, 400, 7))
def test_a_flipped_bit_is_never_read(number: int, tmp_path: Path) -> None:
    OffsetHistoryStore(tmp_path).add("c", [*ROWS, *LATER], {0: 4})
    file = tmp_path / "rows-000001.parquet"
    content = bytearray(file.read_bytes())
    content[number * len(content) // 400] ^= 1 << number % 8
    file.write_bytes(content)
    assert damage(tmp_path) == (
        f"{file} is damaged: its bytes are not those that manifest.json lists."
    )
    with pytest.raises(HistoryError, match="is damaged"):
        OffsetHistoryStore(tmp_path).add("c", LATER, {0: 4})


def test_a_flipped_bit_in_a_page_of_an_unlisted_file_is_never_read(tmp_path: Path) -> None:
    OffsetHistoryStore(tmp_path).add("c", [*ROWS, *LATER], {0: 4})
    (tmp_path / "manifest.json").unlink()
    assert OffsetHistoryStore(tmp_path).verify().unlisted == ["rows-000001.parquet"]
    file = tmp_path / "rows-000001.parquet"
    content = bytearray(file.read_bytes())
    chunk = pq.ParquetFile(file).metadata.row_group(0).column(3)
    content[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 1
    file.write_bytes(content)
    assert "is damaged" in damage(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: (d / "rows-000001.parquet").unlink(), "does not exist"),
        (
            lambda d: (d / "manifest.json").write_text(
                (d / "manifest.json").read_text().replace('"rows": 3', '"rows": 2')
            ),
            "number of rows",
        ),
        (
            lambda d: (d / "rows-000001.parquet").write_bytes(
                (d / "rows-000002.parquet").read_bytes()
            ),
            "its bytes are not those",
        ),
    ],
)
def test_a_directory_that_is_not_whole_is_refused(
    change: Callable[[Path], object], message: str, tmp_path: Path
) -> None:
    store = OffsetHistoryStore(tmp_path)
    store.add("c", ROWS, {0: 3})
    store.add("c", LATER, {0: 4})
    change(tmp_path)
    with pytest.raises(HistoryError, match=message):
        list(OffsetHistoryStore(tmp_path).rows())
    assert message in OffsetHistoryStore(tmp_path).verify().damage[0]


def test_a_damaged_manifest_is_reported(tmp_path: Path) -> None:
    OffsetHistoryStore(tmp_path).add("c", ROWS, {0: 3})
    (tmp_path / "manifest.json").write_text("{")
    for read in (OffsetHistoryStore.facts, OffsetHistoryStore.verify):
        with pytest.raises(HistoryError, match="not the JSON of a manifest"):
            read(OffsetHistoryStore(tmp_path))


def test_a_file_that_a_kill_left_out_of_the_manifest_is_read_and_listed_later(
    tmp_path: Path,
) -> None:
    store = OffsetHistoryStore(tmp_path)
    store.add("c", ROWS, {0: 3})
    manifest = (tmp_path / "manifest.json").read_bytes()
    store.add("c", LATER, {0: 4})
    (tmp_path / "manifest.json").write_bytes(manifest)
    assert list(OffsetHistoryStore(tmp_path).rows()) == [*ROWS, *LATER]
    assert OffsetHistoryStore(tmp_path).verify() == Verified(2, 4, [], ["rows-000002.parquet"])
    more = written([offset_row("g", "orders", 0, 11)], begin=4)
    assert OffsetHistoryStore(tmp_path).add("c", more, {0: 5}) == 1
    assert OffsetHistoryStore(tmp_path).verify() == Verified(3, 5, [], [])


def test_merging_does_not_take_over_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_history, "FAN", 3)
    one_by_one(OffsetHistoryStore(tmp_path), 2)
    file = tmp_path / "rows-000001.parquet"
    file.write_bytes(file.read_bytes().replace(b"orders", b"orderz"))
    with pytest.raises(HistoryError, match="is damaged"):
        one_by_one(OffsetHistoryStore(tmp_path), 1, begin=2)


def test_rows_of_a_group_are_those_that_a_filter_of_all_rows_gives(tmp_path: Path) -> None:
    store = OffsetHistoryStore(tmp_path)
    groups = ("a", "aa", "b", "ä", "")
    rows = written(
        [offset_row(group, "orders", n, n) for n in range(3) for group in groups]
        + [classic_row(group, 1, {"m": {"orders": [0]}}) for group in groups]
        + [member_row("a", "m"), (b"", None), (b"\x00", None)]
    )
    store.add("c", rows[:9], {0: 9})
    store.add("c", rows[9:], {0: len(rows)})
    for wanted in (*([group] for group in groups), ["a", "b"], ["none"]):
        expected = [row for row in rows if is_of(row.key, wanted)]
        assert list(store.rows(wanted)) == expected
    assert len(list(store.rows(["a"]))) == 5


def test_row_groups_without_the_group_are_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_history, "GROUP_ROWS", 10)
    store = OffsetHistoryStore(tmp_path)
    rows = written([offset_row(f"g{n // 10}", "orders", 0, n) for n in range(50)])
    store.add("c", rows, {0: 50})
    read: list[list[str]] = []
    whole = pq.ParquetFile.read_row_group

    def noted(file: pq.ParquetFile, number: int, columns: list[str]) -> pa.Table:
        read.append(columns)
        return whole(file, number, columns=columns)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", noted)
    assert list(store.rows(["g3"])) == rows[30:40]
    assert [len(columns) for columns in read] == [1, 1, 1, 1, 5, 1]


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
