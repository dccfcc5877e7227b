"""The live audit with many active entities: seconds of a micro-batch by key mode.

    python bench/live_spark.py [--entities 1000 10000] [--modes entity bucket] [--rounds 4]

Each round is what fetch sessions do between two triggers of ten seconds: every session fetches
twice. `--fetches 12` is a trigger of a minute. A client id has 100 sessions, on three brokers. A
round is one micro-batch; the first two are not counted. With `--share 0.01` the last two rounds
touch only that share of the sessions.

`CPU` is the processor time of the JVM and of all Python workers, which depends less on other load
than the duration. `changelog` is the size of the files that a micro-batch wrote to the state store.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from confluent_kafka import Producer
from spark_time import spark_time

from brokertwin.kafka_io import topics
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topics import TopicSpec
from brokertwin.settings import default_home, load
from brokertwin.streaming.job.session import spark_session
from brokertwin.streaming.live import runner
from brokertwin.streaming.live.modes import KeyMode
from brokertwin.streaming.live.query import LiveQuery
from brokertwin.streaming.live.runner import LiveProgress

START = 1_795_000_000_000
INTERVAL_MS = 5_000
OF_CLIENT = 100
BROKERS = 3
SOURCE = "exchanges"


class Measured(NamedTuple):
    """A micro-batch: its progress, processor time in seconds, and bytes of the changelog."""

    progress: LiveProgress
    cpu_s: float
    changelog: int


def fetch(session: int, epoch: int, time: int) -> bytes:
    """A fetch of a session as a captured document."""
    header = {
        "requestApiKey": 1,
        "requestApiVersion": 13,
        "correlationId": epoch,
        "clientId": f"consumer-{session // OF_CLIENT}",
    }
    request = {
        "replicaId": -1,
        "sessionId": session if epoch else 0,
        "sessionEpoch": epoch,
        "topics": [],
        "forgottenTopicsData": [],
    }
    response = {"throttleTimeMs": 0, "errorCode": 0, "sessionId": session, "responses": []}
    return msgspec.json.encode(
        {
            "id": f"{session}-{epoch}",
            "broker": session % BROKERS + 1,
            "time": time,
            "connection": f"c{session}",
            "requestHeader": header,
            "request": request,
            "response": response,
            "responseTime": 1.0,
        }
    )


def rounds(sessions: int, count: int, fetches: int, share: float) -> Iterator[list[bytes]]:
    """The documents of each round, the same number in each but for the last two."""
    for number in range(count):
        active = sessions if number < count - 2 else max(1, int(sessions * share))
        yield [
            fetch(session, epoch, START + epoch * INTERVAL_MS + session % INTERVAL_MS)
            for epoch in range(number * fetches, (number + 1) * fetches)
            for session in range(1, active + 1)
        ]


def measure(
    bootstrap: str, entities: int, mode: KeyMode, options: argparse.Namespace
) -> Iterator[Measured]:
    """Run the query over all rounds, each a micro-batch."""
    client = ClientProperties({"bootstrap.servers": bootstrap})
    prefix = f"bench-{time.time_ns()}"
    source = f"{prefix}.{SOURCE}"
    topics.create(topics.admin_client(client), {source: TopicSpec(source, 2)})
    writer = Producer(topics.writer_configuration(client))
    session = spark_session(load({"master": options.master, "shuffle_partitions": 2}).settings)
    with tempfile.TemporaryDirectory() as directory:
        checkpoint = Path(directory) / "checkpoint"
        made = rounds(entities, options.rounds, options.fetches, options.share)
        for number, documents in enumerate(made):
            for place, document in enumerate(documents):
                writer.produce(source, document, partition=place % 2)
                writer.poll(0)
            writer.flush()
            query = LiveQuery(
                client,
                prefix,
                {source: "bench"},
                checkpoint,
                mode,
                "10 seconds",
                shuffle_partitions=2,
                rows_max=10_000_000,
                is_available_now=True,
            )
            with runner.prepared(query):
                batches: list[LiveProgress] = []
                begun = _cpu_s()
                runner.run(session, query, None, observe=batches.append)
                (batch,) = batches
                yield Measured(batch, _cpu_s() - begun, changelogs(checkpoint)[number + 1])


def _cpu_s() -> float:
    return sum(spark_time().values()) + time.process_time()


def changelogs(checkpoint: Path) -> dict[int, int]:
    """Bytes of the changelog files by version of the state."""
    sizes: dict[int, int] = {}
    for path in (checkpoint / "state").glob("0/*/*.changelog"):
        version = int(path.name.split(".")[0].split("_")[0])
        sizes[version] = sizes.get(version, 0) + path.stat().st_size
    return sizes


def main() -> None:
    """Print a line for each mode and number of entities."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--modes", type=KeyMode, nargs="+", default=list(KeyMode))
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--fetches", type=int, default=2)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--bootstrap", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        broker = EmbeddedKafka(Path(directory), default_home())
        bootstrap = options.bootstrap or broker.start()
        try:
            for entities in options.entities:
                for mode in options.modes:
                    print(f"{mode}, {entities:,} sessions", flush=True)
                    _show(entities, measure(bootstrap, entities, mode, options))
        finally:
            if not options.bootstrap:
                broker.stop()


def _show(entities: int, found: Iterator[Measured]) -> None:
    kept = []
    for number, (progress, cpu_s, changelog) in enumerate(found):
        print(
            f"  batch {progress.batch}: {progress.rows:,} rows, {progress.entities:,} state rows,"
            f" {progress.seconds:.2f} s, CPU {cpu_s:.2f} s, changelog {changelog:,} bytes",
            flush=True,
        )
        if number > 1:
            kept.append((progress.seconds, cpu_s))
    seconds, cpu_s = (statistics.median(each) for each in zip(*kept, strict=True))
    per_session = f"{1000 * cpu_s / entities:.2f} ms CPU for each session"
    print(f"  median {seconds:.2f} s, CPU {cpu_s:.2f} s, {per_session}", flush=True)


if __name__ == "__main__":
    main()
