"""Snapshots of a job, each the exact state after a micro-batch.

They are read from the checkpoint's files. The job can run meanwhile and is not blocked.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from brokertwin import places
from brokertwin.errors import UserError
from brokertwin.sinks import offsets_snapshot, snapshot_store
from brokertwin.sinks.offsets_snapshot import SnapshotRow
from brokertwin.sinks.snapshot_store import Judge, Keep, Published, SnapshotContent
from brokertwin.state.cell.cell import STATE_VERSION
from brokertwin.state.core.settings import cluster_of
from brokertwin.streaming.checkpoint import checkpoint_log, facts
from brokertwin.streaming.checkpoint.snapshot_times import DueSnapshot, Interval
from brokertwin.streaming.checkpoint.state_reader import committed_batch, read_cells
from brokertwin.streaming.job.clock import now_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_FILES = {"schema": "state/0/0/_metadata/schema", "operators": "state/0/_metadata/metadata"}
"""Checkpoint files that a snapshot includes, by their name in it."""

CONFIGURATION = "configuration.json"
"""The Spark configuration fixed in the batch."""


def take(
    checkpoint: Path,
    directory: Path,
    batch: int | None = None,
    session: "Callable[[], SparkSession] | None" = None,
    judge: Judge | None = None,
) -> Published:
    """Write a snapshot of a micro-batch below `directory`.

    Args:
        checkpoint: the job's checkpoint directory; the job can run.
        directory: the directory of snapshots.
        batch: a committed batch; the newest by default.
        session: see `state_reader.read_cells`.
        judge: see `snapshot_store.write`.

    Raises:
        UserError: the batch does not exist, or files cannot be written.
    """
    batch_id = committed_batch(checkpoint, batch)
    job_facts = facts.read(checkpoint)
    assert job_facts is not None
    cells = read_cells(checkpoint, batch_id, session)
    taken = SnapshotContent(
        taken_ms=now_ms(),
        batch=batch_id,
        query_id=checkpoint_log.query_id(checkpoint),
        state_version=STATE_VERSION,
        source_offsets={
            topic: {str(partition): offset for partition, offset in ends.items()}
            for topic, ends in checkpoint_log.end_offsets(checkpoint, batch_id).items()
        },
        cells=cells,
        offsets=offsets_of(cells),
        facts=msgspec.to_builtins(job_facts),
        spark=_spark_files(checkpoint, batch_id),
    )
    return snapshot_store.write(directory, taken, judge)


def offsets_of(cells: Mapping[str, Mapping[str, bytes]]) -> list[SnapshotRow]:
    return [
        row
        for cell, columns in cells.items()
        for row in offsets_snapshot.rows_of_cell(cluster_of(cell), columns["groups"])
    ]


def _spark_files(checkpoint: Path, batch: int) -> dict[str, bytes]:
    """Raises UserError if the files of Spark 4.0 are missing."""
    configuration = checkpoint_log.configuration(checkpoint, batch)
    try:
        files = {name: (checkpoint / path).read_bytes() for name, path in SPARK_FILES.items()}
    except OSError as error:
        raise UserError(f"Cannot read the checkpoint {checkpoint}: {error}.") from None
    return {CONFIGURATION: json.dumps(configuration, indent=2).encode(), **files}


LOOK_S, LOOK_REMOTE_S = 0.1, 2.0
"""Interval of the check for a new micro-batch; a request to an object store costs."""


class NewestBatchThread(threading.Thread):
    """A thread that acts on the newest micro-batch of a running job.

    It runs inside `with`, or from `start` to `stop`. A slow action does not block the job: the next
    one uses the newest batch.

    `act`: called with the newest committed batch; returns the batch it used.
    """

    def __init__(
        self, name: str, checkpoint: Path, act: Callable[[int], int], every: Interval
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._checkpoint, self._act = checkpoint, act
        self._due = DueSnapshot(every, checkpoint_log.committed(checkpoint), time.monotonic())
        self._has_stopped = threading.Event()

    def run(self) -> None:
        look_s = LOOK_REMOTE_S if places.is_remote(self._checkpoint) else LOOK_S
        while not self._has_stopped.wait(look_s):
            batch = checkpoint_log.committed(self._checkpoint)
            if self._due.is_due(batch, time.monotonic()):
                self._due.taken(self._act(batch), time.monotonic())

    def __enter__(self) -> "NewestBatchThread":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._has_stopped.set()
        self.join()


class Snapshotter(NewestBatchThread):
    """A thread that takes snapshots of a running job and removes old ones.

    A slow or failing snapshot does not block the job: the next one uses the newest batch.

    Args:
        checkpoint: the job's checkpoint.
        take_one: takes a snapshot of the newest committed batch.
        every: the interval.
        on_snapshot: called with each snapshot and its duration in seconds.
        on_failure: called with the error of a failed snapshot.
    """

    def __init__(
        self,
        checkpoint: Path,
        take_one: Callable[[], Published],
        every: Interval,
        on_snapshot: Callable[[Published, float], None],
        on_failure: Callable[[UserError], None],
    ) -> None:
        super().__init__("snapshots", checkpoint, self._take_and_report, every)
        self._take, self._on_snapshot, self._on_failure = take_one, on_snapshot, on_failure

    def _take_and_report(self, batch: int) -> int:
        taken = take_and_report(self._take, self._on_snapshot, self._on_failure)
        return taken.snapshot.batch if taken else batch


def take_and_report(
    take_one: Callable[[], Published],
    on_snapshot: Callable[[Published, float], None],
    on_failure: Callable[[UserError], None],
) -> Published | None:
    begun = time.monotonic()
    try:
        taken = take_one()
    except UserError as error:
        on_failure(error)
        return None
    except Exception as error:  # noqa: BLE001 - a missing file, a failing judge
        on_failure(UserError(f"{type(error).__name__}: {error}"))
        return None
    on_snapshot(taken, time.monotonic() - begun)
    return taken


def take_and_prune(
    checkpoint: Path,
    directory: Path,
    keep: Keep,
    session: "Callable[[], SparkSession] | None" = None,
    judge: Judge | None = None,
) -> Published:
    """Take a snapshot of the newest batch, and remove old snapshots."""
    taken = take(checkpoint, directory, session=session, judge=judge)
    snapshot_store.prune(directory, keep, taken.snapshot.taken_ms)
    return taken
