"""`brokertwin snapshot`: snapshots of a job's state and offsets."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from brokertwin.cli.options import (
    AsJson,
    group,
    with_settings,
)
from brokertwin.cli.output import out, say, show_fields, show_json, show_table
from brokertwin.extras import need
from brokertwin.places import place
from brokertwin.settings import Settings
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.sinks.snapshot_store import SnapshotManifest
    from brokertwin.streaming.checkpoint.restore import Restored

app = group()

Batch = Annotated[
    int | None,
    typer.Option("--batch", metavar="N", help="State after micro-batch N; default: the newest."),
]

Suite = Annotated[
    str | None,
    typer.Option(
        "--suite",
        metavar="default|FILE",
        help="Set the snapshot aside if it fails this suite: the built-in one or your own.",
    ),
]
Name = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="Name in `list`; default: the newest.")
]
NewCheckpoint = Annotated[
    Path, typer.Option("--checkpoint", metavar="DIR", help="New checkpoint; missing or empty.")
]
Cells = Annotated[
    int,
    typer.Option("--cells", metavar="N", min=1, help="Cells per cluster; at most one per broker."),
]
ToPrefix = Annotated[
    str | None,
    typer.Option(
        "--to-prefix",
        metavar="PREFIX",
        help="Prefix of other topics, which are read from the start; default: the same topics.",
    ),
]


@app.callback()
def snapshot_command() -> None:
    """Take, list, check and restore snapshots of a job: committed offsets and full state.

    Each snapshot is a directory that is written atomically. `brokertwin run --snapshot-every` takes
    them while the job runs.
    """
    need("`brokertwin snapshot`", "pyarrow")


@app.command()
@with_settings("checkpoint", "snapshots", "prefix", "master", master="local[1]")
def take(
    settings: Settings,
    batch: Batch = None,
    suite: Suite = None,
    as_json: AsJson = False,
) -> None:
    """Take a snapshot of a job that is running, stopped or killed, without disturbing it.

    It is read from the checkpoint's files; Spark starts only if they are not enough. Older
    snapshots are kept. A snapshot that fails --suite is set aside below `rejected/` with the
    reasons; the exit code is then 3.
    """
    from brokertwin.cli.job import run_snapshots
    from brokertwin.cli.job.check import EXIT_CODES
    from brokertwin.streaming.checkpoint import snapshots as taking
    from brokertwin.streaming.checks import snapshot_checks as checks
    from brokertwin.streaming.job.session import session_when_needed

    directory = settings.snapshots_dir
    run_snapshots.check_directory(directory)
    judge = checks.gate(checks.suite_named("--suite", suite)) if suite else None
    with session_when_needed(settings, say) as session:
        taken = taking.take(settings.checkpoint_dir, directory, batch, session, judge)
    run_snapshots.show(taken, as_json)
    if taken.reasons:
        raise typer.Exit(EXIT_CODES["critical"])


@app.command("list")
@with_settings("snapshots", "prefix")
def list_command(
    settings: Settings,
    as_json: AsJson = False,
) -> None:
    """List the snapshots, newest last."""
    from brokertwin.cli.job import run_snapshots
    from brokertwin.sinks import snapshot_store

    directory = settings.snapshots_dir
    run_snapshots.check_directory(directory)
    snapshots = snapshot_store.list_all(directory)
    if as_json:
        for each in snapshots:
            show_json(_row(each))
        return
    if snapshots:
        rows = [_row(each) for each in snapshots]
        show_table(list(rows[0]), (list(row.values()) for row in rows))
    count = counted(len(snapshots), "snapshot")
    out.print(f"{count} in {directory}", soft_wrap=True, highlight=False)


@app.command()
@with_settings("snapshots", "prefix")
def show(
    settings: Settings,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Check a snapshot's files and show its contents."""
    from brokertwin.sinks import snapshot_store

    directory = settings.snapshots_dir
    path = snapshot_store.find(directory, name)
    manifest = snapshot_store.verify(path)
    fields = _row(manifest) | {
        "path": str(path),
        "prefix": manifest.facts.get("prefix"),
        "cells": ", ".join(f"{cell} ({size:,} B)" for cell, size in manifest.cells.items()),
        "state version": manifest.state_version,
        "next events": _places(manifest.source_offsets),
        "checked": f"{counted(len(manifest.files), 'file')}, all as in the manifest",
    }
    if as_json:
        show_json({**fields, "cells": manifest.cells, "next events": manifest.source_offsets})
    else:
        show_fields(fields)


