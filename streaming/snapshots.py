"""Parquet snapshots of committed offsets, each an exact cut of a committed micro-batch."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from brokerstream.kafka_io.placement import cluster_of
from brokerstream.sinks import offsets_snapshot
from brokerstream.sinks.offsets_snapshot import Manifest
from brokerstream.state.cell.cell import STATE_VERSION
from brokerstream.streaming import checkpoint_log
from brokerstream.streaming.state_reader import committed_batch, read_cells

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def take(
    checkpoint: Path,
    directory: Path,
    batch: int | None = None,
    session: "Callable[[], SparkSession] | None" = None,
) -> Manifest:
    """Write the committed offsets, as a batch has left them, below `directory`.

    Args:
        checkpoint: the job's checkpoint directory.
        directory: where the Parquet file and its manifest go.
        batch: a committed batch; without it the newest.
        session: as of `state_reader.read_cells`.

    Raises:
        UserError: there is no such batch, or the files cannot be written.
    """
    wanted = committed_batch(checkpoint, batch)
    cells = read_cells(checkpoint, wanted, session)
    rows = [
        row
        for cell, columns in cells.items()
        for row in offsets_snapshot.rows_of_cell(cluster_of(cell), columns["groups"])
    ]
    offsets = {
        topic: {str(partition): offset for partition, offset in ends.items()}
        for topic, ends in checkpoint_log.end_offsets(checkpoint, wanted).items()
    }
    return offsets_snapshot.write(directory, wanted, rows, offsets, STATE_VERSION)
