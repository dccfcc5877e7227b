"""`brokertwin live` as users run it, with a real broker and Spark, and a kill -9 in the middle."""

import json
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.cimpl import NewPartitions
from typer.testing import CliRunner

from brokertwin.cli.main import app
from brokertwin.cli.watching import live
from brokertwin.kafka_io import topics
from brokertwin.kafka_io.topic_reader import consumer, first_and_end, read_all
from brokertwin.kafka_io.topics import TopicSpec
from brokertwin.streaming.checkpoint import checkpoint_log
from brokertwin.streaming.checkpoint.snapshot_times import Interval
from brokertwin.streaming.live import runner, tables
from brokertwin.streaming.live.modes import KeyMode
from tests.support import audits
from tests.support.commands import WAIT_S, Commands, kill_tree
from tests.support.jobs import JobBench
from tests.support.live import rows_in_state, sorted_rows
from tests.support.patience import wait_until
from tests.support.requestlogs import logs_of

if TYPE_CHECKING:
    import subprocess

    from pyspark.sql import SparkSession

RECORDING, CAPTURE = "leader_kill", "txn_fencing_ck"
PREFIX = "watched"
SOURCE = "requests"
TABLES = tuple(each for each in tables.TABLES if each.has_topic)


class LiveBench:
    """A real broker with a topic of request-log lines, and the command."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        bench = JobBench(bootstrap, directory)
        self.client = bench.client
        self.commands = Commands(bench)
        self.checkpoint, self.tables = directory / "checkpoint", directory / "tables"
        self._make_topic()

    def _make_topic(self) -> None:
        admin = topics.admin_client(self.client)
        topics.create(admin, {SOURCE: TopicSpec(SOURCE, 2)})
        topics.topic_id(admin, SOURCE)

    def make_topic_again(self) -> None:
        admin = topics.admin_client(self.client)
        admin.delete_topics([SOURCE])[SOURCE].result()
        wait_until(lambda: SOURCE not in topics.existing(admin, self.client))
        self._make_topic()

    def has_read_all(self) -> bool:
        batch = checkpoint_log.committed(self.checkpoint)
        read = checkpoint_log.end_offsets(self.checkpoint, batch).get(SOURCE, {})
        with closing(consumer(self.client)) as reader:
            ends = {n: first_and_end(reader, TopicPartition(SOURCE, n))[1] for n in range(2)}
        return read == ends

    def write(self, path: Path, share: tuple[float, float]) -> None:
        """Write a part of a broker's log, as an agent does: with the broker in a header."""
        broker = path.name.split(".")[0].rpartition("-")[2]
        lines = audits.lines(path)
        writer = Producer(topics.writer_configuration(self.client))
        first, last = (int(each * len(lines)) for each in share)
        for line in lines[first:last]:
            writer.produce(
                SOURCE, line, partition=int(broker) % 2, headers=[("broker", broker.encode())]
            )
            writer.poll(0)
        assert writer.flush(WAIT_S) == 0

    def write_capture_to_a_new_partition(self, cluster: str) -> None:
        admin = topics.admin_client(self.client)
        admin.create_partitions([NewPartitions(SOURCE, 3)])[SOURCE].result()
        wait_until(lambda: topics.existing(admin, self.client)[SOURCE] == 3)
        writer = Producer(topics.writer_configuration(self.client))
        for line in audits.lines(*audits.RECORDINGS[CAPTURE]):
            writer.produce(SOURCE, line, partition=2, headers=[("cluster", cluster.encode())])
            writer.poll(0)
        assert writer.flush(WAIT_S) == 0

    def start(self, *options: str) -> "subprocess.Popen[str]":
        places = ("--checkpoint", str(self.checkpoint), "--tables", str(self.tables))
        often = ("--trigger", "1 seconds", "--snapshot-every", "1 batch")
        named = ("--topic", f"shop={SOURCE}", "--prefix", PREFIX, "--json")
        return self.commands.start("live", *named, *places, *often, *options)

    def findings(self) -> list[bytes]:
        topic = f"{PREFIX}.findings"
        if topic not in topics.existing(topics.admin_client(self.client), self.client):
            return []
        rows = read_all(self.client, topic)
        return [each.value for each in rows if each.value is not None]

    def table(self, name: str) -> list[dict[str, Any]]:
        newest = {each.key: each.value for each in read_all(self.client, f"{PREFIX}.{name}")}
        return sorted_rows(json.loads(each) for each in newest.values() if each is not None)

    def has_snapshot_of(self, name: str) -> bool:
        paths = sorted((self.tables / name).glob("batch-*.parquet"))
        return bool(paths) and sorted_rows(pq.read_table(paths[-1]).to_pylist()) == self.table(name)


Kind = tuple[str, str, str, str | None]


def kinds(rows: Sequence[bytes]) -> set[Kind]:
    newest = {each["id"]: each for each in map(json.loads, rows)}
    return {
        (each["cluster"], each["kind"], each["subject"], each["error"])
        for each in newest.values()
        if not each["withdrawn"]
    }


