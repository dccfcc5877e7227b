"""What a leader answers a follower: batches, where the follower's log goes wrong, or an error.

Source: `ReplicaManager.readFromLog`, `Partition.readRecords` in Kafka. `copying.py` has the steps.
"""

from brokertwin.state.cluster.image import Partition
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import AskedPartition, FollowedPartition
from brokertwin.state.core.errors import Error
from brokertwin.state.logs import log as logs
from brokertwin.state.logs import taking
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
    """How many bytes a follower whose log has these bounds may be told; None: it hears nothing.

    0 where it is held back, and hears of the high watermark or the log's start alone.
    """
    replica = leadership.replicas[each]
    has_moved = (
        log_start_offset < log.log_start_offset or replica.told_high_watermark != log.high_watermark
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
    asked: AskedPartition,
    partition: Partition | None,
    log: Log | None,
) -> FollowedPartition | None:
    """The answer to a fetch that is not read."""
    if partition is None:
        return _refused(asked, Error.UNKNOWN_TOPIC_OR_PARTITION)
    if broker.has_lost(asked.topic_id, asked.partition):
        return _refused(asked, Error.KAFKA_STORAGE_ERROR)
    error = broker.leader_error(partition, asked.leader_epoch)
    if error is Error.NONE and sender not in partition.replicas:
        error = Error.UNKNOWN_LEADER_EPOCH
    if error is not Error.NONE or log is None:
        return _refused(asked, error or Error.NOT_LEADER_OR_FOLLOWER)
    end = logs.diverging(log, asked.fetch_offset, asked.last_fetched_epoch)
    is_below = asked.fetch_offset < log.log_start_offset
    is_above = end is None and asked.fetch_offset > log.log_end_offset
    if is_below or is_above or end == logs.UNKNOWN_EPOCH:
        refused = _refused(asked, Error.OFFSET_OUT_OF_RANGE)
    elif end is not None:
        refused = _refused(asked, Error.NONE)
        refused.diverging_epoch, refused.diverging_end_offset = end.epoch, end.end_offset
    else:
        return None
    refused.log_start_offset, refused.log_end_offset = log.log_start_offset, log.log_end_offset
    return refused


def _refused(asked: AskedPartition, error: Error) -> FollowedPartition:
    return FollowedPartition(
        asked.topic_id, asked.partition, asked.fetch_offset, asked.leader_epoch, int(error)
    )


def read_for_follower(
    broker: Broker, log: Log, replica: Replica, offset: int, leader_epoch: int, room: int
) -> FollowedPartition:
    """What the leader's log has for a follower from an offset on.

    That is one batch at least, whatever the room for it, but none where there is no room.
    """
    end = log.log_end_offset
    found = logs.EMPTY
    if room:
        found = logs.read(broker.tables.logs, broker.id, log, offset, end, room, True)
    replica.told_high_watermark = log.high_watermark
    made = FollowedPartition(
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
        made.taken = taking.items(broker.tables, broker.id, log.topic_id, log.partition)
        made.size_in_bytes = log.size_in_bytes - log.sealed_bytes
    return made
