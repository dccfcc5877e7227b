"""The log cleaner that `brokertwin run` has beside the job."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from brokertwin.cli.output import say_at, warn
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from brokertwin.gateway.job_cleaner import JobCleaner, JobState
    from brokertwin.settings import Settings
    from brokertwin.state.core.settings import BrokerSettings
    from brokertwin.streaming.job import Job
    from brokertwin.streaming.kept_bases import KeptBases

WAIT_MIN_S = 1.0
"""A round reads the state row: with a backoff of 0, too, the job comes first."""


class Cleaning:
    """Cleans compacted logs while a job runs, and once more at the end of one that ends by itself.

    A state in which nothing more is due, however late it gets, is not read again: a job that is
    idle costs the lookup of its newest micro-batch. In a busy one the tables of topics and logs are
    opened, and of these what has changed since they had their base.

    Where times are those of a recording nothing is cleaned.

    Args:
        job: from `prepared`.
        given: the settings that its brokers were started with.
        session: gives a Spark session, for where the checkpoint's files do not do.
    """

    def __init__(
        self, job: "Job", given: "BrokerSettings", session: "Callable[[], SparkSession]"
    ) -> None:
        self._job, self._given, self._session = job, given, session
        self._has_stopped = threading.Event()
        self._done: int | None = None
        self._bases: KeptBases | None = None

    @contextmanager
    def while_running(self) -> Iterator[None]:
        """Clean every `log.cleaner.backoff.ms` while it is entered."""
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
        """Clean once; the next run takes the outcome."""
        if self._job.settings.event_time != "recorded":
            self._has_stopped.clear()
            self._round(self._cleaner())

    def _rounds(self) -> None:
        cleaner = self._cleaner()
        wait_s = self._given.log_cleaner_backoff_ms / 1000
        while not self._has_stopped.wait(max(wait_s, WAIT_MIN_S)):
            wait_s = self._round(cleaner) or wait_s

    def _round(self, cleaner: "JobCleaner") -> float:
        """Gives back how long to wait for the next one, 0 where that is not known."""
        from brokertwin.streaming import checkpoint_log
        from brokertwin.streaming.kept_bases import KeptBases

        try:
            batch = checkpoint_log.committed(self._job.settings.checkpoint_dir)
            if batch in (checkpoint_log.NONE, self._done):
                return 0.0
            if self._bases is None:
                self._bases = KeptBases()
            state = state_of(self._job.settings, self._bases, self._session)
            self._tell(cleaner.round(state))
            is_over = not (self._has_stopped.is_set() or cleaner.waits_for_time(state))
            self._done = batch if is_over else None
            return cleaner.backoff_s(state)
        except (UserError, OSError) as error:
            warn(f"the log cleaner: {error}")
        except Exception as error:  # noqa: BLE001 (a file that Spark removes meanwhile)
            warn(f"the log cleaner: {type(error).__name__}: {error}")
        return 0.0

    def _cleaner(self) -> "JobCleaner":
        from brokertwin.gateway.job_cleaner import JobCleaner

        prefix, ended = self._job.settings.prefix, self._has_stopped.is_set
        return JobCleaner(self._job.client, prefix, self._given, ended)

    def _tell(self, passes: int) -> None:
        if passes:
            say_at(f"{passes} compacted logs were cleaned")


def state_of(
    settings: "Settings",
    bases: "KeptBases",
    session: "Callable[[], SparkSession] | None" = None,
) -> "JobState":
    """A job's state as its newest micro-batch has left it; there is one.

    Args:
        settings: the job's.
        bases: what was read of large tables before.
        session: as of `state_reader.read_cells`.

    Raises:
        UserError: as `state_reader.read_cells`.
    """
    from brokertwin.gateway.job_cleaner import CellState, JobState
    from brokertwin.kafka_io.topics import REQUESTS, full_name
    from brokertwin.state.core.tables import Tables
    from brokertwin.streaming import checkpoint_log, job, state_reader

    checkpoint = settings.checkpoint_dir
    batch = checkpoint_log.committed(checkpoint)
    placed = {cell: each for each in job.placements(settings) for cell in each.cells}
    found = [
        CellState(placed[cell], cell, Tables(columns, partial(bases.read, cell)))
        for cell, columns in state_reader.read_stored(checkpoint, batch, session).items()
    ]
    ends = checkpoint_log.end_offsets(checkpoint, batch)
    return JobState(found, ends.get(full_name(settings.prefix, REQUESTS), {}))
