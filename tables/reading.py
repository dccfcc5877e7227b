"""Reading a state as tables: from a checkpoint, a snapshot, or recordings that are replayed."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from brokertwin.errors import UserError
from brokertwin.extras import need
from brokertwin.recordings.replay import kept
from brokertwin.recordings.replay.until import ms_of_iso
from brokertwin.sinks import state_rows, stored_states
from brokertwin.sinks.state_rows import Kind
from brokertwin.streaming.checkpoint import checkpoint_log, facts, state_reader
from brokertwin.tables import schemas
from brokertwin.tables.schemas import BY_NAME, TIME

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Source = str | PathLike[str]
Cells = Mapping[str, Mapping[str, bytes]]

WHAT = "Name a checkpoint, a snapshot, or recordings."
MS_LEAST = 100_000_000_000
"""A number from here on is a time in ms (it is in 1973), not that of a micro-batch."""


class Moment(NamedTuple):
    """Of when a state is wanted: a micro-batch, or ms since 1970."""

    batch: int | None = None
    ms: int | None = None


class Stored(NamedTuple):
    """A state that was read, and what it was read from, in words."""

    cells: stored_states.Cells
    origin: str


class Tables:
    """A state as tables (`schemas.TABLES`).

    Args:
        cells: cell to its columns.
        origin: what it was read from, in words.
    """

    def __init__(self, cells: Cells, origin: str) -> None:
        need("brokertwin.tables", "pyarrow")
        self._cells, self.origin = cells, origin
        self._made: dict[str, pa.Table] = {}

    @property
    def names(self) -> list[str]:
        """The names of all tables."""
        return list(BY_NAME)

    def arrow(self, name: str) -> "pa.Table":
        """A table in Arrow; its fields have their meanings in their metadata.

        Raises:
            UserError: there is no such table.
        """
        if name not in BY_NAME:
            raise UserError(f"There is no table {name}.", f"Use one of {', '.join(BY_NAME)}.")
        if name not in self._made:
            table = BY_NAME[name]
            self._made[name] = arrow_of(table, state_rows.rows(table.kind, self._cells))
        return self._made[name]

    def pandas(self, name: str) -> "pd.DataFrame":
        """A table as a pandas frame. Raises UserError as `arrow`."""
        frame: pd.DataFrame = self.arrow(name).to_pandas()
        return frame

    def spark(self, name: str, session: "SparkSession") -> "DataFrame":
        """A table as a frame of a Spark session. Raises UserError as `arrow`."""
        return session.createDataFrame(self.arrow(name))

    def sql(self, query: str) -> "pa.Table":
        """What a query in DuckDB's SQL gives over these tables, in Arrow.

        Raises:
            UserError: DuckDB does not take it, or it gives no rows.
        """
        from brokertwin.tables import sql

        return sql.run(self, query)

    def matching(self, kind: Kind, where: str) -> list[int]:
        """The numbers of the rows of a table of which a condition in SQL is true, in order.

        Raises:
            UserError: DuckDB does not take the condition.
        """
        from brokertwin.tables import sql

        return sql.matching(self, kind.value.replace("-", "_"), where)


def arrow_of(table: schemas.Table, rows: Sequence[Mapping[str, Any]]) -> "pa.Table":
    """Rows of `state_rows` as the Arrow table that the schema says; a time of -1 is NULL."""
    import pyarrow as pa

    schema = schemas.arrow_schema(table)
    arrays = [
        pa.array(
            [_value(row[column.name], column.type) for row in rows],
            type=schema.field(column.name).type,
        )
        for column in table.columns
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _value(value: Any, kind: str) -> Any:
    if kind == TIME:
        return None if value is None or value < 0 else value
    return list(value.items()) if kind == schemas.MAP else value


def of_cells(cells: Cells, origin: str = "these cells") -> Tables:
    """The tables of cells: name to columns, as `Cell.columns` gives them."""
    return Tables(cells, origin)


def read(
    source: Source | Sequence[Source],
    *,
    as_of: int | str | datetime | None = None,
    time_zone: tzinfo = UTC,
    broker_settings: Mapping[str, str] | None = None,
    session: "Callable[[], SparkSession] | None" = None,
) -> Tables:
    """The state in a checkpoint, a snapshot or recordings.

    Args:
        source: a checkpoint's directory, of a job that may run; a snapshot's directory, or that of
            many, whose newest is taken; that of a state that `replay --keep` has left; or files of
            recorded exchanges, which are replayed.
        as_of: a micro-batch's number, or a time: of a checkpoint what the newest batch that began
            by then has left. Of recordings a time, or an exchange (`orders.jsonl:120`). Without it
            the newest.
        time_zone: of a time that names none.
        broker_settings: by Kafka's names; of recordings that have none beside them.
        session: gives a Spark session, for a checkpoint whose files cannot be read without.

    Raises:
        UserError: there is no state, or not as of then.
    """
    sources = [source] if isinstance(source, str | PathLike) else list(source)
    paths = [Path(each) for each in sources]
    if not paths:
        raise UserError("There is no source to read.", WHAT)
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} does not exist.", WHAT)
    if not paths[0].is_dir():
        from brokertwin.tables import recordings

        until = as_of.isoformat() if isinstance(as_of, datetime) else as_of
        text = None if until is None else str(until)
        when = "at the end" if text is None else f"at {text}"
        origin = f"{when} of {', '.join(path.name for path in paths)}"
        return Tables(recordings.cells(paths, text, time_zone, broker_settings), origin)
    if len(paths) > 1:
        raise UserError("Several sources must all be recordings.", "Pass only one directory.")
    found = stored(paths[0], as_of, time_zone)
    if found is not None:
        return Tables(*found)
    return of_checkpoint(paths[0], moment_of(as_of, time_zone), session)


def stored(
    directory: Path, as_of: int | str | datetime | None = None, time_zone: tzinfo = UTC
) -> Stored | None:
    """The state in a directory that is no checkpoint: a kept one, a snapshot, or some of these.

    Raises:
        UserError: it has none of then.
    """
    if kept.is_kept(directory):
        return _of_kept(directory, as_of)
    if facts.read(directory) is None and is_snapshots(directory):
        return _of_snapshot(directory, moment_of(as_of, time_zone))
    return None


def of_checkpoint(
    checkpoint: Path,
    as_of: Moment | None = None,
    session: "Callable[[], SparkSession] | None" = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Tables:
    """The state in a checkpoint's directory.

    Args:
        checkpoint: of a job that runs, has ended, or was killed.
        as_of: of when; None is the newest batch.
        session: as of `state_reader.read_cells`, and `tell`.
        tell: is told how it was read.

    Raises:
        UserError: there is no state, or not as of then.
    """
    batch = batch_of(checkpoint, as_of)
    cells = state_reader.read_cells(checkpoint, batch, session, tell)
    return Tables(cells, f"after micro-batch {batch}")


def batch_of(checkpoint: Path, as_of: Moment | None) -> int:
    """The committed batch that a moment means. Raises UserError."""
    if as_of is None or as_of.ms is None:
        return state_reader.committed_batch(checkpoint, as_of.batch if as_of else None)
    newest = state_reader.committed_batch(checkpoint)
    kept = checkpoint_log.kept(checkpoint)
    begun = {batch: checkpoint_log.begun_ms(checkpoint, batch) for batch in kept}
    found = [batch for batch in kept if batch <= newest and begun[batch] <= as_of.ms]
    if not found:
        raise UserError(
            f"{checkpoint} has no state at {_at(as_of.ms)}.",
            f"Its oldest micro-batch, {kept[0]}, started at {_at(begun[kept[0]])}.",
        )
    return found[-1]


def moment_of(as_of: int | str | datetime | None, zone: tzinfo) -> Moment | None:
    """What a user means: a number is a micro-batch, or, if it is large, ms since 1970.

    Raises:
        UserError: it is neither a number nor a time.
    """
    if as_of is None:
        return None
    if isinstance(as_of, datetime) or (isinstance(as_of, str) and not as_of.isdecimal()):
        ms = ms_of_iso(str(as_of), zone)
        if ms is None:
            raise UserError(
                f"{as_of!r} is neither a micro-batch nor a time.",
                "Pass a number, 17, or a time, 2026-03-01T12:00:03.",
            )
        return Moment(ms=ms)
    number = int(as_of)
    return Moment(batch=number) if number < MS_LEAST else Moment(ms=number)


def is_snapshots(directory: Path) -> bool:
    """Whether a directory is a snapshot's, or that of some."""
    return (directory / "snapshot.json").is_file() or any(directory.glob("*/snapshot.json"))


