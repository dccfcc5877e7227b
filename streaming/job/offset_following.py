"""Follows a real cluster's `__consumer_offsets` beside a running job.

It is a separate query in the job's Spark session. Each micro-batch adds a file to the directory of
`offset_history`. The files alone define where the next start continues, and a repeated micro-batch
skips rows that the files have. So no row is lost or duplicated after a crash.
"""

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from brokertwin.errors import UserError
from brokertwin.kafka_io.kafka_clients import ClientProperties, check_reachable
from brokertwin.kafka_io.topics import admin_client, existing
from brokertwin.offsets.group_offsets import TOPIC, cluster_id
from brokertwin.offsets.history import CoordinatorRow
from brokertwin.offsets.store import OffsetHistoryStore
from brokertwin.streaming.job.session import stop_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TRIGGER = "10 seconds"
"""Micro-batch interval; each micro-batch with rows writes a file."""

ROWS_MAX = 50_000
"""Maximum rows of a micro-batch, because they pass through the driver."""

BY_CONSUMER = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
"""Makes Spark fetch offsets with a consumer.

Its admin client does not see internal topics.
"""

FORGETS_CHECKPOINT = "spark.sql.streaming.forceDeleteTempCheckpointLocation"
"""Deletes the query's temporary checkpoint directory."""

EARLIEST = -2
RESTART_S = 60.0


def start(
    session: "SparkSession",
    client: ClientProperties,
    store: OffsetHistoryStore,
    trigger: str = TRIGGER,
    on_rows: Callable[[int], None] = lambda _: None,
) -> "StreamingQuery":
    """Start following a cluster at the end of the directory.

    Args:
        session: the job's.
        client: the connection to the cluster.
        store: the directory of the rows.
        trigger: the micro-batch interval.
        on_rows: called with the number of rows that each micro-batch added.

    Raises:
        UserError: the cluster does not respond, has no commits yet, or differs from the
            directory's.
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
        on_rows(_add(store, cluster, batch))

    own = session.newSession()
    own.conf.set(BY_CONSUMER, "true")
    own.conf.set(FORGETS_CHECKPOINT, "true")
    rows = (
        own.readStream.format("kafka")
        .options(**client.for_spark())
        .option("assign", json.dumps({TOPIC: list(range(partitions))}))  # joins no group
        .option("startingOffsets", json.dumps({TOPIC: first}))
        .option("failOnDataLoss", "false")  # unread rows may have been deleted
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
    """Add the new rows of a micro-batch; returns their number."""
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
    """The query beside a job, restarted after failures.

    Args:
        begin: starts the query, like `start`.
        warn: called with the reason of a failure.
    """

    def __init__(self, begin: Callable[[], "StreamingQuery"], warn: Callable[[str], None]) -> None:
        self._begin, self._warn = begin, warn
        self._query: StreamingQuery | None = None
        self._next_look = 0.0

    def look(self) -> None:
        """Start the query if it is not running; waits a minute after a failure."""
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
        """Stop the query; unadded rows are read at the next start.

        A query that waits for its cluster ends with the process.
        """
        if self._query is not None and not stop_query(self._query):
            self._warn(f"{TOPIC}: its cluster did not respond; the next start continues here")
