"""Checks of a running job's committed offsets, and what follows where one is not met.

Like snapshots they are read from the checkpoint's files, beside the job: nothing waits for them.
"""

import threading
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from brokerstream.sinks import checks, offsets_snapshot
from brokerstream.streaming import checkpoint_log
from brokerstream.streaming.snapshots import offsets_of
from brokerstream.streaming.state_reader import committed_batch, read_cells

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from brokerstream.sinks.checks import Checked
    from brokerstream.sinks.suites import Document


class Policy(StrEnum):
    """What follows where a check finds something of severity critical."""

    WARN = "warn"
    HOLD = "hold"
    STOP = "stop"


class BatchCheck(NamedTuple):
    """What a check of a micro-batch has found.

    Attributes:
        batch: the committed micro-batch.
        checked: the expectations that its offsets do not meet.
    """

    batch: int
    checked: "Checked"


def check_newest(
    checkpoint: Path,
    document: "Document | None",
    session: "Callable[[], SparkSession] | None" = None,
) -> BatchCheck:
    """Hold the committed offsets of the newest committed batch against a suite.

    Args:
        checkpoint: the job's; the job may run.
        document: the suite, which sees the columns of a snapshot; None for ours.
        session: as of `state_reader.read_cells`.

    Raises:
        UserError: no batch has committed, or its state cannot be read.
    """
    batch = committed_batch(checkpoint, None)
    rows = offsets_of(read_cells(checkpoint, batch, session))
    suite = document or checks.snapshot_suite(len(rows))
    return BatchCheck(batch, checks.check(offsets_snapshot.table(rows).to_pandas(), suite))


class Standing:
    """What the newest check has come to, and what the policy makes of it.

    Args:
        policy: what follows.
        stop: set where the job has to end after its micro-batch.
    """

    def __init__(self, policy: Policy, stop: threading.Event) -> None:
        self._policy, self._stop = policy, stop
        self._against: list[str] = []
        self.batch = checkpoint_log.NONE

    def add(self, found: BatchCheck) -> None:
        """Take in a check; what `stop` ended stays ended."""
        if self._ends():
            return
        self.batch, self._against = found.batch, found.checked.critical
        if self._ends():
            self._stop.set()

    def _ends(self) -> bool:
        return self._policy is Policy.STOP and bool(self._against)

    @property
    def has_stopped(self) -> bool:
        """Whether a check ends the job."""
        return self._ends()

    @property
    def holds(self) -> str:
        """Why no snapshot may be taken or removed; empty where it may."""
        if self._policy is Policy.WARN or not self._against:
            return ""
        return f"the check of micro-batch {self.batch} is not met: {'; '.join(self._against)}."