def _of_kept(directory: Path, as_of: int | str | datetime | None) -> Stored:
    if as_of is not None:
        raise UserError(
            f"{directory} has the state of only one moment.",
            "Create another with: brokertwin replay FILE --until … --keep DIR",
        )
    found = kept.read(directory)
    return Stored({found.cluster: found.columns}, found.origin)


def _of_snapshot(directory: Path, as_of: Moment | None) -> Stored:
    from brokertwin.sinks import snapshot_store

    if (directory / snapshot_store.MANIFEST).is_file():
        if as_of is not None:
            raise UserError(f"{directory} is a single snapshot.", "Pass the parent directory.")
        path = directory
    else:
        path = snapshot_store.find(directory, _name_of(directory, as_of))
    found = snapshot_store.manifest(path)
    version = found.state_version
    stored = {name: (version, columns) for name, columns in snapshot_store.read_cells(path).items()}
    cells = stored_states.in_this_version(f"the snapshot {path}", stored)
    return Stored(cells, f"after micro-batch {found.batch} ({path.name})")


def _name_of(directory: Path, as_of: Moment | None) -> str | None:
    """The name of the snapshot that a moment means; None for the newest."""
    from brokertwin.sinks import snapshot_store

    if as_of is None:
        return None
    found = [
        each
        for each in snapshot_store.list_all(directory)
        if each.batch == as_of.batch or (as_of.ms is not None and each.taken_ms <= as_of.ms)
    ]
    if not found:
        what = f"micro-batch {as_of.batch}" if as_of.ms is None else _at(as_of.ms)
        raise UserError(
            f"There is no snapshot of {what} in {directory}.",
            "List the snapshots with: brokertwin snapshot list",
        )
    return found[-1].name


def _at(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(" ", "milliseconds")
