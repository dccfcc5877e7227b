"""Snapshots during and at the end of `brokertwin run`."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from brokertwin.cli.job.live import size_text
from brokertwin.cli.output import say_at, show_json, warn
from brokertwin.errors import UserError
from brokertwin.streaming.checkpoint import checkpoint_log, snapshots
from brokertwin.streaming.checkpoint.snapshot_times import parse_interval
from brokertwin.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from brokertwin.cli.watching.sources import JobSource
    from brokertwin.settings import Settings
    from brokertwin.sinks.snapshot_store import Judge, Published


class Snapshots:
    """Take a job's snapshots and report them, in log lines and over HTTP.

    Args:
        judge: as in `snapshot_store.write`.
        holds: returns why snapshots may not be taken or deleted now; empty if they may.
    """

    def __init__(
        self,
        settings: "Settings",
        watched: "JobSource",
        judge: "Judge | None" = None,
        holds: "Callable[[], str]" = lambda: "",
    ) -> None:
        self._settings, self._watched = settings, watched
        self._judge, self._holds = judge, holds
        self._newest = checkpoint_log.NONE

    @property
    def are_wanted(self) -> bool:
        """True if the job takes snapshots; such a job also takes one at its end."""
        return self._settings.snapshots is not None or self._settings.snapshot_every is not None

    @contextmanager
    def while_running(self, session: "Callable[[], SparkSession]") -> Iterator[None]:
        """Take snapshots at the interval while entered."""
        every = self._settings.snapshot_every
        if every is None:
            yield
            return
        thread = snapshots.Snapshotter(
            self._settings.checkpoint_dir,
            partial(self._take, session),
            parse_interval(every),
            self._report,
            self._report_failure,
        )
        with thread:
            yield

    def at_end(self, session: "Callable[[], SparkSession]", committed: int) -> None:
        """Take a snapshot of the last micro-batch unless it exists."""
        if self.are_wanted and committed > self._newest:
            snapshots.take_and_report(
                partial(self._take, session), self._report, self._report_failure
            )

    def _take(self, session: "Callable[[], SparkSession]") -> "Published":
        from brokertwin.sinks.snapshot_store import Keep

        held = self._holds()
        if held:
            raise UserError(f"The snapshot was held back: {held}")
        settings = self._settings
        keep = Keep(settings.snapshots_keep, settings.snapshots_keep_hours)
        return snapshots.take_and_prune(
            settings.checkpoint_dir, settings.snapshots_dir, keep, session, self._judge
        )

    def _report(self, taken: "Published", seconds: float) -> None:
        self._newest = taken.snapshot.batch
        self._watched.snapshot(taken, seconds)
        if taken.reasons:
            warn(described(taken))
        else:
            say_at(f"{described(taken)}, in {seconds:.2f} s")

    def _report_failure(self, error: UserError) -> None:
        self._watched.no_snapshot()
        warn(f"took no snapshot: {error.message} The job continues.")


def described(taken: "Published") -> str:
    """Describe a snapshot in one line: its path, and its contents or why it was rejected."""
    snapshot = taken.snapshot
    size = size_text(sum(snapshot.cells.values()))
    offsets = counted(snapshot.offsets, "offset")
    what = f"snapshot of micro-batch {snapshot.batch} ({offsets}, {size} of state)"
    if taken.reasons:
        return f"{what} was rejected and set aside at {taken.path}: {'; '.join(taken.reasons)}"
    return f"{what}: {taken.path}"


def show(taken: "Published", as_json: bool) -> None:
    if as_json:
        snapshot = taken.snapshot
        show_json(
            {
                "name": snapshot.name,
                "path": taken.path,
                "batch": snapshot.batch,
                "offsets": snapshot.offsets,
                "cells": snapshot.cells,
                "rejected": taken.reasons,
            }
        )
    else:
        say_at(described(taken))


def check_directory(directory: Path) -> None:
    """Raise UserError if the path cannot hold snapshots."""
    if directory.exists() and not directory.is_dir():
        raise UserError(f"--snapshots {directory} is a file.", "Pass a directory.")
