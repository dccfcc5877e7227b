"""Rows of a live audit's checkpoint, read from its files: both kinds of keys."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from brokertwin import tables
from brokertwin.errors import UserError
from brokertwin.streaming.checkpoint import store_writer
from brokertwin.streaming.checkpoint.store_files import ENCODING_VERSION
from brokertwin.streaming.live import runner, stored_rows
from brokertwin.streaming.live import tables as live_tables
from brokertwin.streaming.live.modes import KeyMode
from tests.support.example_live import PLACE, SOURCE, LiveExample, halves, in_partitions
from tests.support.live import LiveTopics, sorted_rows

IN_BUCKETS, IDS = 2, ("bank", "shop")


@pytest.fixture(scope="module")
def audit() -> LiveTopics:
    """The lines of the example, with an entity bucket for each cluster."""
    found = LiveTopics(is_bucket=True)
    found.batch(in_partitions(SOURCE, halves()[0], 1))
    return found


def made(checkpoint: Path, audit: LiveTopics) -> None:
    conf = {"spark.sql.shuffle.partitions": str(IN_BUCKETS)}
    for name in ("offsets", "commits"):
        (checkpoint / name).mkdir(parents=True)
    planned = ["v1", json.dumps({"batchTimestampMs": 1, "conf": conf}), "{}"]
    (checkpoint / "offsets/0").write_text("\n".join(planned))
    (checkpoint / "commits/0").write_text("v1\n{}")
    (checkpoint / "brokertwin-live.json").write_text(
        json.dumps({"key": "bucket", "shuffle_partitions": IN_BUCKETS})
    )
    for number, cluster in enumerate(IDS):
        key = store_writer.encoded_row([cluster.encode(), 17])
        state = store_writer.encoded_row([audit._buckets[cluster]])
        value = store_writer.encoded_row([state, 0])
        store = checkpoint / f"state/0/{number}"
        store.mkdir(parents=True)
        rows = [(ENCODING_VERSION + key, ENCODING_VERSION + value)]
        (store / "1.changelog").write_bytes(store_writer.changelog(rows))


@pytest.mark.parametrize("table", [each.name for each in live_tables.TABLES])
def test_rows_in_buckets_are_those_of_the_topics(
    audit: LiveTopics, tmp_path: Path, table: str
) -> None:
    made(tmp_path, audit)
    assert stored_rows.is_live(tmp_path)
    found = tables.read(tmp_path).arrow(table).to_pylist()
    if live_tables.BY_NAME[table].has_topic:
        assert sorted_rows(found) == sorted_rows(audit.table(table))
    parts = [
        {row["cluster"] for row in stored_rows.rows(tmp_path, live_tables.BY_NAME[table], 0, n)}
        for n in range(IN_BUCKETS)
    ]
    assert parts[0] <= {"bank"} and parts[1] <= {"shop"}


@pytest.mark.parametrize("has_state", [True, False])
def test_a_checkpoint_without_a_layout_is_used_if_its_states_can_be_read(
    tmp_path: Path, has_state: bool
) -> None:
    """The example is older than the layout."""
    example = LiveExample("localhost:0", tmp_path / "checkpoint")
    if has_state:
        shutil.copytree(PLACE, example.query.checkpoint)
    former = stored_rows.fixed(PLACE)
    assert "layout" not in former
    runner.fix(example.query)
    assert stored_rows.fixed(example.query.checkpoint) == {
        **former,
        "layout": stored_rows.layout(),
    }


@pytest.mark.parametrize(
    ("part", "other"),
    [
        (b"\xa6newest", b"\xa6newer!"),
        (b"\xa7waiting\x90", b"\xa7waiting\x80"),
    ],
    ids=["a_field_has_another_name", "a_field_has_another_type"],
)
def test_states_of_another_layout_are_refused_before_anything_is_changed(
    audit: LiveTopics, tmp_path: Path, part: bytes, other: bytes
) -> None:
    older = LiveTopics(is_bucket=True)
    older._buckets = {name: each.replace(part, other) for name, each in audit._buckets.items()}
    assert older._buckets != audit._buckets
    made(tmp_path, older)
    written = (tmp_path / "brokertwin-live.json").read_bytes()
    query = replace(
        LiveExample("localhost:0", tmp_path).query,
        mode=KeyMode.BUCKET,
        shuffle_partitions=IN_BUCKETS,
    )
    with pytest.raises(UserError, match="was written by another brokertwin") as refused:
        runner.fix(query)
    assert "another --prefix and --checkpoint" in refused.value.hint
    assert (tmp_path / "brokertwin-live.json").read_bytes() == written


def test_sql_over_a_live_audit() -> None:
    state = tables.read(PLACE, as_of=2)
    assert state.origin == "after micro-batch 2"
    query = "select max(batch_5.last_sequence) as newest, count(*) as n from producers"
    (row,) = state.sql(query).to_pylist()
    assert row["n"] == 10 and row["newest"] >= 15
    before = tables.read(PLACE, as_of=0)
    assert before.arrow("producers").num_rows < 10
