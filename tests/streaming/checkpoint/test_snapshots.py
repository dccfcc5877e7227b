"""When a job takes a snapshot of itself; and that it goes on where it cannot."""

import threading
from pathlib import Path

import pytest

from brokertwin.errors import UserError
from brokertwin.settings import load
from brokertwin.sinks.snapshot_store import Published
from brokertwin.streaming.checkpoint import snapshots
from brokertwin.streaming.checkpoint.snapshot_times import DueSnapshot, Every, parse_every
from tests.support.patience import PATIENCE_S
from tests.support.snapshots import written


@pytest.mark.parametrize(
    ("text", "every"),
    [
        ("100 batches", Every(batches=100)),
        ("1 batch", Every(batches=1)),
        ("90 seconds", Every(seconds=90)),
        ("5 minutes", Every(seconds=300)),
        ("1 hour", Every(seconds=3600)),
    ],
)
def test_how_often(text: str, every: Every) -> None:
    assert parse_every(load({"snapshot_every": text}).settings.snapshot_every or "") == every


@pytest.mark.parametrize("text", ["0 batches", "5", "batches", "5 days", "5  minutes"])
def test_invalid_intervals_are_rejected(text: str) -> None:
    with pytest.raises(UserError, match="snapshot_every"):
        load({"snapshot_every": text})


def test_by_micro_batches() -> None:
    due = DueSnapshot(Every(batches=3), batch=-1, now=0)
    assert [batch for batch in range(5) if due.is_due(batch, now=99)] == [2, 3, 4]
    due.taken(4, now=0)
    assert [batch for batch in range(9) if due.is_due(batch, now=99)] == [7, 8]


def test_by_time_and_only_of_a_new_micro_batch() -> None:
    due = DueSnapshot(Every(seconds=60), batch=7, now=100)
    assert not due.is_due(8, now=159)
    assert due.is_due(8, now=160)
    due.taken(8, now=160)
    assert not due.is_due(8, now=1000)
    assert due.is_due(9, now=1000)


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
    thread = snapshots.Snapshotter(checkpoint, take, Every(batches=1), report, report_failure)
    thread.start()
    for batch in (3, 4, 5):
        commit(checkpoint, batch)
        assert reported.acquire(timeout=PATIENCE_S)
    thread.stop()
    assert failures == ["disk full", "OSError: gone"]
    assert taken == [5]
    assert not thread.is_alive()
