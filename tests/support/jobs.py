"""A job on the bench: documents in through a real Kafka topic, rows out of the others.

bench = JobBench(kafka, tmp_path, clusters=("a",))
bench.send("a", [document, ...])
bench.run(spark)
bench.rows("responses")
"""

import gzip
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from confluent_kafka import Producer

from brokertwin.kafka_io import topics
from brokertwin.kafka_io.kafka_clients import client_properties
from brokertwin.kafka_io.topic_reader import TopicRow, read_all, without_repeats
from brokertwin.settings import Settings, load
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core import outputs
from brokertwin.state.core.murmur2 import partition_of
from brokertwin.state.core.outputs import Output
from brokertwin.state.core.settings import BrokerSettings, CellSettings, cluster_of
from brokertwin.streaming.checkpoint import checkpoint_log, facts
from brokertwin.streaming.job import job, runner
from brokertwin.streaming.job.edge import JobEdge, Sendable, by_time
from brokertwin.streaming.job.stage import cell_settings
from tests.support.patience import PATIENCE_S
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CAPTURES = ROOT / "tests" / "captures"
BROKER_SETTINGS = BrokerSettings(auto_create_topics_enable=False)


class JobBench:
    """The topics and the checkpoint of one job.

    Args:
        bootstrap: a real broker.
        directory: parent of the checkpoint.
        broker_settings: of the modelled brokers.
        flags: settings of the job.
    """

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        broker_settings: BrokerSettings = BROKER_SETTINGS,
        **flags: Any,
    ) -> None:
        self.prefix = f"t{uuid.uuid4().hex[:8]}"
        self.checkpoint = directory / "checkpoint"
        self.broker_settings = broker_settings
        self.flags = {
            "bootstrap": bootstrap,
            "prefix": self.prefix,
            "checkpoint": self.checkpoint,
            "clusters": ("a",),
            "shuffle_partitions": 2,
            "requests_partitions": 3,
            "responses_partitions": 2,
            "master": "local[2]",
            "records": True,
            **flags,
        }
        self.settings: Settings = load(self.flags).settings
        self.client = client_properties(self.settings)
        topics.prepare(self.client, self.settings)

    def run(
        self,
        spark: "SparkSession",
        stop: runner.StopReason | None = None,
        observe: runner.Observer = lambda _: None,
        **flags: Any,
    ) -> runner.Ended:
        settings = load({**self.flags, **flags}).settings
        with runner.prepared(settings, self.broker_settings) as prepared:
            return runner.run(prepared, stop or runner.StopReason(60), True, observe, spark)

    def edge(self, cluster: str) -> JobEdge:
        placements = {placed.cluster: placed for placed in job.placements(self.settings)}
        return JobEdge(placements, cluster, None, lambda: 1_700_000_000_000)

    def produce(
        self, values: Iterable[bytes | None], key: bytes | None, partition: int | None = None
    ) -> None:
        """Write rows to `requests`; without a partition to that of the key."""
        producer = Producer(topics.writer_configuration(self.client))
        if partition is None:
            partition = partition_of(key or b"", self.settings.requests_partitions)
        topic = topics.full_name(self.prefix, topics.REQUESTS)
        for value in values:
            producer.produce(topic, value=value, key=key, partition=partition)
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0

    def send(self, cluster: str, events: Iterable[Sendable]) -> None:
        self.produce((event.document for event in events), cluster.encode())

    def rows(self, topic: str) -> list[TopicRow]:
        """Return the topic's records as a reader sees them: repeats are dropped by id."""
        return list(without_repeats(iter(self.all_rows(topic))))

    def all_rows(self, topic: str) -> list[TopicRow]:
        return list(read_all(self.client, topics.full_name(self.prefix, topic)))

    def documents(self, topic: str) -> list[dict[str, Any]]:
        return [msgspec.json.decode(row.value or b"null") for row in self.rows(topic)]

    def cell_settings(self, cell: str) -> CellSettings:
        """The settings of a cell; one that is a whole cluster goes by the cluster's name."""
        placements = {placed.cluster: placed for placed in job.placements(self.settings)}
        fixed = facts.read(self.checkpoint)
        return cell_settings(
            placements[cluster_of(cell)],
            self.broker_settings,
            cell,
            fixed.incarnation if fixed is not None else 0,
            self.settings.writes_records,
        )

    def taken(self) -> list[TopicRow]:
        """The rows of `requests` that belong to a committed micro-batch."""
        committed = checkpoint_log.committed(self.checkpoint)
        ends = checkpoint_log.end_offsets(self.checkpoint, committed)
        of_requests = ends.get(topics.full_name(self.prefix, topics.REQUESTS), {})
        rows = self.all_rows(topics.REQUESTS)
        return [row for row in rows if row.offset < of_requests.get(row.partition, 0)]

    def replayed(self, name: str, rows: Iterable[TopicRow]) -> list[Output]:
        """What one cell in this process gives for rows of the request topic."""
        cell = Cell(self.cell_settings(name))
        result: list[Output] = []
        for row in rows:
            if row.key == name.encode() and row.value is not None:
                result.extend(cell.handle(row.value, row.position))
        return result

    def assert_live_run_equals_replay(self, *cells: str, is_done: bool = True) -> None:
        """Every topic holds exactly the rows that one process gives, each in its order.

        Where the job is not done with all requests, only those of committed micro-batches count.
        """
        requests = self.all_rows(topics.REQUESTS) if is_done else self.taken()
        expected = [row for cell in cells for row in self.replayed(cell, requests)]
        names = {row.topic for row in expected} | {outputs.RESPONSES, outputs.DEAD_LETTERS}
        for name in names:
            written = self.rows(name)
            if name == topics.REQUESTS:  # clients and the clock write there, too
                written = [row for row in written if row.id.partition("/")[0] in cells]
            live = {(row.id, row.key, row.value) for row in written}
            alone = {(row.id, row.key, row.value) for row in expected if row.topic == name}
            assert (live - alone, alone - live) == (set(), set()), name
        partitions = {row.id: row.partition for row in self.rows(outputs.RESPONSES)}
        for row in expected:
            assert row.topic != outputs.RESPONSES or partitions[row.id] == row.partition


def capture(name: str, edge: JobEdge) -> list[Sendable]:
    """The events of a capture in order, those that the edge lets pass."""
    lines = gzip.decompress((CAPTURES / f"{name}.jsonl.gz").read_bytes()).splitlines()
    made = [edge.event(line, f"{name}.jsonl:{number}") for number, line in enumerate(lines, 1)]
    return by_time((name, event) for event in made if isinstance(event, Sendable))
