"""The job beside other stream processors: the same requests, from topic to topic.

    python bench/job.py [--requests 200000] [--clusters 16] [--engine job python ...]

Produce requests of idempotent producers, some of them repeated and some out of order. Each engine
reads them from the same topic of a real Kafka and writes to a topic of its own:

- `jvm`: Spark without Python, a row out for each row in;
- `python`: Spark and `mapInPandas`, a row out for each row in: what PySpark itself costs;
- `job`: brokertwin's, a response for each request, state in RocksDB;
- `records`: the same with `--records`, a response and a record for each request;
- `loop`: the same core in one process, nothing durable;
- `quix`, `bytewax`, `flink`: the check of a producer's last five batches, and nothing else, with
  Quix Streams, Bytewax and PyFlink, on two cores and with state on disk (`bench/peers`). Their
  packages come into `build/peers` when they are first asked for.

The rate is that of the rows written after the first fifth, in which engines warm up, by the times
that Kafka has of them. Nothing is printed unless all that decide answer alike: of each request the
error and the offset.
"""

import argparse
import hashlib
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import processors
from produced import PARTITIONS, REQUESTS_PARTITIONS, request, topic
from rich.progress import Progress

from brokertwin.kafka_io import topics
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.kafka_io.kafka_clients import ClientProperties, client_properties
from brokertwin.kafka_io.topic_reader import (
    Row,
    consumer,
    end_offsets,
    read_all,
    without_repeats,
)
from brokertwin.kafka_io.topic_writer import NewRow, write_all
from brokertwin.settings import Settings, default_home, load
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.murmur2 import partition_of
from brokertwin.state.core.outputs import RESPONSES, Position
from brokertwin.state.core.settings import BrokerSettings, CellSettings
from brokertwin.streaming.job import runner
from brokertwin.streaming.job.session import spark_session

WARM_UP = 0.2
REPEATED, AHEAD = 50, 97
"""Each so manieth request repeats its producer's last batch, or leaves some out."""

JOBS = {"job": False, "records": True}
"""Whether they write records. Each has topics of its own; the others read the first one's."""

REQUESTS = topics.full_name("job", topics.REQUESTS)
STAMPED = {"message.timestamp.type": "LogAppendTime"}
"""Quix Streams gives a row out the time of the row in."""

POLL_S, LIMIT_S = 0.5, 600.0
"""An engine that takes longer is given up."""


@dataclass(frozen=True)
class Bed:
    """What all engines are given.

    Attributes:
        settings: of the jobs, by engine.
        clusters: their names, which are the keys of the requests.
        requests: how many Produces there are in all.
        directory: for what an engine keeps.
    """

    settings: dict[str, Settings]
    clusters: tuple[str, ...]
    requests: int
    directory: Path

    def topic(self, engine: str) -> str:
        """Where an engine's rows go."""
        return topics.full_name(engine, RESPONSES) if engine in JOBS else f"bench.{engine}"

    @property
    def bootstrap(self) -> str:
        """Kafka's address."""
        return self.settings["job"].bootstrap or ""

    @property
    def client(self) -> ClientProperties:
        """How Kafka is reached."""
        return client_properties(self.settings["job"])


@dataclass(frozen=True)
class Measured:
    """What an engine has done: rows a second behind the warm-up, and a hash of its answers."""

    engine: str
    rate: float
    answers: str


def documents(cluster: str, requests: int) -> Iterator[bytes]:
    """A cluster's events: a topic, then batches; producers take turns."""
    yield topic(cluster)
    following = [0] * PARTITIONS
    for number in range(requests):
        producer = number % PARTITIONS
        sequence = following[producer]
        if number % REPEATED == REPEATED - 1 and sequence:
            sequence -= 1
        elif number % AHEAD == AHEAD - 1:
            sequence += 7
        else:
            following[producer] += 1
        yield request(cluster, number, sequence)


