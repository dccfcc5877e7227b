"""The duration of a micro-batch with one fetch in a large session.

    python bench/fetch_sessions_spark.py [--sizes 10 1000 10000] [--changed 5] [--rounds 20]

`fetch_sessions.py` with Kafka and Spark: each round is a Produce to the changed partitions and an
incremental Fetch, in one micro-batch (`maxOffsetsPerTrigger` 2). The cell always has as many
partitions as the largest session. Times are medians of Spark's `triggerExecution` in ms without the
first round; `state` is the size of the cell's state row. A run is valid only if every response
equals that of one process, byte for byte; otherwise no figure is printed.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fetch_sessions import SessionBed, SessionPartition, answer_row

from brokertwin.kafka_io import topics
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.kafka_io.topic_reader import read_all, without_repeats
from brokertwin.kafka_io.topic_writer import NewRow, write_all
from brokertwin.settings import default_home, load
from brokertwin.state.core.murmur2 import partition_of
from brokertwin.state.core.outputs import RESPONSES, Position
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.streaming.job import runner
from brokertwin.streaming.job.measures import QueryProgress
from brokertwin.streaming.job.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTER = "bench"
EVENTS_OF_ROUND = 2
ALL = 100_000


class SparkMeasured(NamedTuple):
    """Median times of rounds in ms, and the size of the state in bytes."""

    milliseconds: float
    state_bytes: int


class RecordedBed(SessionBed):
    """A cell that records its events and responses."""

    def __init__(self, size: int, total: int) -> None:
        self.documents: list[bytes] = []
        self.answers: list[bytes] = []
        super().__init__(size, total)

    def _handle(self, event: bytes) -> tuple[dict[str, object], int]:
        self.documents.append(event)
        row = answer_row(self.cell.copy().handle(event, Position(0, self.count)))
        assert row is not None and row.value is not None
        self.answers.append(row.value)
        return super()._handle(event)

    def round(self, changed: list[SessionPartition], number: int) -> None:
        """Append to the changed partitions and fetch in the session."""
        self._handle(self.produce(changed))
        named = changed if number else []
        self._handle(self.fetch(named, number, number + 1, 0))


def run(
    client_flags: dict[str, object], events_of_batch: int, session: "SparkSession"
) -> list[QueryProgress]:
    """Run a job over all events; return its micro-batches."""
    settings = load({**client_flags, "max_offsets_per_trigger": events_of_batch}).settings
    batches: list[QueryProgress] = []
    with runner.prepared(settings, BrokerSettings()) as job:
        runner.run(job, runner.StopReason(settings.stop_timeout_s), True, batches.append, session)
    return batches


def measure(
    size: int, given: argparse.Namespace, flags: dict[str, object], session: "SparkSession"
) -> SparkMeasured | None:
    """Measure a session of `size` partitions; None if responses differ."""
    bed = RecordedBed(size, max(given.sizes) + given.changed)
    changed = bed.changed(given.changed)
    flags = {**flags, "prefix": f"bench-{size}"}
    flags["checkpoint"] = Path(str(flags["checkpoint"])) / str(size)
    run(flags, ALL, session)  # creates the topics
    send(flags, bed.documents)
    run(flags, ALL, session)
    first = len(bed.documents)
    for number in range(given.rounds):
        bed.round(changed, number)
    send(flags, bed.documents[first:])
    batches = [each for each in run(flags, EVENTS_OF_ROUND, session) if each.events]
    settings = load(flags).settings
    with runner.prepared(settings, BrokerSettings()) as job:
        rows = read_all(job.client, topics.full_name(settings.prefix, RESPONSES))
        got = [row.value for row in without_repeats(rows)]
    if sorted(got, key=bytes) != sorted(bed.answers) or len(batches) != given.rounds:
        return None
    times = [batch.seconds * 1000 for batch in batches[1:]]
    return SparkMeasured(statistics.median(times), batches[-1].state_bytes)


def send(flags: dict[str, object], documents: list[bytes]) -> None:
    """Write events to the partition of their cell."""
    settings = load(flags).settings
    partition = partition_of(CLUSTER.encode(), settings.requests_partitions)
    with runner.prepared(settings, BrokerSettings()) as job:
        name = topics.full_name(settings.prefix, topics.REQUESTS)
        write_all(job.client, name, (NewRow(CLUSTER, each, partition) for each in documents))


@contextmanager
def started(*clusters: str) -> Iterator[tuple[dict[str, object], "SparkSession"]]:
    """Start a Kafka broker and a Spark session; yield a job's flags and the session."""
    with tempfile.TemporaryDirectory(prefix="brokertwin-bench-") as directory:
        kafka = EmbeddedKafka(Path(directory) / "kafka", default_home())
        try:
            flags: dict[str, object] = {
                "bootstrap": kafka.start(),
                "checkpoint": Path(directory) / "checkpoint",
                "clusters": clusters,
                "event_time": "recorded",
            }
            session = spark_session(load(flags).settings)
            try:
                yield flags, session
            finally:
                session.stop()
        finally:
            kafka.stop()


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 1000, 10_000])
    parser.add_argument("--changed", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    with started(CLUSTER) as (flags, session):
        results = {size: measure(size, given, flags, session) for size in given.sizes}
    print("partitions   micro-batch  ratio       state")
    base = results[min(results)]
    for size, found in sorted(results.items()):
        if found is None or base is None:
            print(f"{size:>10}   the answers differ: no figures", file=sys.stderr)
            return 1
        ratio = found.milliseconds / base.milliseconds
        print(f"{size:>10} {found.milliseconds:>10.0f} ms {ratio:>6.2f} {found.state_bytes:>9,} B")
    return 0


if __name__ == "__main__":
    sys.exit(main())
