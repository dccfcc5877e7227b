"""The job next to other stream processors, with the same requests.

    python bench/job.py [--requests 200000] [--clusters 16] [--engine job python ...]

Produce requests of idempotent producers, some repeated and some out of order. Each engine reads
them from the same topic of a real Kafka broker and writes to its own topic:

- `jvm`: Spark without Python, a row out for each row in;
- `python`: Spark and `mapInPandas`, a row out for each row in: the cost of PySpark itself;
- `tuned`: the same with the source and sink options of the job (`max.poll.records`, `linger.ms`);
- `job`: brokertwin's, a response for each request, state in RocksDB;
- `records`: the same with `--records`, a response and a record for each request;
- `packed`: the same as `job` with `send --pack 20`;
- `loop`: the same core in one process, nothing durable;
- `quix`, `bytewax`, `flink`: only the check of a producer's last five batches, with
  Quix Streams, Bytewax and PyFlink, on two cores and with state on disk (`bench/peers`). Their
  packages are installed into `build/peers` on first use.

The rate counts rows after the first fifth, which warms up, by their timestamps in Kafka. Processor
time of these rows is that of Spark's processes and of Kafka, where the sink's options save most.
Spark's engines share a JVM that becomes faster, so compare them in several orders (`--engine`).
Nothing is printed unless all deciding engines agree on the error and offset of each request.
"""

import argparse
import hashlib
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import processors
import psutil
from produced import PARTITIONS, REQUESTS_PARTITIONS, request, topic
from rich.progress import Progress
from spark_time import spark_time

from brokertwin.kafka_io import topics
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.kafka_io.kafka_clients import ClientProperties, client_properties
from brokertwin.kafka_io.topic_reader import (
    TopicRow,
    consumer,
    end_offsets,
    read_all,
    without_repeats,
)
from brokertwin.settings import Settings, default_home, load
from brokertwin.sinks.topic_writer import NewRow, in_packs, write_all
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.murmur2 import partition_of
from brokertwin.state.core.outputs import RESPONSES
from brokertwin.state.core.settings import BrokerSettings, CellSettings
from brokertwin.streaming.job import runner
from brokertwin.streaming.job.job import SINK
from brokertwin.streaming.job.session import SOURCE, spark_session

WARM_UP = 0.2
REPEATED, AHEAD = 50, 97
"""Every 50th request repeats its producer's last batch; every 97th skips some."""

PLAIN = ("jvm", "python", "tuned")
JOBS = ("job", "records", "packed")
"""Each has its own topics; other engines read the first one's."""

PACK = {"packed": 20}
"""Events in a row of `requests`."""

REQUESTS = topics.full_name("job", topics.REQUESTS)
STAMPED = {"message.timestamp.type": "LogAppendTime"}
"""Quix Streams copies the timestamp of the input row."""

SPENT_POLL_S = 0.2
POLL_S, LIMIT_S = 0.5, 600.0
"""Poll interval, and the limit after which an engine is stopped."""


@dataclass(frozen=True)
class JobBed:
    """What all engines share.

    Attributes:
        settings: of the jobs, by engine.
        clusters: their names, which are the keys of the requests.
        requests: the total number of Produces.
        directory: for an engine's files.
    """

    settings: dict[str, Settings]
    clusters: tuple[str, ...]
    requests: int
    directory: Path

    def topic(self, engine: str) -> str:
        return topics.full_name(engine, RESPONSES) if engine in JOBS else f"bench.{engine}"

    @property
    def bootstrap(self) -> str:
        """Kafka's address."""
        return self.settings["job"].bootstrap or ""

    @property
    def client(self) -> ClientProperties:
        return client_properties(self.settings["job"])


@dataclass(frozen=True)
class JobMeasured:
    """Measures of an engine.

    Attributes:
        rate: rows per second after the warm-up.
        spent_us: processor time for a row in µs, of Spark and Kafka; None without Spark.
        answers: a hash of its responses.
    """

    engine: str
    rate: float
    spent_us: float | None
    answers: str


