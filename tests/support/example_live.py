"""The checkpoint `checkpoints.example/live`: `python -m tests.support.example_live` writes it.

A live audit with `--key entity` of the first halves of two captures, which are its clusters. The
last of its micro-batches are in changelogs, the others in a RocksDB snapshot.
"""

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from confluent_kafka import Producer

from brokertwin.kafka_io import topics
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topics import TopicSpec
from brokertwin.settings import default_home, load
from brokertwin.streaming.job import session
from brokertwin.streaming.live import runner
from brokertwin.streaming.live.modes import KeyMode
from brokertwin.streaming.live.query import LiveQuery
from brokertwin.streaming.live.reading import TopicLine
from tests.support import audits
from tests.support.example_checkpoint import early_snapshots
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACE = ROOT / "checkpoints.example" / "live"
PREFIX, SOURCE = "example-live", "example-live-exchanges"
CLUSTERS = {"shop": "group_old_versions_kp", "bank": "txn_isolation"}
LATER_MS = 60_000


def halves() -> tuple[list[TopicLine], list[TopicLine]]:
    """The rows that the checkpoint has read, and those that follow.

    The last row of each cluster is so late that no other waits for more.
    """
    first: list[TopicLine] = []
    second: list[TopicLine] = []
    for cluster, recording in CLUSTERS.items():
        lines = audits.lines(*audits.RECORDINGS[recording])
        half = len(lines) // 2
        last = msgspec.json.decode(lines[-1])
        late = {**last, "id": "late", "time": last["time"] + LATER_MS, "connection": "late"}
        first += [TopicLine("", 0, line, cluster) for line in lines[:half]]
        rest = [*lines[half:], msgspec.json.encode(late)]
        second += [TopicLine("", 0, line, cluster) for line in rest]
    return first, second


def in_partitions(topic: str, lines: Iterable[TopicLine], partitions: int) -> list[TopicLine]:
    """Rows with their partition and offset in a topic; those of a cluster are in one partition."""
    ends: Counter[int] = Counter()
    topic_lines = []
    for line in lines:
        number = list(CLUSTERS).index(line.cluster) % partitions
        topic_lines.append(line._replace(source=f"{topic}/{number}", offset=ends[number]))
        ends[number] += 1
    return topic_lines


def send(client: ClientProperties, topic: str, lines: Iterable[TopicLine], partitions: int) -> None:
    admin = topics.admin_client(client)
    topics.create(admin, {topic: TopicSpec(topic, partitions)})
    topics.topic_id(admin, topic)
    writer = Producer(topics.writer_configuration(client))
    for line in in_partitions(topic, lines, partitions):
        number = int(line.source.rpartition("/")[2])
        headers: list[Any] = [("cluster", line.cluster.encode())]
        writer.produce(topic, line.value, partition=number, headers=headers)
    assert writer.flush(PATIENCE_S) == 0


class LiveExample:
    """The query of the checkpoint.

    `bootstrap`: a real broker.
    """

    def __init__(self, bootstrap: str, checkpoint: Path) -> None:
        self.client = ClientProperties({"bootstrap.servers": bootstrap})
        self.query = LiveQuery(
            self.client,
            PREFIX,
            {SOURCE: ""},
            checkpoint,
            KeyMode.ENTITY,
            "1 second",
            shuffle_partitions=1,
            rows_max=10_000,
            is_available_now=True,
        )

    def write(self, lines: Iterable[TopicLine]) -> None:
        send(self.client, SOURCE, lines, 1)

    def run(self, spark: "SparkSession") -> None:
        """Run the query over all new rows: one micro-batch."""
        with runner.prepared(self.query):
            runner.run(spark, self.query, None)


def write(place: Path) -> None:
    """Write the checkpoint of three micro-batches."""
    with tempfile.TemporaryDirectory() as directory, early_snapshots():
        kafka = EmbeddedKafka(Path(directory) / "kafka", default_home())
        try:
            example = LiveExample(kafka.start(), Path(directory) / "checkpoint")
            flags = {"master": "local[1]", "shuffle_partitions": 1}
            spark = session.spark_session(load(flags).settings)
            first, _ = halves()
            part = len(first) // 3 + 1
            for begin in range(0, len(first), part):
                example.write(first[begin : begin + part])
                example.run(spark)
                if begin:
                    wait_until(lambda: any(example.query.checkpoint.rglob("*.zip")))
            spark.stop()
        finally:
            kafka.stop()
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(example.query.checkpoint, place)


if __name__ == "__main__":
    write(PLACE)
