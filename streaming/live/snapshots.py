"""Snapshots of the entity rows in Parquet, read from Spark's state of a committed micro-batch.

The file `TABLE/batch-N.parquet` has the rows after micro-batch N, which the topic has, too.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from brokertwin.recordings.history.entity import EntityKey
from brokertwin.sinks import files
from brokertwin.streaming.live import operator, tables
from brokertwin.streaming.live.entity import LiveEntity
from brokertwin.streaming.live.halves import CONNECTION
from brokertwin.streaming.live.modes import KeyMode
from brokertwin.streaming.live.operator import Bucket
from brokertwin.streaming.live.query import LiveQuery
from brokertwin.streaming.live.tables import EntityTable, Row

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
    structs = [f"{each.column} {each.struct}" for each in tables.TABLES]
    schema = ", ".join([*(f"{name} STRING" for name in operator.ENTITY_KEYS), *structs])
    if query.mode is KeyMode.ENTITY:
        return state.select("key.*", "value.groupState.entity").mapInPandas(_of_keys, schema)
    entities = state.select(f.col("key.cluster"), f.col("value.groupState.entities"))
    return entities.mapInPandas(_of_buckets, schema)


def _of_keys(frames: "Iterable[pd.DataFrame]") -> "Iterator[pd.DataFrame]":
    """Decode the rows of `--key entity`: the state does not have all columns (`added`)."""
    for frame in frames:
        names = (frame[name] for name in operator.ENTITY_KEYS)
        yield from _frame(
            (cluster, key, tables.row_of(key, LiveEntity(key, bytes(stored)).machine))
            for cluster, kind, name, stored in zip(*names, frame["entity"], strict=True)
            for key in [EntityKey(kind, name)]
            if kind != CONNECTION
        )


def _of_buckets(frames: "Iterable[pd.DataFrame]") -> "Iterator[pd.DataFrame]":
    for frame in frames:
        yield from _frame(
            (cluster, key, row)
            for cluster, stored in zip(frame["cluster"], frame["entities"], strict=True)
            for key, row in Bucket(bytes(stored)).rows()
        )


def _frame(found: "Iterable[tuple[str, EntityKey, Row | None]]") -> "Iterator[pd.DataFrame]":
    import pandas as pd

    columns = [*operator.ENTITY_KEYS, *(each.column for each in tables.TABLES)]
    rows = [
        (
            cluster,
            *key,
            *(row.values if row and row.table is each else None for each in tables.TABLES),
        )
        for cluster, key, row in found
    ]
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
