"""Reading a state as tables: from a checkpoint, a snapshot, or replayed recordings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from brokertwin.errors import UserError
from brokertwin.extras import need
from brokertwin.places import place
from brokertwin.recordings.replay import kept
from brokertwin.recordings.replay.until import ms_of_iso
from brokertwin.streaming.checkpoint import checkpoint_log, facts, state_reader, store_files
from brokertwin.streaming.live import stored_rows
from brokertwin.streaming.live import tables as live_tables
from brokertwin.tables import schemas, state_rows, stored_states
from brokertwin.tables.schemas import BATCH, BY_NAME, INT, LONG, TEXT, TIME, Column, TableSchema
from brokertwin.tables.state_rows import ItemKind

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

Source = str | PathLike[str]
Cells = Mapping[str, Mapping[str, bytes]]

SOURCES = "Name a checkpoint, a snapshot, or recordings."
MS_LEAST = 100_000_000_000
"""Numbers from here on are times in ms (since 1973), lower ones micro-batches."""


class Moment(NamedTuple):
    """Moment of a state: a micro-batch, or ms since 1970."""

    batch: int | None = None
    ms: int | None = None


class StoredState(NamedTuple):
    """A state, a description of its source, and topics whose log ends are not known."""

    cells: stored_states.Cells
    origin: str
    without_ends: frozenset[str] = frozenset()


class Tables:
    """A state as tables (`schemas.TABLES`).

    Args:
        cells: columns by cell.
        origin: description of the source.
        without_ends: names or ids of topics whose log ends are not known.
    """

    def __init__(
        self, cells: Cells, origin: str, without_ends: frozenset[str] = frozenset()
    ) -> None:
        need("brokertwin.tables", "pyarrow")
        self.cells, self.origin = cells, origin
        self._without_ends = without_ends
        self._made: dict[str, pa.Table] = {}

    @property
    def schemas(self) -> Mapping[str, TableSchema]:
        return BY_NAME

    @property
    def names(self) -> list[str]:
        return list(self.schemas)

    def rows(self, name: str) -> Sequence[Mapping[str, Any]]:
        return state_rows.rows(ItemKind(BY_NAME[name].kind), self.cells, self._without_ends)

    def arrow(self, name: str) -> "pa.Table":
        """Return a table in Arrow, with descriptions in the metadata of its fields.

        Raises:
            UserError: unknown table.
        """
        if name not in self._made:
            table = table_named(name, self.schemas)
            self._made[name] = arrow_of(table, self.rows(name))
        return self._made[name]

    def pandas(self, name: str) -> "pd.DataFrame":
        """Return a table as a pandas frame. Raises UserError as `arrow`."""
        frame: pd.DataFrame = self.arrow(name).to_pandas()
        return frame

    def spark(self, name: str, session: "SparkSession") -> "DataFrame":
        """Return a table as a Spark frame. Raises UserError as `arrow`."""
        return session.createDataFrame(self.arrow(name))

    def sql(self, query: str) -> "pa.Table":
        """Run a query in DuckDB's SQL over these tables; returns an Arrow table.

        Raises:
            UserError: the query is invalid or not a query.
        """
        from brokertwin.tables.query import sql

        return sql.run(self, query)

    def matching(self, kind: ItemKind, where: str) -> list[int]:
        """Return the row numbers of a table that match a SQL condition, in order.

        Raises:
            UserError: the condition is invalid.
        """
        from brokertwin.tables.query import sql

        return sql.matching(self, kind.value.replace("-", "_"), where)


class LiveTables(Tables):
    """The entities of a live audit as tables (`LIVE`).

    `batch`: a committed micro-batch.
    """

    def __init__(self, checkpoint: Path, batch: int) -> None:
        super().__init__({}, f"after micro-batch {batch}")
        self._checkpoint, self._batch = checkpoint, batch

    @property
    def schemas(self) -> Mapping[str, TableSchema]:
        return LIVE

    def rows(self, name: str) -> Sequence[Mapping[str, Any]]:
        """Return the rows of a table, by their key. Raises UserError if they are not readable."""
        table = live_tables.BY_NAME[name]
        found = [
            row
            for partition in range(stores_of(self._checkpoint, self._batch))
            for row in live_rows(self._checkpoint, table, self._batch, partition)
        ]
        return sorted(found, key=lambda row: [row[by] for by in ("cluster", *table.keys)])


def live_rows(
    checkpoint: Path, table: live_tables.EntityTable, batch: int, partition: int
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a shuffle partition. Raises UserError if it is not readable."""
    try:
        yield from stored_rows.rows(checkpoint, table, batch, partition)
    except store_files.NotReadable as reason:
        raise _not_readable(checkpoint, batch, reason) from None


