"""The live audit beside a pass-through, with the lines of request logs.

    python bench/live_lines.py [--lines 20000] [--rounds 5] [--modes bucket]

The lines are those of `logs.py`, from three brokers, each with its own partition. A round is one
micro-batch of `--lines` lines, and each engine reads the same ones:

- `python`: Spark and `mapInPandas`, a row out for each row in, counted: the cost of PySpark itself;
- `bucket`, `entity`: the live audit with `--key`.

Engines take turns in a round. Printed is the processor time of the JVM and its Python workers for a
line, the median after the first two rounds, and the multiple of the pass-through. `stages` is the
time of the audit's own functions in one process, without Spark.
"""

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from confluent_kafka import Producer
from logs import BROKERS, Traffic
from spark_time import spark_time

from brokertwin.kafka_io import topics
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topics import TopicSpec
from brokertwin.recordings.history.entity import EntityKey
from brokertwin.settings import default_home, load
from brokertwin.streaming.job.session import spark_session
from brokertwin.streaming.live import operator, runner
from brokertwin.streaming.live.facts import ClusterFacts, FactRow
from brokertwin.streaming.live.modes import KeyMode
from brokertwin.streaming.live.query import LiveQuery, rows
from brokertwin.streaming.live.reading import TopicLine

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

WARM_UP = 2
PASS_THROUGH = "python"
CLUSTER = "shop"
TRIGGER_MS = 10_000


class Line(NamedTuple):
    partition: int
    value: bytes


def micro_batches(lines: int, count: int) -> Iterator[list[Line]]:
    every = (Line(broker - 1, text.encode()) for broker, text in Traffic(2).lines())
    for _ in range(count):
        yield list(islice(every, lines))


class Facts:
    """Facts of a single process."""

    def __init__(self) -> None:
        self._facts: dict[str, ClusterFacts] = defaultdict(ClusterFacts)

    def read(self, _now: int | None = None) -> dict[str, ClusterFacts]:
        return self._facts

    def write(self, new: Iterable[FactRow]) -> None:
        for row in new:
            self._facts[row.cluster].add(row)


def stages(batches: list[list[Line]]) -> dict[str, float]:
    facts, bucket, now, offset = Facts(), operator.Bucket(None), 1_800_000_000_000, 0
    spent: dict[str, float] = defaultdict(float)
    routed: dict[EntityKey, list[bytes]]
    for batch in batches:
        now += TRIGGER_MS
        own: dict[int, list[TopicLine]] = defaultdict(list)
        for number, line in enumerate(batch, offset):
            source = f"lines/{line.partition}"
            own[line.partition].append(
                TopicLine(source, number, line.value, CLUSTER, line.partition + 1)
            )
        offset += len(batch)
        times = [time.process_time()]
        read = [
            row
            for lines in own.values()
            for row in operator.read(lines, now, facts, UTC, lambda _: None)
        ]
        times.append(time.process_time())
        routed = defaultdict(list)
        unrouted = [row for row in read if row[1] == operator.UNROUTED]
        settled = [row for row in read if row[1] != operator.UNROUTED]
        rest = operator.route(unrouted, facts.read(), lambda _: None)
        for _, kind, name, value in (*settled, *rest):
            routed[EntityKey(kind, name)].append(value)
        times.append(time.process_time())
        bucket.handle(CLUSTER, routed, facts.read(), now)
        bucket = operator.Bucket(bucket.stored())
        times.append(time.process_time())
        for name, begun, ended in zip(("read", "route", "entity"), times, times[1:], strict=False):
            spent[name] += ended - begun
    return {name: each / offset for name, each in spent.items()}


def copied(frames: "Iterable[pd.DataFrame]") -> "Iterator[pd.DataFrame]":
    yield from frames


class Engine:
    """One engine over the topic of lines, a micro-batch at a time.

    Args:
        name: `python`, or a key mode.
        session: the Spark session.
        client: the connection to Kafka.
        source: the topic of lines.
        directory: parent of its checkpoint.
    """

    def __init__(
        self,
        name: str,
        session: "SparkSession",
        client: ClientProperties,
        source: str,
        directory: Path,
    ) -> None:
        self.name, self._session = name, session
        self.spent: list[float] = []
        self._query = LiveQuery(
            client=client,
            prefix=f"{source}.{name}",
            sources={source: CLUSTER},
            checkpoint=directory / name,
            mode=KeyMode(name) if name != PASS_THROUGH else KeyMode.BUCKET,
            trigger="10 seconds",
            shuffle_partitions=2,
            rows_max=10_000_000,
            is_available_now=True,
        )

    def run(self) -> None:
        """Run a micro-batch, and note its processor time in seconds."""
        with runner.prepared(self._query):
            begun = sum(spark_time().values())
            if self.name == PASS_THROUGH:
                self._copy()
            else:
                runner.run(self._session, self._query, None)
            self.spent.append(sum(spark_time().values()) - begun)

    def _copy(self) -> None:
        read = rows(self._session, self._query)
        written = read.mapInPandas(copied, read.schema)
        started = (
            written.writeStream.foreachBatch(
                lambda found, _: found.write.format("noop").mode("append").save()
            )
            .option("checkpointLocation", str(self._query.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        started.awaitTermination()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--modes", type=KeyMode, nargs="*", default=[KeyMode.BUCKET])
    parser.add_argument("--master", default="local[2]")
    options = parser.parse_args()
    batches = list(micro_batches(options.lines, options.rounds))
    alone = stages(batches)
    shown = ", ".join(f"{name} {1e6 * each:.0f}" for name, each in alone.items())
    print(f"stages: {shown} us a line, {1e6 * sum(alone.values()):.0f} in total", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        broker = EmbeddedKafka(Path(directory), default_home())
        client = ClientProperties({"bootstrap.servers": broker.start()})
        try:
            _print(_measured(client, batches, options, Path(directory)), options.lines)
        finally:
            broker.stop()


def _measured(
    client: ClientProperties, batches: list[list[Line]], options: Any, directory: Path
) -> list[Engine]:
    source = "lines"
    topics.create(topics.admin_client(client), {source: TopicSpec(source, BROKERS)})
    writer = Producer(topics.writer_configuration(client))
    session = spark_session(load({"master": options.master, "shuffle_partitions": 2}).settings)
    names = [PASS_THROUGH, *(mode.value for mode in options.modes)]
    engines = [Engine(name, session, client, source, directory) for name in names]
    for number, batch in enumerate(batches):
        for line in batch:
            writer.produce(source, line.value, partition=line.partition)
            writer.poll(0)
        writer.flush()
        for engine in engines[:: 1 if number % 2 else -1]:
            engine.run()
    return engines


def _print(engines: list[Engine], lines: int) -> None:
    floor = statistics.median(engines[0].spent[WARM_UP:])
    for engine in engines:
        spent = statistics.median(engine.spent[WARM_UP:])
        each = ", ".join(f"{1e6 * one / lines:.0f}" for one in engine.spent[WARM_UP:])
        print(
            f"{engine.name}: {1e6 * spent / lines:.0f} us a line ({each}),"
            f" {spent / floor:.2f} times the pass-through",
            flush=True,
        )


if __name__ == "__main__":
    main()
