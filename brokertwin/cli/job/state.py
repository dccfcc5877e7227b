"""`brokertwin state`: tables of a job's state."""

from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.files import check_new_folder
from brokertwin.cli.job import state_tables
from brokertwin.cli.options import (
    AsJson,
    At,
    Checkpoint,
    ConfigFile,
    Force,
    Prefix,
    StateMaster,
    settings_of,
)
from brokertwin.cli.output import say, show_json
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.settings import Settings
    from brokertwin.tables import StoredState
    from brokertwin.tables.state_rows import ItemKind, Row

KindArgument = Annotated[
    str | None,
    typer.Argument(
        metavar=f"[{state_tables.KINDS}]", help="What to show; default: the number of each kind."
    ),
]
All = Annotated[
    bool, typer.Option("--all", help="Also show Kafka's internal topics (__consumer_offsets).")
]
CheckpointFiles = Annotated[
    Path | None,
    typer.Option(
        "--checkpoint-files",
        metavar="DIR",
        help="Also write the checkpoint files of the brokers' log directories to DIR: high"
        " watermarks, recovery points, log start offsets, leader epochs.",
    ),
]
Key = Annotated[
    str | None,
    typer.Argument(metavar="[KEY]", help="Only this topic, group, producer id, session id, …"),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--where",
        metavar="SQL",
        help='Only rows that match this condition: "logEndOffset > 1000".',
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print whether the files or Spark were read.")
]


def command(
    kind: KindArgument = None,
    key: Key = None,
    checkpoint: Checkpoint = None,
    at: At = None,
    where: Where = None,
    all_items: All = False,
    prefix: Prefix = None,
    checkpoint_files: CheckpointFiles = None,
    force: Force = False,
    master: StateMaster = "local[1]",
    config: ConfigFile = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
) -> None:
    """Show the state that a job has committed, one row for each item.

    The state is read from the checkpoint's files, without disturbing a running job. Spark starts
    only if the files are not enough (--verbose prints why). --checkpoint also accepts a snapshot or
    a directory of `replay --keep`. --json prints one line for each row.

    `zookeeper` shows the nodes that brokers of former versions store, as a tree.

    `sessions` are fetch sessions; `clients` counts them by client id: cached, evicted, and evicting
    (evicted by this client's new sessions). `transactional-ids` shows the partitions of a
    transaction until it completes. A KEY also shows the parts of producers, sessions, groups and
    topics, such as a producer's last batches and a session's partitions.
    """
    from brokertwin import tables
    from brokertwin.streaming.checkpoint import broker_files
    from brokertwin.tables import state_rows

    item_kind = state_tables.kind_of(kind)
    if item_kind is None and where is not None:
        raise UserError("--where requires a kind of items.", f"Pass one of: {state_tables.KINDS}.")
    check_new_folder(checkpoint_files, force)
    settings = settings_of(config, checkpoint=checkpoint, prefix=prefix, master=master)
    directory = settings.checkpoint_dir
    state = tables.stored(directory, at) or _of_checkpoint(settings, at, verbose)
    cells, when = state.cells, state.origin
    if checkpoint_files is not None:
        files = counted(broker_files.write(checkpoint_files, cells), "file")
        say(f"wrote {files} below {checkpoint_files}")
    rows = _rows(item_kind, state, key, where)
    shown = rows if key else state_tables.listed(rows, all_items)
    if as_json:
        for row in shown:
            show_json(row)
        return
    if item_kind is state_rows.ItemKind.ZOOKEEPER:
        state_tables.show_tree(shown, when)
        return
    state_tables.show(item_kind or "items", shown, when)
    if item_kind is not None and key is not None:
        for part in state_rows.parts_of(item_kind):
            state_tables.show(part, _rows(part, state, key, None), when)
    elif item_kind is state_rows.ItemKind.SESSIONS and where is None:
        by_client = state_rows.rows(state_rows.ItemKind.CLIENTS, cells)
        state_tables.show("fetch sessions by client", by_client, when)
    state_tables.show_hidden(rows, shown)


def _of_checkpoint(settings: "Settings", at: int | str | None, verbose: bool) -> "StoredState":
    """Return the cells after a committed micro-batch, and a description of it."""
    from brokertwin import tables
    from brokertwin.streaming.checkpoint import state_reader
    from brokertwin.streaming.job.session import session_when_needed

    directory = settings.checkpoint_dir
    batch = tables.batch_of(directory, tables.moment_of(at, UTC))
    report = say if verbose else lambda _: None
    with session_when_needed(settings, say) as session:
        cells = state_reader.read_cells(directory, batch, session, report)
    return tables.StoredState(cells, f"after micro-batch {batch}")


def _rows(
    kind: "ItemKind | None", state: "StoredState", key: str | None, where: str | None
) -> "list[Row]":
    """Return the selected rows of a kind, or the counts of all kinds."""
    from brokertwin import tables
    from brokertwin.tables import state_rows

    if kind is None:
        return state_rows.counts(state.cells)
    rows = state_rows.rows(kind, state.cells, state.without_ends)
    if where is not None:
        rows = [rows[number] for number in tables.Tables(*state).matching(kind, where)]
    return [row for row in rows if key is None or state_rows.named(kind, row, key)]
