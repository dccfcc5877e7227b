"""Worked examples for followers: append, truncate, restart."""

import pytest

from brokertwin.protocol.batch_headers import Batch
from brokertwin.state.core.decision import FollowedPartition
from brokertwin.state.core.records import (
    BatchAppended,
    HighWatermarkMoved,
    LogStartedAnew,
    LogStartMoved,
    LogTruncated,
)
from brokertwin.state.core.tables import CellTables
from brokertwin.state.logs import log as logs
from brokertwin.state.logs.log import EpochEnd, Log
from brokertwin.state.logs.log_tail import LogTail
from brokertwin.state.replication import follower
from brokertwin.state.replication.follower import Truncation

BROKER, TOPIC_ID = 2, "DE7zrq9QQU-L7aF6gqB0mA"


def log_of(*epochs: int, first: int = 0, high_watermark: int = 0) -> Log:
    """A log with one record for each epoch; the first has the offset `first`."""
    at = CellTables().of(BROKER)
    logs.create(at, TOPIC_ID, "test", 0)
    key = logs.log_key(BROKER, TOPIC_ID, 0)
    log = at.tables.logs.change(key, Log)
    log.log_start_offset = log.log_end_offset = first
    for offset, epoch in enumerate(epochs, first):
        batch = Batch(base_offset=offset, last_offset_delta=0, partition_leader_epoch=epoch)
        LogTail(at, log, None, is_only_replica=False).take(batch)
    log.high_watermark = max(high_watermark, first)
    return log


def response_of(
    fetch_offset: int, count: int = 0, high_watermark: int = 0, start: int = 0
) -> object:
    batches = [
        Batch(base_offset=fetch_offset, last_offset_delta=count - 1, partition_leader_epoch=0)
    ][:count]
    return FollowedPartition(
        TOPIC_ID,
        0,
        fetch_offset,
        0,
        high_watermark=high_watermark,
        log_start_offset=start,
        log_end_offset=fetch_offset + count,
        batches=batches,
    )


def handled(log: Log, followed: object) -> list[tuple[str, int]]:
    """Short form of a follower's records for a response."""
    assert isinstance(followed, FollowedPartition)
    result = []
    for record in follower.take(log, followed):
        if isinstance(record, BatchAppended):
            result.append(("append", record.batch.base_offset))
        elif isinstance(record, HighWatermarkMoved):
            result.append(("high watermark", record.high_watermark))
        elif isinstance(record, LogStartMoved):
            result.append(("log start", record.log_start_offset))
    return result


def test_example_1_high_watermark_of_a_response_is_older_than_its_batches() -> None:
    log = log_of(0, first=17313, high_watermark=17314)
    assert log.log_end_offset == 17314
    assert handled(log, response_of(17314, 1, 17314)) == [("append", 17314)]
    log = log_of(0, 0, first=17313, high_watermark=17314)
    assert handled(log, response_of(17315, 1, 17315)) == [
        ("append", 17315),
        ("high watermark", 17315),
    ]


def test_follower_takes_the_high_watermark_up_to_its_log_end() -> None:
    assert handled(log_of(0, 0), response_of(2, 1, 9)) == [("append", 2), ("high watermark", 3)]
    assert handled(log_of(0, 0, high_watermark=2), response_of(2, 0, 1)) == [("high watermark", 1)]


def test_follower_raises_its_log_start_to_the_leaders() -> None:
    log = log_of(0, 0, 0, high_watermark=1)
    expected = [("log start", 2), ("high watermark", 3)]
    assert handled(log, response_of(3, 0, 3, start=2)) == expected


def test_example_15_end_of_an_epoch() -> None:
    log = log_of(*[0] * 3, *[2] * 4, *[4] * 3, first=10)
    assert (log.former_epochs, log.log_end_offset) == ([EpochEnd(0, 13), EpochEnd(2, 17)], 20)
    for epoch, expected in ((1, (0, 13)), (2, (2, 17)), (3, (2, 17)), (4, (4, 20)), (5, (-1, -1))):
        assert logs.end_of_epoch(log, epoch) == EpochEnd(*expected), epoch
    assert logs.end_of_epoch(log_of(5, first=11), 4) == EpochEnd(4, 11)


def test_example_16_follower_truncates_epoch_by_epoch() -> None:
    leaders = log_of(1, 3, 5)
    for own, expected_end, expected_cut in (
        (log_of(0, 2, 4), EpochEnd(3, 2), Truncation(2, False)),
        (log_of(0, 2), EpochEnd(1, 1), Truncation(1, False)),
        (log_of(0), EpochEnd(0, 0), Truncation(0, True)),
    ):
        request = follower.fetch_request(own, leader_epoch=5)
        actual = logs.diverging(leaders, request.fetch_offset, request.last_fetched_epoch)
        assert actual == expected_end
        assert follower.truncation(own, expected_end) == expected_cut


@pytest.mark.parametrize(
    ("leaders", "expected"),
    [
        (EpochEnd(3, -1), Truncation(6, True)),
        (EpochEnd(-1, 4), Truncation(4, True)),
        (EpochEnd(-1, 9), Truncation(6, True)),
        (EpochEnd(2, 3), Truncation(3, True)),
        (EpochEnd(2, 9), Truncation(4, True)),
        (EpochEnd(3, 5), Truncation(4, False)),
        (EpochEnd(9, 5), Truncation(5, True)),
    ],
)
def test_truncation_offset(leaders: EpochEnd, expected: Truncation) -> None:
    """Epochs with their offsets: 1 [0, 1], 2 [2, 3], 4 [4, 5]."""
    assert follower.truncation(log_of(1, 1, 2, 2, 4, 4), leaders) == expected


@pytest.mark.parametrize(
    ("own_end", "leaders", "cut_at"),
    [(7, (0, 5), 5), (3, (0, 0), 0), (7, (4, 5), 5)],
)
def test_example_17_case_1_leaders_log_ends_below(
    own_end: int, leaders: tuple[int, int], cut_at: int
) -> None:
    log = log_of(*[0] * own_end, high_watermark=own_end - 2)
    expected = [LogTruncated(TOPIC_ID, 0, cut_at)]
    assert follower.out_of_range(log, *leaders) == expected


def test_example_18_case_2_leaders_log_starts_above() -> None:
    log = log_of(0, high_watermark=1)
    assert follower.out_of_range(log, 2, 4) == [LogStartedAnew(TOPIC_ID, 0, 2)]


@pytest.mark.parametrize("leaders", [(0, 3), (3, 3), (2, 9)])
def test_follower_within_the_leaders_range_continues(leaders: tuple[int, int]) -> None:
    """From the seed: Kafka 0.10.1 does nothing special here."""
    assert follower.out_of_range(log_of(0, 0, 0), *leaders) == []


def test_empty_follower_sends_no_epoch() -> None:
    assert follower.fetch_request(log_of(), 7).last_fetched_epoch == -1
    assert follower.fetch_request(log_of(3), 7).last_fetched_epoch == 3