def send(bed: Bed, engine: str) -> None:
    """Every event into its cluster's partition, clusters in turn."""
    each = [documents(name, bed.requests // len(bed.clusters)) for name in bed.clusters]
    rows = (
        NewRow(name, document, partition_of(name.encode(), REQUESTS_PARTITIONS))
        for together in zip(*each, strict=True)
        for name, document in zip(bed.clusters, together, strict=True)
    )
    settings = bed.settings[engine]
    with runner.prepared(settings, BrokerSettings()) as job:
        write_all(job.client, topics.full_name(settings.prefix, topics.REQUESTS), rows)


# Spark


def run_job(bed: Bed, engine: str) -> None:
    """The job, to the end of the requests."""
    settings = bed.settings[engine]
    session = spark_session(settings)
    with runner.prepared(settings, BrokerSettings()) as job:
        runner.run(job, runner.Stop(settings.stop_timeout_s), True, session=session)


def run_plain(bed: Bed, engine: str) -> None:
    """Spark with the job's source, sink and micro-batches, and nothing in between, or Python."""
    kafka = bed.client.for_spark()
    rows = (
        spark_session(bed.settings["job"])
        .readStream.format("kafka")
        .options(**kafka)
        .option("subscribe", REQUESTS)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", bed.settings["job"].max_offsets_per_trigger)
        .load()
        .select("key", "value")
    )
    if engine == "python":
        rows = rows.mapInPandas(lambda frames: frames, "key BINARY, value BINARY")
    query = (
        rows.writeStream.format("kafka")
        .options(**kafka)
        .option("topic", bed.topic(engine))
        .option("checkpointLocation", str(bed.directory / engine))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


# Without Spark


def run_loop(bed: Bed) -> None:
    """The core between a consumer and a producer."""
    cells = {
        name.encode(): Cell(CellSettings(name=name, cluster=name, event_time="recorded"))
        for name in bed.clusters
    }
    rows = (
        NewRow(row.key.decode(), out.value or b"", row.partition, out.id)
        for row in read_all(bed.client, REQUESTS)
        if row.key is not None and row.value is not None
        for out in cells[row.key].handle(row.value, Position(row.partition, row.offset))
        if out.topic == RESPONSES
    )
    write_all(bed.client, bed.topic("loop"), rows)


def run_peer(bed: Bed, engine: str) -> None:
    """Another processor's processes, until all answers are there."""
    directory = bed.directory / engine
    directory.mkdir()
    peer = processors.Peer(engine, bed.bootstrap, REQUESTS, bed.topic(engine), directory)
    with peer.running() as said, closing(consumer(bed.client)) as reader:
        until = time.monotonic() + LIMIT_S
        while written(reader, bed.topic(engine)) < bed.requests:
            if time.monotonic() > until or peer.has_ended:
                raise RuntimeError(f"{engine} did not come to its end:\n{said()}")
            time.sleep(POLL_S)


def written(reader: Any, topic: str) -> int:
    """How many rows a topic has."""
    return sum(end_offsets(reader, topic, REQUESTS_PARTITIONS).values())


RUNS: dict[str, Callable[[Bed], None]] = {
    "jvm": lambda bed: run_plain(bed, "jvm"),
    "python": lambda bed: run_plain(bed, "python"),
    "job": lambda bed: run_job(bed, "job"),
    "records": lambda bed: run_job(bed, "records"),
    "loop": run_loop,
    **{name: partial(run_peer, engine=name) for name in processors.COMMANDS},
}
DECIDING = (*JOBS, "loop", *processors.COMMANDS)


# What came out


def measured(bed: Bed, engine: str) -> Measured:
    """The rate of an engine's rows and the hash of its answers."""
    rows = rows_of(bed, engine)
    times = sorted(row.timestamp for row in rows)
    warm = int(len(times) * WARM_UP)
    seconds = (times[-1] - times[warm]) / 1000
    answers = ""
    if engine in DECIDING:
        lines = sorted(filter(None, map(answer_of, rows)))
        if len(lines) != bed.requests:
            raise RuntimeError(f"{engine}: {len(lines):,} answers to {bed.requests:,} requests")
        answers = hashlib.sha256(repr(lines).encode()).hexdigest()[:8]
    return Measured(engine, (len(times) - warm) / seconds, answers)


def rows_of(bed: Bed, engine: str) -> list[Row]:
    """An engine's rows; the job's once each, by their header."""
    rows = read_all(bed.client, bed.topic(engine))
    return list(without_repeats(rows) if engine in JOBS else rows)


def answer_of(row: Row) -> tuple[str, int, int] | None:
    """The id, error and offset in an answer; None for that of another request."""
    found = msgspec.json.decode(row.value or b"{}")
    if "errorCode" in found:
        return found["id"], found["errorCode"], found["baseOffset"]
    response = found["response"]
    if "responses" not in response:
        return None
    answered = response["responses"][0]["partitionResponses"][0]
    return found["id"], answered["errorCode"], answered["baseOffset"]


def measure(given: argparse.Namespace, directory: Path, bootstrap: str) -> list[Measured]:
    """Sends the requests and has the engines take turns."""
    clusters = tuple(f"c{number}" for number in range(given.clusters))
    flags = {
        "bootstrap": bootstrap,
        "clusters": clusters,
        "event_time": "recorded",
        "requests_partitions": REQUESTS_PARTITIONS,
        "responses_partitions": REQUESTS_PARTITIONS,
        "max_offsets_per_trigger": given.batch,
    }
    jobs = {
        name: {**flags, "prefix": name, "checkpoint": directory / f"{name}-state", "records": on}
        for name, on in JOBS.items()
    }
    settings = {name: load(each).settings for name, each in jobs.items()}
    bed = Bed(settings, clusters, given.requests, directory)
    for name in ["job", *(each for each in given.engine if each == "records")]:
        send(bed, name)
    others = [bed.topic(engine) for engine in given.engine if engine not in JOBS]
    wanted = {name: topics.TopicSpec(name, REQUESTS_PARTITIONS, STAMPED) for name in others}
    topics.create(topics.admin_client(bed.client), wanted)
    found = []
    with Progress() as progress:
        for engine in progress.track(given.engine, description="engines"):
            RUNS[engine](bed)
            found.append(measured(bed, engine))
    return found


def table(found: list[Measured]) -> None:
    """Prints the rates, beside that of PySpark alone."""
    alone = next((each.rate for each in found if each.engine == "python"), None)
    print(f"{'engine':10}{'rows/s':>10}{'of python':>12}  answers")
    for each in found:
        share = f"{each.rate / alone:.2f}" if alone else "-"
        print(f"{each.engine:10}{each.rate:>10,.0f}{share:>12}  {each.answers or '-'}")


def main() -> int:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--clusters", type=int, default=16)
    parser.add_argument("--batch", type=int, default=40_000, help="requests in a micro-batch")
    parser.add_argument("--engine", choices=RUNS, nargs="+", default=list(RUNS))
    given = parser.parse_args()
    given.requests -= given.requests % given.clusters
    with tempfile.TemporaryDirectory(prefix="brokertwin-bench-") as directory:
        kafka = EmbeddedKafka(Path(directory) / "kafka", default_home())
        try:
            found = measure(given, Path(directory), kafka.start())
        finally:
            kafka.stop()
    if len({each.answers for each in found if each.answers}) > 1:
        print(f"the answers differ, no figures: {found}", file=sys.stderr)
        return 1
    table(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
