"""`brokertwin query`: SQL on the state of a job, a snapshot or a recording."""

import csv
import json
import sys
import warnings
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from brokertwin.cli import tables as drawn
from brokertwin.cli.files import check_new, writing
from brokertwin.cli.options import (
    At,
    BrokerConfig,
    BrokerSet,
    Checkpoint,
    ConfigFile,
    Force,
    Prefix,
    broker_settings,
    settings_of,
)
from brokertwin.cli.output import out, progress_bars, say, show_json, warn
from brokertwin.cli.visible import cell
from brokertwin.errors import UserError
from brokertwin.extras import need
from brokertwin.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa

    from brokertwin.tables import Moment, Tables

Query = Annotated[
    str | None,
    typer.Argument(metavar="[SQL]", help="SQL to run. Without it, list the tables."),
]
Sources = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[SOURCE…]",
        help="Directory of a checkpoint, a snapshot or `replay --keep`, or recordings to replay;"
        " default: the job's checkpoint.",
    ),
]
TimeZone = Annotated[
    str,
    typer.Option("--time-zone", metavar="NAME", help="Zone of --at and of logs: Europe/Berlin."),
]
Json = Annotated[bool, typer.Option("--json", "-J", help="Print one JSON line for each row.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")]
Parquet = Annotated[
    Path | None, typer.Option("--parquet", metavar="FILE", help="Write a Parquet file.")
]


def command(
    query: Query = None,
    source: Sources = None,
    at: At = None,
    as_json: Json = False,
    as_csv: Csv = False,
    parquet: Parquet = None,
    force: Force = False,
    time_zone: TimeZone = "UTC",
    broker_config: BrokerConfig = None,
    broker_set: BrokerSet = None,
    checkpoint: Checkpoint = None,
    prefix: Prefix = None,
    config: ConfigFile = None,
) -> None:
    """Query the state of a job, a snapshot or a recording with SQL (DuckDB's dialect).

    The state is read from the files of a checkpoint, also while the job runs and without disturbing
    it; from a snapshot; or from recordings, which are first run through the broker model. Broker
    settings are those that `capture` wrote beside a recording, or --broker-config. Without SQL it
    lists all tables and columns. Names are not case-sensitive; times are in UTC.
    """
    from brokertwin.recordings.formats.pipeline import zone_of

    if sum((as_json, as_csv, parquet is not None)) > 1:
        raise UserError("Cannot combine --json, --csv and --parquet.", "Pass only one of them.")
    check_new(parquet, force)
    if query is None:
        _list_tables(as_json)
        return
    need("`brokertwin query`", "duckdb", "pyarrow")
    from brokertwin import tables

    zone = zone_of(time_zone)
    if source:
        with progress_bars() as bar, warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: warn(str(message))
            bar.add_task("reading", total=None)
            configs = broker_settings(broker_config, broker_set) or None
            state = tables.read(source, as_of=at, time_zone=zone, broker_settings=configs)
    else:
        state = _of_job(config, checkpoint, prefix, tables.moment_of(at, zone))
    _give(state.sql(query), as_json, as_csv, parquet, state.origin)


def _of_job(
    config: Path | None, checkpoint: Path | None, prefix: str | None, when: "Moment | None"
) -> "Tables":
    from brokertwin import tables
    from brokertwin.streaming.job.session import session_when_needed

    settings = settings_of(config, checkpoint=checkpoint, prefix=prefix, master="local[1]")
    with session_when_needed(settings, say) as session:
        return tables.of_checkpoint(settings.checkpoint_dir, when, session)


def _give(
    table: "pa.Table", as_json: bool, as_csv: bool, parquet: Path | None, origin: str
) -> None:
    if parquet is not None:
        import pyarrow.parquet as pq

        with writing(parquet) as temporary:
            pq.write_table(table, temporary)
        say(f"wrote {counted(table.num_rows, 'row')}, {origin}, to {parquet}")
    elif as_json:
        for row in _rows(table):
            show_json(row)
    elif as_csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(table.column_names)
        writer.writerows(
            [cell(value) if isinstance(value, str) else _text(value) for value in row.values()]
            for row in _rows(table)
        )
    else:
        rows = [[_text(value) for value in row.values()] for row in _rows(table)]
        out.print(drawn.table(out, table.column_names, rows, origin, whole=_times(table)))
        rows_are = counted(table.num_rows, "row")
        out.print(rows_are, highlight=False)


def _rows(table: "pa.Table") -> Iterator[dict[str, Any]]:
    """Yield each row by column; times are text, maps are objects."""
    import pyarrow as pa

    maps = {field.name for field in table.schema if pa.types.is_map(field.type)}
    for row in table.to_pylist():
        yield {
            name: dict(value) if name in maps and value is not None else _plain(value)
            for name, value in row.items()
        }


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(" ", "milliseconds").removesuffix("+00:00")
    return value


def _text(value: Any) -> str:
    if isinstance(value, list | dict):
        return json.dumps(value, default=str, ensure_ascii=False)
    return "" if value is None else str(value)


def _times(table: "pa.Table") -> list[str]:
    import pyarrow as pa

    return [field.name for field in table.schema if pa.types.is_timestamp(field.type)]


def _list_tables(as_json: bool) -> None:
    from brokertwin.tables import schemas

    for number, table in enumerate(schemas.TABLES):
        if as_json:
            columns = [each._asdict() for each in table.columns]
            show_json({"table": table.name, "what": table.what, "columns": columns})
            continue
        if number:
            out.print()
        out.print(f"[bold]{table.name}[/bold]  {table.what}", highlight=False)
        rows = [(each.name, each.type, each.what) for each in table.columns]
        out.print(drawn.table(out, ("column", "type", "meaning"), rows))
