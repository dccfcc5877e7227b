"""`brokerstream state`: the state of a live or stopped job, as tables."""

from pathlib import Path
from typing import Annotated

import typer

from brokerstream.cli import state_tables
from brokerstream.cli.options import AsJson, Checkpoint, ConfigFile, Prefix, settings_of
from brokerstream.cli.output import say, show_json

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
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Say whether the files were read, or Spark was.")
]
Master = Annotated[
    str, typer.Option("--master", metavar="URL", help="Where Spark has to read: its master.")
]


def command(
    kind: KindArgument = None,
    checkpoint: Checkpoint = None,
    batch: Batch = None,
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
    transaction while it is open or ends.
    """
    from brokerstream.streaming import broker_files, state_reader, state_rows
    from brokerstream.streaming.session import session_when_needed

    wanted = state_tables.kind_of(kind)
    settings = settings_of(config, checkpoint=checkpoint, prefix=prefix, master=master)
    directory = settings.checkpoint_dir
    batch = state_reader.committed_batch(directory, batch)
    tell = say if verbose else lambda _: None
    with session_when_needed(settings, say) as session:
        cells = state_reader.read_cells(directory, batch, session, tell)
    if checkpoint_files is not None:
        say(f"wrote {broker_files.write(checkpoint_files, cells)} files below {checkpoint_files}")
    found = state_rows.rows(wanted, cells) if wanted else state_rows.counts(cells)
    shown = state_tables.listed(found, all_items)
    if as_json:
        for row in shown:
            show_json(row)
        return
    when = f"after micro-batch {batch}"
    state_tables.show(wanted or "items", shown, when)
    if wanted is state_rows.Kind.SESSIONS:
        by_client = state_rows.rows(state_rows.Kind.CLIENTS, cells)
        state_tables.show("fetch sessions by client", by_client, when)
    state_tables.tell_hidden(found, shown)