def wanted(cluster: str, recording: str) -> set[Kind]:
    documents = (each.document(1) for each in audits.unfolded(recording))
    return {(cluster, each["kind"], each["subject"], each["error"]) for each in documents}


@pytest.fixture
def bench(own_kafka: str, tmp_path: Path) -> Iterator[LiveBench]:
    made = LiveBench(own_kafka, tmp_path)
    yield made
    made.commands.close()


@pytest.mark.parametrize("mode", list(KeyMode))
def test_a_killed_live_audit_loses_no_finding_and_reports_none_twice(
    bench: LiveBench, spark: "SparkSession", mode: KeyMode
) -> None:
    paths = logs_of(RECORDING)
    for path in paths:
        bench.write(path, (0.0, 0.6))
    killed = bench.start("--key", mode)
    wait_until(bench.findings)
    for path in paths:
        bench.write(path, (0.6, 1.0))
    bench.write_capture_to_a_new_partition("bank")
    planned = checkpoint_log.planned(bench.checkpoint)
    wait_until(lambda: checkpoint_log.planned(bench.checkpoint) > planned)
    kill_tree(killed)
    assert killed.returncode == -signal.SIGKILL

    again = bench.start("--key", mode)
    both = wanted("shop", RECORDING) | wanted("bank", CAPTURE)
    wait_until(lambda: kinds(bench.findings()) == both)
    for each in TABLES:
        wait_until(partial(bench.has_snapshot_of, each.name), each.name)
    again.send_signal(signal.SIGTERM)
    out, errors = again.communicate(timeout=WAIT_S)
    assert again.returncode == 0, errors
    assert json.loads(out.splitlines()[-1])["counts"]["exchanges"] > 0
    planned = checkpoint_log.planned(bench.checkpoint)
    assert planned == checkpoint_log.committed(bench.checkpoint)

    findings = bench.findings()
    assert len(set(findings)) == len(findings), "a finding is reported twice"
    stored = pa.concat_tables(
        pq.read_table(each) for each in sorted((bench.tables / "findings").glob("*.parquet"))
    )
    shown = [(each["id"], each["what"], each["withdrawn"]) for each in stored.to_pylist()]
    rows = [(each["id"], each["what"], each["withdrawn"]) for each in map(json.loads, findings)]
    assert sorted(shown) == sorted(rows)
    if mode is KeyMode.ENTITY:
        for each in TABLES:
            rows = list(map(each.in_state, bench.table(each.name)))
            assert rows_in_state(spark, bench.checkpoint, each) == rows, each.name


@pytest.mark.spark  # in a process of its own
def test_a_topic_that_is_made_again_while_live_runs_is_read_from_its_beginning(
    bench: LiveBench,
) -> None:
    """Spark would skip as many of its first records as the former topic had."""
    paths = logs_of(RECORDING)
    for path in paths:
        bench.write(path, (0.0, 0.6))
    running = bench.start()
    wait_until(bench.findings)
    wait_until(bench.has_read_all)
    bench.make_topic_again()
    for path in paths:
        bench.write(path, (0.6, 1.0))
    wait_until(lambda: kinds(bench.findings()) == wanted("shop", RECORDING))
    running.send_signal(signal.SIGTERM)
    _, errors = running.communicate(timeout=WAIT_S)
    assert running.returncode == 0, errors
    assert f"Topic {SOURCE} was made again: partition 0 is read from offset 0" in errors


def test_wrong_options_are_rejected() -> None:
    for value, message in (("=a", "Invalid value of --topic"), ("a=", "Invalid value of --topic")):
        called = CliRunner().invoke(app, ["live", "--topic", value])
        assert message in str(called.exception)
    called = CliRunner().invoke(app, ["live", "--topic", "a", "--topic", "b=a"])
    assert "--topic names a twice" in str(called.exception)


def test_an_unreachable_kafka_leaves_no_checkpoint(tmp_path: Path) -> None:
    words = ("--topic", "a", "--bootstrap", "localhost:1", "--checkpoint", f"{tmp_path}/checkpoint")
    called = CliRunner().invoke(app, ["live", *words])
    assert "Kafka at localhost:1 did not respond" in str(called.exception)
    assert not list(tmp_path.iterdir())


def test_a_run_to_the_end_says_that_the_last_exchanges_may_wait(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(runner, "run", lambda *_, **__: None)
    watched: Any = SimpleNamespace(pulse=SimpleNamespace(beat=None), found=None)
    how = live._How(Path("tables"), Interval(batches=1), 90, UTC, as_json=True)
    for is_available_now in (False, True):
        query: Any = SimpleNamespace(is_available_now=is_available_now)
        live._run(query, query, how, threading.Event(), watched)
        assert ("exchanges may still wait" in capsys.readouterr().err) is is_available_now
