"""The tour's commands answer without a JVM: there is no Java for them here."""

import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from brokertwin import tables
from brokertwin.cli.main import app
from brokertwin.kafka_io import topics
from brokertwin.state.logs import checkpoint_files
from brokertwin.streaming.checkpoint import checkpoint_log, facts, spark_state
from brokertwin.tables import state_rows
from brokertwin.tables.state_rows import ItemKind
from tests.support.commands import Commands, kill_tree, lines_of
from tests.support.jobs import capture

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_JAVA = {"JAVA_HOME": "/nonexistent"}
SMALL_BATCHES = {"BROKERTWIN_MAX_OFFSETS_PER_TRIGGER": "40"}


def by_spark(spark: "SparkSession", checkpoint: Path, kind: ItemKind, batch: int) -> list[Any]:
    known = facts.read(checkpoint)
    assert known is not None
    names = {group: name for name, group in known.groups.items()}
    stored = spark_state.read_cells(spark, checkpoint, batch, names)
    cells = {name: columns for name, (_, columns) in stored.items()}
    return [json.loads(json.dumps(row, default=str)) for row in state_rows.rows(kind, cells)]


def test_a_run_with_nothing_to_read_makes_the_topics_and_needs_no_spark(
    commands: Commands, tmp_path: Path
) -> None:
    fresh = {
        **NO_JAVA,
        "BROKERTWIN_PREFIX": f"{commands.bench.prefix}-fresh",
        "BROKERTWIN_CHECKPOINT": str(tmp_path / "fresh"),
    }
    code, _, errors = commands.call("run", "--available-now", **fresh)
    assert code == 0, errors
    assert "created topics" in errors
    assert "no new events" in errors
    assert "0 micro-batches, all committed" in errors
    client = commands.bench.client
    there = topics.existing(topics.admin_client(client), client)
    assert f"{commands.bench.prefix}-fresh.requests" in there

    code, _, errors = commands.call("run", "--available-now", **fresh)
    assert code == 0, errors
    assert "created" not in errors
    code, out, _ = commands.call("dead-letters", "list", **fresh)
    assert (code, "0 of 0 dead letters" in out) == (0, True)
    code, _, errors = commands.call("state", "logs", **fresh)
    assert (code, "not a checkpoint with a committed micro-batch" in errors) == (2, True)


@pytest.mark.spark
def test_a_running_a_killed_and_a_finished_job_show_what_spark_reads(
    commands: Commands, spark: "SparkSession"
) -> None:
    bench = commands.bench
    bench.send("a", capture("fetch_session_assign", bench.edge("a"))[:400])
    running = commands.start("run", "--event-time", "recorded", **SMALL_BATCHES)
    commands.wait_for(running, planned=2, committed=2)
    assert running.poll() is None
    live = checkpoint_log.committed(bench.checkpoint)
    shows_what_spark_reads(commands, spark, live)

    kill_tree(running)
    assert running.returncode == -signal.SIGKILL
    shows_what_spark_reads(commands, spark, checkpoint_log.committed(bench.checkpoint))

    code, _, errors = commands.call(
        "run", "--available-now", "--event-time", "recorded", **SMALL_BATCHES
    )
    assert code == 0, errors
    assert "starting Spark" in errors
    assert "incubator" not in errors
    shows_what_spark_reads(commands, spark, checkpoint_log.committed(bench.checkpoint))

    code, _, errors = commands.call("run", "--available-now", "--event-time", "recorded", **NO_JAVA)
    assert (code, "no new events" in errors) == (0, True), errors


def shows_what_spark_reads(commands: Commands, spark: "SparkSession", batch: int) -> None:
    """Every row, without Java."""
    for kind in (ItemKind.LOGS, ItemKind.SESSIONS):
        arguments = ("state", kind.value, "--json", "--all", "-v", "--at", str(batch))
        code, out, errors = commands.call(*arguments, **NO_JAVA)
        assert code == 0, errors
        assert "read from the files" in errors
        expected = by_spark(spark, commands.bench.checkpoint, kind, batch)
        assert lines_of(out) == expected != []


