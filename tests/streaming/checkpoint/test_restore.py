"""A job that is restored from a snapshot goes on as the one that was never stopped."""

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from brokertwin.errors import UserError
from brokertwin.kafka_io.partitioning import spark_hash
from brokertwin.settings import load
from brokertwin.sinks import snapshot_store
from brokertwin.state.cell.between_cells import Count
from brokertwin.state.cell.cell import STATE_VERSION
from brokertwin.state.core import outputs
from brokertwin.state.core.tables import CellTables
from brokertwin.streaming.checkpoint import checkpoint_log, facts, snapshots, state_reader
from brokertwin.streaming.checkpoint.restore import RestoreTarget, command, restore
from brokertwin.streaming.job import runner
from brokertwin.streaming.job.clock import JobClock
from tests.support.jobs import JobBench, capture
from tests.support.machine import Bench, header
from tests.support.made_checkpoints import FACTS, bench, taken

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def responses_of(job: JobBench) -> dict[str, set[bytes | None]]:
    """Every response that was written, by the request's id; all writes of one are the same."""
    found = defaultdict(set)
    for row in job.all_rows(outputs.RESPONSES):
        found[row.id].add(row.value)
    return found


@pytest.mark.spark
@pytest.mark.kafka
def test_responses_after_a_restore_equal_an_uninterrupted_job(
    spark: "SparkSession", kafka: str, tmp_path: Path
) -> None:
    """With the same topics and other Spark tasks, and with new topics."""
    flags = {"event_time": "recorded", "max_offsets_per_trigger": 60}
    job = JobBench(kafka, tmp_path, **flags)
    job.send("a", capture("fetch_session_assign", job.edge("a")))
    stop = runner.StopReason(60)
    job.run(spark, stop, observe=lambda _: stop.wanted.set())
    shot = snapshots.take(job.checkpoint, tmp_path / "snapshots")
    (cut,) = shot.snapshot.source_offsets.values()
    before = len(responses_of(job))
    assert 0 < sum(cut.values()) <= before < 513
    assert job.run(spark).is_clean
    uninterrupted = responses_of(job)
    final = state_reader.read_cells(job.checkpoint)
    written = len(job.all_rows(outputs.RESPONSES))

    again = restore(shot.path, tmp_path / "again", RestoreTarget(shuffle_partitions=3))
    assert again.facts.requests_topic_id and again.facts.shuffle_partitions == 3
    assert state_reader.read_cells(tmp_path / "again") == snapshot_store.read_cells(shot.path)
    ended = job.run(spark, checkpoint=tmp_path / "again", shuffle_partitions=3)
    assert ended.is_clean and ended.committed > 0
    assert state_reader.read_cells(tmp_path / "again") == final
    assert responses_of(job) == uninterrupted
    assert all(len(values) == 1 for values in uninterrupted.values())
    assert len(job.all_rows(outputs.RESPONSES)) - written == 513 - sum(cut.values())

    other = JobBench(kafka, tmp_path / "other", **flags)
    restore(shot.path, other.checkpoint, RestoreTarget(prefix=other.prefix))
    rest = [row for row in job.all_rows("requests") if row.offset >= cut[str(row.partition)]]
    other.produce((row.value for row in rest), b"a")
    assert other.run(spark).is_clean
    assert responses_of(other) == {row_id: uninterrupted[row_id] for row_id in responses_of(other)}
    assert len(responses_of(other)) == len(rest)
    assert state_reader.read_cells(other.checkpoint) == final


def test_a_restored_checkpoint_has_state_and_offsets_of_the_snapshot(tmp_path: Path) -> None:
    shot = taken(tmp_path)
    restored = restore(shot.path, tmp_path / "new")
    new = tmp_path / "new"
    assert state_reader.read_cells(new) == state_reader.read_cells(tmp_path / "former")
    assert checkpoint_log.end_offsets(new, 0) == {"p.requests": {0: 7, 1: 4}}
    assert facts.read(new) == restored.facts
    kept = msgspec.structs.replace(restored.facts, restored_from="", groups=FACTS.groups)
    assert kept == FACTS, "the same topic, brokers and incarnation: what cells tell goes on"
    assert checkpoint_log.query_id(new) != shot.snapshot.query_id
    assert {each.name for each in tmp_path.iterdir()} == {"former", "snapshots", "new"}
    assert command(restored.facts, Path("new")) == (
        "brokertwin run --prefix p --checkpoint new --cluster default --brokers default=1"
    )
    facts.check(new, settings("p"), ["default"], FACTS.requests_topic_id)
    again = snapshots.take(new, tmp_path / "snapshots")
    assert snapshot_store.read_cells(again.path) == snapshot_store.read_cells(shot.path)


def test_a_restored_job_distributes_cells_by_load(tmp_path: Path) -> None:
    groups = {"a": 2, "b": 0, "c": 4, "d": 1}  # a and c in one task, b and d in the other
    loads = {"a": 700, "b": 20, "c": 600, "d": 30}
    shot = taken(tmp_path, groups=groups, loads=loads)
    restored = restore(shot.path, tmp_path / "new").facts
    tasks = {name: spark_hash(key) % 2 for name, key in restored.groups.items()}
    assert tasks["a"] != tasks["c"] == tasks["b"] == tasks["d"]
    assert restored.loads == loads
    cells = state_reader.read_cells(tmp_path / "new")
    assert cells == state_reader.read_cells(tmp_path / "former")


