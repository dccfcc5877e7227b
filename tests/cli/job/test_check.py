"""`brokertwin check`: snapshots, Parquet files, user-defined suites, exit codes, pages."""

import json
from pathlib import Path

import msgspec
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from brokertwin.kafka_io.topic_reader import ID_HEADER
from brokertwin.sinks import offsets_snapshot, snapshot_store
from brokertwin.state.cell.cell import STATE_VERSION
from brokertwin.state.core.records import OffsetCommitted, TransactionMetadata
from brokertwin.state.core.tables import CellTables
from brokertwin.state.groups import committed_offsets, offset_records
from tests.support import made_checkpoints
from tests.support.console import brokertwin
from tests.support.machine import Bench
from tests.support.patience import PATIENCE_S
from tests.support.snapshots import taken
from tests.support.state_items import something_of_every_kind

COMMITTED = OffsetCommitted("g", "t", 0, 3, -1, "", 1000)
META = {"meta": Bench().cell.columns()["meta"]}
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
    tables = CellTables(Bench().cell.columns())
    committed_offsets.apply_committed(tables.of(1), COMMITTED)
    made = taken()._replace(cells={"a": tables.columns() | META}, state_version=STATE_VERSION)
    return snapshot_store.write(tmp_path / "snapshots", made).path


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


def test_a_producer_id_given_twice_in_a_checkpoint_has_exit_code_3(tmp_path: Path) -> None:
    cells = {"default": something_of_every_kind().cell.columns()}
    made_checkpoints.made(tmp_path / "good", cells["default"])
    good = brokertwin("check", "--checkpoint", "good", "--on", "state", cwd=tmp_path)
    assert (good.returncode, good.stderr) == (0, "state after micro-batch 0\n")
    kinds = [line.partition(":")[0] for line in good.stdout.splitlines()]
    parts = ["sessions", "producers", "groups", "committed-offsets", "logs", "violations"]
    assert kinds == parts
    tables = CellTables(cells["default"])
    [key] = tables.transactions.keys("1/id/")
    tables.transactions.put(f"{key}-too", tables.transactions.get(key, TransactionMetadata))
    made_checkpoints.made(tmp_path / "wrong", {**cells["default"], **tables.columns()})
    wrong = brokertwin("check", "wrong", "--on", "violations", "--json", cwd=tmp_path)
    assert wrong.returncode == 3, wrong.stderr
    [finding] = [json.loads(line) for line in wrong.stdout.splitlines()]
    assert finding["columns"] == ["violation"]
    assert any("has the producer id" in each for each in finding["examples"]), finding


def write(kafka: str, topic: str, key: bytes, value: bytes, row_id: str) -> None:
    producer = Producer({"bootstrap.servers": kafka})
    producer.produce(topic, value, key, headers={ID_HEADER: row_id})
    assert producer.flush(PATIENCE_S) == 0


@pytest.mark.kafka
def test_a_snapshot_is_compared_with_the_topic_of_its_cluster(
    snapshot: Path, kafka: str, tmp_path: Path
) -> None:
    words = ("check", snapshot, "--bootstrap", kafka, "--prefix", "compared")
    names = ("compared.offsets.a", "compared.offsets.b")
    admin = AdminClient({"bootstrap.servers": kafka})
    for made in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
        made.result()
    write(kafka, names[0], *offset_records.committed(COMMITTED), "a/0/29/0")
    equal = brokertwin(*words, cwd=tmp_path)
    assert equal.returncode == 0, equal.stderr
    assert "violations: 2 of 2 expectations met, 0 rows" in equal.stdout
    moved = msgspec.structs.replace(COMMITTED, offset=9)
    write(kafka, names[0], *offset_records.committed(moved), "a/0/29/1")
    differs = brokertwin(*words, "--json", cwd=tmp_path)
    assert differs.returncode == 3, differs.stderr
    [finding] = [json.loads(line) for line in differs.stdout.splitlines()]
    difference = "the offset of group g in t-0 has offset 3 in the state, and offset 9 in the topic"
    assert finding["examples"] == [difference]
    write(kafka, names[0], b"foreign", b"row", "forged-1")
    forged = brokertwin(*words, "--json", cwd=tmp_path)
    assert (forged.returncode, "its id is 'forged-1'" in forged.stdout) == (3, True), forged.stderr
    left_out = brokertwin(*words, "--without-topics", cwd=tmp_path)
    assert left_out.returncode == 0, left_out.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--suite", "none.yaml"), "Cannot read the suite none.yaml"),
        (("--suite", "list.json"), "list.json is not a great-expectations suite."),
        (("here.parquet", "--suite", "typo.yaml"), "expect_column_valeus not found"),
        (("here.parquet", "--on", "records"), "with --on records, which checks topics"),
        (
            ("--from-offset", "3"),
            "are offsets in a topic, but no topic is checked.",
        ),
        (
            ("here.parquet", "--on", "state", "--suite", "typo.yaml"),
            "Cannot combine --suite with --on state",
        ),
        (
            ("--on", "logs", "--with-topics"),
            "Cannot combine --with-topics with --on logs.",
        ),
        (("--on", "producer-ids"), "--on producer-ids checks a live audit."),
        (("--live", "live", "--on", "logs"), "A live audit has no rows of logs."),
        (("here.parquet", "--live", "live", "--on", "state"), "--live reads whole topics."),
        (("list.json",), "Cannot read list.json as a Parquet file"),
        (("nowhere",), "There is no snapshot in nowhere.\nTake one with"),
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
