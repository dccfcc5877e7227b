"""The plan of the live audit."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.topics import ROW_BYTES_MAX, TopicSpec, full_name
from brokertwin.streaming.job.session import kafka_source
from brokertwin.streaming.live import operator, tables
from brokertwin.streaming.live.modes import KeyMode
from brokertwin.streaming.live.operator import LiveFunctions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FACTS, PROGRESS = "facts", "progress"
BUCKETS = 16
"""Buckets of each cluster and shuffle partition, so that clusters with few entities spread, too."""

_ROWS = {"max.message.bytes": str(ROW_BYTES_MAX)}
_COMPACTED = {"cleanup.policy": "compact", **_ROWS}
_SOON = {"segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.1"}
"""Rows change in every micro-batch, and the newest segment is never compacted."""


@dataclass(frozen=True)
class LiveQuery:
    """Settings of the query.

    Attributes:
        client: the connection to Kafka.
        prefix: of the topics that it writes.
        sources: topic to the cluster of its rows without a header `cluster`.
        checkpoint: Spark's checkpoint directory.
        mode: content of a state row.
        trigger: interval of micro-batches, `10 seconds`.
        shuffle_partitions: tasks of the operator.
        rows_max: maximum number of rows of a micro-batch.
        is_available_now: whether the query ends at the end of the topics.
    """

    client: ClientProperties
    prefix: str
    sources: "Mapping[str, str]"
    checkpoint: Path
    mode: KeyMode
    trigger: str
    shuffle_partitions: int
    rows_max: int
    is_available_now: bool = False

    def topic(self, name: str) -> str:
        return full_name(self.prefix, name)


def specs() -> list[TopicSpec]:
    return [
        TopicSpec(operator.FINDINGS, 1, _ROWS),
        *(TopicSpec(each.name, 1, _COMPACTED, _SOON) for each in tables.TABLES if each.has_topic),
        TopicSpec(operator.EXCHANGES, 1, _ROWS),
        TopicSpec(FACTS, 1, _COMPACTED, _SOON),
        TopicSpec(PROGRESS, 1, _COMPACTED, _SOON),
    ]


def start(
    session: "SparkSession",
    query: LiveQuery,
    functions: LiveFunctions,
    write: "Callable[[DataFrame, int], None]",
) -> "StreamingQuery":
    """Start the query.

    Args:
        session: the Spark session.
        query: its settings.
        functions: the functions of its stages.
        write: called with the output rows of each micro-batch and its number.
    """
    # Micro-batches without rows call the entities that wait. With alarms there is no last one.
    goes_on = str(not query.is_available_now).lower()
    session.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", goes_on)
    outputs = operate(query, routed(query, rows(session, query), functions), functions)
    writer = (
        outputs.writeStream.queryName(f"brokertwin live {query.prefix}")
        .foreachBatch(write)
        .option("checkpointLocation", str(query.checkpoint))
        .outputMode("append")
    )
    if query.is_available_now:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=query.trigger).start()


def rows(session: "SparkSession", query: LiveQuery) -> "DataFrame":
    """The rows of the topics, with the columns that `LiveFunctions.read` needs."""
    from pyspark.sql import functions as f

    topics = [*query.sources, query.topic(operator.EXCHANGES)]
    found = (
        kafka_source(session, query.client, topics, query.rows_max, f"{query.prefix}.live")
        .option("failOnDataLoss", "false")
        .option("includeHeaders", "true")
        .load()
        .where(f.col("value").isNotNull())
    )
    default: Column = f.lit("")
    for topic, cluster in query.sources.items():
        default = f.when(f.col("topic") == topic, f.lit(cluster)).otherwise(default)
    return found.select(
        f.concat_ws("/", "topic", "partition").alias("source"),
        "offset",
        "value",
        f.coalesce(_header("cluster"), default).alias("cluster"),
        _header("broker").alias("broker"),
        f.unix_millis(f.current_timestamp()).alias("now"),
    )


def _header(name: str) -> "Column":
    """The last header with a name, as text; null if there is none."""
    from pyspark.sql import functions as f

    found = f.filter("headers", lambda each: each["key"] == name)
    return f.try_element_at(found, f.lit(-1))["value"].cast("string")


def routed(query: LiveQuery, read: "DataFrame", functions: LiveFunctions) -> "DataFrame":
    """The parts of exchanges for entities.

    The shuffle lets no task route the rest before all facts of the micro-batch are written.
    """
    parts = read.mapInArrow(_of(functions, "read"), operator.ROUTED_SCHEMA)
    shuffled = parts.repartition(query.shuffle_partitions, "cluster", "id")
    return shuffled.mapInArrow(_of(functions, "route"), operator.ROUTED_SCHEMA)


def _of(
    functions: LiveFunctions, name: str
) -> "Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    """A plain function for Spark, which does not take methods of dataclasses."""

    def call(batches: "Iterable[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        yield from getattr(functions, name)(batches)

    return call


def operate(query: LiveQuery, parts: "DataFrame", functions: LiveFunctions) -> "DataFrame":
    from pyspark.sql import functions as f
    from pyspark.sql.streaming.state import GroupStateTimeout
    from pyspark.sql.types import IntegerType

    keys: tuple[str, ...] = operator.ENTITY_KEYS
    schema, function = tables.STATE_SCHEMA, functions.entity
    if query.mode is KeyMode.BUCKET:
        keys, schema, function = operator.BUCKET_KEYS, operator.BUCKET_SCHEMA, functions.bucket
        buckets = BUCKETS * query.shuffle_partitions
        hashed = f.pmod(f.xxhash64("kind", "id"), f.lit(buckets)).cast(IntegerType())
        parts = parts.withColumn("bucket", hashed)
    return parts.groupBy(*keys).applyInPandasWithState(
        lambda key, frames, state: function(key, frames, state),
        outputStructType=operator.OUTPUT_SCHEMA,
        stateStructType=schema,
        outputMode="append",
        timeoutConf=GroupStateTimeout.ProcessingTimeTimeout,
    )