def settings(prefix: str, **flags: Any) -> Any:
    return load(
        {"prefix": prefix, "requests_partitions": 2, "clusters": ("default",), **flags}
    ).settings


def test_another_prefix_starts_at_the_first_request_of_new_topics(tmp_path: Path) -> None:
    new = tmp_path / "new"
    restore(taken(tmp_path).path, new, RestoreTarget(prefix="q"))
    assert checkpoint_log.end_offsets(new, 0) == {"q.requests": {0: 0, 1: 0}}
    facts.check(new, settings("q"), ["default"], None)
    with pytest.raises(UserError, match="created with prefix = q, not p"):
        facts.check(new, settings("p"), ["default"], None)
    assert facts.settle(new, settings("q"), ["default"], "first").requests_topic_id == "first"
    with pytest.raises(UserError, match="belongs to another topic"):
        facts.settle(new, settings("q"), ["default"], "second")


def with_batches() -> Bench:
    cell = bench()
    cell.append("orders", header(1, locator="0:0:9"))
    return cell


def test_another_prefix_is_rejected_if_former_batches_are_needed(
    tmp_path: Path,
) -> None:
    shot = taken(tmp_path, columns=with_batches().cell.columns())
    with pytest.raises(UserError, match=r"record batches in p\.data"):
        restore(shot.path, tmp_path / "new", RestoreTarget(prefix="q"))
    assert not (tmp_path / "new").exists()
    assert restore(shot.path, tmp_path / "new").facts.prefix == "p"


def test_another_prefix_is_rejected_with_rows_in_flight_between_cells(tmp_path: Path) -> None:
    tables = CellTables(bench().cell.columns())
    tables.cluster.put("told/b", Count(5, 2))
    tables.commit()
    columns = {**bench().cell.columns(), **tables.columns()}
    shot = taken(tmp_path, columns=columns, groups={"a": 0, "b": 1}, brokers={"a": [1], "b": [2]})
    with pytest.raises(UserError, match=r"in flight in p\.requests \(a to b, b to b\)"):
        restore(shot.path, tmp_path / "new", RestoreTarget(prefix="q"))


def test_an_existing_checkpoint_is_unchanged(tmp_path: Path) -> None:
    shot = taken(tmp_path)
    with pytest.raises(UserError, match="already exists") as refused:
        restore(shot.path, tmp_path / "former")
    assert "does not exist yet" in refused.value.hint
    (tmp_path / "empty").mkdir()
    restore(shot.path, tmp_path / "empty")
    with pytest.raises(UserError, match="already exists"):
        restore(shot.path, tmp_path / "empty")


def test_a_snapshot_of_a_newer_state_is_refused(tmp_path: Path) -> None:
    shot = taken(tmp_path)
    newer = msgspec.structs.replace(shot.snapshot, state_version=STATE_VERSION + 1)
    (shot.path / "snapshot.json").write_bytes(msgspec.json.encode(newer))
    with pytest.raises(UserError, match="taken by a newer brokertwin") as refused:
        restore(shot.path, tmp_path / "new")
    assert "newer brokertwin" in refused.value.hint


def test_a_restored_job_keeps_its_cells_deadlines(tmp_path: Path) -> None:
    """A new `timers` topic is empty: without this a fetch would wait for the next event."""
    deadline = bench().cell.meta.outstanding
    assert deadline > 0
    restore(taken(tmp_path).path, tmp_path / "new")
    assert state_reader.outstanding(tmp_path / "former") == {}, "its clock has told `timers`"
    known = state_reader.outstanding(tmp_path / "new")
    assert known == {"default": deadline}
    clock = JobClock({}, "q", {}, 0, known)  # type: ignore[arg-type]  # no Kafka here
    assert clock._known.next() == deadline


def test_another_number_of_cells_has_other_keys_and_a_higher_incarnation(tmp_path: Path) -> None:
    shot = taken(tmp_path, brokers={"default": [1, 2]})
    ends = {"p.requests": {"0": 9, "1": 4}}
    restored = restore(shot.path, tmp_path / "new", RestoreTarget(cells=2, offsets=ends))
    found = restored.facts
    assert (found.cells, list(found.groups)) == (2, ["default.1", "default.2"])
    assert found.incarnation > FACTS.incarnation
    assert checkpoint_log.end_offsets(tmp_path / "new", 0) == {"p.requests": {0: 9, 1: 4}}
    assert command(found, Path("new")).endswith("--brokers default=1,2 --cells 2")
    (former,) = state_reader.read_cells(tmp_path / "former").values()
    one, two = state_reader.read_cells(tmp_path / "new").values()
    assert CellTables(one).metadata.keys("") == CellTables(former).metadata.keys("")
    assert CellTables(two).metadata.keys("") == []
    with pytest.raises(UserError, match="3 cells but only 2 brokers"):
        restore(shot.path, tmp_path / "other", RestoreTarget(cells=3))
