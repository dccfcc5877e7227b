"""Coordinators of groups and transactional ids.

Source: `GroupCoordinatorService.partitionFor`, `TransactionStateManager.partitionFor`, `Utils.abs`
in Kafka; `String.hashCode` in Java. An id hashes to a partition of an internal topic, whose leader
is the coordinator.
"""

from collections.abc import Iterable

from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import NONE, Error
from brokertwin.state.cluster import image
from brokertwin.state.cluster.machines import Machine
from brokertwin.state.core import pending
from brokertwin.state.core.bounded_cache import bounded_cache
from brokertwin.state.core.java_hashes import hash_map_order, java_hash
from brokertwin.state.core.tables import KEYS_KEPT, MachineTables

GROUP_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"

NO_LEADER = -1

LOADING = "loading"
"""Kind of the timers of loading coordinators."""

COORDINATED = (GROUP_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC)
"""Internal topics of coordinators."""


@bounded_cache(KEYS_KEPT)
def partition_for(key: str, partition_count: int) -> int:
    """Partition of the internal topic for `key`; the hash -2147483648 counts as 0."""
    number = java_hash(key)
    return (0 if number == -(1 << 31) else abs(number)) % partition_count


def coordinator_key(group_id: str, topic_id: Uuid, partition: int) -> str:
    """Hash key of `__share_group_state` (`SharePartitionKey.asCoordinatorKey`)."""
    return f"{group_id}:{topic_id}:{partition}"


def in_partition_order(machine: Machine, group_ids: Iterable[str]) -> list[str]:
    """Sort groups as in Kafka's responses: by partition of `__consumer_offsets`.

    Partitions are in the order of a Java `HashMap`. Without the topic the order stays.
    """
    topic = machine.topic_by_name(GROUP_TOPIC)
    if topic is None:
        return list(group_ids)
    by_partition: dict[int, list[str]] = {}
    for group_id in group_ids:
        by_partition.setdefault(partition_for(group_id, len(topic.partitions)), []).append(group_id)
    partitions = hash_map_order(by_partition, _topic_partition_hash, len(by_partition))
    return [group_id for partition in partitions for group_id in by_partition[partition]]


def _topic_partition_hash(partition: int) -> int:
    """`TopicPartition.hashCode` of a partition of `__consumer_offsets`."""
    return 31 * (31 + partition) + java_hash(GROUP_TOPIC)


def coordinator_of(machine: Machine, topic_name: str, key: str) -> int | None:
    """The coordinator of `key`, -1 if its partition has no leader.

    None if the internal topic does not exist.
    """
    topic = machine.topic_by_name(topic_name)
    if topic is None:
        return None
    return topic.partitions[partition_for(key, len(topic.partitions))].leader


def has_followers(machine: Machine, topic_name: str, key: str) -> bool:
    """True if writes for `key` must be replicated."""
    topic = machine.topic_by_name(topic_name)
    if topic is None or len(machine.cell.brokers) == 1:
        return False
    return len(topic.partitions[partition_for(key, len(topic.partitions))].replicas) > 1


def leads(at: MachineTables, topic_name: str, key: str) -> bool:
    """True if a broker leads the partition of `key`, or the topic does not exist."""
    topic = image.topic_by_name(at, topic_name)
    if topic is None:
        return True
    return topic.partitions[partition_for(key, len(topic.partitions))].leader == at.id


def group_error(machine: Machine, group_id: str) -> Error:
    """16 NOT_COORDINATOR, 14 COORDINATOR_LOAD_IN_PROGRESS, or NONE for a group."""
    return _error(machine, GROUP_TOPIC, group_id)


def transaction_error(machine: Machine, transactional_id: str) -> Error:
    return _error(machine, TRANSACTION_TOPIC, transactional_id)


def _error(machine: Machine, topic_name: str, key: str) -> Error:
    topic = machine.topic_by_name(topic_name)
    if topic is None:
        return Error.NOT_COORDINATOR
    partition = partition_for(key, len(topic.partitions))
    if topic.partitions[partition].leader != machine.id:
        return Error.NOT_COORDINATOR
    if not machine.settings.brokertwin_coordinator_load_ms:
        return NONE
    place = loading_place(topic.topic_id, partition)
    timer = pending.timer_of(machine.tables.pending, f"{LOADING}/{machine.id}/{place}")
    return NONE if timer is None else Error.COORDINATOR_LOAD_IN_PROGRESS


def loading_place(topic_id: Uuid, partition: int) -> str:
    """Suffix of the name of a partition's loading timer."""
    return f"{topic_id}/{partition}"