def stores_of(checkpoint: Path, batch: int) -> int:
    """Return the number of shuffle partitions. Raises UserError if files are not readable."""
    try:
        return store_files.partitions(checkpoint, batch)
    except store_files.NotReadable as reason:
        raise _not_readable(checkpoint, batch, reason) from None


def _not_readable(checkpoint: Path, batch: int, reason: store_files.NotReadable) -> UserError:
    return UserError(f"Cannot read micro-batch {batch} in {checkpoint}: {reason}.")


def table_named(name: str, tables: Mapping[str, TableSchema]) -> TableSchema:
    """Return a table. Raises UserError if there is none with this name."""
    if name not in tables:
        raise UserError(f"There is no table {name}.", f"Use one of {', '.join(tables)}.")
    return tables[name]


def _live_schema(table: live_tables.EntityTable) -> TableSchema:
    types = {"INT": INT, "BIGINT": LONG, "STRING": TEXT, live_tables.BATCH: BATCH}
    columns = [Column("cluster", TEXT, "the cluster")]
    columns += [Column(name, types[kind], "") for name, kind in table.columns.items()]
    return TableSchema(table.name, "", tuple(columns))


LIVE = {each.name: _live_schema(each) for each in live_tables.TABLES}
"""Tables of a live audit; docs/live.md describes them."""


def arrow_of(table: schemas.TableSchema, rows: Sequence[Mapping[str, Any]]) -> "pa.Table":
    """Convert rows of `state_rows` to an Arrow table by its schema; time -1 is NULL."""
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


def of_cells(cells: Cells) -> Tables:
    """Return the tables of cells: name to columns, as in `Cell.columns`."""
    return Tables(cells, "these cells")


def read(
    source: Source | Sequence[Source],
    *,
    as_of: int | str | datetime | None = None,
    time_zone: tzinfo = UTC,
    broker_settings: Mapping[str, str] | None = None,
    session: "Callable[[], SparkSession] | None" = None,
) -> Tables:
    """Read the state in a checkpoint, a snapshot or recordings.

    Args:
        source: directory of a checkpoint, whose job may be running; of a snapshot, or of several,
            the newest of which is read; of a state kept by `replay --keep`; or files of recorded
            exchanges, which are replayed.
        as_of: number of a micro-batch, or a time. For a checkpoint, the last batch that started by
            then. For recordings a time, or an exchange (`orders.jsonl:120`). Default: the newest
            state.
        time_zone: zone of times without one.
        broker_settings: settings by Kafka's names, for recordings without recorded settings.
        session: returns a Spark session, for checkpoints that require one.

    Raises:
        UserError: there is no state, or none at that moment.
    """
    sources = [source] if isinstance(source, str | PathLike) else list(source)
    paths = [place(each) for each in sources]
    if not paths:
        raise UserError("There is no source to read.", SOURCES)
    for path in paths:
        if not path.exists():
            raise UserError(f"{path} does not exist.", SOURCES)
    if not paths[0].is_dir():
        from brokertwin.tables.query import recordings

        until = as_of.isoformat() if isinstance(as_of, datetime) else as_of
        text = None if until is None else str(until)
        when = "at the end" if text is None else f"at {text}"
        origin = f"{when} of {', '.join(path.name for path in paths)}"
        found = recordings.replayed(paths, text, time_zone, broker_settings)
        return Tables(found.cells, origin, found.without_ends)
    if len(paths) > 1:
        raise UserError("Several sources must all be recordings.", "Pass only one directory.")
    kept_state = stored(paths[0], as_of, time_zone)
    if kept_state is not None:
        return Tables(*kept_state)
    moment = moment_of(as_of, time_zone)
    if stored_rows.is_live(paths[0]):
        return LiveTables(paths[0], batch_of(paths[0], moment))
    return of_checkpoint(paths[0], moment, session)


def register(session: "SparkSession", push_filters: bool = False) -> None:
    """Register the data source `brokertwin` in a Spark session, as docs/query.md describes."""
    from brokertwin.tables.query import spark_source

    spark_source.register(session, push_filters)


