"""A new job out of a snapshot: a checkpoint that begins where the snapshot was cut.

With the snapshot's own prefix the job goes on from the request at which it was cut. It reads what
came later again and answers it as before, with the same ids: readers drop the repeats, as after a
crash. With another prefix it begins at the first request of other topics, in the same state.
"""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from brokertwin.errors import UserError
from brokertwin.kafka_io.partitioning import group_keys
from brokertwin.kafka_io.placement import cluster_of
from brokertwin.kafka_io.topics import REQUESTS, full_name
from brokertwin.sinks import snapshot_store
from brokertwin.sinks.snapshot_store import Snapshot
from brokertwin.sinks.stored_states import in_this_version
from brokertwin.state.cell.cell import STATE_VERSION, state_columns
from brokertwin.state.core.tables import Tables, columns_of_tables
from brokertwin.streaming.checkpoint import facts, garbage, resharding, store_writer
from brokertwin.streaming.checkpoint.facts import Facts
from brokertwin.streaming.checkpoint.snapshots import CONFIGURATION
from brokertwin.streaming.checkpoint.store_files import NotReadable
from brokertwin.streaming.job.clock import now_ms

Columns = Mapping[str, bytes]
Cells = dict[str, dict[str, bytes]]


class Wanted(NamedTuple):
    """What the new job is to be, where it is not as the snapshot's.

    Attributes:
        prefix: of its topics; None for the snapshot's.
        shuffle_partitions: Spark tasks that share the cells; None for the snapshot's.
        cells: of each cluster; None for the snapshot's. No event may have come after it.
        offsets: where the job begins to read; None for the snapshot's place.
    """

    prefix: str | None = None
    shuffle_partitions: int | None = None
    cells: int | None = None
    offsets: store_writer.Offsets | None = None


class Restored(NamedTuple):
    """A checkpoint that was made, and what the snapshot was."""

    snapshot: Snapshot
    facts: Facts


AS_IT_WAS = Wanted()


def restore(path: Path, checkpoint: Path, wanted: Wanted = AS_IT_WAS) -> Restored:
    """Make a checkpoint of a snapshot; it is there whole, or not at all.

    Args:
        path: the snapshot's directory.
        checkpoint: a directory that is empty, or not there yet.
        wanted: what is to be another than in the snapshot.

    Raises:
        UserError: the snapshot is broken, or another version's; the checkpoint is taken; the state
            cannot go to other topics.
    """
    snapshot = snapshot_store.verify(path)
    _check_version(snapshot)
    _check_place(checkpoint)
    version = snapshot.state_version
    stored = {name: (version, columns) for name, columns in snapshot_store.read_cells(path).items()}
    cells = in_this_version(f"the snapshot {path}", stored)
    former = msgspec.convert(snapshot.facts, Facts)
    if wanted.prefix not in (None, former.prefix):
        _check_leaves_nothing(former, cells)
    new = _facts(snapshot, former, wanted)
    if new.cells != former.cells:
        cells = resharding.cut_anew(former, cells, new.cells)
    fresh = checkpoint.with_name(f".{checkpoint.name}.restored")
    try:
        fresh.mkdir(parents=True)
        _write(fresh, path, cells, snapshot, new, wanted.offsets or _offsets(snapshot, new))
        fresh.rename(checkpoint)
    except NotReadable as reason:
        raise UserError(f"Cannot restore the snapshot {path}: {reason}.") from None
    except OSError as error:
        raise UserError(
            f"Cannot write to the checkpoint {checkpoint}: {error.strerror}.",
            f"Pass another --checkpoint; delete {fresh} if it exists.",
        ) from None
    return Restored(snapshot, new)


def _facts(snapshot: Snapshot, former: Facts, wanted: Wanted) -> Facts:
    """What the new checkpoint fixes; where its topic is not known yet the first `run` finds it."""
    prefix = wanted.prefix or former.prefix
    shuffle_partitions = wanted.shuffle_partitions or former.shuffle_partitions
    is_cut = wanted.cells not in (None, former.cells)
    count = wanted.cells or former.cells
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
    snapshot: Snapshot,
    new: Facts,
    offsets: store_writer.Offsets,
) -> None:
    """Raises NotReadable where the snapshot is of another state store."""
    files = snapshot_store.read_spark(path)
    states = {
        new.groups[name]: store_writer.state_row(
            STATE_VERSION, [columns[table] for table in state_columns()]
        )
        for name, columns in cells.items()
    }
    plan = store_writer.Plan(
        configuration=msgspec.json.decode(files[CONFIGURATION], type=dict[str, str]),
        schema=files["schema"],
        operators=files["operators"],
        offsets=offsets,
        at_ms=snapshot.taken_ms,
        shuffle_partitions=new.shuffle_partitions,
    )
    store_writer.write(fresh, states, plan)
    facts.write(fresh, new)


def _offsets(snapshot: Snapshot, new: Facts) -> store_writer.Offsets:
    """Where the new job begins to read."""
    topic = full_name(new.prefix, REQUESTS)
    if topic in snapshot.source_offsets:
        return snapshot.source_offsets
    return {topic: {str(partition): 0 for partition in range(new.requests_partitions)}}


def _check_version(snapshot: Snapshot) -> None:
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


def _check_leaves_nothing(former: Facts, cells: Cells) -> None:
    """Refuse other topics where the state names what lies in the former ones."""
    for name, columns in cells.items():
        tables, cluster = Tables(columns), cluster_of(name)
        need = next(garbage.needed_by_logs(cluster, tables), None)
        if need is not None or garbage.named_segments(cluster, tables):
            raise UserError(
                f"Logs of {cluster} reference record batches in {former.prefix}.data, which topics"
                " with another prefix do not have.",
                "Restore with the snapshot's own prefix.",
            )
    under_way = [
        f"{one} to {other}"
        for one in cells
        for other in cells
        if told(cells[one], f"told/{other}") != told(cells[other], f"heard/{one}")
    ]
    if under_way:
        raise UserError(
            f"Messages between cells are in flight in {former.prefix}.requests"
            f" ({', '.join(under_way)}).",
            "Restore with the snapshot's own prefix, or take a snapshot after"
            " `brokertwin run --available-now`.",
        )


def told(columns: Columns, key: str) -> object:
    """How far a cell's events to another have come, or what it has heard of another's."""
    return msgspec.msgpack.decode(columns_of_tables(columns).get("cluster") or b"\x80").get(key)


def command(restored: Facts, checkpoint: Path) -> str:
    """What starts the job on a restored checkpoint."""
    words = ["brokertwin", "run", "--prefix", restored.prefix, "--checkpoint", str(checkpoint)]
    for cluster, brokers in restored.brokers.items():
        words += ["--cluster", cluster, "--brokers", f"{cluster}={facts.listed(brokers)}"]
    if restored.cells > 1:
        words += ["--cells", str(restored.cells)]
    return shlex.join(words)