@app.command()
@with_settings("snapshots", "prefix")
def restore(
    settings: Settings,
    checkpoint: NewCheckpoint,
    name: Name = None,
    to_prefix: ToPrefix = None,
    as_json: AsJson = False,
) -> None:
    """Create a new checkpoint from a snapshot; a job started with it continues from there.

    The job reads the events after the snapshot again and repeats its responses with the same ids.
    Stop the job on the old checkpoint first.
    """
    need("`brokertwin snapshot restore`", "xxhash")
    from brokertwin.sinks import snapshot_store
    from brokertwin.streaming.checkpoint import restore as restoring

    path = snapshot_store.find(settings.snapshots_dir, name)
    restore_target = restoring.RestoreTarget(to_prefix, _shuffle_partitions(settings))
    checkpoint = place(checkpoint)
    _show_restored(restoring.restore(path, checkpoint, restore_target), checkpoint, as_json)


@app.command()
@with_settings("snapshots", "prefix", "bootstrap", "kafka_config")
def reshard(
    settings: Settings,
    cells: Cells,
    checkpoint: NewCheckpoint,
    name: Name = None,
    as_json: AsJson = False,
) -> None:
    """Restore a snapshot with another number of cells for each cluster.

    There must be no events after the snapshot: stop the gateways, let `run --available-now` end,
    and take the snapshot then. Start the gateways after the job.
    """
    need("`brokertwin snapshot reshard`", "xxhash")
    from brokertwin.kafka_io.kafka_clients import client_properties
    from brokertwin.kafka_io.topics import REQUESTS, full_name
    from brokertwin.sinks import snapshot_store
    from brokertwin.streaming.checkpoint import resharding
    from brokertwin.streaming.checkpoint import restore as restoring

    path = snapshot_store.find(settings.snapshots_dir, name)
    manifest = snapshot_store.manifest(path)
    topic = full_name(str(manifest.facts["prefix"]), REQUESTS)
    ends = resharding.quiet_end(client_properties(settings), topic, manifest.source_offsets[topic])
    restore_target = restoring.RestoreTarget(None, _shuffle_partitions(settings), cells, ends)
    checkpoint = place(checkpoint)
    _show_restored(restoring.restore(path, checkpoint, restore_target), checkpoint, as_json)


def _shuffle_partitions(settings: Settings) -> int | None:
    """Return the requested number of Spark tasks; None for the default."""
    is_given = "shuffle_partitions" in settings.model_fields_set
    return settings.shuffle_partitions if is_given else None


def _show_restored(restored: "Restored", checkpoint: Path, as_json: bool) -> None:
    from brokertwin.streaming.checkpoint.restore import command

    go_on = command(restored.facts, checkpoint)
    if as_json:
        name = restored.snapshot.name
        show_json({"snapshot": name, "checkpoint": checkpoint, "run": go_on})
        return
    said = f"{checkpoint} has the state of micro-batch {restored.snapshot.batch}; continue with"
    for line in (said, go_on):
        out.print(line, soft_wrap=True, highlight=False)


def _row(manifest: "SnapshotManifest") -> dict[str, Any]:
    return {
        "name": manifest.name,
        "batch": manifest.batch,
        "offsets": manifest.offsets,
        "bytes": sum(manifest.cells.values()),
    }


def _places(source_offsets: dict[str, dict[str, int]]) -> str:
    return "; ".join(
        f"{topic} " + " ".join(f"{partition}:{at}" for partition, at in sorted(offsets.items()))
        for topic, offsets in source_offsets.items()
    )
