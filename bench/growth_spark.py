"""The duration of a micro-batch, by size of the cell's state.

    python bench/growth_spark.py [--kind producers] [--sizes 1000 10000 100000] [--active 10000]

`growth.py` with Kafka and Spark: a cell with many idempotent producers handles micro-batches of
`--requests` Produces by the first `--active` ones in turn; or one with many groups of one committed
offset handles OffsetCommits of the first groups. Seconds are Spark's `triggerExecution`, then the
processor time of the JVM and of the Python workers; all are medians over the micro-batches without
the first two of each turn. Sizes take turns, because the JVM warms up. `state` is the size of the
cell's row. No figure is printed unless every request has a response without an error.
"""

import argparse
import itertools
import re
import statistics
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from produced import PARTITIONS, event, request, topic
from spark_time import spark_time

from brokertwin.kafka_io import topics
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.kafka_io.topic_reader import read_all, without_repeats
from brokertwin.settings import Settings, default_home, load
from brokertwin.sinks.topic_writer import NewRow, write_all
from brokertwin.state.core.murmur2 import partition_of
from brokertwin.state.core.outputs import RESPONSES
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.streaming.job import runner
from brokertwin.streaming.job.measures import QueryProgress
from brokertwin.streaming.job.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTER = "bench"
FIRST_BATCH = 200_000
"""Events per micro-batch while producers or groups are created."""

Flags = dict[str, object]

WARM_UP = 2
ERROR = re.compile(rb'"errorCode":(-?[1-9]\d*)')


class Spent(NamedTuple):
    """Seconds of a micro-batch, and processor seconds of JVM and Python workers."""

    seconds: float
    jvm: float
    workers: float
    state_bytes: int


def commit(cluster: str, number: int, sequence: int, groups: int) -> bytes:
    """Return an OffsetCommit for one partition; groups take turns."""
    group = number % groups
    partition = {"partitionIndex": group % PARTITIONS, "committedOffset": sequence}
    body = {
        "groupId": f"g{group}",
        "generationIdOrMemberEpoch": -1,
        "memberId": "",
        "topics": [{"name": "orders", "partitions": [partition]}],
    }
    return event(cluster, number + 1, 8, 8, body)


KINDS: dict[str, Callable[[str, int, int, int], bytes]] = {"producers": request, "groups": commit}
"""The objects in the cell's state, and a request for one of them."""


def opening() -> list[bytes]:
    asked = {"keyType": 0, "coordinatorKeys": ["g0"]}
    return [topic(CLUSTER), event(CLUSTER, -1, 10, 4, asked)]


def made(size: int, given: argparse.Namespace) -> Iterator[bytes]:
    """Yield a request for each producer or group."""
    for number in range(size):
        yield KINDS[given.kind](CLUSTER, number, 0, size)


def load_of(size: int, turn: int, given: argparse.Namespace) -> Iterator[bytes]:
    """Yield requests of the active ones in turn, for the micro-batches of a turn."""
    active, count = min(given.active, size), given.requests * given.rounds
    for number in range(turn * count, (turn + 1) * count):
        yield KINDS[given.kind](CLUSTER, size + number, 1 + number // active, active)


def send(settings: Settings, events: Iterable[bytes]) -> None:
    partition = partition_of(CLUSTER.encode(), settings.requests_partitions)
    with runner.prepared(settings, BrokerSettings()) as job:
        name = topics.full_name(settings.prefix, topics.REQUESTS)
        write_all(job.client, name, (NewRow(CLUSTER, each, partition) for each in events))


def run(settings: Settings, session: "SparkSession") -> list[Spent]:
    spent = []
    before = spark_time()

    def observe(progress: QueryProgress) -> None:
        nonlocal before
        now = spark_time()
        jvm, workers = (now[name] - before[name] for name in ("JVM", "workers"))
        spent.append(Spent(progress.seconds, jvm, workers, progress.state_bytes))
        before = now

    with runner.prepared(settings, BrokerSettings()) as job:
        runner.run(job, runner.StopReason(settings.stop_timeout_s), True, observe, session)
    return spent


def settings_of(size: int, most: int, flags: Flags) -> Settings:
    """Return a size's settings: topics, checkpoint, `most` events per micro-batch."""
    own = {"prefix": f"grown-{size}", "checkpoint": Path(str(flags["checkpoint"])) / str(size)}
    return load({**flags, **own, "max_offsets_per_trigger": most}).settings


def measure(given: argparse.Namespace, flags: Flags, session: "SparkSession") -> dict[int, Spent]:
    """Measure all sizes in turn; return the medians of each.

    Raises:
        ValueError: a response is missing or has an error.
    """
    spent: dict[int, list[Spent]] = {size: [] for size in given.sizes}
    for size in given.sizes:
        settings = settings_of(size, FIRST_BATCH, flags)
        send(settings, itertools.chain(opening(), made(size, given)))
        run(settings, session)
    for turn in range(given.turns):
        for size in given.sizes:
            settings = settings_of(size, given.requests, flags)
            send(settings, load_of(size, turn, given))
            spent[size] += run(settings, session)[WARM_UP:]
    for size in given.sizes:
        asked = size + given.requests * given.rounds * given.turns
        check(settings_of(size, FIRST_BATCH, flags), asked)
    return {
        size: Spent(*map(statistics.median, zip(*batches, strict=True)))
        for size, batches in spent.items()
    }


def check(settings: Settings, asked: int) -> None:
    """Raise ValueError if a response is missing or has an error."""
    with runner.prepared(settings, BrokerSettings()) as job:
        rows = read_all(job.client, topics.full_name(settings.prefix, RESPONSES))
        opened = {msgspec.json.decode(each)["id"] for each in opening()}
        answers = [row.value or b"" for row in without_repeats(rows) if row.id not in opened]
    if len(answers) != asked or any(map(ERROR.search, answers)):
        raise ValueError(f"{len(answers)} answers to {asked} requests, or one has an error")


def arguments(text: str | None) -> argparse.ArgumentParser:
    """Chart axes and title; `text` is the bench's own."""
    parser = argparse.ArgumentParser(
        description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=KINDS, default="producers")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--active", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=2_000, help="in a micro-batch")
    return parser


@contextmanager
def started() -> Iterator[tuple[Flags, "SparkSession"]]:
    """Start a Kafka broker and a Spark session; yield a job's flags and the session."""
    with tempfile.TemporaryDirectory(prefix="brokertwin-bench-") as directory:
        kafka = EmbeddedKafka(Path(directory) / "kafka", default_home())
        try:
            flags: Flags = {
                "bootstrap": kafka.start(),
                "checkpoint": Path(directory) / "checkpoint",
                "clusters": (CLUSTER,),
                "event_time": "recorded",
            }
            session = spark_session(load(flags).settings)
            try:
                yield flags, session
            finally:
                session.stop()
        finally:
            kafka.stop()


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="micro-batches in a turn")
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    with started() as (flags, session):
        found = measure(given, flags, session)
    print(f"{given.kind:>9}  micro-batch  of the processor      JVM  workers         state")
    base = found[min(found)]
    for size, spent in sorted(found.items()):
        ratio = (spent.jvm + spent.workers) / (base.jvm + base.workers)
        print(
            f"{size:>9,} {spent.seconds:>10.2f} s {ratio:>17.2f} {spent.jvm:>8.2f}"
            f" {spent.workers:>8.2f} {spent.state_bytes:>13,.0f}"
        )


if __name__ == "__main__":
    main()
