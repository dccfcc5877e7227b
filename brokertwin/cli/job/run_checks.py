"""Checks of a job's own data during and at the end of `brokertwin run`."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from brokertwin.cli.job.check import EXIT_CODES
from brokertwin.cli.output import say_at, show_error, warn
from brokertwin.errors import UserError
from brokertwin.streaming.checkpoint import snapshots
from brokertwin.streaming.checkpoint.snapshot_times import parse_interval
from brokertwin.streaming.checkpoint.state_reader import committed_batch
from brokertwin.streaming.checks import batch_checks
from brokertwin.streaming.checks import snapshot_checks as checks
from brokertwin.streaming.checks.batch_checks import SNAPSHOT, STATE, NewestChecks, Policy
from brokertwin.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from brokertwin.cli.watching.sources import JobSource
    from brokertwin.kafka_io.kafka_clients import ClientProperties
    from brokertwin.settings import Settings
    from brokertwin.sinks.snapshot_store import Judge
    from brokertwin.streaming.checks.batch_checks import BatchCheck
    from brokertwin.streaming.checks.topic_checks import TopicRows


def gate(settings: "Settings") -> "Judge | None":
    """Return the judge of the job's snapshots if a suite is set. Raises UserError."""
    named = settings.snapshot_suite
    return checks.gate(checks.suite_named("--snapshot-suite", named)) if named else None


class Checks:
    """Check a job's newest micro-batch at an interval and report results.

    Args:
        stop: set if the policy is to stop the job.

    Raises:
        UserError: the suite is invalid, or great-expectations is not installed.
    """

    def __init__(self, settings: "Settings", watched: "JobSource", stop: threading.Event) -> None:
        self._settings, self._watched = settings, watched
        self._standing = NewestChecks(Policy(settings.check_policy), stop)
        every = settings.check_every
        self._every = parse_interval(every) if every else None
        self._suite = checks.suite_named("--check-every", settings.check_suite) if every else None
        kinds = dict.fromkeys(each.strip() for each in settings.check_on.split(","))
        if self._suite is not None and (len(kinds) > 1 or STATE in kinds):
            raise UserError(
                f"--check-suite {settings.check_suite} fits only one kind of data, but --check-on"
                f" has several: {settings.check_on}.",
                "Pass one kind other than state to --check-on, or leave out --check-suite.",
            )
        if every and "records" in kinds and not settings.writes_records:
            raise UserError(
                "Cannot check records, because the job does not write them.",
                "Add --records, or remove records from --check-on.",
            )
        self._sees_offsets = SNAPSHOT in kinds
        self._sees_state = STATE in kinds
        self._kinds = tuple(each for each in kinds if each not in (SNAPSHOT, STATE))
        self._rows: TopicRows | None = None

    def begin(self, client: "ClientProperties") -> None:
        """Read the job's topics from now on. Raises UserError."""
        from brokertwin.streaming.checks import topic_checks

        if self._every is not None and self._kinds:
            prefix = self._settings.prefix
            self._rows = topic_checks.rows_from_now(client, prefix, self._kinds)

    def holds(self) -> str:
        """Return why snapshots may not be taken or deleted now; empty if they may."""
        return self._standing.holds

    @contextmanager
    def while_running(self, session: "Callable[[], SparkSession]") -> Iterator[None]:
        """Check at the interval while entered."""
        if self._every is None:
            yield
            return
        thread = snapshots.NewestBatchThread(
            "checks",
            self._settings.checkpoint_dir,
            lambda batch: max(batch, self._check(session)),
            self._every,
        )
        with thread:
            yield

    def at_end(self, session: "Callable[[], SparkSession]", committed: int) -> None:
        """Check the last micro-batch if necessary. Exits if a failed check stops the job."""
        standing = self._standing
        if self._every is not None and committed > standing.batch and not standing.has_stopped:
            self._check(session)
        if standing.has_stopped:
            show_error(
                UserError(
                    f"A failed check stopped the job: {standing.holds}",
                    "`brokertwin explain group` shows the cause. --check-policy warn lets the job"
                    " continue.",
                )
            )
            raise typer.Exit(EXIT_CODES["critical"])

    def _check(self, session: "Callable[[], SparkSession]") -> int:
        """Check the newest micro-batch and return its number."""
        begun = time.monotonic()
        try:
            batch, checks = self._found(session)
        except Exception as error:  # noqa: BLE001 (for example a deleted file: the job continues)
            self._watched.no_check()
            why = error.message if isinstance(error, UserError) else repr(error)
            warn(f"check failed to run: {why} The job continues.")
            return self._standing.batch
        self._standing.add(batch, checks)
        self._watched.check(batch, checks)
        for each in checks:
            _report(each, time.monotonic() - begun)
        return batch

    def _found(self, session: "Callable[[], SparkSession]") -> "tuple[int, list[BatchCheck]]":
        """Check the newest micro-batch and the new rows of the topics."""
        directory = self._settings.checkpoint_dir
        batch, checks = committed_batch(directory), []
        if self._sees_offsets:
            checks.append(batch_checks.check_newest(directory, self._suite, session))
            batch = checks[0].batch
        if self._sees_state:
            checks += batch_checks.check_state(directory, session)
            batch = checks[-1].batch
        if self._rows is not None:
            checks += [
                batch_checks.check_rows(batch, kind, rows, self._suite)
                for kind, rows in self._rows.look().items()
            ]
        return batch, checks


def _report(result: "BatchCheck", seconds: float) -> None:
    """Report how many expectations are met, and the failed ones."""
    checked = result.checked
    met = checked.expectations - len(checked.findings)
    said = (
        f"check of micro-batch {result.batch}: {met} of"
        f" {counted(checked.expectations, 'expectation')} met, {checked.rows:,}"
        f" {'offsets' if result.on == SNAPSHOT else result.on}, in {seconds:.2f} s"
    )
    if checked.is_good:
        say_at(said)
    else:
        warn(f"{said}: {'; '.join(map(checks.text_of, checked.findings))}")
