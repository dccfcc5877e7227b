"""The engines side by side: the same requests through one process and through Kafka and Spark.

    python bench/engines.py [--requests 60000] [--clusters 4]

Both run the same state machine on the same Produce requests of idempotent producers, spread over
the clusters. `cell` is the bare core in this process: no Kafka, nothing durable. `spark`
reads the requests from a real Kafka topic, keeps its state in RocksDB with a checkpoint, and writes
answers and records to Kafka; its time is that of the micro-batches, without starting Spark. A run
is valid only if both gave the same answers; otherwise no figure is printed.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from brokerstream.kafka_io import topics
from brokerstream.kafka_io.kafka_broker import EmbeddedKafka
from brokerstream.kafka_io.topic_reader import read_all, without_repeats
from brokerstream.kafka_io.topic_writer import NewRow, write_all
from brokerstream.settings import Settings, default_home, load
from brokerstream.state.cell.cell import Cell
from brokerstream.state.core.murmur2 import partition_of
from brokerstream.state.core.outputs import RESPONSES, Position
from brokerstream.state.core.settings import BrokerSettings, CellSettings
from brokerstream.streaming import runner
from brokerstream.streaming.session import spark_session

START = 1_700_000_000_000
PARTITIONS = 16
REQUESTS_PARTITIONS = 4


def request(cluster: str, number: int) -> bytes:
    """One Produce of one batch; producers and partitions take turns."""
    partition = number % PARTITIONS
    batch = {
        "baseOffset": 0,
        "lastOffsetDelta": 0,
        "recordCount": 1,
        "sizeInBytes": 100,
        "producerId": partition,
        "producerEpoch": 0,
        "baseSequence": number // PARTITIONS,
        "maxTimestamp": START + number,
    }
    produced = {"name": "orders", "partitionData": [{"index": partition, "batches": [batch]}]}
    return event(cluster, number + 1, 0, 11, {"acks": -1, "topicData": [produced]})


def event(cluster: str, number: int, key: int, version: int, body: dict[str, Any]) -> bytes:
    """An event as an edge writes it."""
    header = {"requestApiKey": key, "requestApiVersion": version, "clientId": "bench"}
    return msgspec.json.encode(
        {
            "id": f"{cluster}-{number}",
            "cluster": cluster,
            "broker": 1,
            "time": START + number,
            "connection": "c1",
            "nonce": f"{cluster}-{number}",
            "requestHeader": {**header, "correlationId": number},
            "request": body,
        }
    )


def documents(clusters: list[str], requests: int) -> dict[str, list[bytes]]:
    """The events of each cluster: a topic is created, then the batches are produced."""
    topic = {"name": "orders", "numPartitions": PARTITIONS, "replicationFactor": 1}
    each = requests // len(clusters)
    return {
        cluster: [
            event(cluster, 0, 19, 7, {"topics": [topic], "timeoutMs": 1000}),
            *(request(cluster, number) for number in range(each)),
        ]
        for cluster in clusters
    }


def run_cells(events: dict[str, list[bytes]]) -> tuple[float, dict[str, bytes | None]]:
    """Seconds and answers of the bare core."""
    answers = {}
    started = time.perf_counter()
    for cluster, its_events in events.items():
        cell = Cell(CellSettings(name=cluster, cluster=cluster, event_time="recorded"))
        for offset, document in enumerate(its_events):
            for row in cell.handle(document, Position(0, offset)):
                if row.topic == RESPONSES:
                    answers[row.id] = row.value
    return time.perf_counter() - started, answers


def run_spark(
    events: dict[str, list[bytes]], settings: Settings
) -> tuple[float, dict[str, bytes | None]]:
    """Seconds of the micro-batches, and answers, of the job."""
    batches: list[runner.Progress] = []
    with runner.prepared(settings, BrokerSettings()) as job:
        send(job, events)
        session = spark_session(settings)
        try:
            stop = runner.Stop(settings.stop_timeout_s)
            runner.run(job, stop, True, batches.append, session)
        finally:
            session.stop()
        rows = read_all(job.client, topics.full_name(settings.prefix, RESPONSES))
        answers = {row.id: row.value for row in without_repeats(rows)}
    for batch in batches:
        print(f"  micro-batch {batch.batch}: {batch.events:,} requests in {batch.seconds:.2f} s")
    return sum(batch.seconds for batch in batches), answers


def send(job: Any, events: dict[str, list[bytes]]) -> None:
    """Every event into the partition of its cell."""
    for cluster, its_events in events.items():
        partition = partition_of(cluster.encode(), job.settings.requests_partitions)
        rows = (NewRow(cluster, document, partition) for document in its_events)
        write_all(job.client, topics.full_name(job.settings.prefix, topics.REQUESTS), rows)


def main() -> int:
    """Runs both and prints requests a second and their ratio."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--requests", type=int, default=60_000)
    options.add_argument("--clusters", type=int, default=4)
    options.add_argument("--batch", type=int, default=20_000, help="requests in a micro-batch")
    given = options.parse_args()
    clusters = [f"c{number}" for number in range(given.clusters)]
    events = documents(clusters, given.requests)
    total = sum(map(len, events.values()))
    cell_seconds, expected = run_cells(events)
    with tempfile.TemporaryDirectory(prefix="brokerstream-bench-") as directory:
        kafka = EmbeddedKafka(Path(directory) / "kafka", default_home())
        try:
            flags = {
                "bootstrap": kafka.start(),
                "prefix": "bench",
                "checkpoint": Path(directory) / "checkpoint",
                "clusters": tuple(clusters),
                "event_time": "recorded",
                "requests_partitions": REQUESTS_PARTITIONS,
                "max_offsets_per_trigger": given.batch,
            }
            settings = load(flags).settings
            spark_seconds, got = run_spark(events, settings)
        finally:
            kafka.stop()
    if got != expected:
        print("the answers differ: no figures", file=sys.stderr)
        return 1
    print(f"cell   {total / cell_seconds:10,.0f} requests/s")
    print(f"spark  {total / spark_seconds:10,.0f} requests/s")
    print(f"spark / cell {cell_seconds / spark_seconds:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
