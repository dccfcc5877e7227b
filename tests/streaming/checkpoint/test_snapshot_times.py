"""When a snapshot or check of a running query is due."""

import pytest

from brokertwin.errors import UserError
from brokertwin.settings import load
from brokertwin.streaming.checkpoint.snapshot_times import DueSnapshot, Interval, parse_interval


@pytest.mark.parametrize(
    ("text", "every"),
    [
        ("100 batches", Interval(batches=100)),
        ("1 batch", Interval(batches=1)),
        ("90 seconds", Interval(seconds=90)),
        ("5 minutes", Interval(seconds=300)),
        ("1 hour", Interval(seconds=3600)),
    ],
)
def test_how_often(text: str, every: Interval) -> None:
    assert parse_interval(load({"snapshot_every": text}).settings.snapshot_every or "") == every


@pytest.mark.parametrize("text", ["0 batches", "5", "batches", "5 days", "5  minutes"])
def test_invalid_intervals_are_rejected(text: str) -> None:
    with pytest.raises(UserError, match="snapshot_every"):
        load({"snapshot_every": text})


def test_by_micro_batches() -> None:
    due = DueSnapshot(Interval(batches=3), batch=-1, now=0)
    assert [batch for batch in range(5) if due.is_due(batch, now=99)] == [2, 3, 4]
    due.taken(4, now=0)
    assert [batch for batch in range(9) if due.is_due(batch, now=99)] == [7, 8]


def test_by_time_and_only_of_a_new_micro_batch() -> None:
    due = DueSnapshot(Interval(seconds=60), batch=7, now=100)
    assert not due.is_due(8, now=159)
    assert due.is_due(8, now=160)
    due.taken(8, now=160)
    assert not due.is_due(8, now=1000)
    assert due.is_due(9, now=1000)
