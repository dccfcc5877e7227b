"""The state of a job, read from its checkpoint with Spark's own `statestore` reader.

`state_reader` reads the same from the files, without a JVM, and comes here where they do not do.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from brokertwin.errors import UserError
from brokertwin.state.cell.cell import state_columns

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession


def read_cells(
    session: "SparkSession", checkpoint: Path, batch: int, names: Mapping[int, str]
) -> dict[str, tuple[int, dict[str, bytes]]]:
    """The state columns of every cell, as a batch has left them.

    Args:
        session: any Spark session with the RocksDB state store.
        checkpoint: the job's checkpoint directory.
        batch: a committed batch.
        names: grouping key to the name of the cell.

    Returns:
        Cell name to the version of its row, and its columns.

    Raises:
        UserError: Spark cannot read it.
    """
    return {
        names[row["key"][0]]: (state["version"], _columns(state))
        for row in _rows(session, checkpoint, batch)
        for state in [row["value"]["groupState"]]
    }


def _rows(session: "SparkSession", checkpoint: Path, batch: int) -> "list[Row]":
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    reader = session.read.format("statestore").option("path", str(checkpoint))
    try:
        return reader.option("batchId", batch).load().collect()
    except (PySparkException, Py4JJavaError) as error:
        raise UserError(
            f"Cannot read the state of micro-batch {batch} in {checkpoint}.",
            f"Spark reported: {_reason(str(error))}",
        ) from None


def _columns(state: "Row") -> dict[str, bytes]:
    return {name: bytes(state[name] or b"") for name in state_columns()}


def _reason(text: str) -> str:
    """The last cause in a Java stack trace, or the first line."""
    lines = text.splitlines()
    causes = [line for line in lines if line.startswith("Caused by:")]
    return causes[-1].removeprefix("Caused by:").strip() if causes else lines[0]
