"""How a follower handles a fetch response: append, truncate or restart.

Source: seed 004; KIP-101, KIP-595; `AbstractFetcherThread`, `ReplicaFetcherThread` in Kafka. A
follower fetches at its log end and sends the leader epoch of its last record.

    response                        follower
    batches                         appends them with the leader's offsets and epochs; then raises
                                    its log start to the leader's, and takes the leader's high
                                    watermark, at most its log end
    the leader's whole log          takes it over: batches that it needs are sealed
                                    (`state/logs/log_transfer.py`)
    diverging epoch                 truncates (`truncation`) and fetches again
    1 OFFSET_OUT_OF_RANGE           truncates to the leader's log end if that is lower; restarts at
                                    the leader's log start if that is higher
    6 NOT_LEADER_OR_FOLLOWER,       fetches again later, or with new metadata
    74 FENCED_LEADER_EPOCH,
    75 UNKNOWN_LEADER_EPOCH, others

If the leader's epoch is unknown to the follower, it truncates to the end of its greatest lower
epoch and fetches again. The next response repeats this until both agree.
"""

from typing import NamedTuple

from brokertwin.protocol.errors import Error
from brokertwin.state.core.decision import FollowedPartition, ReplicaFetchPartition
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
    """End offset after a truncation, and whether the log then agrees with the leader's."""

    offset: int
    is_complete: bool


def fetch_request(log: Log, leader_epoch: int, sends_epoch: bool = True) -> ReplicaFetchPartition:
    """A follower's fetch of a partition; before Kafka 0.11 it had no last epoch."""
    return ReplicaFetchPartition(
        log.topic_id,
        log.partition,
        log.log_end_offset,
        log.log_start_offset,
        leader_epoch,
        last_epoch(log) if sends_epoch else NO_EPOCH,
    )


def last_epoch(log: Log) -> int:
    """Leader epoch of the log's last record, -1 for an empty log."""
    has_any = log.former_epochs or log.log_end_offset > log.log_start_offset
    return log.leader_epoch if has_any else NO_EPOCH


def truncation(log: Log, leaders: EpochEnd) -> Truncation:
    """Where to truncate, given the end of an epoch in the leader's log."""
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
    if leaders_end < log.log_end_offset:
        return [LogTruncated(log.topic_id, log.partition, leaders_end)]
    if leaders_start > log.log_end_offset:
        return [LogStartedAnew(log.topic_id, log.partition, leaders_start)]
    return []


def is_in_sync(log: Log, response: FollowedPartition) -> bool:
    """True if a follower has all committed records after this response.

    After an error, or a response that truncates its log, it must have the leader's whole log.
    """
    is_read = response.error == Error.NONE and response.diverging_epoch < 0
    return log.log_end_offset >= (response.high_watermark if is_read else response.log_end_offset)


def take(log: Log, response: FollowedPartition) -> list[Record]:
    assert response.fetch_offset == log.log_end_offset, (response.fetch_offset, log.log_end_offset)
    if response.error == Error.OFFSET_OUT_OF_RANGE:
        return out_of_range(log, response.log_start_offset, response.log_end_offset)
    if response.error != Error.NONE:
        return []
    if response.diverging_epoch >= 0:
        leaders = EpochEnd(response.diverging_epoch, response.diverging_end_offset)
        return [LogTruncated(log.topic_id, log.partition, truncation(log, leaders).offset)]
    place = (log.topic_id, log.partition)
    if response.taken:
        return [LogTaken(*place, response.taken)]
    records: list[Record] = [BatchAppended(*place, batch) for batch in response.batches]
    end = response.batches[-1].last_offset + 1 if response.batches else log.log_end_offset
    start = max(log.log_start_offset, min(response.log_start_offset, end))
    if start > log.log_start_offset:
        records.append(LogStartMoved(*place, start))
    high_watermark = max(start, min(response.high_watermark, end))
    if high_watermark != log.high_watermark:
        records.append(HighWatermarkMoved(*place, high_watermark))
    return records
