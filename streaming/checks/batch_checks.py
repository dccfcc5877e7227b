"""Checks of a running job's committed offsets and topics, and what follows where one is not met.

Offsets are read from the checkpoint's files, as for snapshots, and topics by a consumer
(`topic_checks.py`): nothing waits for them.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from brokertwin.sinks import checks, offsets_snapshot, suites
from brokertwin.streaming.checkpoint import checkpoint_log
from brokertwin.streaming.checkpoint.snapshots import offsets_of
from brokertwin.streaming.checkpoint.state_reader import committed_batch, read_cells

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from brokertwin.sinks.checks import Checked
    from brokertwin.sinks.suites import Document
    from brokertwin.streaming.checks.checked_rows import Flat


SNAPSHOT = "snapshot"
"""The committed offsets, as a snapshot has them."""


class Policy(StrEnum):
    """What follows where a check finds something of severity critical."""

    WARN = "warn"
    HOLD = "hold"
    STOP = "stop"


class BatchCheck(NamedTuple):
    """What a check of a micro-batch has found.

    Attributes:
        batch: the committed micro-batch.
        checked: the expectations that its offsets, or the new rows of a topic, do not meet.
        on: what was checked: `snapshot`, or one of `topic_checks.KINDS`.
    """

    batch: int
    checked: "Checked"
    on: str = SNAPSHOT

    @property
    def against(self) -> list[str]:
        """What is not met of severity critical, in words."""
        of = "" if self.on == SNAPSHOT else f"{self.on}: "
        return [f"{of}{each}" for each in self.checked.critical]


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


def check_rows(
    batch: int, kind: str, rows: "Sequence[Flat]", document: "Document | None"
) -> BatchCheck:
    """Hold new rows of a topic against a suite, ours where none is given."""
    frame = checks.frame_of(rows, suites.COLUMNS[kind])
    return BatchCheck(batch, checks.check(frame, document or suites.OF_TOPICS[kind]), kind)


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

    def add(self, batch: int, found: Iterable[BatchCheck]) -> None:
        """Take in the checks of a micro-batch; what `stop` ended stays ended."""
        if self._ends():
            return
        self.batch = batch
        self._against = [each for one in found for each in one.against]
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
