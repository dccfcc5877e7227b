"""How a follower takes what its leader answers: where it fetches, what it appends or cuts off.

Source: seed 004; KIP-101, KIP-595; `AbstractFetcherThread`, `ReplicaFetcherThread` in Kafka. A
follower fetches at the end of its log and says the leader epoch of its last record.

    answer                     what the follower does
    batches                    appends them as they are, with the leader's offsets and epochs; then
                               raises its log start to the leader's, and takes the leader's high
                               watermark as far as its own log goes
    the leader's log whole     takes it over: what it needs is sealed (`state/logs/taking.py`)
    diverging epoch            cuts its log off (`truncation`), and asks again
    1 OFFSET_OUT_OF_RANGE      the leader's log ends below: cuts its log off there. The leader's log
                               begins above: forgets all and begins there
    6, 74, 75, others          nothing; it asks again, later or with new metadata

A follower whose leader has an epoch that it never had finds the end of the greatest one below and
asks again, as long as it takes (`Truncation.is_complete`).
"""

from typing import NamedTuple

from brokertwin.state.core.decision import AskedPartition, FollowedPartition
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import (
    BatchAppended,
    HighWatermarkMoved,
    LogStartedAnew,
    LogStartMoved,
    LogTaken,
    LogTruncated,
    Record,
)
from brokertwin.state.logs.log import UNKNOWN_EPOCH, EpochEnd, Log, end_of_epoch

NO_EPOCH = -1
NO_OFFSET = -1


class Truncation(NamedTuple):
    """Where a log is cut off, and whether it then agrees with the leader's."""

    offset: int
    is_complete: bool


def fetch_request(log: Log, leader_epoch: int, says_epoch: bool = True) -> AskedPartition:
    """What a follower asks of its leader; before Kafka 0.11 it did not say its last epoch."""
    return AskedPartition(
        log.topic_id,
        log.partition,
        log.log_end_offset,
        log.log_start_offset,
        leader_epoch,
        last_epoch(log) if says_epoch else NO_EPOCH,
    )


def last_epoch(log: Log) -> int:
    """The leader epoch of the log's last record, -1 for a log without any."""
    has_any = log.former_epochs or log.log_end_offset > log.log_start_offset
    return log.leader_epoch if has_any else NO_EPOCH


def truncation(log: Log, leaders: EpochEnd) -> Truncation:
    """Where to cut, given where the leader's log leaves the follower's last epoch or one below."""
    end = log.log_end_offset
    if leaders.end_offset == NO_OFFSET:
        return Truncation(end, True)
    if leaders.epoch == NO_EPOCH:
        return Truncation(min(leaders.end_offset, end), True)
    own = end_of_epoch(log, leaders.epoch)
    if own == UNKNOWN_EPOCH:
        return Truncation(min(leaders.end_offset, end), True)
    if own.epoch == leaders.epoch:
        return Truncation(min(own.end_offset, leaders.end_offset, end), True)
    return Truncation(min(own.end_offset, end), False)


def out_of_range(log: Log, leaders_start: int, leaders_end: int) -> list[Record]:
    """What becomes of a log whose end lies outside of the leader's."""
    if leaders_end < log.log_end_offset:
        return [LogTruncated(log.topic_id, log.partition, leaders_end)]
    if leaders_start > log.log_end_offset:
        return [LogStartedAnew(log.topic_id, log.partition, leaders_start)]
    return []


def is_in_sync(log: Log, answer: FollowedPartition) -> bool:
    """Whether a follower that has taken an answer has all that is committed, as far as it knows.

    Where the answer had it cut its log, all that the leader has. Kafka calls the rest its lag.
    """
    is_read = answer.error == Error.NONE and answer.diverging_epoch < 0
    return log.log_end_offset >= (answer.high_watermark if is_read else answer.log_end_offset)


def take(log: Log, answer: FollowedPartition) -> list[Record]:
    """The records of what a follower does with an answer to a fetch at the end of its log."""
    assert answer.fetch_offset == log.log_end_offset, (answer.fetch_offset, log.log_end_offset)
    if answer.error == Error.OFFSET_OUT_OF_RANGE:
        return out_of_range(log, answer.log_start_offset, answer.log_end_offset)
    if answer.error != Error.NONE:
        return []
    if answer.diverging_epoch >= 0:
        leaders = EpochEnd(answer.diverging_epoch, answer.diverging_end_offset)
        return [LogTruncated(log.topic_id, log.partition, truncation(log, leaders).offset)]
    place = (log.topic_id, log.partition)
    if answer.taken:
        return [LogTaken(*place, answer.taken)]
    records: list[Record] = [BatchAppended(*place, batch) for batch in answer.batches]
    end = answer.batches[-1].last_offset + 1 if answer.batches else log.log_end_offset
    start = max(log.log_start_offset, min(answer.log_start_offset, end))
    if start > log.log_start_offset:
        records.append(LogStartMoved(*place, start))
    high_watermark = max(start, min(answer.high_watermark, end))
    if high_watermark != log.high_watermark:
        records.append(HighWatermarkMoved(*place, high_watermark))
    return records
