"""Data checks of a running job, and the policy for failures.

Offsets are read from the checkpoint's files, as for snapshots, and topics by a consumer
(`topic_checks.py`). The job is not blocked.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from brokertwin.sinks import offsets_snapshot
from brokertwin.streaming.checkpoint import checkpoint_log
from brokertwin.streaming.checkpoint.snapshots import offsets_of
from brokertwin.streaming.checkpoint.state_reader import committed_batch, read_cells
from brokertwin.streaming.checks import checked_state, suites
from brokertwin.streaming.checks import snapshot_checks as checks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from brokertwin.streaming.checks.checked_rows import Flat
    from brokertwin.streaming.checks.snapshot_checks import Checked
    from brokertwin.streaming.checks.suites import Document


SNAPSHOT = "snapshot"
"""The committed offsets, as in a snapshot."""

STATE = "state"
"""All items of the state."""


class Policy(StrEnum):
    """The consequence of a critical failure."""

    WARN = "warn"
    HOLD = "hold"
    STOP = "stop"


class BatchCheck(NamedTuple):
    """The result of checking a micro-batch.

    Attributes:
        batch: the committed micro-batch.
        checked: unmet expectations of its offsets or of new rows of a topic.
        on: `snapshot`, one of `topic_checks.KINDS`, or one of `suites.OF_STATE`.
    """

    batch: int
    checked: "Checked"
    on: str = SNAPSHOT

    @property
    def against(self) -> list[str]:
        of = "" if self.on == SNAPSHOT else f"{self.on}: "
        return [f"{of}{each}" for each in self.checked.critical]


def check_newest(
    checkpoint: Path,
    document: "Document | None",
    session: "Callable[[], SparkSession] | None" = None,
) -> BatchCheck:
    """Check the committed offsets of the newest batch.

    Args:
        checkpoint: the job's checkpoint; the job can run.
        document: a suite for the columns of a snapshot; None for the built-in one.
        session: see `state_reader.read_cells`.

    Raises:
        UserError: no batch has committed, or its state is unreadable.
    """
    batch = committed_batch(checkpoint, None)
    rows = offsets_of(read_cells(checkpoint, batch, session))
    suite = document or checks.snapshot_suite(len(rows))
    return BatchCheck(batch, checks.check(offsets_snapshot.table(rows).to_pandas(), suite))


def check_state(
    checkpoint: Path, session: "Callable[[], SparkSession] | None" = None
) -> list[BatchCheck]:
    """Check all items of the newest batch; compare them with the oldest kept batch.

    Raises:
        UserError: as `check_newest`.
    """
    batch = committed_batch(checkpoint, None)
    cells = read_cells(checkpoint, batch, session)
    before = read_cells(checkpoint, checkpoint_log.kept(checkpoint)[0], session)
    return [
        check_rows(batch, kind, checked_state.of_kind(kind, cells, before), None)
        for kind in suites.OF_STATE
    ]


def check_rows(
    batch: int, kind: str, rows: "Sequence[Flat]", document: "Document | None"
) -> BatchCheck:
    frame = checks.frame_of(rows, suites.COLUMNS[kind])
    return BatchCheck(batch, checks.check(frame, document or suites.BY_KIND[kind]), kind)


class NewestChecks:
    """The result of the newest check under a policy.

    `stop`: set if the job has to end after its micro-batch.
    """

    def __init__(self, policy: Policy, stop: threading.Event) -> None:
        self._policy, self._stop = policy, stop
        self._against: list[str] = []
        self.batch = checkpoint_log.NONE

    def add(self, batch: int, checks: Iterable[BatchCheck]) -> None:
        """Add the checks of a micro-batch; ignored after `stop`."""
        if self._ends():
            return
        self.batch = batch
        self._against = [each for one in checks for each in one.against]
        if self._ends():
            self._stop.set()

    def _ends(self) -> bool:
        return self._policy is Policy.STOP and bool(self._against)

    @property
    def has_stopped(self) -> bool:
        return self._ends()

    @property
    def holds(self) -> str:
        """Why snapshots are suspended, or an empty text."""
        if self._policy is Policy.WARN or not self._against:
            return ""
        return f"the check of micro-batch {self.batch} is not met: {'; '.join(self._against)}."
