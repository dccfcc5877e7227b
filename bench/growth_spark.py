"""What a micro-batch costs against what its cell remembers.

    python bench/growth_spark.py [--sizes 1000 10000 100000] [--active 10000] [--requests 2000]

The companion of `growth.py`, through Kafka and Spark: a cell that knows so many idempotent
producers decides micro-batches of `--requests` Produces of the first `--active` ones, in turn.
Seconds are Spark's `triggerExecution`, then the processor time of the JVM and of the Python
workers; all are medians over the micro-batches, the first two left out. `state` is the size of the
cell's row. A run is valid only if every request was answered without an error.
"""

import argparse
import re
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fetch_sessions_spark import started
from produced import request, topic
from spark_time import spark_time

from brokerstream.kafka_io import topics
from brokerstream.kafka_io.topic_reader import read_all, without_repeats
from brokerstream.kafka_io.topic_writer import NewRow, write_all
from brokerstream.settings import Settings, load
from brokerstream.state.core.murmur2 import partition_of
from brokerstream.state.core.outputs import RESPONSES
from brokerstream.state.core.settings import BrokerSettings
from brokerstream.streaming import runner
from brokerstream.streaming.measures import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTER = "bench"
FIRST_BATCH = 20_000
"""Events of a micro-batch while the producers are made."""

WARM_UP = 2
ERROR = re.compile(rb'"errorCode":(-?[1-9]\d*)')


class Spent(NamedTuple):
    """What a micro-batch took: seconds, and seconds of the processor in both kinds of process."""

    seconds: float
    jvm: float
    workers: float
    state_bytes: int


def documents(size: int, given: argparse.Namespace) -> Iterator[bytes]:
    """A topic, a batch of each producer, then those of the active ones."""
    yield topic(CLUSTER)
    for number in range(size):
        yield request(CLUSTER, number, 0, size)
    active = min(given.active, size)
    for number in range(given.requests * given.rounds):
        yield request(CLUSTER, size + number, 1 + number // active, active)


def send(settings: Settings, events: list[bytes]) -> None:
    """Events into the partition of their cell."""
    partition = partition_of(CLUSTER.encode(), settings.requests_partitions)
    with runner.prepared(settings, BrokerSettings()) as job:
        name = topics.full_name(settings.prefix, topics.REQUESTS)
        write_all(job.client, name, (NewRow(CLUSTER, each, partition) for each in events))


def run(settings: Settings, session: "SparkSession") -> list[Spent]:
    """Runs a job until it has done everything."""
    found = []
    before = spark_time()

    def observe(progress: Progress) -> None:
        nonlocal before
        now = spark_time()
        jvm, workers = (now[name] - before[name] for name in ("JVM", "workers"))
        found.append(Spent(progress.seconds, jvm, workers, progress.state_bytes))
        before = now

    with runner.prepared(settings, BrokerSettings()) as job:
        runner.run(job, runner.Stop(settings.stop_timeout_s), True, observe, session)
    return found


def measure(
    size: int, given: argparse.Namespace, flags: dict[str, object], session: "SparkSession"
) -> Spent | None:
    """The medians of a size; None where an answer is missing, or has an error."""
    flags = {
        **flags,
        "prefix": f"grown-{size}",
        "checkpoint": Path(str(flags["checkpoint"])) / str(size),
    }
    events = list(documents(size, given))
    first = load({**flags, "max_offsets_per_trigger": FIRST_BATCH}).settings
    send(first, events[: size + 1])
    run(first, session)
    then = load({**flags, "max_offsets_per_trigger": given.requests}).settings
    send(then, events[size + 1 :])
    batches = run(then, session)[WARM_UP:]
    with runner.prepared(then, BrokerSettings()) as job:
        rows = read_all(job.client, topics.full_name(then.prefix, RESPONSES))
        answers = [row.value or b"" for row in without_repeats(rows)]
    if len(answers) != len(events) or any(map(ERROR.search, answers)):
        return None
    return Spent(*map(statistics.median, zip(*batches, strict=True)))


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--active", type=int, default=10_000)
    parser.add_argument("--requests", type=int, default=2_000, help="in a micro-batch")
    parser.add_argument("--rounds", type=int, default=12)
    given = parser.parse_args()
    with started(CLUSTER) as (flags, session):
        found = {size: measure(size, given, flags, session) for size in given.sizes}
    print("producers  micro-batch  of the processor      JVM  workers         state")
    base = found[min(found)]
    for size, spent in sorted(found.items()):
        if spent is None or base is None:
            print(f"{size:>9}  an answer has an error: no figures", file=sys.stderr)
            return 1
        ratio = (spent.jvm + spent.workers) / (base.jvm + base.workers)
        print(
            f"{size:>9,} {spent.seconds:>10.2f} s {ratio:>17.2f} {spent.jvm:>8.2f}"
            f" {spent.workers:>8.2f} {spent.state_bytes:>13,.0f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
