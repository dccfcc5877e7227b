"""Reads logs for a Fetch, and builds the response of each partition.

Source: `ReplicaManager.readFromLog`, `Partition.fetchRecords` in Kafka. Since KIP-392 each replica
serves consumers, from its own log up to its own high watermark.

Responses are built only for partitions that are shown, because most in a session have no news.
"""

import msgspec
from msgspec.structs import astuple

from brokertwin.protocol.additions import FetchedBatch, SealedRead
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.errors import NONE, Error
from brokertwin.protocol.generated.fetch import (
    AbortedTransaction,
    FetchResponseEpochEndOffset,
    FetchResponsePartitionData,
)
from brokertwin.state.cluster.image import Partition, leader_of
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.fetch import fetch_errors
from brokertwin.state.fetch.fetch_session import CONSUMER, NO_REPLICA, SessionResponse
from brokertwin.state.fetch.places import NO_NOTES, FetchPlace
from brokertwin.state.fetch.session_items import FetchPartition
from brokertwin.state.logs import log as logs


class ReadLimits(msgspec.Struct, frozen=True):
    """Limits of a read, and its reader: a follower's `replica_id` is not negative.

    `rack_id` is the consumer's rack, None before version 11, which only leaders serve.
    """

    max_bytes: int
    isolation_level: int
    replica_id: int
    rack_id: str | None = None

    @property
    def needs_leader(self) -> bool:
        """True if only the leader responds (`FetchParams.fetchOnlyLeader`)."""
        return self.replica_id >= 0 or (self.replica_id == CONSUMER and self.rack_id is None)


class PartitionRead(SessionResponse, gc=False):
    """Result of reading a partition, with what its session needs.

    Attributes:
        log: None after an error.
        max_bytes: the limit of the read.
        epoch_end: where the reader has diverged.
        leader: the partition, if the response names the current leader.
        was_screened: the error was found before a log was read.
    """

    log: logs.Log | None = None
    found: logs.Slice = logs.EMPTY
    max_bytes: int = 0
    epoch_end: logs.EpochEnd | None = None
    leader: Partition | None = None
    was_screened: bool = False

    @property
    def is_elsewhere(self) -> bool:
        """True after an error, a divergence or with a preferred replica.

        One such partition completes a pending fetch.
        """
        return self.error != 0 or self.is_diverging or self.preferred_replica >= 0


def refused(requested: FetchPartition, identity: str, error: int) -> PartitionRead:
    return PartitionRead(identity, requested, error, -1, -1, 0, False, False)


def read_all(
    broker: Broker, places: list[FetchPlace], limits: ReadLimits
) -> tuple[list[PartitionRead], list[str]]:
    """Read partitions in order; the second result identifies those of a session without news."""
    reads, quiet = [], []
    room, is_first, level = limits.max_bytes, True, limits.isolation_level
    table, broker_id, is_follower = broker.tables.logs, broker.id, limits.replica_id >= 0
    for place in places:
        topic, notes = place.topic, place.notes
        fetch_partition, log = place.cached.requested, table.get(place.log, logs.Log)
        if (
            log is None
            or topic is None
            or (partition := topic.partitions[fetch_partition.partition]).leader != broker_id
            or 0 <= fetch_partition.current_leader_epoch != partition.leader_epoch
            or notes is not NO_NOTES
            or is_follower
            or broker.failed_dirs
        ):  # rare: nearly all requests are of consumers at the leader
            if (ended := _ended(broker, place, log, limits)) is not None:
                reads.append(ended)
                continue
            assert log is not None, place.log
        offset, diverging = fetch_partition.fetch_offset, None
        log_start, log_end = log.log_start_offset, log.log_end_offset
        end = log.readable_end(level) if level else log.high_watermark
        if fetch_partition.last_fetched_epoch >= 0:
            diverging = logs.diverging(log, offset, fetch_partition.last_fetched_epoch)
        is_outside = offset > log_end if diverging is None else diverging == logs.UNKNOWN_EPOCH
        if is_outside or offset < log_start:
            reads.append(_failed(place, Error.OFFSET_OUT_OF_RANGE))
            continue
        found, size, max_bytes = logs.EMPTY, 0, 0
        if offset < log_end and diverging is None and not notes.is_held:
            max_bytes = room if room < fetch_partition.max_bytes else fetch_partition.max_bytes
            if max_bytes < 0 and offset < end:  # `LogSegment.read` throws
                reads.append(_failed(place, Error.UNKNOWN_SERVER_ERROR))
                continue
            found = logs.read(broker, log, offset, end, max_bytes, is_first)
            size = found.size_in_bytes
            if size:
                room, is_first = (room - size if size < room else 0), False
        if (
            offset >= end
            and place.key
            and place.cached.high_watermark == log.high_watermark
            and place.cached.log_start_offset == log_start
            and not (size or diverging or notes.may_prefer or is_follower)
        ):
            quiet.append(place.identity)  # a follower is never quiet: the leader notes its offset
            continue
        reads.append(
            PartitionRead(
                place.identity,
                fetch_partition,
                0,
                log.high_watermark,
                log_start,
                size,
                diverging is not None,
                offset >= end,
                NO_REPLICA,
                notes.may_prefer,
                log,
                found,
                max_bytes,
                diverging,
            )
        )
    return reads, quiet


