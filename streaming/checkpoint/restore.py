"""Restores a snapshot: creates a checkpoint that starts at its cut.

With the snapshot's prefix, the job continues after the cut. It processes later requests again, with
the same results and ids, which readers drop as repeats. With another prefix, it starts at the first
request of other topics, with the same state.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from brokertwin import places
from brokertwin.errors import UserError
from brokertwin.kafka_io.partitioning import group_keys
from brokertwin.kafka_io.topics import REQUESTS, full_name
from brokertwin.sinks import snapshot_store
from brokertwin.sinks.snapshot_store import SnapshotManifest
from brokertwin.state.cell.cell import STATE_VERSION, state_columns
from brokertwin.state.core.settings import cluster_of
from brokertwin.state.core.tables import CellTables, columns_of_tables
from brokertwin.streaming.checkpoint import facts, garbage, resharding, store_writer
from brokertwin.streaming.checkpoint.facts import JobFacts
from brokertwin.streaming.checkpoint.snapshots import CONFIGURATION
from brokertwin.streaming.checkpoint.store_files import NotReadable
from brokertwin.streaming.job.clock import now_ms
from brokertwin.tables.stored_states import in_this_version

Columns = Mapping[str, bytes]
Cells = dict[str, dict[str, bytes]]


class RestoreTarget(NamedTuple):
    """Properties of the new job; None keeps the snapshot's.

    Attributes:
        prefix: the topic prefix.
        shuffle_partitions: number of Spark tasks.
        cells: cells of each cluster; no event may follow the snapshot.
        offsets: where the job starts to read.
    """

    prefix: str | None = None
    shuffle_partitions: int | None = None
    cells: int | None = None
    offsets: store_writer.Offsets | None = None


class Restored(NamedTuple):
    """The snapshot, and the facts of the new checkpoint."""

    snapshot: SnapshotManifest
    facts: JobFacts


AS_IT_WAS = RestoreTarget()


def restore(path: Path, checkpoint: Path, target: RestoreTarget = AS_IT_WAS) -> Restored:
    """Create a checkpoint from a snapshot, completely or not at all.

    Args:
        path: the snapshot's directory.
        checkpoint: a directory that is empty or does not exist.
        target: the properties of the new job.

    Raises:
        UserError: the snapshot is damaged or has another version, the checkpoint exists, or the
            state cannot be used with other topics.
    """
    snapshot = snapshot_store.verify(path)
    _check_version(snapshot)
    _check_place(checkpoint)
    version = snapshot.state_version
    stored = {name: (version, columns) for name, columns in snapshot_store.read_cells(path).items()}
    cells = in_this_version(f"the snapshot {path}", stored)
    former = msgspec.convert(snapshot.facts, JobFacts)
    if target.prefix not in (None, former.prefix):
        _check_leaves_nothing(former, cells)
    new = _facts(snapshot, former, target)
    if new.cells != former.cells:
        cells = resharding.redistributed(former, cells, new.cells)
    hidden = f".{checkpoint.name}.restored"
    try:
        with places.new_directory(checkpoint, hidden) as fresh:
            _write(fresh, path, cells, snapshot, new, target.offsets or _offsets(snapshot, new))
            places.publish(fresh, checkpoint, facts.FILE_NAME)
    except NotReadable as reason:
        raise UserError(f"Cannot restore the snapshot {path}: {reason}.") from None
    except OSError as error:
        raise UserError(
            f"Cannot write to the checkpoint {checkpoint}: {error.strerror or error}.",
            f"Pass another --checkpoint; delete {checkpoint.with_name(hidden)} if it exists.",
        ) from None
    return Restored(snapshot, new)


def _facts(snapshot: SnapshotManifest, former: JobFacts, target: RestoreTarget) -> JobFacts:
    """The facts of the new checkpoint; `run` finds a missing topic id."""
    prefix = target.prefix or former.prefix
    shuffle_partitions = target.shuffle_partitions or former.shuffle_partitions
    is_cut = target.cells not in (None, former.cells)
    count = target.cells or former.cells
    names = resharding.names(former, count) if is_cut else list(former.groups)
    loads = resharding.loads(former, names) if is_cut else former.loads
    return msgspec.structs.replace(
        former,
        state_version=STATE_VERSION,
        prefix=prefix,
        cells=count,
        groups=group_keys(names, shuffle_partitions, loads, fixed={}),
        loads=loads,
        incarnation=max(former.incarnation + 1, now_ms()) if is_cut else former.incarnation,
        shuffle_partitions=shuffle_partitions,
        requests_topic_id=former.requests_topic_id if prefix == former.prefix else "",
        restored_from=snapshot.name,
    )


def _write(
    fresh: Path,
    path: Path,
    cells: Cells,
    snapshot: SnapshotManifest,
    new: JobFacts,
    offsets: store_writer.Offsets,
) -> None:
    """Raises NotReadable for a snapshot of another state store."""
    files = snapshot_store.read_spark(path)
    states = {
        new.groups[name]: store_writer.state_row(
            STATE_VERSION, [columns[table] for table in state_columns()]
        )
        for name, columns in cells.items()
    }
    plan = store_writer.StorePlan(
        configuration=msgspec.json.decode(files[CONFIGURATION], type=dict[str, str]),
        schema=files["schema"],
        operators=files["operators"],
        offsets=offsets,
        at_ms=snapshot.taken_ms,
        shuffle_partitions=new.shuffle_partitions,
    )
    store_writer.write(fresh, states, plan)
    facts.write(fresh, new)


def _offsets(snapshot: SnapshotManifest, new: JobFacts) -> store_writer.Offsets:
    topic = full_name(new.prefix, REQUESTS)
    if topic in snapshot.source_offsets:
        return snapshot.source_offsets
    return {topic: {str(partition): 0 for partition in range(new.requests_partitions)}}


def _check_version(snapshot: SnapshotManifest) -> None:
    if snapshot.state_version > STATE_VERSION:
        raise UserError(
            f"The snapshot {snapshot.name} was taken by a newer brokertwin: its state has version"
            f" {snapshot.state_version}, but this brokertwin supports up to {STATE_VERSION}.",
            "Restore it with the newer brokertwin.",
        )


def _check_place(checkpoint: Path) -> None:
    if checkpoint.exists() and (not checkpoint.is_dir() or any(checkpoint.iterdir())):
        raise UserError(
            f"--checkpoint {checkpoint} already exists, but a snapshot needs a new checkpoint.",
            "Pass a directory that does not exist yet.",
        )


def _check_leaves_nothing(former: JobFacts, cells: Cells) -> None:
    """Reject other topics if the state references rows of the old ones."""
    for name, columns in cells.items():
        tables, cluster = CellTables(columns), cluster_of(name)
        need = next(garbage.needed_by_logs(cluster, tables), None)
        if need is not None or garbage.named_segments(cluster, tables):
            raise UserError(
                f"Logs of {cluster} reference record batches in {former.prefix}.data, which topics"
                " with another prefix do not have.",
                "Restore with the snapshot's own prefix.",
            )
    in_flight = [
        f"{one} to {other}"
        for one in cells
        for other in cells
        if message_sequence(cells[one], f"told/{other}")
        != message_sequence(cells[other], f"heard/{one}")
    ]
    if in_flight:
        raise UserError(
            f"Messages between cells are in flight in {former.prefix}.requests"
            f" ({', '.join(in_flight)}).",
            "Restore with the snapshot's own prefix, or take a snapshot after"
            " `brokertwin run --available-now`.",
        )


def message_sequence(columns: Columns, key: str) -> object:
    """Read a sequence of messages between cells: sent (told) or received."""
    return msgspec.msgpack.decode(columns_of_tables(columns).get("cluster") or b"\x80").get(key)


def command(restored: JobFacts, checkpoint: Path) -> str:
    words = ["brokertwin", "run", "--prefix", restored.prefix, "--checkpoint", str(checkpoint)]
    for cluster, brokers in restored.brokers.items():
        words += ["--cluster", cluster, "--brokers", f"{cluster}={facts.listed(brokers)}"]
    if restored.cells > 1:
        words += ["--cells", str(restored.cells)]
    return shlex.join(words)