def test_logs_of_internal_topics_are_shown_on_request(
    commands: Commands, spark: "SparkSession", tmp_path: Path
) -> None:
    """The README's example makes a group, and with it the 50 partitions of __consumer_offsets."""
    bench = commands.bench
    code, _, errors = commands.call("run", "--available-now", **NO_JAVA)
    assert code == 0, errors
    code, _, errors = commands.call("send", "examples/first.jsonl")
    assert code == 0, errors
    assert bench.run(spark, event_time="recorded").is_clean

    code, out, _ = commands.call("state", "logs", COLUMNS="80", **NO_JAVA)
    assert code == 0
    rows = [line.split()[:2] for line in out.splitlines() if line.startswith("orders")]
    assert rows == [["orders", "0"], ["orders", "1"]]
    assert "__consumer_offsets" not in out
    assert "50 rows of internal topics hidden; add --all" in out
    assert max(map(len, out.splitlines())) <= 80

    requests_some(commands, spark)
    has_nothing_against_it(commands)
    files = tmp_path / "files"
    code, _, errors = commands.call("state", "--checkpoint-files", str(files), **NO_JAVA)
    assert (code, "files below" in errors) == (0, True), errors
    (found,) = files.rglob("broker-*/replication-offset-checkpoint")
    assert checkpoint_files.parse(found.read_text())["orders", 0] > 0

    code, out, _ = commands.call("state", "logs", "--all", "--json", **NO_JAVA)
    internal = [row for row in lines_of(out) if row["topic"] == "__consumer_offsets"]
    assert [row["partition"] for row in internal] == list(range(50))

    where = ("--checkpoint", str(bench.checkpoint))
    code, out, errors = commands.call("explain", "group", "billing", *where, **NO_JAVA)
    assert code == 0, errors
    assert "groups after micro-batch" in out
    assert out.splitlines()[-1].startswith("A checkpoint has no timeline. Add --job")
    code, _, errors = commands.call("explain", "group", "billing", *where, "--errors")
    assert (code, "Cannot combine --checkpoint with --errors or --client" in errors) == (2, True)


def requests_some(commands: Commands, spark: "SparkSession") -> None:
    """A key, a condition, a time; the same rows in SQL and as a frame of Spark."""
    code, out, errors = commands.call("state", "producers", "orders", COLUMNS="80", **NO_JAVA)
    assert code == 0, errors
    assert max(map(len, out.splitlines())) <= 80
    assert "producers after micro-batch 0" in out
    assert "producer-batches after micro-batch 0" in out
    how = ("--where", "logEndOffset > 1 -- and no more", "--at", "0")
    code, out, errors = commands.call("state", "logs", "--json", *how, **NO_JAVA)
    assert code == 0, errors
    some = [(row["topic"], row["partition"], row["logEndOffset"]) for row in lines_of(out)]
    assert some == [("orders", 0, 5)]
    code, _, errors = commands.call("state", "logs", "--at", "2020-01-01", **NO_JAVA)
    assert (code, "Its oldest micro-batch, 0, started at" in errors) == (2, True)

    query = "select topic, partition, logEndOffset from logs where logEndOffset > 1"
    code, out, errors = commands.call("query", query, "--json", **NO_JAVA)
    assert code == 0, errors
    assert [tuple(row.values()) for row in lines_of(out)] == some
    state = tables.read(commands.bench.checkpoint)
    assert state.origin == "after micro-batch 0"
    for name in state.names:
        frame = state.spark(name, spark)
        assert frame.columns == state.arrow(name).column_names
        assert frame.count() == state.arrow(name).num_rows, name
    groups = state.spark("groups", spark).where("offsets > 1").collect()
    assert [row["groupId"] for row in groups] == ["billing"]


def has_nothing_against_it(commands: Commands) -> None:
    """Data checks of the topics written by a real job, in full and for a range."""
    for kind, how in [
        ("requests", ()),
        ("responses", ("--to-offset", "999")),
        ("records", ("--from-offset", "0")),
        ("offsets", ()),
    ]:
        given = ["check", "--on", kind, *how]
        done = CliRunner(env=commands.environment).invoke(app, given, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        assert "expectations met" in done.output
        assert "met, 0 rows" not in done.output
