"""The live audit with many active entities: seconds of a micro-batch by key mode.

    python bench/live_spark.py [--entities 1000 10000] [--modes entity bucket] [--rounds 4]

Each round is what fetch sessions do between two triggers: every session fetches twice. Sessions are
of 100 consumers each by client id, on three brokers. A round is one micro-batch
(`maxOffsetsPerTrigger`); the first two are not counted. With `--share 0.01` the last two rounds
touch only that share of the sessions, and `changelog` is the size of the changelog files that these
micro-batches wrote.
"""

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from confluent_kafka import Producer

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
    """Progress of the micro-batches, and sizes of the changelogs by micro-batch in bytes."""

    batches: list[LiveProgress]
    changelogs: dict[int, int]


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


def rounds(sessions: int, count: int, share: float) -> Iterator[list[bytes]]:
    """The documents of each round, the same number in each but for the last two."""
    for number in range(count):
        active = sessions if number < count - 2 else max(1, int(sessions * share))
        time = START + number * 2 * INTERVAL_MS
        yield [
            fetch(session, 2 * number + half, time + half * INTERVAL_MS + session % INTERVAL_MS)
            for half in (0, 1)
            for session in range(1, active + 1)
        ]


def measure(bootstrap: str, entities: int, mode: KeyMode, count: int, share: float) -> Measured:
    """Run the query over all rounds, each a micro-batch."""
    client = ClientProperties({"bootstrap.servers": bootstrap})
    prefix = f"bench-{mode}-{entities}"
    source = f"{prefix}.{SOURCE}"
    topics.create(topics.admin_client(client), {source: TopicSpec(source, 2)})
    writer = Producer(topics.writer_configuration(client))
    session = spark_session(load({"master": "local[2]", "shuffle_partitions": 2}).settings)
    batches: list[LiveProgress] = []
    with tempfile.TemporaryDirectory() as directory:
        checkpoint = Path(directory) / "checkpoint"
        for number, documents in enumerate(rounds(entities, count, share)):
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
                runner.run(session, query, None, observe=batches.append)
            for each in batches[number:]:
                _show_batch(each)
        return Measured(batches, changelogs(checkpoint))


def changelogs(checkpoint: Path) -> dict[int, int]:
    """Bytes of the changelog files by version of the state."""
    found: dict[int, int] = {}
    for path in (checkpoint / "state").glob("0/*/*.changelog"):
        version = int(path.name.split(".")[0].split("_")[0])
        found[version] = found.get(version, 0) + path.stat().st_size
    return found


def _show_batch(each: LiveProgress) -> None:
    add = each.durations_ms.get("addBatch", 0)
    print(
        f"  batch {each.batch}: {each.rows:,} rows, {each.entities:,} state rows,"
        f" {each.seconds:.2f} s, addBatch {add / 1000:.2f} s,"
        f" {1000 * each.rows / max(add, 1):,.0f} rows/s",
        flush=True,
    )


def main() -> None:
    """Print a line for each mode and number of entities."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entities", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--modes", type=KeyMode, nargs="+", default=list(KeyMode))
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--bootstrap", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        broker = EmbeddedKafka(Path(directory), default_home())
        bootstrap = options.bootstrap or broker.start()
        try:
            for entities in options.entities:
                for mode in options.modes:
                    found = measure(bootstrap, entities, mode, options.rounds, options.share)
                    _show(entities, mode, found)
        finally:
            if not options.bootstrap:
                broker.stop()


def _show(entities: int, mode: KeyMode, found: Measured) -> None:
    print(f"{mode} {entities:,} sessions")
    warm = [each for each in found.batches[2:] if each.rows]
    if warm:
        median = statistics.median(each.seconds for each in warm)
        print(f"  median {median:.2f} s, {1000 * median / entities:.2f} ms for each session")
    print(f"  changelog bytes by micro-batch: {found.changelogs}", flush=True)


if __name__ == "__main__":
    main()
