"""Snapshots of a job, each an exact cut of a committed micro-batch.

They are read from the checkpoint's files, beside a job that may run: nothing waits for them.
"""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from brokertwin.errors import UserError
from brokertwin.kafka_io.placement import cluster_of
from brokertwin.sinks import offsets_snapshot, snapshot_store
from brokertwin.sinks.offsets_snapshot import SnapshotRow
from brokertwin.sinks.snapshot_store import Judge, Keep, Published, Taken
from brokertwin.sinks.stored_states import Cells
from brokertwin.state.cell.cell import STATE_VERSION
from brokertwin.streaming.checkpoint import checkpoint_log, facts
from brokertwin.streaming.checkpoint.state_reader import committed_batch, read_cells
from brokertwin.streaming.job.clock import now_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_FILES = {
    "schema": "state/0/0/_metadata/schema",
    "operators": "state/0/_metadata/metadata",
}
"""What a restore takes over of a checkpoint: name in the snapshot to path in the checkpoint."""

CONFIGURATION = "configuration.json"
"""Beside them: what the batch's plan has fixed of Spark's configuration."""


def take(
    checkpoint: Path,
    directory: Path,
    batch: int | None = None,
    session: "Callable[[], SparkSession] | None" = None,
    judge: Judge | None = None,
) -> Published:
    """Write the state and the committed offsets, as a batch has left them, below `directory`.

    Args:
        checkpoint: the job's checkpoint directory; the job may run.
        directory: where the snapshots lie.
        batch: a committed batch; without it the newest.
        session: as of `state_reader.read_cells`.
        judge: as of `snapshot_store.write`.

    Raises:
        UserError: there is no such batch, or the files cannot be written.
    """
    wanted = committed_batch(checkpoint, batch)
    known = facts.read(checkpoint)
    assert known is not None
    cells = read_cells(checkpoint, wanted, session)
    taken = Taken(
        taken_ms=now_ms(),
        batch=wanted,
        query_id=checkpoint_log.query_id(checkpoint),
        state_version=STATE_VERSION,
        source_offsets={
            topic: {str(partition): offset for partition, offset in ends.items()}
            for topic, ends in checkpoint_log.end_offsets(checkpoint, wanted).items()
        },
        cells=cells,
        offsets=offsets_of(cells),
        facts=msgspec.to_builtins(known),
        spark=_spark_files(checkpoint, wanted),
    )
    return snapshot_store.write(directory, taken, judge)


def offsets_of(cells: Cells) -> list[SnapshotRow]:
    """The committed offsets in the state of cells."""
    return [
        row
        for cell, columns in cells.items()
        for row in offsets_snapshot.rows_of_cell(cluster_of(cell), columns["groups"])
    ]


def _spark_files(checkpoint: Path, batch: int) -> dict[str, bytes]:
    """Raises UserError where the checkpoint has not what Spark 4.0 writes."""
    configuration = checkpoint_log.configuration(checkpoint, batch)
    try:
        files = {name: (checkpoint / path).read_bytes() for name, path in SPARK_FILES.items()}
    except OSError as error:
        raise UserError(f"Cannot read the checkpoint {checkpoint}: {error}.") from None
    return {CONFIGURATION: json.dumps(configuration, indent=2).encode(), **files}


class Every(NamedTuple):
    """How often a job does something beside itself: every so many micro-batches, or so long."""

    batches: int | None = None
    seconds: float | None = None


def parse_every(text: str) -> Every:
    """`100 batches`, `90 seconds`, `5 minutes`, `1 hour` (`settings.SNAPSHOT_EVERY`)."""
    number, unit = text.split()
    if unit.startswith("batch"):
        return Every(batches=int(number))
    seconds = {"second": 1, "minute": 60, "hour": 3600}[unit.rstrip("s")]
    return Every(seconds=int(number) * seconds)


class Due:
    """When the next snapshot, or check, is due; without a new micro-batch none is.

    Args:
        every: the rule.
        batch: the newest committed micro-batch when it begins.
        now: in seconds, of any clock that does not go back.
    """

    def __init__(self, every: Every, batch: int, now: float) -> None:
        self._every = every
        self.taken(batch, now)

    def taken(self, batch: int, now: float) -> None:
        """One of a batch was taken, or tried."""
        self._batch, self._at = batch, now

    def is_due(self, batch: int, now: float) -> bool:
        """Whether one is due after the commit of a batch."""
        if batch <= self._batch:
            return False
        if self._every.batches is not None:
            return batch - self._batch >= self._every.batches
        return self._every.seconds is not None and now - self._at >= self._every.seconds


LOOK_S = 0.1
"""How often the thread looks for a new micro-batch."""


class Beside(threading.Thread):
    """Does something with a running job's newest micro-batch, in a thread beside it.

    It runs while it is entered, or from `start` to `stop`. What takes long holds up nothing: the
    next time it is about the newest batch.

    Args:
        name: of the thread.
        checkpoint: the job's.
        act: is given the newest committed batch; gives back the one that it was about.
        every: how often.
    """

    def __init__(
        self, name: str, checkpoint: Path, act: Callable[[int], int], every: Every
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._checkpoint, self._act = checkpoint, act
        self._due = Due(every, checkpoint_log.committed(checkpoint), time.monotonic())
        self._has_stopped = threading.Event()

    def run(self) -> None:
        """Look, and act."""
        while not self._has_stopped.wait(LOOK_S):
            batch = checkpoint_log.committed(self._checkpoint)
            if self._due.is_due(batch, time.monotonic()):
                self._due.taken(self._act(batch), time.monotonic())

    def __enter__(self) -> "Beside":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End after what is being done."""
        self._has_stopped.set()
        self.join()


class Snapshotter(Beside):
    """Takes snapshots of a running job, in a thread beside it, and removes old ones.

    A snapshot that takes long, or fails, holds up nothing: the next one is of the newest batch.

    Args:
        checkpoint: the job's.
        take_one: takes one of the newest committed batch.
        every: how often.
        tell: is told each snapshot, and how many seconds it took.
        tell_failure: is told why there is none.
    """

    def __init__(
        self,
        checkpoint: Path,
        take_one: Callable[[], Published],
        every: Every,
        tell: Callable[[Published, float], None],
        tell_failure: Callable[[UserError], None],
    ) -> None:
        super().__init__("snapshots", checkpoint, self._take_and_tell, every)
        self._take, self._tell, self._tell_failure = take_one, tell, tell_failure

    def _take_and_tell(self, batch: int) -> int:
        taken = taken_or_told(self._take, self._tell, self._tell_failure)
        return taken.snapshot.batch if taken else batch


def taken_or_told(
    take_one: Callable[[], Published],
    tell: Callable[[Published, float], None],
    tell_failure: Callable[[UserError], None],
) -> Published | None:
    """Take a snapshot and tell it; a job does not end because there is none."""
    begun = time.monotonic()
    try:
        taken = take_one()
    except UserError as error:
        tell_failure(error)
        return None
    except Exception as error:  # noqa: BLE001 (a file that is gone, a judge that fails)
        tell_failure(UserError(f"{type(error).__name__}: {error}"))
        return None
    tell(taken, time.monotonic() - begun)
    return taken


def take_and_prune(
    checkpoint: Path,
    directory: Path,
    keep: Keep,
    session: "Callable[[], SparkSession] | None" = None,
    judge: Judge | None = None,
) -> Published:
    """As `take`, of the newest batch; then removes what is not kept."""
    taken = take(checkpoint, directory, session=session, judge=judge)
    snapshot_store.prune(directory, keep, taken.snapshot.taken_ms)
    return taken
