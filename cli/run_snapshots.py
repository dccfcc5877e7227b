"""The snapshots that `brokertwin run` takes of itself, while it runs and at its end."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from brokertwin.cli.live import size_text
from brokertwin.cli.output import say_at, show_json, warn
from brokertwin.errors import UserError
from brokertwin.streaming import checkpoint_log, snapshots

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from brokertwin.cli.watching.sources import JobSource
    from brokertwin.settings import Settings
    from brokertwin.sinks.snapshot_store import Judge, Published


class Snapshots:
    """Takes a job's snapshots, and tells them: a line, and over HTTP.

    Args:
        settings: the job's.
        watched: is told of them.
        judge: as of `snapshot_store.write`.
        holds: says why none may be taken or removed now; empty where it may.
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
        """Whether the job takes any; one that does takes one at its end, too."""
        return self._settings.snapshots is not None or self._settings.snapshot_every is not None

    @contextmanager
    def while_running(self, session: "Callable[[], SparkSession]") -> Iterator[None]:
        """Take them as often as is wanted while it is entered."""
        every = self._settings.snapshot_every
        if every is None:
            yield
            return
        thread = snapshots.Snapshotter(
            self._settings.checkpoint_dir,
            partial(self._take, session),
            snapshots.parse_every(every),
            self._tell,
            self._tell_failure,
        )
        with thread:
            yield

    def at_end(self, session: "Callable[[], SparkSession]", committed: int) -> None:
        """Take one of the last micro-batch, if there is none of it yet."""
        if self.are_wanted and committed > self._newest:
            snapshots.taken_or_told(partial(self._take, session), self._tell, self._tell_failure)

    def _take(self, session: "Callable[[], SparkSession]") -> "Published":
        from brokertwin.sinks.snapshot_store import Keep

        held = self._holds()
        if held:
            raise UserError(f"It is held back: {held}")
        settings = self._settings
        keep = Keep(settings.snapshots_keep, settings.snapshots_keep_hours)
        return snapshots.take_and_prune(
            settings.checkpoint_dir, settings.snapshots_dir, keep, session, self._judge
        )

    def _tell(self, taken: "Published", seconds: float) -> None:
        self._newest = taken.snapshot.batch
        self._watched.snapshot(taken, seconds)
        if taken.reasons:
            warn(told(taken))
        else:
            say_at(f"{told(taken)}, in {seconds:.2f} s")

    def _tell_failure(self, error: UserError) -> None:
        self._watched.no_snapshot()
        warn(f"no snapshot: {error.message} The job goes on.")


def told(taken: "Published") -> str:
    """A snapshot in a line: where it is, and what is in it, or what was against it."""
    found = taken.snapshot
    size = size_text(sum(found.cells.values()))
    what = f"snapshot of micro-batch {found.batch} ({found.offsets:,} offsets, {size} of state)"
    if taken.reasons:
        return f"{what} is kept aside at {taken.path}: {'; '.join(taken.reasons)}"
    return f"{what}: {taken.path}"


def show(taken: "Published", as_json: bool) -> None:
    """A snapshot that was asked for."""
    if as_json:
        found = taken.snapshot
        show_json(
            {
                "name": found.name,
                "path": taken.path,
                "batch": found.batch,
                "offsets": found.offsets,
                "cells": found.cells,
                "rejected": taken.reasons,
            }
        )
    else:
        say_at(told(taken))


def check_directory(directory: Path) -> None:
    """Raises UserError where no snapshots can lie there."""
    if directory.exists() and not directory.is_dir():
        raise UserError(f"--snapshots {directory} is a file; it has to be a directory.")
