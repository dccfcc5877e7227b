"""A leader's response to a follower: batches, a diverging epoch, or an error.

Source: `ReplicaManager.readFromLog`, `Partition.readRecords` in Kafka. `copying.py` has the
protocol.
"""

from brokertwin.protocol.errors import Error
from brokertwin.state.cluster.image import Partition
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import FollowedPartition, ReplicaFetchPartition
from brokertwin.state.logs import log as logs
from brokertwin.state.logs import log_transfer
from brokertwin.state.logs.log import Log
from brokertwin.state.replication import throttles
from brokertwin.state.replication.leader import Leadership, Replica


def room(
    broker: Broker,
    leadership: Leadership,
    each: int,
    log_end_offset: int,
    log_start_offset: int,
    log: Log,
) -> int | None:
    """Bytes that can be sent to a follower with these log bounds; None if its fetch is pending.

    0 if it is throttled, and only the high watermark or the log start is news.
    """
    replica = leadership.replicas[each]
    has_moved = (
        log_start_offset < log.log_start_offset or replica.sent_high_watermark != log.high_watermark
    )
    replica.is_held = False
    if log_end_offset >= log.log_end_offset and not has_moved:
        return None
    place = (log.topic_id, log.partition)
    if each not in leadership.isr and throttles.holds_back(broker, place):
        replica.is_held = True
        return 0 if has_moved else None
    return broker.settings.replica_fetch_max_bytes


def refusal(
    broker: Broker,
    sender: int,
    requested: ReplicaFetchPartition,
    partition: Partition | None,
    log: Log | None,
) -> FollowedPartition | None:
    """The response to a fetch that cannot be read, or None."""
    if partition is None:
        return _refused(requested, Error.UNKNOWN_TOPIC_OR_PARTITION)
    if broker.has_lost(requested.topic_id, requested.partition):
        return _refused(requested, Error.KAFKA_STORAGE_ERROR)
    error = broker.leader_error(partition, requested.leader_epoch)
    if error is Error.NONE and sender not in partition.replicas:
        error = Error.UNKNOWN_LEADER_EPOCH
    if error is not Error.NONE or log is None:
        return _refused(requested, error or Error.NOT_LEADER_OR_FOLLOWER)
    end = logs.diverging(log, requested.fetch_offset, requested.last_fetched_epoch)
    is_below = requested.fetch_offset < log.log_start_offset
    is_above = end is None and requested.fetch_offset > log.log_end_offset
    if is_below or is_above or end == logs.UNKNOWN_EPOCH:
        refused = _refused(requested, Error.OFFSET_OUT_OF_RANGE)
    elif end is not None:
        refused = _refused(requested, Error.NONE)
        refused.diverging_epoch, refused.diverging_end_offset = end.epoch, end.end_offset
    else:
        return None
    refused.log_start_offset, refused.log_end_offset = log.log_start_offset, log.log_end_offset
    return refused


def _refused(requested: ReplicaFetchPartition, error: Error) -> FollowedPartition:
    return FollowedPartition(
        requested.topic_id,
        requested.partition,
        requested.fetch_offset,
        requested.leader_epoch,
        int(error),
    )


def read_for_follower(
    broker: Broker, log: Log, replica: Replica, offset: int, leader_epoch: int, room: int
) -> FollowedPartition:
    """Read batches for a follower.

    At least one batch, even if it is larger than `room`, unless `room` is 0.
    """
    end = log.log_end_offset
    found = logs.EMPTY
    if room:
        found = logs.read(broker, log, offset, end, room, True)
    replica.sent_high_watermark = log.high_watermark
    response = FollowedPartition(
        log.topic_id,
        log.partition,
        offset,
        leader_epoch,
        int(Error.NONE),
        log.high_watermark,
        log.log_start_offset,
        end,
        batches=[batch.header() for batch in found.batches],
        size_in_bytes=found.size_in_bytes,
    )
    if found.segment is not None:
        response.taken = log_transfer.items(broker, log.topic_id, log.partition)
        response.size_in_bytes = log.size_in_bytes - log.sealed_bytes
    return response
