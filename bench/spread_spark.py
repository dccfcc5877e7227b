"""The effect of distributing cells over Spark's tasks by their loads.

    python bench/spread_spark.py [--requests 40000] [--clusters 8] [--heavy 4] [--rounds 3]

`spread.py` with Kafka and Spark: each second cluster gets `--heavy` times the Produce requests of
the others. A job distributes the cells in turn and measures their loads; the heavy ones share a
task. Its snapshot is restored into another checkpoint, where they are distributed by load. Then
both handle the same requests in each round, in alternating order. Seconds are Spark's
`triggerExecution`. A run is valid only if both give each request one response.
"""

import argparse
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from fetch_sessions_spark import ALL, run, started
from produced import documents

from brokertwin.kafka_io import topics
from brokertwin.kafka_io.partitioning import spark_hash
from brokertwin.kafka_io.topic_reader import read_all
from brokertwin.kafka_io.topic_writer import NewRow, write_all
from brokertwin.settings import Settings, load
from brokertwin.state.core.murmur2 import partition_of
from brokertwin.state.core.outputs import RESPONSES
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.streaming.checkpoint import facts, restore, snapshots
from brokertwin.streaming.job import runner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Flags = dict[str, object]
Event = tuple[str, bytes]
"""A cluster's name and a document."""

RULES = ("in turn", "by load")


def send(settings: Settings, events: list[Event]) -> None:
    """Write the events of a round."""
    with runner.prepared(settings, BrokerSettings()) as job:
        count = settings.requests_partitions
        rows = (NewRow(key, value, partition_of(key.encode(), count)) for key, value in events)
        write_all(job.client, topics.full_name(settings.prefix, topics.REQUESTS), rows)


def rounds_of(given: argparse.Namespace, clusters: tuple[str, ...]) -> list[list[Event]]:
    """Return the events of each round; the first one creates the topics."""
    share = [given.heavy if number % 2 == 0 else 1 for number in range(given.clusters)]
    found: list[list[Event]] = [[] for _ in range(given.rounds + 1)]
    for cluster, weight in zip(clusters, share, strict=True):
        each = given.requests * weight // sum(share)
        events = documents(cluster, each * (given.rounds + 1))
        found[0].append((cluster, events.pop(0)))
        for number, part in enumerate(found):
            part += ((cluster, event) for event in events[number * each : (number + 1) * each])
    return found


def seconds(flags: Flags, session: "SparkSession") -> float:
    """Return the seconds of a job over all of `requests`."""
    return sum(batch.seconds for batch in run(flags, ALL, session) if batch.events)


def shares(checkpoint: Path, loads: dict[str, int]) -> list[float]:
    """Return each task's share of the load."""
    known = facts.read(checkpoint)
    assert known is not None
    found: Counter[int] = Counter()
    for name, key in known.groups.items():
        found[spark_hash(key) % known.shuffle_partitions] += loads.get(name, 0)
    return [load / sum(loads.values()) for _, load in sorted(found.items())]


def answers_differ(settings: Settings) -> bool:
    """Whether a request has no response, or two different ones."""
    with runner.prepared(settings, BrokerSettings()) as job:
        answers: dict[str, set[bytes | None]] = {}
        for row in read_all(job.client, topics.full_name(settings.prefix, RESPONSES)):
            answers.setdefault(row.id, set()).add(row.value)
        requests = topics.full_name(settings.prefix, topics.REQUESTS)
        asked = sum(1 for _ in read_all(job.client, requests))
    return len(answers) != asked or any(len(each) != 1 for each in answers.values())


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=40_000, help="in a round")
    parser.add_argument("--clusters", type=int, default=8)
    parser.add_argument("--heavy", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    clusters = tuple(f"c{number}" for number in range(given.clusters))
    rounds = rounds_of(given, clusters)
    with started(*clusters) as (flags, session):
        former = Path(str(flags["checkpoint"]))
        new = former.with_name("dealt-out")
        jobs: dict[str, Flags] = {"in turn": flags, "by load": {**flags, "checkpoint": new}}
        settings = load(flags).settings
        send(settings, rounds[0])
        seconds(flags, session)
        shot = snapshots.take(former, former.with_name("snapshots"))
        loads = restore.restore(shot.path, new).facts.loads
        took: dict[str, list[float]] = {rule: [] for rule in RULES}
        for number in range(1, given.rounds + 1):
            send(settings, rounds[number])
            for rule in RULES if number % 2 else reversed(RULES):
                took[rule].append(seconds(jobs[rule], session))
        parts = {rule: shares(load(jobs[rule]).settings.checkpoint_dir, loads) for rule in RULES}
        if answers_differ(settings):
            print("the answers differ: no figures", file=sys.stderr)
            return 1
    for rule in RULES:
        of_tasks = " ".join(f"{part:.2f}" for part in parts[rule])
        each = " ".join(f"{one:6.2f}" for one in took[rule])
        print(f"{rule:8} load of the tasks {of_tasks}  seconds {each}")
    ratios = [new / old for old, new in zip(*took.values(), strict=True)]
    print(f"by load, of in turn: {statistics.median(ratios):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
