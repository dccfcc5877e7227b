"""A job with checkpoint and snapshots in an object store, killed and started again."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokertwin import tables
from brokertwin.kafka_io import placement
from brokertwin.places import place
from brokertwin.sinks import snapshot_store
from brokertwin.state.core import outputs
from brokertwin.streaming.checkpoint import checkpoint_log, state_reader
from brokertwin.streaming.job import job
from tests.support.commands import Commands, kill_tree
from tests.support.jobs import CAPTURES, JobBench
from tests.support.s3 import BUCKET, object_store

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.full]

CAPTURE, SENT = "fetch_session_assign", 513
SMALL_BATCHES = {"BROKERTWIN_MAX_OFFSETS_PER_TRIGGER": "120"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    with object_store(tmp_path / "log"):
        yield place(f"s3a://{BUCKET}")


@pytest.fixture
def commands(kafka: str, store: Path, tmp_path: Path) -> Iterator[Commands]:
    bench = JobBench(kafka, tmp_path, checkpoint=store / "orders")
    bench.checkpoint = store / "orders"
    found = Commands(bench)
    try:
        yield found
    finally:
        found.close()


def test_a_killed_job_goes_on_from_the_object_store(
    commands: Commands, store: Path, tmp_path: Path
) -> None:
    bench = commands.bench
    placement.write(bench.client, bench.prefix, job.placements(bench.settings))
    code, out, errors = commands.call("send", str(CAPTURES / f"{CAPTURE}.jsonl.gz"), "--json")
    assert (code, json.loads(out)["sent"]) == (0, SENT), errors
    places = ("--snapshots", str(store / "snapshots"))

    killed = commands.start("run", *places, "--snapshot-every", "1 batch", **SMALL_BATCHES)
    commands.wait_for(killed, planned=2, committed=1)
    kill_tree(killed)
    responded = {row.id for row in bench.rows(outputs.RESPONSES)}
    assert 0 < len(responded) < SENT

    code, _, errors = commands.call("run", "--available-now", *places, **SMALL_BATCHES)
    assert code == 0, errors
    rows = bench.rows(outputs.RESPONSES)
    assert sorted(row.id for row in rows) == sorted(
        f"{CAPTURE}.jsonl:{number}" for number in range(1, SENT + 1)
    )
    bench.assert_live_run_equals_replay("a")

    newest = checkpoint_log.committed(bench.checkpoint)
    snapshot_manifest = snapshot_store.list_all(store / "snapshots")[-1]
    cells = snapshot_store.read_cells(store / "snapshots" / snapshot_manifest.name)
    assert snapshot_manifest.batch == newest and cells == state_reader.read_cells(bench.checkpoint)
    assert tables.read(str(bench.checkpoint)).cells == cells

    code, out, errors = commands.call("query", "select count(*) as n from sessions", "--json")
    assert code == 0 and json.loads(out)["n"] > 0, errors
    restored = ("--checkpoint", str(store / "restored"))
    code, _, errors = commands.call("snapshot", "restore", *restored, *places)
    assert code == 0, errors
    code, _, errors = commands.call("run", "--available-now", *restored)
    assert code == 0, errors
    assert state_reader.read_cells(store / "restored") == cells
    assert not (Path.cwd() / "s3a:").exists(), "no directory of that name"
