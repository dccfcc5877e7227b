"""The stage of a streaming query that decides events: a stateful operator.

`brokertwin run` puts it between two Kafka topics; docs/library.md between a source and a sink of
one's own.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from brokertwin.kafka_io import placement
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.placement import Placement
from brokertwin.state.configs import broker_config
from brokertwin.state.core.settings import BrokerSettings, CellSettings
from brokertwin.streaming.job import operator
from brokertwin.streaming.job.operator import Count

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def decided(
    events: "DataFrame", cells: Mapping[int, CellSettings], count: Count | None = None
) -> "DataFrame":
    """Return the output rows of cells that handle events.

    Args:
        events: a streaming frame like that of Spark's Kafka source. `key` (BINARY) is the name of
            the cell, `value` (BINARY) the event as JSON (`state/core/events.py`), and `timestamp`
            (TIMESTAMP) the time of arrival. A cell's events must all have the same `partition`
            (INT), `murmur2(key) % requests_partitions`; they are handled by ascending `offset`
            (LONG). An event that is not valid, or of no cell, becomes a row of `dead-letters`.
        cells: cell settings by grouping key. The keys and names are fixed once a checkpoint exists.
        count: called in the workers with the counts of `measures`.

    Returns:
        Rows of `topic` (STRING; `state/core/outputs.py`), `partition` (INT; -1: by key), `key`,
        `value` (BINARY, NULL for a tombstone) and `id` (STRING). A repeated micro-batch gives the
        same rows with the same ids.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.streaming.state import GroupStateTimeout

    keyed = events.select(
        _grouping_key(cells).alias(operator.GROUP_COLUMN),
        "partition",
        "offset",
        f.unix_millis("timestamp").alias("timestamp"),
        "key",
        "value",
    )
    many = keyed.groupBy(operator.GROUP_COLUMN).applyInPandasWithState(
        operator.group_function(dict(cells), count),
        outputStructType=operator.OUTPUT_SCHEMA,
        stateStructType=operator.STATE_SCHEMA,
        outputMode="append",
        timeoutConf=GroupStateTimeout.NoTimeout,
    )
    rows = f.explode(f.arrays_zip(*operator.OUTPUT_COLUMNS)).alias("row")
    return many.select(rows).select("row.*")


def cells_of_job(kafka: str | ClientProperties, prefix: str) -> dict[int, CellSettings]:
    """Return the cells of a job, for `decided` over its topic of requests.

    They come from the job's topic `placement`: brokers, partitions, broker settings, times.

    Args:
        kafka: address of Kafka, or the connection to it.
        prefix: prefix of the job's topics.

    Raises:
        UserError: no job has run with this prefix, or Kafka does not respond.
    """
    client = ClientProperties({"bootstrap.servers": kafka}) if isinstance(kafka, str) else kafka
    cells: list[CellSettings] = []
    for _, placed in sorted(placement.read(client, prefix).items()):
        broker_settings, _ = broker_config.parse(placed.broker_settings)
        cells += [cell_settings(placed, broker_settings, cell) for cell in placed.cells]
    return dict(enumerate(cells))


def cell_settings(
    placed: Placement,
    broker_settings: BrokerSettings,
    cell: str = "",
    incarnation: int = 0,
    writes_records: bool = True,
) -> CellSettings:
    """Return the settings of a cluster's cell; of the first cell by default."""
    brokers = {name: placed.brokers_of(name) for name in placed.cells}
    is_recorded = placed.event_time == "recorded"
    return CellSettings(
        name=cell or placed.cells[0],
        cluster=placed.cluster,
        brokers=placed.brokers,
        broker_settings=broker_settings,
        event_time=placed.event_time,
        event_time_max_skew_ms=placed.event_time_max_skew_ms,
        requests_partitions=placed.requests_partitions,
        responses_partitions=placed.responses_partitions,
        may_hold=is_recorded,
        may_intervene=placed.interventions,
        may_clean=not is_recorded,
        writes_records=writes_records,
        cells=brokers if len(brokers) > 1 else {},
        incarnation=incarnation,
    )


def _grouping_key(cells: Mapping[int, CellSettings]) -> "Column":
    """The cell's grouping key; negative by source partition without a cell."""
    from pyspark.sql import functions as f

    names = f.array(*(f.lit(cell.name.encode()) for cell in cells.values()))
    keys = f.array(*(f.lit(key) for key in cells))
    known = f.element_at(f.map_from_arrays(names, keys), f.col("key"))
    return f.coalesce(known, -1 - f.col("partition"))