class SpentTime:
    """Processor time of Spark and Kafka, read from time to time while an engine runs."""

    def __init__(self) -> None:
        self._at: list[float] = []
        self._spent: list[float] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> "SpentTime":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def between(self, begin: float, end: float) -> float:
        """Return the processor time in seconds between two times in seconds since the epoch."""
        first, last = np.interp([begin, end], self._at, self._spent)
        return float(last - first)

    def _follow(self) -> None:
        while not self._is_over.wait(SPENT_POLL_S):
            self._at.append(time.time())
            self._spent.append(sum(spark_time().values()) + kafka_time())


def kafka_time() -> float:
    """Return the processor time of the Kafka broker below this process, in seconds."""
    (kafka,) = (each for each in psutil.Process().children() if "kafka.Kafka" in each.cmdline())
    times = kafka.cpu_times()
    return times.user + times.system


def documents(cluster: str, requests: int) -> Iterator[bytes]:
    """Yield a cluster's events: topic creation, then Produces in turn."""
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


def send(bed: JobBed, engine: str) -> None:
    """Write every event to its cluster's partition, clusters in turn."""
    each = [documents(name, bed.requests // len(bed.clusters)) for name in bed.clusters]
    rows = (
        NewRow(name, document, partition_of(name.encode(), REQUESTS_PARTITIONS))
        for together in zip(*each, strict=True)
        for name, document in zip(bed.clusters, together, strict=True)
    )
    settings = bed.settings[engine]
    packs = in_packs(rows, PACK.get(engine, 1))
    with runner.prepared(settings, BrokerSettings()) as job:
        write_all(job.client, topics.full_name(settings.prefix, topics.REQUESTS), packs)


# Spark


def run_job(bed: JobBed, engine: str) -> None:
    settings = bed.settings[engine]
    session = spark_session(settings)
    with runner.prepared(settings, BrokerSettings()) as job:
        runner.run(job, runner.StopReason(settings.stop_timeout_s), True, session=session)


def run_plain(bed: JobBed, engine: str) -> None:
    """Run Spark with the job's source, sink and micro-batches around no or trivial Python."""
    kafka = bed.client.for_spark()
    rows = (
        spark_session(bed.settings["job"])
        .readStream.format("kafka")
        .options(**kafka, **(SOURCE if engine == "tuned" else {}))
        .option("subscribe", REQUESTS)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", bed.settings["job"].max_offsets_per_trigger)
        .load()
        .select("key", "value")
    )
    if engine != "jvm":
        rows = rows.mapInPandas(lambda frames: frames, "key BINARY, value BINARY")
    query = (
        rows.writeStream.format("kafka")
        .options(**kafka, **(SINK if engine == "tuned" else {}))
        .option("topic", bed.topic(engine))
        .option("checkpointLocation", str(bed.directory / engine))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


# Without Spark


def run_loop(bed: JobBed) -> None:
    """Run the core between a consumer and a producer."""
    cells = {
        name.encode(): Cell(CellSettings(name=name, cluster=name, event_time="recorded"))
        for name in bed.clusters
    }
    rows = (
        NewRow(row.key.decode(), out.value or b"", row.partition, out.id)
        for row in read_all(bed.client, REQUESTS)
        if row.key is not None and row.value is not None
        for out in cells[row.key].handle(row.value, row.position)
        if out.topic == RESPONSES
    )
    write_all(bed.client, bed.topic("loop"), rows)


def run_peer(bed: JobBed, engine: str) -> None:
    """Run another processor's processes until all responses are written."""
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
    return sum(end_offsets(reader, topic, REQUESTS_PARTITIONS).values())


RUNS: dict[str, Callable[[JobBed], None]] = {
    **{name: partial(run_plain, engine=name) for name in PLAIN},
    **{name: partial(run_job, engine=name) for name in JOBS},
    "loop": run_loop,
    **{name: partial(run_peer, engine=name) for name in processors.COMMANDS},
}
DECIDING = (*JOBS, "loop", *processors.COMMANDS)


# # Results


def measured(bed: JobBed, engine: str, spent: SpentTime | None) -> JobMeasured:
    """Return an engine's rate, processor time, and the hash of its responses."""
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
    count = len(times) - warm
    spent_us = None
    if spent is not None:
        spent_us = spent.between(times[warm] / 1000, times[-1] / 1000) / count * 1e6
    return JobMeasured(engine, count / seconds, spent_us, answers)


def rows_of(bed: JobBed, engine: str) -> list[TopicRow]:
    """Return an engine's rows; the job's without repeats, by their header."""
    rows = read_all(bed.client, bed.topic(engine))
    return list(without_repeats(rows) if engine in JOBS else rows)


def answer_of(row: TopicRow) -> tuple[str, int, int] | None:
    """Return id, error and offset of a Produce response, otherwise None."""
    document = msgspec.json.decode(row.value or b"{}")
    if "errorCode" in document:
        return document["id"], document["errorCode"], document["baseOffset"]
    response = document["response"]
    if "responses" not in response:
        return None
    answered = response["responses"][0]["partitionResponses"][0]
    return document["id"], answered["errorCode"], answered["baseOffset"]


def measure(given: argparse.Namespace, directory: Path, bootstrap: str) -> list[JobMeasured]:
    """Send the requests and run the engines in turn."""
    clusters = tuple(f"c{number}" for number in range(given.clusters))
    flags = {
        "bootstrap": bootstrap,
        "clusters": clusters,
        "event_time": "recorded",
        "requests_partitions": REQUESTS_PARTITIONS,
        "responses_partitions": REQUESTS_PARTITIONS,
    }
    jobs = {
        name: {
            **flags,
            "prefix": name,
            "checkpoint": directory / f"{name}-state",
            "records": name == "records",
            "max_offsets_per_trigger": given.batch // PACK.get(name, 1),
        }
        for name in JOBS
    }
    settings = {name: load(each).settings for name, each in jobs.items()}
    bed = JobBed(settings, clusters, given.requests, directory)
    for name in ["job", *(each for each in given.engine if each in JOBS[1:])]:
        send(bed, name)
    others = [bed.topic(engine) for engine in given.engine if engine not in JOBS]
    wanted = {name: topics.TopicSpec(name, REQUESTS_PARTITIONS, STAMPED) for name in others}
    topics.create(topics.admin_client(bed.client), wanted)
    found = []
    with Progress() as progress:
        for engine in progress.track(given.engine, description="engines"):
            spent = None
            if engine in (*PLAIN, *JOBS):
                spark_session(bed.settings["job"])
                spent = SpentTime()
            with spent or nullcontext():
                RUNS[engine](bed)
            found.append(measured(bed, engine, spent))
    return found


def table(rows: list[JobMeasured]) -> None:
    """Print the measures; the processor time also relative to that of PySpark alone."""
    alone = {each.engine: each.spent_us for each in rows}
    print(f"{'engine':10}{'rows/s':>10}{'us/row':>10}{'python/':>10}{'tuned/':>10}  answers")
    for each in rows:
        shares = [share(alone.get(name), each.spent_us) for name in ("python", "tuned")]
        spent = "-" if each.spent_us is None else f"{each.spent_us:.1f}"
        columns = "".join(f"{text:>10}" for text in (f"{each.rate:,.0f}", spent, *shares))
        print(f"{each.engine:10}{columns}  {each.answers or '-'}")


def share(alone: float | None, spent: float | None) -> str:
    """Return a baseline's processor time divided by that of an engine."""
    return f"{alone / spent:.2f}" if alone and spent else "-"


def main() -> int:
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
