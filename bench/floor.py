"""The duration of a micro-batch with one event, by its parts.

    python bench/floor.py [--events 40] [--conf spark.x=y ...]

A job of one cluster on a real Kafka broker; each micro-batch has one Produce. The parts are Spark's
(`durationMs` of its progress): medians in ms without the first ten micro-batches, in which JVM and
Python workers warm up. Processor time per micro-batch, which depends less on other load, is listed
for the JVM, its Python workers, and ended child processes. `processes` counts those started on the
whole machine meanwhile. `--conf` adds Spark configuration, to compare two runs. A run is valid only
if the responses equal those of a cell in this process.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from produced import REQUESTS_PARTITIONS, answers_of_a_cell, documents, send
from spark_time import spark_time

from brokertwin.kafka_io import topics
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.kafka_io.topic_reader import read_all, without_repeats
from brokertwin.settings import default_home, load
from brokertwin.state.core.outputs import RESPONSES
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.streaming.job import measures, runner, session

CLUSTER = "bench"
WARM_UP = 10
PARTS = (
    "triggerExecution",
    "latestOffset",
    "getBatch",
    "queryPlanning",
    "walCommit",
    "addBatch",
    "commitOffsets",
)
SPENT = ("JVM", "workers", "ended", "processes")


def measure(events: list[bytes], flags: dict[str, Any]) -> list[dict[str, int]] | None:
    """Measure micro-batches after the warm-up; None if responses differ."""
    rounds: list[dict[str, int]] = []

    def seen(
        reported: Mapping[str, Any], counts: measures.Counts, lag: int
    ) -> measures.QueryProgress:
        """Record the progress that the job reads: a listener takes a third of the JVM's time."""
        rounds.append({**reported["durationMs"], **spent()})
        return measures.progress_of(reported, counts, lag)

    def spent() -> dict[str, int]:
        """Return processor times so far in ms, and the machine's process count."""
        parts = {name: round(took * 1000) for name, took in spark_time().items()}
        return {**parts, "processes": _processes()}

    settings = load(flags).settings
    with runner.prepared(settings, BrokerSettings()) as job:
        send(job, CLUSTER, events)
        spark = session.spark_session(settings)
        stop = runner.StopReason(settings.stop_timeout_s)
        try:
            with mock.patch.object(runner, "progress_of", seen):
                runner.run(job, stop, True, lambda _: None, spark)
        finally:
            spark.stop()
        rows = read_all(job.client, topics.full_name(settings.prefix, RESPONSES))
        answers = {row.id: row.value for row in without_repeats(rows)}
    return rounds[WARM_UP:] if answers == answers_of_a_cell(CLUSTER, events) else None


def _processes() -> int:
    """Return the number of processes started since boot."""
    lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("processes ")).split()[1])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=40)
    parser.add_argument("--conf", nargs="*", default=[], metavar="NAME=VALUE")
    given = parser.parse_args()
    told = dict(each.split("=", 1) for each in given.conf)
    ours = session._configuration
    session._configuration = lambda *arguments: {**ours(*arguments), **told}
    with tempfile.TemporaryDirectory(prefix="brokertwin-bench-") as directory:
        kafka = EmbeddedKafka(Path(directory) / "kafka", default_home())
        try:
            flags = {
                "bootstrap": kafka.start(),
                "prefix": "bench",
                "checkpoint": Path(directory) / "checkpoint",
                "clusters": (CLUSTER,),
                "event_time": "recorded",
                "requests_partitions": REQUESTS_PARTITIONS,
                "max_offsets_per_trigger": 1,
            }
            found = measure(documents(CLUSTER, WARM_UP + given.events), flags)
        finally:
            kafka.stop()
    if found is None:
        print("the answers differ: no figures", file=sys.stderr)
        return 1
    for part in PARTS:
        print(f"{part:18}{statistics.median(each.get(part, 0) for each in found):>8.0f} ms")
    for part in SPENT:
        each = (found[-1][part] - found[0][part]) / (len(found) - 1)
        print(f"{part:18}{each:>8.0f}" + " ms" * (part != "processes"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
