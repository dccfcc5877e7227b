"""`brokerstream state`: the state of a live or stopped job, as tables."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokerstream.cli.options import AsJson, ConfigFile, Prefix, settings_of
from brokerstream.cli.output import out, say, show_json, show_table
from brokerstream.errors import UserError

if TYPE_CHECKING:
    from brokerstream.streaming.state_rows import Kind, Row

KINDS = "topics|logs|producers|sessions|clients|groups|offsets|transactional-ids|waiting"

KindArgument = Annotated[
    str | None,
    typer.Argument(metavar=f"[{KINDS}]", help="What to show; without it the number of each."),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option("--checkpoint", metavar="DIR", help="The job's checkpoint directory."),
]
Batch = Annotated[
    int | None,
    typer.Option("--batch", metavar="N", help="As micro-batch N has left it; else the newest."),
]
Master = Annotated[str, typer.Option("--master", metavar="URL", help="Spark master for reading.")]


def command(
    kind: KindArgument = None,
    checkpoint: Checkpoint = None,
    batch: Batch = None,
    prefix: Prefix = None,
    master: Master = "local[1]",
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the state that a job has committed: one row for each item.

    Read from the checkpoint with Spark's state store reader; the job may run or be stopped, and is
    not disturbed. With --json each row is one line. `sessions` are fetch sessions; `clients` adds
    them up by client id: cached now, evicted, and evicting (pushed out by the client's new ones).
    `transactional-ids` has the partitions of a transaction while it is open or ends.
    """
    from brokerstream.streaming import state_reader, state_rows
    from brokerstream.streaming.session import spark_session

    wanted = _kind(kind)
    settings = settings_of(config, checkpoint=checkpoint, prefix=prefix, master=master)
    directory = settings.checkpoint_dir
    batch = state_reader.committed_batch(directory, batch)
    session = spark_session(settings, say)
    try:
        cells = state_reader.read_cells(session, directory, batch)
    finally:
        session.stop()
    found = state_rows.rows(wanted, cells) if wanted else state_rows.counts(cells)
    if as_json:
        for row in found:
            show_json(row)
        return
    _show(wanted or "items", found, batch)
    if wanted is state_rows.Kind.SESSIONS:
        by_client = state_rows.rows(state_rows.Kind.CLIENTS, cells)
        _show("fetch sessions by client", by_client, batch)


def _show(name: str, rows: "list[Row]", batch: int) -> None:
    if rows:
        title = f"{name} after micro-batch {batch}"
        show_table(list(rows[0]), (list(row.values()) for row in rows), title)
    else:
        out.print(f"no {name} after micro-batch {batch}")


def _kind(name: str | None) -> "Kind | None":
    """Raises UserError for a name that is no kind."""
    from brokerstream.streaming.state_rows import Kind

    if name is None:
        return None
    try:
        return Kind(name)
    except ValueError:
        raise UserError(f"There is no {name} to show.", f"One of {KINDS}.") from None
