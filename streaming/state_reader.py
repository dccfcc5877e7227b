"""The state of a job, read from its checkpoint with Spark's `statestore` reader.

It reads what a batch has committed, from a job that runs or one that is stopped, and never writes.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from brokerstream.errors import UserError
from brokerstream.state.cell.cell import state_columns
from brokerstream.streaming import checkpoint_log, facts

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession


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
    return {
        names[row["key"][0]]: _columns(row["value"]["groupState"])
        for row in _rows(session, checkpoint, wanted)
    }


def committed_batch(checkpoint: Path, batch: int | None = None) -> int:
    """The batch that is asked for; without one the newest that has committed.

    Raises:
        UserError: it is no checkpoint of ours, none has committed yet, or not this one.
    """
    kept = checkpoint_log.kept(checkpoint)
    if not kept or facts.read(checkpoint) is None:
        raise UserError(
            f"{checkpoint} is no checkpoint with a committed batch.",
            "Is --checkpoint (or --prefix) that of a job that has run?",
        )
    if batch is not None and batch not in kept:
        raise UserError(
            f"There is no state of micro-batch {batch} in {checkpoint}.",
            f"It has that of the micro-batches {kept[0]} to {kept[-1]}.",
        )
    return kept[-1] if batch is None else batch


def _rows(session: "SparkSession", checkpoint: Path, batch: int) -> "list[Row]":
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    reader = session.read.format("statestore").option("path", str(checkpoint))
    try:
        return reader.option("batchId", batch).load().collect()
    except (PySparkException, Py4JJavaError) as error:
        raise UserError(
            f"The state of micro-batch {batch} in {checkpoint} cannot be read.",
            f"Spark says: {_reason(str(error))}",
        ) from None


def _columns(state: "Row") -> dict[str, bytes]:
    return {name: bytes(state[name] or b"") for name in state_columns()}


def _reason(text: str) -> str:
    """The last cause in a Java stack trace, or the first line."""
    lines = text.splitlines()
    causes = [line for line in lines if line.startswith("Caused by:")]
    return causes[-1].removeprefix("Caused by:").strip() if causes else lines[0]
