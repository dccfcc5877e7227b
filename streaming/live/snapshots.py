"""Snapshots of the entity rows in Parquet, read from Spark's state of a committed micro-batch.

The file `TABLE/batch-N.parquet` has the rows after micro-batch N, which the topic has, too.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from brokertwin.sinks import files
from brokertwin.streaming.live import operator, tables
from brokertwin.streaming.live.modes import KeyMode
from brokertwin.streaming.live.operator import Bucket
from brokertwin.streaming.live.query import LiveQuery
from brokertwin.streaming.live.tables import EntityTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

KEPT = 10
"""Number of newest snapshots of a table that are kept."""


def write_snapshot(
    session: "SparkSession", query: LiveQuery, directory: Path, batch: int
) -> list[Path]:
    """Write the entity rows after a committed micro-batch, a file for each table."""
    read = state_rows(session, query, batch).cache()
    try:
        return [
            _write(table, rows_of(read, table).toArrow(), directory, batch)
            for table in tables.TABLES
            if table.has_topic
        ]
    finally:
        read.unpersist()


def state_rows(session: "SparkSession", query: LiveQuery, batch: int) -> "DataFrame":
    """The state after a micro-batch: cluster, kind, id, and a struct for each table."""
    from pyspark.sql import functions as f

    state = (
        session.read.format("statestore")
        .option("path", str(query.checkpoint))
        .option("batchId", batch)
        .load()
    )
    if query.mode is KeyMode.ENTITY:
        return state.select("key.*", "value.groupState.*").drop("entity", "timeoutTimestamp")
    entities = state.select(f.col("key.cluster"), f.col("value.groupState.entities"))
    structs = [f"{each.column} {each.struct}" for each in tables.TABLES]
    schema = ", ".join([*(f"{name} STRING" for name in operator.ENTITY_KEYS), *structs])
    return entities.mapInPandas(_decoded, schema)


def _decoded(frames: "Iterable[pd.DataFrame]") -> "Iterator[pd.DataFrame]":
    import pandas as pd

    columns = [*operator.ENTITY_KEYS, *(each.column for each in tables.TABLES)]
    for frame in frames:
        rows: list[tuple[Any, ...]] = []
        for cluster, stored in zip(frame["cluster"], frame["entities"], strict=True):
            for key, row in Bucket(bytes(stored)).rows():
                structs = [
                    row.values if row is not None and row.table is each else None
                    for each in tables.TABLES
                ]
                rows.append((cluster, *key, *structs))
        if rows:
            yield pd.DataFrame(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))


def rows_of(state: "DataFrame", table: EntityTable) -> "DataFrame":
    from pyspark.sql import functions as f

    found = state.where(f.col(f"`{table.column}`").isNotNull())
    return found.select("cluster", f"`{table.column}`.*")


def _write(table: EntityTable, rows: Any, directory: Path, batch: int) -> Path:
    import pyarrow.parquet as pq

    target = directory / table.name
    target.mkdir(parents=True, exist_ok=True)
    path = target / f"batch-{batch:010}.parquet"
    with files.replacing(path) as temporary:
        pq.write_table(rows, temporary)
    for former in sorted(target.glob("batch-*.parquet"))[:-KEPT]:
        former.unlink()
    return path