def _ended(
    broker: Broker, place: FetchPlace, log: logs.Log | None, limits: ReadLimits
) -> PartitionRead | None:
    """A partition with an error or a preferred replica, found before its log is read."""
    fetch_partition = place.cached.requested
    if place.topic is None:
        return _failed(place, fetch_errors.missing_topic_error(broker, fetch_partition))
    if log is None:
        return _failed(place, Error.NOT_LEADER_OR_FOLLOWER)
    if broker.has_lost(log.topic_id, log.partition):
        return _failed(place, Error.KAFKA_STORAGE_ERROR)
    partition = place.topic.partitions[fetch_partition.partition]
    error = fetch_errors.partition_error(
        broker, partition, fetch_partition, limits.needs_leader, limits.replica_id
    )
    if error is not NONE:
        return _failed(place, error)
    replica, ends = place.notes.preferred_replica, (log.high_watermark, log.log_start_offset)
    if replica < 0:
        return None
    return PartitionRead(
        place.identity, fetch_partition, 0, *ends, 0, False, False, replica, log=log
    )


def _failed(place: FetchPlace, error: Error) -> PartitionRead:
    topic, read = place.topic, refused(place.cached.requested, place.identity, int(error))
    if topic is not None and error in (Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH):
        read.leader = topic.partitions[read.requested.partition]
    return read


def is_older(broker: Broker, log: logs.Log, offset: int, end: int) -> bool:
    """True if an offset is in an older segment than the end of the readable log.

    This completes a fetch that waits for min bytes (`LogOffsetMetadata.onOlderSegment`).
    """
    if offset >= end or logs.is_in_last_segment(log, offset):
        return False
    return logs.segment_end(broker, log, offset) < end


def partition_response(
    broker: Broker, read: PartitionRead, isolation_level: int
) -> FetchResponsePartitionData:
    partition, log, found = read.requested, read.log, read.found
    if log is None:
        response = FetchResponsePartitionData(
            partition_index=partition.partition, error_code=read.error
        )
        if read.leader is not None:
            response.current_leader = leader_of(read.leader)
        if read.was_screened:
            response.aborted_transactions = []
        return response
    high_watermark = log.high_watermark
    response = FetchResponsePartitionData(
        partition_index=partition.partition,
        high_watermark=high_watermark,
        last_stable_offset=log.last_stable_offset if log.transactions else high_watermark,
        log_start_offset=log.log_start_offset,
        records_size_in_bytes=found.size_in_bytes,
        batches=[FetchedBatch(*astuple(batch)) for batch in found.batches],
    )
    if read.preferred_replica >= 0:
        response.preferred_read_replica = read.preferred_replica
        return response
    if read.epoch_end is not None:
        epoch, end_offset = read.epoch_end.epoch, read.epoch_end.end_offset
        response.diverging_epoch = FetchResponseEpochEndOffset(epoch=epoch, end_offset=end_offset)
    if isolation_level == logs.READ_COMMITTED:
        response.aborted_transactions = _aborted(broker, read, log)
    if found.segment is not None:
        response.sealed = SealedRead(
            topic_id=log.topic_id,
            base_offset=found.segment.base_offset,
            fetch_offset=partition.fetch_offset,
            end_offset=log.readable_end(isolation_level),
            max_bytes=read.max_bytes,
        )
    return response


def by_topic(
    broker: Broker, reads: list[PartitionRead], isolation_level: int
) -> list[tuple[FetchPartition, list[FetchResponsePartitionData]]]:
    """Group consecutive partitions of a topic; topics can repeat.

    Each run comes with its first partition, which identifies the topic.
    """
    runs: list[tuple[FetchPartition, list[FetchResponsePartitionData]]] = []
    last = None  # not "", which is a possible topic name
    for read in reads:
        partition = read.requested
        topic = partition.topic if partition.topic_id == ZERO_UUID else partition.topic_id
        part = partition_response(broker, read, isolation_level)
        if topic == last:
            runs[-1][1].append(part)
        else:
            last = topic
            runs.append((partition, [part]))
    return runs


def _aborted(broker: Broker, read: PartitionRead, log: logs.Log) -> list[AbortedTransaction] | None:
    """Aborted transactions for a read_committed consumer.

    None if the first batch did not fit (`ReplicaManager.readFromLog`: firstEntryIncomplete).
    Without any room the log is not read.
    """
    found, offset = read.found, read.requested.fetch_offset
    if read.max_bytes > 0 and found is logs.EMPTY and offset < log.last_stable_offset:
        return None
    if not found.size_in_bytes:
        return []
    return [
        AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in logs.aborted_in(broker, log, offset, found)
    ]
