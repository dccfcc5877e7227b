"""Reads logs for a Fetch: whether a partition may be read, what is in it, its part of the answer.

Source: `ReplicaManager.readFromLog`, `Partition.fetchRecords` in Kafka. Each replica serves a
consumer that has a version of KIP-392, from its own log up to its own high watermark.

A part of the answer is made of what is shown alone: most partitions of a session have nothing new.
"""

import msgspec

from brokerstream.state.cluster.image import LeaderIdAndEpoch, Partition, Topic
from brokerstream.state.cluster.machines import Broker
from brokerstream.state.core.errors import Error
from brokerstream.state.core.schema import Uuid
from brokerstream.state.fetch import fetch_errors
from brokerstream.state.fetch.fetch_bodies import (
    AbortedTransaction,
    AnsweredPartition,
    EpochEndOffset,
    SealedBatches,
)
from brokerstream.state.fetch.fetch_session import (
    CONSUMER,
    Answered,
    CachedPartition,
    FetchPartition,
)
from brokerstream.state.logs import log as logs


class Place(msgspec.Struct, gc=False):
    """A partition that can be read, for one request; it is stored nowhere.

    Attributes:
        requested: what is asked of it.
        identity: how a session calls it.
        topic_id: of its topic.
        log: the key of its log.
        topic: None where it is gone.
        cached: what its session has of it, if it is in one.
        preferred_replica: who had better be asked, -1 for nobody.
        may_prefer: whether that may change though the log does not.
    """

    requested: FetchPartition
    identity: str
    topic_id: Uuid
    log: str
    topic: Topic | None
    cached: CachedPartition | None = None
    preferred_replica: int = -1
    may_prefer: bool = False


class Limits(msgspec.Struct, frozen=True):
    """How much is read, and for whom: a follower's `replica_id` is not below 0.

    `rack_id` says in which rack a consumer is; None where it knows leaders alone, which nobody else
    serves (before version 11).
    """

    max_bytes: int
    isolation_level: int
    replica_id: int
    rack_id: str | None = None

    @property
    def needs_leader(self) -> bool:
        """Whether only a partition's leader answers (`FetchParams.fetchOnlyLeader`)."""
        return self.replica_id >= 0 or (self.replica_id == CONSUMER and self.rack_id is None)


class Read(msgspec.Struct, gc=False):
    """What was read of a partition.

    Attributes:
        requested: what was asked of it.
        answered: what its session is told.
        log: None where there is an error.
        found: the batches.
        max_bytes: how many there was room for.
        epoch_end: where the reader has left the log.
        leader: who leads it instead, where that is told.
        was_screened: refused before any log was looked at.
        preferred_replica: who had better be asked; nothing was read then.
    """

    requested: FetchPartition
    answered: Answered
    log: logs.Log | None = None
    found: logs.Slice = logs.EMPTY
    max_bytes: int = 0
    epoch_end: logs.EpochEnd | None = None
    leader: Partition | None = None
    was_screened: bool = False
    preferred_replica: int = -1

    @property
    def is_answer(self) -> bool:
        """Whether this alone is worth an answer: an error, a log that was cut, another replica."""
        is_elsewhere = self.epoch_end is not None or self.preferred_replica >= 0
        return self.answered.error != 0 or is_elsewhere


def refused(requested: FetchPartition, identity: str, error: int) -> Read:
    """A partition that is not read."""
    return Read(requested, Answered(identity, error, -1, -1, 0, False, False))


def read_all(broker: Broker, places: list[Place], limits: Limits) -> list[Read]:
    """The partitions in their order, within max bytes."""
    reads = []
    room, is_first = limits.max_bytes, True
    for place in places:
        read = _read(broker, place, min(room, place.requested.max_bytes), is_first, limits)
        size = read.found.size_in_bytes
        if size:
            room, is_first = max(0, room - size), False
        reads.append(read)
    return reads


