"""Why a partition that a Fetch asks for is not read.

Source: `FetchRequest.optionalEpoch`, `FetchResponse.matchingTopic`, `ReplicaManager.readFromLog`,
`Partition.followerReplicaOrThrow` in Kafka.
"""

from collections.abc import Sequence

from brokertwin.state.cluster.image import NO_EPOCH, Partition, Topic
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.errors import NONE, Error
from brokertwin.state.core.schema import ZERO_UUID
from brokertwin.state.fetch.fetch_session import TOPIC_ID_VERSION
from brokertwin.state.fetch.session_items import FetchPartition


def epoch_of(wanted: FetchPartition) -> int:
    """The leader's epoch that is asked for; any negative one is none, in a Fetch alone."""
    return max(wanted.current_leader_epoch, NO_EPOCH)


def is_fatal_for_version(refused: Sequence[FetchPartition], version: int) -> bool:
    """Whether Kafka fails at an answer whose last partitions are these, and the request has -1.

    Behind one of the topic id of zeros it compares names, and by ids there is none.
    """
    if version < TOPIC_ID_VERSION:
        return False
    return any(each.topic_id == ZERO_UUID for each in refused[:-1])


def missing_topic_error(broker: Broker, wanted: FetchPartition) -> Error:
    """3 for a topic that is gone; 103 where its session knows its name, and another one has it."""
    other = broker.topic_by_name(wanted.topic) if wanted.topic else None
    has_partition = other is not None and 0 <= wanted.partition < len(other.partitions)
    return Error.INCONSISTENT_TOPIC_ID if has_partition else Error.UNKNOWN_TOPIC_OR_PARTITION


def topic_error(
    broker: Broker,
    item: FetchPartition,
    topic: Topic | None,
    may_read: bool,
    denied: frozenset[str],
    version: int,
) -> Error:
    """Why a partition is refused before any log is looked at; who may not read asks in vain.

    What an id stands for that a name contradicts is said when it is read. An empty name is one that
    nobody has; an id without a name is one only where topics are asked for by id.
    """
    if not may_read:
        return Error.TOPIC_AUTHORIZATION_FAILED
    if topic is None and not item.topic and version >= TOPIC_ID_VERSION:
        return Error.UNKNOWN_TOPIC_ID
    if denied and (item.topic if topic is None else topic.name) in denied:
        return Error.TOPIC_AUTHORIZATION_FAILED
    if topic is None:
        is_said_later = missing_topic_error(broker, item) is Error.INCONSISTENT_TOPIC_ID
    else:
        is_said_later = 0 <= item.partition < len(topic.partitions)
    return NONE if is_said_later else Error.UNKNOWN_TOPIC_OR_PARTITION


def leader_error(
    broker: Broker, partition: Partition, wanted: FetchPartition, needs_leader: bool
) -> Error:
    """Why this broker, which has the log, does not serve it: the epoch, or it does not lead."""
    if needs_leader:
        return broker.leader_error(partition, epoch_of(wanted))
    return broker.epoch_error(partition, epoch_of(wanted))


def replica_error(partition: Partition, wanted: FetchPartition, replica_id: int) -> Error:
    """Why a broker is no follower: it is not assigned, as far as the leader knows."""
    if replica_id < 0 or replica_id in partition.replicas:
        return NONE
    has_epoch = epoch_of(wanted) != NO_EPOCH
    return Error.UNKNOWN_LEADER_EPOCH if has_epoch else Error.NOT_LEADER_OR_FOLLOWER


def partition_error(
    broker: Broker,
    partition: Partition,
    wanted: FetchPartition,
    needs_leader: bool,
    replica_id: int,
) -> Error:
    """Why this broker does not serve a partition, or not to this replica; -1 is a consumer."""
    error = leader_error(broker, partition, wanted, needs_leader)
    return replica_error(partition, wanted, replica_id) if error is NONE else error
