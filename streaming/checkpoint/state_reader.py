"""The state of a job, read from its checkpoint: what a batch has committed.

The job may run, be stopped, or have been killed; nothing is written. The state store's files are
read here, without a JVM; where they do not do (another store, format or codec, a file that is
missing), Spark's `statestore` reader is asked.
"""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from brokertwin.errors import UserError
from brokertwin.sinks.stored_states import Cells, Stored, in_this_version
from brokertwin.state.cell.cell import STATE_VERSION, Meta, state_columns
from brokertwin.state.core.pending import NO_DEADLINE
from brokertwin.streaming.checkpoint import checkpoint_log, facts, spark_state, store_files
from brokertwin.streaming.checkpoint.facts import Facts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_cells(
    checkpoint: Path,
    batch: int | None = None,
    session: "Callable[[], SparkSession] | None" = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Cells:
    """The state columns of every cell, as a batch has left them.

    Args:
        checkpoint: the job's checkpoint directory.
        batch: a committed batch; without it the newest.
        session: gives a Spark session with the RocksDB state store, for where the files do not do.
        tell: is told which way it is read.

    Raises:
        UserError: no checkpoint of ours; the batch has not committed, is no longer kept, or cannot
            be read.
    """
    where = f"the checkpoint {checkpoint}"
    return in_this_version(where, _read(checkpoint, batch, session, tell))


def read_stored(
    checkpoint: Path,
    batch: int | None = None,
    session: "Callable[[], SparkSession] | None" = None,
) -> Cells:
    """As `read_cells`, large columns in layers, as stored: who needs one table pays for one.

    That one of them is damaged shows where it is opened (`layers.DamagedError`).
    """
    stored = _read(checkpoint, batch, session, lambda _: None)
    if all(version == STATE_VERSION for version, _ in stored.values()):
        return {name: columns for name, (_, columns) in stored.items()}
    return in_this_version(f"the checkpoint {checkpoint}", stored)


def _read(
    checkpoint: Path,
    batch: int | None,
    session: "Callable[[], SparkSession] | None",
    tell: Callable[[str], None],
) -> Stored:
    """What `read_cells` reads, as it lies there; raises as that does."""
    wanted = committed_batch(checkpoint, batch)
    known = facts.read(checkpoint)
    assert known is not None
    facts.check_version(checkpoint, known)
    try:
        stored = _from_files(checkpoint, wanted, known)
    except store_files.NotReadable as reason:
        if session is None:
            raise UserError(
                f"Cannot read the state of micro-batch {wanted} in {checkpoint}.", f"{reason}."
            ) from None
        tell(f"read with Spark, because the files of {checkpoint} are not readable: {reason}")
        names = {group: name for name, group in known.groups.items()}
        stored = spark_state.read_cells(session(), checkpoint, wanted, names)
    else:
        tell(f"read from the files of {checkpoint}, without Spark")
    return stored


def _from_files(checkpoint: Path, batch: int, known: Facts) -> Stored:
    """Raises store_files.NotReadable."""
    states = store_files.read_states(checkpoint, batch, known.groups.values())
    return {name: of_row(states[group]) for name, group in known.groups.items() if group in states}


def of_row(state: bytes) -> tuple[int, dict[str, bytes]]:
    """Version and columns of a state row; NULL is empty. Raises store_files.NotReadable."""
    names = state_columns()
    count = 1 + len(names)
    try:
        version, *columns = store_files.unsafe_row(state, count, range(1, count))
    except struct.error as error:
        raise store_files.NotReadable(f"a state row is truncated: {error}") from None
    found = {name: column or b"" for name, column in zip(names, columns, strict=True)}
    return int.from_bytes(version or b"", "little"), found


def committed_batch(checkpoint: Path, batch: int | None = None) -> int:
    """The batch that is asked for; without one the newest that has committed.

    Raises:
        UserError: it is no checkpoint of ours, none has committed yet, or not this one.
    """
    kept = checkpoint_log.kept(checkpoint)
    if not kept or facts.read(checkpoint) is None:
        raise UserError(
            f"{checkpoint} is not a checkpoint with a committed micro-batch.",
            "Check --checkpoint or --prefix, or run the job first.",
        )
    if batch is not None and batch not in kept:
        raise UserError(
            f"{checkpoint} has no state of micro-batch {batch}.",
            f"Pass a micro-batch from {kept[0]} to {kept[-1]}.",
        )
    return kept[-1] if batch is None else batch


def outstanding(checkpoint: Path) -> dict[str, int]:
    """The deadlines, in ms since 1970, that the clock of a restored job may not know: by cell.

    Its topic `timers` has them only if it is that of the job before.
    """
    known = facts.read(checkpoint)
    if known is None or not known.restored_from:
        return {}
    metas = {
        name: msgspec.msgpack.decode(columns["meta"], type=Meta)
        for name, columns in read_cells(checkpoint).items()
    }
    return {
        name: meta.outstanding for name, meta in metas.items() if meta.outstanding != NO_DEADLINE
    }
