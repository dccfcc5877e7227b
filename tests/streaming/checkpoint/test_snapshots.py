"""A job takes snapshots of itself, and goes on where it cannot."""

import threading
from pathlib import Path

from brokertwin.errors import UserError
from brokertwin.sinks.snapshot_store import Published
from brokertwin.streaming.checkpoint import snapshots
from brokertwin.streaming.checkpoint.snapshot_times import Interval
from tests.support.patience import PATIENCE_S
from tests.support.snapshots import written


def commit(checkpoint: Path, batch: int) -> None:
    (checkpoint / "commits").mkdir(parents=True, exist_ok=True)
    (checkpoint / "commits" / str(batch)).write_text("v1")


def test_snapshots_run_in_a_thread_and_failures_do_not_block(tmp_path: Path) -> None:
    taken: list[int] = []
    failures: list[str] = []
    reported = threading.Semaphore(0)
    errors: list[Exception] = [UserError("disk full"), OSError("gone")]

    def take() -> Published:
        if errors:
            raise errors.pop(0)
        return written(tmp_path / "snapshots", 5)

    def report(published: Published, seconds: float) -> None:
        assert seconds >= 0
        taken.append(published.snapshot.batch)
        reported.release()

    def report_failure(error: UserError) -> None:
        failures.append(error.message)
        reported.release()

    checkpoint = tmp_path / "checkpoint"
    thread = snapshots.Snapshotter(checkpoint, take, Interval(batches=1), report, report_failure)
    thread.start()
    for batch in (3, 4, 5):
        commit(checkpoint, batch)
        assert reported.acquire(timeout=PATIENCE_S)
    thread.stop()
    assert failures == ["disk full", "OSError: gone"]
    assert taken == [5]
    assert not thread.is_alive()
