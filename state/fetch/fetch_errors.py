"""Errors of a partition in a Fetch.

Source: `FetchRequest.optionalEpoch`, `FetchResponse.matchingTopic`, `ReplicaManager.readFromLog`,
`Partition.followerReplicaOrThrow` in Kafka.
"""

from collections.abc import Sequence

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.errors import NONE, Error
from brokertwin.state.cluster.image import NO_EPOCH, Partition, Topic
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.fetch.fetch_session import TOPIC_ID_VERSION
from brokertwin.state.fetch.session_items import FetchPartition


def epoch_of(partition: FetchPartition) -> int:
    """Leader epoch of a request, in which any negative number means none."""
    return max(partition.current_leader_epoch, NO_EPOCH)


def is_fatal_for_version(refused: Sequence[FetchPartition], version: int) -> bool:
    """True if Kafka fails at a response that ends with these partitions.

    After a partition with the zero topic id it compares names, which versions with ids lack.
    """
    if version < TOPIC_ID_VERSION:
        return False
    return any(each.topic_id == ZERO_UUID for each in refused[:-1])


def missing_topic_error(broker: Broker, partition: FetchPartition) -> Error:
    """Error of a deleted topic; 103 INCONSISTENT_TOPIC_ID if another topic has its name."""
    other = broker.topic_by_name(partition.topic) if partition.topic else None
    has_partition = other is not None and 0 <= partition.partition < len(other.partitions)
    return Error.INCONSISTENT_TOPIC_ID if has_partition else Error.UNKNOWN_TOPIC_OR_PARTITION


def topic_error(
    broker: Broker,
    item: FetchPartition,
    topic: Topic | None,
    may_read: bool,
    denied: frozenset[str],
    version: int,
) -> Error:
    """Error before a log is read; without READ permission always an authorization error.

    A conflict of id and name is reported when the partition is read. A partition without a name is
    unknown by its id only in versions with ids.
    """
    if not may_read:
        return Error.TOPIC_AUTHORIZATION_FAILED
    if topic is None and not item.topic and version >= TOPIC_ID_VERSION:
        return Error.UNKNOWN_TOPIC_ID
    if denied and (item.topic if topic is None else topic.name) in denied:
        return Error.TOPIC_AUTHORIZATION_FAILED
    if topic is None:
        is_reported_later = missing_topic_error(broker, item) is Error.INCONSISTENT_TOPIC_ID
    else:
        is_reported_later = 0 <= item.partition < len(topic.partitions)
    return NONE if is_reported_later else Error.UNKNOWN_TOPIC_OR_PARTITION


def leader_error(
    broker: Broker, partition: Partition, fetch_partition: FetchPartition, needs_leader: bool
) -> Error:
    """Error of a broker that has the log but does not serve it."""
    if needs_leader:
        return broker.leader_error(partition, epoch_of(fetch_partition))
    return broker.epoch_error(partition, epoch_of(fetch_partition))


def replica_error(partition: Partition, fetch_partition: FetchPartition, replica_id: int) -> Error:
    """Error of a broker that the leader does not know as a replica."""
    if replica_id < 0 or replica_id in partition.replicas:
        return NONE
    has_epoch = epoch_of(fetch_partition) != NO_EPOCH
    return Error.UNKNOWN_LEADER_EPOCH if has_epoch else Error.NOT_LEADER_OR_FOLLOWER


def partition_error(
    broker: Broker,
    partition: Partition,
    fetch_partition: FetchPartition,
    needs_leader: bool,
    replica_id: int,
) -> Error:
    """Error of a partition for a replica, or for a consumer (-1)."""
    error = leader_error(broker, partition, fetch_partition, needs_leader)
    return replica_error(partition, fetch_partition, replica_id) if error is NONE else error
