"""The state store's files, read without a JVM: always what Spark's own reader gives."""

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import lz4.block
import pytest

from brokertwin.state.cell.cell import STATE_VERSION
from brokertwin.streaming.checkpoint import (
    checkpoint_log,
    facts,
    spark_state,
    state_reader,
    store_files,
)
from brokertwin.streaming.checkpoint.store_files import NotReadable, changes
from brokertwin.streaming.job.session import ROCKSDB
from brokertwin.tables import stored_states
from brokertwin.tables.stored_states import Cells
from tests.support.jobs import JobBench, capture

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORE = "spark.sql.streaming.stateStore"
HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
SMALL = 60


@contextmanager
def configured(spark: "SparkSession", name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before or "")


def run_capture(spark: "SparkSession", bench: JobBench) -> int:
    """Many small batches of the cluster `a`; `b` is reached by the first only. The newest batch."""
    events = capture("fetch_session_assign", bench.edge("a"))
    bench.send("b", events[:2])
    bench.send("a", events[:200])
    ended = bench.run(spark, max_offsets_per_trigger=SMALL)
    assert ended.is_clean and ended.committed >= 2
    return ended.committed


def by_spark(spark: "SparkSession", checkpoint: Path, batch: int) -> Cells:
    known = facts.read(checkpoint)
    assert known is not None
    names = {group: name for name, group in known.groups.items()}
    stored = spark_state.read_cells(spark, checkpoint, batch, names)
    assert {version for version, _ in stored.values()} == {STATE_VERSION}
    return stored_states.in_this_version("Spark's", stored)


def from_files(checkpoint: Path, batch: int) -> Cells:
    return state_reader.read_cells(checkpoint, batch)


@pytest.fixture
def bench(kafka: str, tmp_path: Path) -> JobBench:
    return JobBench(kafka, tmp_path, clusters=("a", "b", "c"), event_time="recorded")


def test_every_batch_is_read_from_changelogs_as_spark_reads_it(
    spark: "SparkSession", bench: JobBench
) -> None:
    newest = run_capture(spark, bench)
    for batch in range(newest + 1):
        expected = by_spark(spark, bench.checkpoint, batch)
        assert from_files(bench.checkpoint, batch) == expected
    assert expected.keys() == {"a", "b"}, "no event has reached c"


def test_every_batch_is_read_from_uploaded_databases_as_spark_reads_it(
    spark: "SparkSession", bench: JobBench
) -> None:
    with configured(spark, f"{STORE}.rocksdb.changelogCheckpointing.enabled", "false"):
        newest = run_capture(spark, bench)
    assert list(bench.checkpoint.rglob("*.changelog")) == []
    for batch in range(newest + 1):
        assert from_files(bench.checkpoint, batch) == by_spark(spark, bench.checkpoint, batch)


def test_an_idle_cell_is_read_from_the_upload(spark: "SparkSession", bench: JobBench) -> None:
    with configured(spark, f"{STORE}.rocksdb.changelogCheckpointing.enabled", "false"):
        uploaded = run_capture(spark, bench)
    bench.send("a", capture("fetch_session_assign", bench.edge("a"))[200:300])
    newest = bench.run(spark, max_offsets_per_trigger=SMALL).committed
    assert newest > uploaded
    assert any(bench.checkpoint.rglob(f"{newest + 1}.changelog"))
    read = from_files(bench.checkpoint, newest)
    assert read == by_spark(spark, bench.checkpoint, newest)
    assert read["b"] == from_files(bench.checkpoint, uploaded)["b"]
    assert read["a"] != from_files(bench.checkpoint, uploaded)["a"]


def test_spark_is_the_fallback_with_a_reason(spark: "SparkSession", bench: JobBench) -> None:
    reported: list[str] = []
    with configured(spark, f"{STORE}.providerClass", HDFS):
        newest = run_capture(spark, bench)
    cells = state_reader.read_cells(bench.checkpoint, None, lambda: spark, reported.append)
    assert cells == by_spark(spark, bench.checkpoint, newest)
    assert cells["a"]["logs"]
    assert reported[0].startswith("read with Spark, because")
    assert HDFS in reported[0]


def entry(key: bytes, value: bytes | None) -> bytes:
    size = -1 if value is None else len(value)
    return struct.pack(">i", len(key)) + key + struct.pack(">i", size) + (value or b"")


def header(token: int, packed_size: int, size: int) -> bytes:
    return struct.pack("<8sBiiI", b"LZ4Block", token, packed_size, size, 0)


def block(data: bytes, is_stored: bool = False) -> bytes:
    packed = data if is_stored else lz4.block.compress(data, store_size=False)
    return header(0x15 if is_stored else 0x25, len(packed), len(data)) + packed


END = struct.pack(">i", -1)
CLOSED = header(0x15, 0, 0)


@pytest.mark.parametrize("cut", [1, 7, 30, 40])
def test_changes_may_span_blocks_of_any_size(cut: int) -> None:
    data = entry(b"key", b"value" * 9) + entry(b"gone", None) + END
    written = block(data[:cut], is_stored=True) + block(data[cut:]) + CLOSED
    assert list(changes(written)) == [(b"key", b"value" * 9), (b"gone", None)]


@pytest.mark.parametrize(
    "torn",
    [
        b"",
        b"v2" + block(END) + CLOSED,
        block(entry(b"key", b"value")) + CLOSED,
        block(entry(b"key", b"value")[:-1] + END) + CLOSED,
        block(entry(b"key", b"value") + END)[:-4],
    ],
    ids=["empty", "another format", "no end", "short value", "short block"],
)
def test_a_torn_changelog_is_never_half_a_state(tmp_path: Path, torn: bytes) -> None:
    checkpoint = made(tmp_path, {"spark.sql.shuffle.partitions": "1"})
    (checkpoint / "state" / "0" / "0" / "1.changelog").write_bytes(torn)
    with pytest.raises(NotReadable):
        store_files.read_states(checkpoint, 0, [0])


@pytest.mark.parametrize(
    ("name", "value"),
    [("providerClass", HDFS), ("compression.codec", "zstd"), ("encodingFormat", "avro")],
)
def test_another_state_store_is_rejected(tmp_path: Path, name: str, value: str) -> None:
    conf = {"spark.sql.shuffle.partitions": "1", f"{STORE}.{name}": value}
    with pytest.raises(NotReadable, match=f"has {name} {value}"):
        store_files.read_states(made(tmp_path, conf), 0, [0])


def test_a_gap_in_the_changelogs_is_an_error(tmp_path: Path) -> None:
    conf = {"spark.sql.shuffle.partitions": "1", f"{STORE}.providerClass": ROCKSDB}
    checkpoint = made(tmp_path, conf)
    store = checkpoint / "state" / "0" / "0"
    (store / "1.changelog").write_bytes(block(entry(b"key", b"value") + END) + CLOSED)
    with pytest.raises(NotReadable, match=r"2\.changelog: the changelog does not exist"):
        store_files.read_states(checkpoint, 1, [0])


def made(directory: Path, conf: dict[str, str]) -> Path:
    for name in ("offsets", "state/0/0"):
        (directory / name).mkdir(parents=True)
    for batch in (0, 1):
        lines = ["v1", json.dumps({"conf": conf}), "{}"]
        (directory / "offsets" / str(batch)).write_text("\n".join(lines))
    assert checkpoint_log.planned(directory) == 1
    return directory
