"""`brokertwin state`: the state of a live or stopped job, as tables."""

from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli import state_tables
from brokertwin.cli.options import AsJson, AsOf, Checkpoint, ConfigFile, Prefix, settings_of
from brokertwin.cli.output import say, show_json
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.settings import Settings
    from brokertwin.streaming.state_reader import Cells
    from brokertwin.streaming.state_rows import Kind, Row

KindArgument = Annotated[
    str | None,
    typer.Argument(
        metavar=f"[{state_tables.KINDS}]", help="What to show; without it the number of each."
    ),
]
Batch = Annotated[
    int | None,
    typer.Option("--batch", metavar="N", help="As micro-batch N has left it; else the newest."),
]
All = Annotated[
    bool, typer.Option("--all", help="Items of Kafka's internal topics, too (__consumer_offsets).")
]
CheckpointFiles = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint-files",
        metavar="DIR",
        help="Also write there the checkpoint files that the brokers would have on their disks:"
        " high watermarks, recovery points, log starts, leader epochs.",
    ),
]
Key = Annotated[
    str | None,
    typer.Argument(
        metavar="[KEY]", help="Only the items of this topic, group, producer id, session id, …"
    ),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="SQL",
        help='Only the rows of which this is true, as in "logEndOffset > 1000".',
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Say whether the files were read, or Spark was.")
]
Master = Annotated[
    str, typer.Option("--master", metavar="URL", help="Where Spark has to read: its master.")
]


def command(
    kind: KindArgument = None,
    key: Key = None,
    checkpoint: Checkpoint = None,
    batch: Batch = None,
    as_of: AsOf = None,
    where: Where = None,
    all_items: All = False,
    prefix: Prefix = None,
    checkpoint_files: CheckpointFiles = None,
    master: Master = "local[1]",
    config: ConfigFile = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show the state that a job has committed: one row for each item.

    Read from the checkpoint's files; the job may run or be stopped, and is not disturbed. Spark is
    started only where the files do not do (--verbose says why). With --json each row is one line.
    `sessions` are fetch sessions; `clients` adds them up by client id: cached now, evicted, and
    evicting (pushed out by the client's new ones). `transactional-ids` has the partitions of a
    transaction while it is open or ends. With a KEY the parts of producers, sessions, groups and
    topics are shown as well: a producer's last batches, a session's partitions. In place of a
    checkpoint --checkpoint takes a snapshot, too, and what `replay --keep` has left.
    """
    from brokertwin import tables
    from brokertwin.streaming import broker_files, state_rows

    wanted = state_tables.kind_of(kind)
    if wanted is None and where is not None:
        raise UserError("--where looks at the rows of one kind.", f"One of {state_tables.KINDS}.")
    if batch is not None and as_of is not None:
        raise UserError("--batch and --as-of both say of when.", "Give one of them.")
    settings = settings_of(config, checkpoint=checkpoint, prefix=prefix, master=master)
    directory = settings.checkpoint_dir
    at = as_of if batch is None else batch
    cells, when = tables.stored(directory, at) or _of_checkpoint(settings, at, verbose)
    if checkpoint_files is not None:
        say(f"wrote {broker_files.write(checkpoint_files, cells)} files below {checkpoint_files}")
    found = _rows(wanted, cells, key, where)
    shown = found if key else state_tables.listed(found, all_items)
    if as_json:
        for row in shown:
            show_json(row)
        return
    state_tables.show(wanted or "items", shown, when)
    if wanted is not None and key is not None:
        for part in state_rows.parts_of(wanted):
            state_tables.show(part, _rows(part, cells, key, None), when)
    elif wanted is state_rows.Kind.SESSIONS and where is None:
        by_client = state_rows.rows(state_rows.Kind.CLIENTS, cells)
        state_tables.show("fetch sessions by client", by_client, when)
    state_tables.tell_hidden(found, shown)


def _of_checkpoint(
    settings: "Settings", at: int | str | None, verbose: bool
) -> "tuple[Cells, str]":
    """The cells as a committed micro-batch has left them, and which."""
    from brokertwin import tables
    from brokertwin.streaming import state_reader
    from brokertwin.streaming.session import session_when_needed

    directory = settings.checkpoint_dir
    batch = tables.batch_of(directory, tables.moment_of(at, UTC))
    tell = say if verbose else lambda _: None
    with session_when_needed(settings, say) as session:
        cells = state_reader.read_cells(directory, batch, session, tell)
    return cells, f"after micro-batch {batch}"


def _rows(kind: "Kind | None", cells: "Cells", key: str | None, where: str | None) -> "list[Row]":
    """The rows of a kind, or the counts of all, that are asked for."""
    from brokertwin import tables
    from brokertwin.streaming import state_rows

    if kind is None:
        return state_rows.counts(cells)
    found = state_rows.rows(kind, cells)
    if where is not None:
        found = [found[number] for number in tables.of_cells(cells).matching(kind, where)]
    return [row for row in found if key is None or state_rows.named(kind, row, key)]
