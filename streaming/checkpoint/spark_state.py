"""Reads a job's state with Spark's `statestore` reader.

`state_reader` reads the files without a JVM and falls back to this module.
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
    """Return the state columns of every cell after a batch.

    Args:
        session: a Spark session with the RocksDB state store.
        checkpoint: the job's checkpoint directory.
        batch: a committed batch.
        names: cell names by grouping key.

    Returns:
        Row version and columns by cell name.

    Raises:
        UserError: Spark cannot read the state.
    """
    return {
        names[row["key"][0]]: (state["version"], _columns(state))
        for row in _rows(session, checkpoint, batch)
        for state in [row["value"]["groupState"]]
        if row["key"][0] in names
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
    """The last cause in a Java stack trace, or its first line."""
    lines = text.splitlines()
    causes = [line for line in lines if line.startswith("Caused by:")]
    return causes[-1].removeprefix("Caused by:").strip() if causes else lines[0]