def stored(
    directory: Path, as_of: int | str | datetime | None = None, time_zone: tzinfo = UTC
) -> StoredState | None:
    """Return the state in a directory of snapshots or a kept state; None for others.

    Raises:
        UserError: there is no state at that moment.
    """
    if kept.is_kept(directory):
        if as_of is not None:
            raise UserError(
                f"{directory} has the state of only one moment.",
                "Create another with: brokertwin replay FILE --at … --keep DIR",
            )
        found = kept.read(directory)
        return StoredState({found.cluster: found.columns}, found.origin, found.without_ends)
    if facts.read(directory) is None and is_snapshots(directory):
        return _of_snapshot(directory, moment_of(as_of, time_zone))
    return None


def of_checkpoint(
    checkpoint: Path,
    as_of: Moment | None = None,
    session: "Callable[[], SparkSession] | None" = None,
) -> Tables:
    """Read the state in a checkpoint.

    Args:
        checkpoint: checkpoint of a job that is running, has ended, or was killed.
        as_of: moment; None: the newest batch.
        session: as in `state_reader.read_cells`.

    Raises:
        UserError: there is no state, or none at that moment.
    """
    batch = batch_of(checkpoint, as_of)
    cells = state_reader.read_cells(checkpoint, batch, session)
    return Tables(cells, f"after micro-batch {batch}")


def batch_of(checkpoint: Path, as_of: Moment | None) -> int:
    """Return the committed batch of a moment; also of a live audit. Raises UserError."""
    committed = state_reader.committed_batch
    if stored_rows.is_live(checkpoint):
        committed = checkpoint_log.committed_batch
    if as_of is None or as_of.ms is None:
        return committed(checkpoint, as_of.batch if as_of else None)
    newest = committed(checkpoint)
    kept = checkpoint_log.kept(checkpoint)
    begun = {batch: checkpoint_log.begun_ms(checkpoint, batch) for batch in kept}
    batches = [batch for batch in kept if batch <= newest and begun[batch] <= as_of.ms]
    if not batches:
        raise UserError(
            f"{checkpoint} has no state at {_at(as_of.ms)}.",
            f"Its oldest micro-batch, {kept[0]}, started at {_at(begun[kept[0]])}.",
        )
    return batches[-1]


def moment_of(as_of: int | str | datetime | None, zone: tzinfo) -> Moment | None:
    """Parse a moment: a small number is a micro-batch, a large one ms since 1970.

    Raises:
        UserError: neither a number nor a time.
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
    return (directory / "snapshot.json").is_file() or any(directory.glob("*/snapshot.json"))


def _of_snapshot(directory: Path, as_of: Moment | None) -> StoredState:
    from brokertwin.sinks import snapshot_store

    path = snapshot_at(directory, as_of)
    manifest = snapshot_store.manifest(path)
    version = manifest.state_version
    stored = {name: (version, columns) for name, columns in snapshot_store.read_cells(path).items()}
    cells = stored_states.in_this_version(f"the snapshot {path}", stored)
    return StoredState(cells, f"after micro-batch {manifest.batch} ({path.name})")


def snapshot_at(directory: Path, as_of: Moment | None) -> Path:
    """Return the snapshot of a moment below a directory, or the directory. Raises UserError."""
    from brokertwin.sinks import snapshot_store

    if not (directory / snapshot_store.MANIFEST).is_file():
        return snapshot_store.find(directory, _name_of(directory, as_of))
    if as_of is not None:
        raise UserError(f"{directory} is a single snapshot.", "Pass the parent directory.")
    return directory


def _name_of(directory: Path, as_of: Moment | None) -> str | None:
    """Return the name of the snapshot of a moment, or None for the newest."""
    from brokertwin.sinks import snapshot_store

    if as_of is None:
        return None
    snapshots = [
        each
        for each in snapshot_store.list_all(directory)
        if each.batch == as_of.batch or (as_of.ms is not None and each.taken_ms <= as_of.ms)
    ]
    if not snapshots:
        what = f"micro-batch {as_of.batch}" if as_of.ms is None else _at(as_of.ms)
        raise UserError(
            f"There is no snapshot of {what} in {directory}.",
            "List the snapshots with: brokertwin snapshot list",
        )
    return snapshots[-1].name


def _at(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(" ", "milliseconds")
