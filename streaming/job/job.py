"""The streaming query: requests, one stateful operator, one Kafka sink.

    requests -> grouping key -> applyInPandasWithState -> responses, offsets, records, ...

The JVM handles documents as bytes only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from brokertwin.errors import UserError
from brokertwin.kafka_io import placement
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.placement import Placement
from brokertwin.kafka_io.topic_reader import ID_HEADER
from brokertwin.kafka_io.topics import REQUESTS, ROW_BYTES_MAX, full_name
from brokertwin.settings import Settings
from brokertwin.state.core.settings import BrokerSettings, CellSettings
from brokertwin.streaming.job import operator
from brokertwin.streaming.job.operator import Count
from brokertwin.streaming.job.session import kafka_source
from brokertwin.streaming.job.stage import decided

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SINK = {
    "kafka.linger.ms": "20",
    "kafka.batch.size": str(256 * 1024),
    "kafka.max.request.size": str(ROW_BYTES_MAX),
}
"""Producer options of Spark's Kafka sink.

Fewer and larger requests. A small micro-batch does not wait, because a task ends with a flush.
"""


@dataclass(frozen=True)
class StreamingJob:
    """The parts of the query.

    Attributes:
        client: the connection to Kafka.
        cells: cell settings by Spark grouping key.
    """

    settings: Settings
    client: ClientProperties
    cells: Mapping[int, CellSettings]


def placements(
    settings: Settings, broker_settings: BrokerSettings | None = None
) -> list[Placement]:
    """The clusters of a job, for the topic `placement`.

    Raises:
        UserError: more cells than brokers, or several cells where one is required.
    """
    return [
        Placement(
            cluster=cluster,
            brokers=settings.brokers_of(cluster),
            cells=_cells_of(settings, broker_settings, cluster),
            requests_partitions=settings.requests_partitions,
            responses_partitions=settings.responses_partitions,
            event_time=settings.event_time,
            event_time_max_skew_ms=settings.event_time_max_skew_ms,
            broker_settings=broker_settings.given if broker_settings is not None else {},
            interventions=settings.interventions,
        )
        for cluster in settings.clusters
    ]


def _cells_of(
    settings: Settings, broker_settings: BrokerSettings | None, cluster: str
) -> list[str]:
    """The names of a cluster's cells. Raises UserError."""
    if settings.cells > 1 and settings.event_time == "recorded":
        raise UserError(
            "With event_time = recorded, a cluster must have one cell, because a recording has"
            " one order of events.",
            "Leave out --cells.",
        )
    if settings.cells > 1 and broker_settings and broker_settings.brokertwin_leader_and_isr:
        raise UserError(
            "With brokertwin.leader.and.isr, a cluster must have one cell, because the"
            " controller's commands stay within a cell.",
            "Leave out --cells, or the setting.",
        )
    return placement.cells_of(cluster, settings.cells, settings.brokers_of(cluster))


def start_query(
    session: "SparkSession", job: StreamingJob, rows_max: int, count: Count | None = None
) -> "StreamingQuery":
    """Start the query on the job's checkpoint.

    Args:
        session: from `spark_session`.
        job: the parts of the query.
        rows_max: maximum number of events in the first micro-batch.
        count: called in the workers with the counts of `measures`.
    """
    prefix = job.settings.prefix
    topics = [full_name(prefix, REQUESTS)]
    source = kafka_source(session, job.client, topics, rows_max, f"{prefix}.run")
    requests = source.option("failOnDataLoss", "true").load()
    return (
        _rows(decided(requests, job.cells, count), prefix)
        .writeStream.queryName(f"brokertwin {prefix}")
        .format("kafka")
        .options(**job.client.for_spark())
        .options(**SINK)
        .option("checkpointLocation", str(job.settings.checkpoint_dir))
        .outputMode("append")
        .trigger(processingTime=job.settings.trigger)
        .start()
    )


def _rows(outputs: "DataFrame", prefix: str) -> "DataFrame":
    """Rows for Spark's Kafka sink: topic, partition, key, value, header `id`."""
    from pyspark.sql import functions as f

    chosen = f.when(f.col("partition") != operator.NO_PARTITION, f.col("partition"))
    row_id = f.struct(f.lit(ID_HEADER).alias("key"), f.col("id").cast("binary").alias("value"))
    return outputs.select(
        f.concat(f.lit(full_name(prefix, "")), f.col("topic")).alias("topic"),
        chosen.alias("partition"),
        "key",
        "value",
        f.array(row_id).alias("headers"),
    )
