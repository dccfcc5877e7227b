"""A real cluster's `__consumer_offsets` as a stream of a running job, kept by `offset_history`.

A query of its own beside the job's, in the same Spark session. Each of its micro-batches adds a
file to the directory. The files say where the next one begins, and nothing else does: each start of
the query begins there, and a micro-batch that comes twice leaves out what is in the files already.
So no row is missing and none is there twice, whatever was killed when.
"""

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from brokertwin.errors import UserError
from brokertwin.kafka_io.group_offsets import TOPIC, cluster_id
from brokertwin.kafka_io.kafka_clients import ClientProperties, check_reachable
from brokertwin.kafka_io.topics import admin_client, existing
from brokertwin.sinks.offset_history import OffsetHistoryStore
from brokertwin.state.observed.offset_history import CoordinatorRow
from brokertwin.streaming.job.session import stop_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TRIGGER = "10 seconds"
"""Between micro-batches: each with rows makes a file."""

ROWS_MAX = 50_000
"""Rows of one micro-batch; they go through the driver."""

BY_CONSUMER = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
"""Spark's other way to look for offsets, by an admin client, does not see internal topics."""

FORGETS_CHECKPOINT = "spark.sql.streaming.forceDeleteTempCheckpointLocation"
"""Spark's own checkpoint of the query lies in a temporary directory and goes with it."""

EARLIEST = -2
RESTART_S = 60.0


def start(
    session: "SparkSession",
    client: ClientProperties,
    store: OffsetHistoryStore,
    trigger: str = TRIGGER,
    tell: Callable[[int], None] = lambda _: None,
) -> "StreamingQuery":
    """Begin to follow a cluster where the directory ends.

    Args:
        session: the job's.
        client: how to reach the cluster.
        store: where the rows go.
        trigger: the time between micro-batches.
        tell: is told how many rows each has added.

    Raises:
        UserError: the cluster does not answer, nobody has committed there yet, or the directory
            has another cluster's rows.
    """
    from pyspark.sql import functions as f

    check_reachable(client.bootstrap)
    cluster = cluster_id(client)
    store.check_cluster(cluster)
    partitions = existing(admin_client(client), client).get(TOPIC)
    if partitions is None:
        raise UserError(
            f"Kafka at {client.bootstrap} has no {TOPIC}, because no group has committed yet."
        )
    facts = store.facts()
    first = {str(number): EARLIEST for number in range(partitions)}
    first |= {str(number): at for number, at in (facts.next_offsets if facts else {}).items()}

    def add(batch: "DataFrame", _id: int) -> None:
        tell(_add(store, cluster, batch))

    own = session.newSession()
    own.conf.set(BY_CONSUMER, "true")
    own.conf.set(FORGETS_CHECKPOINT, "true")
    rows = (
        own.readStream.format("kafka")
        .options(**client.for_spark())
        .option("assign", json.dumps({TOPIC: list(range(partitions))}))  # and joins no group
        .option("startingOffsets", json.dumps({TOPIC: first}))
        .option("failOnDataLoss", "false")  # the cluster may have deleted what was not read yet
        .option("kafka.isolation.level", "read_committed")
        .option("maxOffsetsPerTrigger", ROWS_MAX)
        .load()
        .select("partition", "offset", f.unix_millis("timestamp").alias("ms"), "key", "value")
    )
    return (
        rows.writeStream.queryName(f"{TOPIC} of {cluster}")
        .trigger(processingTime=trigger)
        .foreachBatch(add)
        .start()
    )


def _add(store: OffsetHistoryStore, cluster: str, batch: "DataFrame") -> int:
    """Add what is new of a micro-batch; gives back how many rows."""
    found = sorted(
        CoordinatorRow(row.partition, row.offset, row.ms, bytes(row.key), _bytes(row.value))
        for row in batch.collect()
        if row.key is not None
    )
    ends = {row.partition: row.offset + 1 for row in found}
    return store.add(cluster, found, ends) if found else 0


def _bytes(value: bytearray | None) -> bytes | None:
    return bytes(value) if value is not None else None


class Following:
    """The query while a job runs: looked at now and then, and begun again where it has failed.

    Args:
        begin: starts the query, as `start` does.
        warn: is told why it has ended.
    """

    def __init__(self, begin: Callable[[], "StreamingQuery"], warn: Callable[[str], None]) -> None:
        self._begin, self._warn = begin, warn
        self._query: StreamingQuery | None = None
        self._next_look = 0.0

    def look(self) -> None:
        """Starts the query where it does not run, at the earliest a minute after it failed."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + 1
        if self._query is not None and self._query.isActive:
            return
        failure = self._query.exception() if self._query is not None else None
        self._query = None
        try:
            if failure is not None:
                raise UserError(str(failure).partition("=== Streaming Query ===")[0].strip())
            self._query = self._begin()
        except UserError as error:
            self._next_look = time.monotonic() + RESTART_S
            self._warn(f"stopped following {TOPIC}: {error.message} The job continues.")

    def stop(self) -> None:
        """Ends the query; what a micro-batch has not added is read at the next start.

        One that waits for its cluster is left to the end of the process.
        """
        if self._query is not None and not stop_query(self._query):
            self._warn(f"{TOPIC}: its cluster did not respond; the next start continues here")
