"""The log cleaner of `brokertwin run`."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from brokertwin.cli.output import say_at, warn
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from brokertwin.gateway.records.job_cleaner import JobCleaner, JobState
    from brokertwin.settings import Settings
    from brokertwin.state.core.settings import BrokerSettings
    from brokertwin.streaming.job.job import StreamingJob
    from brokertwin.streaming.job.kept_bases import KeptBases

WAIT_MIN_S = 1.0
"""Minimum wait between rounds, even with a backoff of 0, so that the job has priority."""


class Cleaning:
    """Clean compacted logs while a job runs, and once at the end of a job that stops by itself.

    A state in which no cleaning will be due is not read again, so that an idle job only costs the
    lookup of its newest micro-batch. In a busy job the tables of topics and logs are read, using
    the cached bases where possible. Nothing is cleaned if event times are those of a recording.

    Args:
        given: settings that the brokers were started with.
        session: creates a Spark session if the checkpoint's files are not enough.
    """

    def __init__(
        self,
        job: "StreamingJob",
        broker_settings: "BrokerSettings",
        session: "Callable[[], SparkSession]",
    ) -> None:
        self._job, self._given, self._session = job, broker_settings, session
        self._has_stopped = threading.Event()
        self._done: int | None = None
        self._bases: KeptBases | None = None

    @contextmanager
    def while_running(self) -> Iterator[None]:
        """Clean every `log.cleaner.backoff.ms` while entered."""
        if self._job.settings.event_time == "recorded":
            yield
            return
        thread = threading.Thread(target=self._rounds, name="log cleaner", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._has_stopped.set()
            thread.join()

    def at_end(self) -> None:
        """Clean once; the next run uses the result."""
        if self._job.settings.event_time != "recorded":
            self._has_stopped.clear()
            self._round(self._cleaner())

    def _rounds(self) -> None:
        cleaner = self._cleaner()
        wait_s = self._given.log_cleaner_backoff_ms / 1000
        while not self._has_stopped.wait(max(wait_s, WAIT_MIN_S)):
            wait_s = self._round(cleaner) or wait_s

    def _round(self, cleaner: "JobCleaner") -> float:
        """Clean once; returns the wait until the next round, or 0 if unknown."""
        from brokertwin.streaming.checkpoint import checkpoint_log
        from brokertwin.streaming.job.kept_bases import KeptBases

        try:
            batch = checkpoint_log.committed(self._job.settings.checkpoint_dir)
            if batch in (checkpoint_log.NONE, self._done):
                return 0.0
            if self._bases is None:
                self._bases = KeptBases()
            state = state_of(self._job.settings, self._bases, self._session)
            self._report(cleaner.round(state))
            is_over = not (self._has_stopped.is_set() or cleaner.waits_for_time(state))
            self._done = batch if is_over else None
            return cleaner.backoff_s(state)
        except (UserError, OSError) as error:
            warn(f"the log cleaner failed: {error}")
        except Exception as error:  # noqa: BLE001 (for example a file that Spark deletes)
            warn(f"the log cleaner failed: {type(error).__name__}: {error}")
        return 0.0

    def _cleaner(self) -> "JobCleaner":
        from brokertwin.gateway.records.job_cleaner import JobCleaner

        prefix, ended = self._job.settings.prefix, self._has_stopped.is_set
        return JobCleaner(self._job.client, prefix, self._given, ended)

    def _report(self, passes: int) -> None:
        if passes:
            say_at(f"cleaned {counted(passes, 'compacted log')}")


def state_of(
    settings: "Settings",
    bases: "KeptBases",
    session: "Callable[[], SparkSession] | None" = None,
) -> "JobState":
    """Return a job's state after its newest micro-batch, which must exist.

    `bases` is a cache of large tables. Raises UserError as `state_reader.read_cells`.
    """
    from brokertwin.gateway.records.job_cleaner import CellState, JobState
    from brokertwin.kafka_io.topics import REQUESTS, full_name
    from brokertwin.state.core.tables import CellTables
    from brokertwin.streaming.checkpoint import checkpoint_log, state_reader
    from brokertwin.streaming.job import job

    checkpoint = settings.checkpoint_dir
    batch = checkpoint_log.committed(checkpoint)
    placed = {cell: each for each in job.placements(settings) for cell in each.cells}
    states = [
        CellState(placed[cell], cell, CellTables(columns, partial(bases.read, cell)))
        for cell, columns in state_reader.read_stored(checkpoint, batch, session).items()
    ]
    ends = checkpoint_log.end_offsets(checkpoint, batch)
    return JobState(states, ends.get(full_name(settings.prefix, REQUESTS), {}))
