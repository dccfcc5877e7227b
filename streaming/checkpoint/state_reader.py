"""Reads a job's committed state from its checkpoint.

The job can be running, stopped or killed; nothing is written. The state store's files are read
without a JVM. For another store, format or codec, or missing files, it uses Spark's `statestore`
reader.
"""

import struct
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from brokertwin.errors import UserError
from brokertwin.state.cell.cell import STATE_VERSION, Meta, state_columns
from brokertwin.state.core.pending import NO_DEADLINE
from brokertwin.streaming.checkpoint import checkpoint_log, facts, spark_state, store_files
from brokertwin.tables.stored_states import Cells, Stored, in_this_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_cells(
    checkpoint: Path,
    batch: int | None = None,
    session: "Callable[[], SparkSession] | None" = None,
    report: Callable[[str], None] = lambda _: None,
    only: Collection[str] | None = None,
) -> Cells:
    """Return the state columns of every cell after a batch.

    Args:
        checkpoint: the job's checkpoint directory.
        batch: a committed batch; the newest by default.
        session: starts a Spark session with the RocksDB state store, as a fallback.
        report: called with a text about how the state is read.
        only: names of cells; None: all.

    Raises:
        UserError: no checkpoint of brokertwin, or the batch is not committed, no longer kept or
            unreadable.
    """
    where = f"the checkpoint {checkpoint}"
    return in_this_version(where, _read(checkpoint, batch, session, report, only))


def read_stored(
    checkpoint: Path, batch: int | None = None, session: "Callable[[], SparkSession] | None" = None
) -> Cells:
    """Like `read_cells`, but large columns stay encoded in layers.

    Reading one table then costs only that table. Damage is found when a table is opened
    (`layers.DamagedError`).
    """
    stored = _read(checkpoint, batch, session, lambda _: None)
    if all(version == STATE_VERSION for version, _ in stored.values()):
        return {name: columns for name, (_, columns) in stored.items()}
    return in_this_version(f"the checkpoint {checkpoint}", stored)


def _read(
    checkpoint: Path,
    batch: int | None,
    session: "Callable[[], SparkSession] | None",
    report: Callable[[str], None],
    only: Collection[str] | None = None,
) -> Stored:
    """Read rows for `read_cells` as stored; raises like it."""
    batch_id = committed_batch(checkpoint, batch)
    job_facts = facts.read(checkpoint)
    assert job_facts is not None
    facts.check_version(checkpoint, job_facts)
    groups = {n: group for n, group in job_facts.groups.items() if only is None or n in only}
    try:
        states = store_files.read_states(checkpoint, batch_id, groups.values())
        stored = {name: of_row(states[key]) for name, key in groups.items() if key in states}
    except store_files.NotReadable as reason:
        if session is None:
            raise UserError(
                f"Cannot read the state of micro-batch {batch_id} in {checkpoint}.", f"{reason}."
            ) from None
        report(f"read with Spark, because the files of {checkpoint} are not readable: {reason}")
        names = {group: name for name, group in groups.items()}
        stored = spark_state.read_cells(session(), checkpoint, batch_id, names)
    else:
        report(f"read from the files of {checkpoint}, without Spark")
    return stored


def of_row(state: bytes) -> tuple[int, dict[str, bytes]]:
    """Return version and columns of a state row; NULL becomes empty.

    Raises store_files.NotReadable.
    """
    names = state_columns()
    count = 1 + len(names)
    try:
        version, *columns = store_files.unsafe_row(state, count, range(1, count))
    except struct.error as error:
        raise store_files.NotReadable(f"a state row is truncated: {error}") from None
    found = {name: column or b"" for name, column in zip(names, columns, strict=True)}
    return int.from_bytes(version or b"", "little"), found


def committed_batch(checkpoint: Path, batch: int | None = None) -> int:
    """Return the given batch, or the newest committed one.

    Raises:
        UserError: no checkpoint of brokertwin, or the batch is not committed.
    """
    if facts.read(checkpoint) is None:
        raise checkpoint_log.no_checkpoint(checkpoint)
    return checkpoint_log.committed_batch(checkpoint, batch)


def outstanding(checkpoint: Path) -> dict[str, int]:
    """The deadlines of a restored job by cell, in ms since 1970.

    Its topic `timers` has them only if it is the previous job's.
    """
    job_facts = facts.read(checkpoint)
    if job_facts is None or not job_facts.restored_from:
        return {}
    metas = {
        name: msgspec.msgpack.decode(columns["meta"], type=Meta)
        for name, columns in read_cells(checkpoint).items()
    }
    return {
        name: meta.outstanding for name, meta in metas.items() if meta.outstanding != NO_DEADLINE
    }
