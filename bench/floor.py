"""What a micro-batch costs that holds one event, and where its time goes.

    python bench/floor.py [--events 40] [--conf spark.x=y ...]

A job of one cluster on a real Kafka broker; each micro-batch takes one Produce. The parts are
Spark's own (`durationMs` of its progress): medians in ms over the micro-batches behind the first
ten, in which the JVM and the Python workers warm up. `--conf` sets what Spark is told beside the
job's own configuration: two runs in turn show what a setting is worth. A run is valid only if the
answers are those of a cell in this process.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from engines import REQUESTS_PARTITIONS, documents, run_cells, send

from brokerstream.kafka_io import topics
from brokerstream.kafka_io.kafka_broker import EmbeddedKafka
from brokerstream.kafka_io.topic_reader import read_all, without_repeats
from brokerstream.settings import default_home, load
from brokerstream.state.core.outputs import RESPONSES
from brokerstream.state.core.settings import BrokerSettings
from brokerstream.streaming import runner, session

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


def measure(events: list[bytes], flags: dict[str, Any]) -> list[dict[str, int]] | None:
    """The parts of each micro-batch behind the warm-up; None where the answers differ."""
    from pyspark.sql.streaming.listener import StreamingQueryListener

    found: list[dict[str, int]] = []

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802 (Spark's names)

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            if event.progress.numInputRows:
                found.append(dict(event.progress.durationMs))

        def onQueryTerminated(self, event: Any) -> None: ...  # noqa: N802

    settings = load(flags).settings
    with runner.prepared(settings, BrokerSettings()) as job:
        send(job, {CLUSTER: events})
        spark = session.spark_session(settings)
        try:
            spark.streams.addListener(Listener())
            stop = runner.Stop(settings.stop_timeout_s)
            runner.run(job, stop, True, lambda _: None, spark)
        finally:
            spark.stop()
        rows = read_all(job.client, topics.full_name(settings.prefix, RESPONSES))
        answers = {row.id: row.value for row in without_repeats(rows)}
    return found[WARM_UP:] if answers == run_cells({CLUSTER: events})[1] else None


def main() -> int:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=40)
    parser.add_argument("--conf", nargs="*", default=[], metavar="NAME=VALUE")
    given = parser.parse_args()
    told = dict(each.split("=", 1) for each in given.conf)
    ours = session._configuration
    session._configuration = lambda *arguments: {**ours(*arguments), **told}
    with tempfile.TemporaryDirectory(prefix="brokerstream-bench-") as directory:
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
            found = measure(documents([CLUSTER], WARM_UP + given.events)[CLUSTER], flags)
        finally:
            kafka.stop()
    if found is None:
        print("the answers differ: no figures", file=sys.stderr)
        return 1
    for part in PARTS:
        print(f"{part:18}{statistics.median(each.get(part, 0) for each in found):>8.0f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
