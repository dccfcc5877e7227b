"""History of committed offsets as one Parquet file: a row for each commit and tombstone.

Derived columns are the previous offset, the direction, the time since the previous commit, and the
cause. `offset_history` keeps the original rows.
"""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from brokertwin.errors import UserError
from brokertwin.offsets.history import OffsetMove
from brokertwin.sinks.files import replacing

_TIME = pa.timestamp("ms", "UTC")

SCHEMA = pa.schema(
    [
        pa.field("time", _TIME, nullable=False),
        pa.field("group", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("before", pa.int64()),
        pa.field("after", pa.int64()),
        pa.field("distance", pa.int64()),
        pa.field("direction", pa.string(), nullable=False),
        pa.field("since_ms", pa.int64()),
        pa.field("metadata", pa.string()),
        pa.field("leader_epoch", pa.int32()),
        pa.field("commit_timestamp", _TIME),
        pa.field("by", pa.string(), nullable=False),
        pa.field("log_partition", pa.int32(), nullable=False),
        pa.field("log_offset", pa.int64(), nullable=False),
    ]
)
"""`after`, `metadata`, `leader_epoch` and `commit_timestamp` are null for a tombstone.

`before` is null for a first commit.
"""

ROWS = 65_536
"""Rows of a row group."""


def write(file: Path, moves: Iterable[OffsetMove]) -> int:
    """Write a file atomically; return its number of rows.

    Raises UserError if it cannot be written.
    """
    count, remaining = 0, iter(moves)
    try:
        with (
            replacing(file) as temporary,
            temporary.open("wb") as out,
            pq.ParquetWriter(out, SCHEMA, compression="zstd") as writer,
        ):
            while some := [_columns(move) for move in islice(remaining, ROWS)]:
                writer.write_table(pa.Table.from_pylist(some, SCHEMA))
                count += len(some)
    except OSError as error:
        raise UserError(f"Cannot write to {file}: {error.strerror}.") from None
    return count


def _columns(move: OffsetMove) -> dict[str, Any]:
    row, key, after = move.row, move.key, move.after
    return {
        "time": row.timestamp,
        "group": key.group,
        "topic": key.topic,
        "partition": key.partition,
        "before": move.before.offset if move.before else None,
        "after": after.offset if after else None,
        "distance": move.distance,
        "direction": move.direction.value,
        "since_ms": move.since_ms,
        "metadata": after.metadata if after else None,
        "leader_epoch": after.leader_epoch if after else None,
        "commit_timestamp": after.commit_timestamp if after else None,
        "by": move.by,
        "log_partition": row.partition,
        "log_offset": row.offset,
    }
