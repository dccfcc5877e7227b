"""The state of a job, read from its checkpoint with Spark's `statestore` reader.

It reads what a batch has committed, from a job that runs or one that is stopped, and never writes.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from brokerstream.errors import UserError
from brokerstream.state.cell import state_columns
from brokerstream.streaming import checkpoint_log, facts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_cells(
    session: "SparkSession", checkpoint: Path, batch: int | None = None
) -> dict[str, dict[str, bytes]]:
    """The state columns of every cell, as a batch has left them.

    Args:
        session: any Spark session with the RocksDB state store.
        checkpoint: the job's checkpoint directory.
        batch: a committed batch; without it the newest.

    Returns:
        Cell name to its columns, as `Cell(settings, columns)` takes them.

    Raises:
        UserError: no checkpoint of ours, or the batch has not committed or is no longer kept.
    """
    wanted = committed_batch(checkpoint, batch)
    known = facts.read(checkpoint)
    assert known is not None
    names = {group: name for name, group in known.groups.items()}
    rows = _rows(session, checkpoint, wanted)
    return dict(_cells(rows, names, checkpoint, wanted))


def committed_batch(checkpoint: Path, batch: int | None = None) -> int:
    """The batch that is asked for; without one the newest that has committed.

    Raises:
        UserError: it is no checkpoint of ours, none has committed yet, or not this one.
    """
    newest = checkpoint_log.committed(checkpoint)
    if newest == checkpoint_log.NONE or facts.read(checkpoint) is None:
        raise UserError(
            f"{checkpoint} is no checkpoint with a committed batch.",
            "Is --checkpoint (or --prefix) that of a job that has run?",
        )
    if batch is not None and not 0 <= batch <= newest:
        raise UserError(f"The batches 0 to {newest} have committed; {batch} has not.")
    return newest if batch is None else batch


def _rows(session: "SparkSession", checkpoint: Path, batch: int) -> "DataFrame":
    reader = session.read.format("statestore").option("path", str(checkpoint))
    return reader.option("batchId", batch).load()


def _cells(
    rows: "DataFrame", names: Mapping[int, str], checkpoint: Path, batch: int
) -> Iterator[tuple[str, dict[str, bytes]]]:
    from pyspark.errors import PySparkException

    try:
        collected = rows.collect()
    except PySparkException as error:
        raise UserError(
            f"The state of batch {batch} in {checkpoint} cannot be read.",
            f"Old batches are removed after a while. Spark says: {str(error).splitlines()[0]}",
        ) from None
    for row in collected:
        state = row["value"]["groupState"]
        columns = {name: bytes(state[name] or b"") for name in state_columns()}
        yield names[row["key"][0]], columns