def _read(broker: Broker, place: Place, max_bytes: int, is_first: bool, limits: Limits) -> Read:
    wanted = place.requested
    if place.topic is None:
        return refused(wanted, place.identity, int(fetch_errors.of_gone(broker, wanted)))
    partition = place.topic.partitions[wanted.partition]
    log = broker.tables.logs.get(place.log, logs.Log)
    if log is None:
        return _failed(place, Error.NOT_LEADER_OR_FOLLOWER, partition)
    error = fetch_errors.of_broker(broker, partition, wanted, limits.needs_leader)
    if error is Error.NONE and limits.replica_id >= 0:
        error = fetch_errors.of_replica(partition, wanted, limits.replica_id)
    if error is not Error.NONE:
        return _failed(place, error, partition)
    if place.preferred_replica >= 0:
        return _elsewhere(place, log)
    offset = wanted.fetch_offset
    diverging = None
    if wanted.last_fetched_epoch >= 0:
        diverging = logs.diverging(log, offset, wanted.last_fetched_epoch)
    if offset < log.log_start_offset or diverging == logs.UNKNOWN_EPOCH:
        return _failed(place, Error.OFFSET_OUT_OF_RANGE, partition)
    end, found = log.readable_end(limits.isolation_level), logs.EMPTY
    if diverging is not None:
        max_bytes = 0
    elif offset > log.log_end_offset:
        return _failed(place, Error.OFFSET_OUT_OF_RANGE, partition)
    elif offset < log.log_end_offset:
        found = logs.read(broker.tables.logs, broker.id, log, offset, end, max_bytes, is_first)
    answered = Answered(
        place.identity,
        0,
        log.high_watermark,
        log.log_start_offset,
        found.size_in_bytes,
        diverging is not None,
        offset >= end,
        may_prefer=place.may_prefer,
    )
    return Read(wanted, answered, log, found, max_bytes, diverging)


def _elsewhere(place: Place, log: logs.Log) -> Read:
    """A partition that had better be read from another replica: where the log lies, no records."""
    ends = (log.high_watermark, log.log_start_offset)
    replica = place.preferred_replica
    answered = Answered(place.identity, 0, *ends, 0, False, False, replica)
    return Read(place.requested, answered, log, preferred_replica=replica)


def _failed(place: Place, error: Error, partition: Partition) -> Read:
    read = refused(place.requested, place.identity, int(error))
    if error in (Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH):
        read.leader = partition
    return read


def part(broker: Broker, read: Read, isolation_level: int) -> AnsweredPartition:
    """A partition's part of the answer."""
    wanted, log, found = read.requested, read.log, read.found
    if log is None:
        error = read.answered.error
        answer = AnsweredPartition(partition_index=wanted.partition, error_code=error)
        if read.leader is not None:
            answer.current_leader = LeaderIdAndEpoch.of(read.leader)
        if read.was_screened:
            answer.aborted_transactions = []
        return answer
    answer = AnsweredPartition(
        partition_index=wanted.partition,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        records_size_in_bytes=found.size_in_bytes,
        batches=[batch.header() for batch in found.batches],
    )
    if read.preferred_replica >= 0:
        answer.preferred_read_replica = read.preferred_replica
        return answer
    if read.epoch_end is not None:
        epoch, end_offset = read.epoch_end.epoch, read.epoch_end.end_offset
        answer.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    if isolation_level == logs.READ_COMMITTED:
        answer.aborted_transactions = _aborted(broker, read, log)
    if found.segment is not None:
        answer.sealed = SealedBatches(
            topic_id=log.topic_id,
            base_offset=found.segment.base_offset,
            fetch_offset=wanted.fetch_offset,
            end_offset=log.readable_end(isolation_level),
            max_bytes=read.max_bytes,
        )
    return answer


def _aborted(broker: Broker, read: Read, log: logs.Log) -> list[AbortedTransaction] | None:
    """The aborted transactions in what was read of committed records.

    A first batch that is left out because it does not fit takes them with it
    (`ReplicaManager.readFromLog`: firstEntryIncomplete); without any room the log is not read.
    """
    found, offset = read.found, read.requested.fetch_offset
    if read.max_bytes > 0 and found is logs.EMPTY and offset < log.last_stable_offset:
        return None
    if not found.size_in_bytes:
        return []
    return [
        AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in logs.aborted_in(broker.tables.logs, broker.id, log, offset, found)
    ]
