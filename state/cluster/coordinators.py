"""Which broker coordinates a group or a transactional id.

Source: `GroupCoordinatorService.partitionFor`, `TransactionStateManager.partitionFor`, `Utils.abs`
in Kafka; `String.hashCode` in Java. The leader of the internal topic's partition that an id hashes
to is its coordinator.

With `brokertwin.offset.storage` zookeeper (seed 003's `ZookeeperOffsetManager`) offsets are nodes
of ZooKeeper, /consumers/GROUP/offsets/TOPIC/PARTITION; here the controller's machine has what
ZooKeeper had. Any broker reads and writes them for any client, whoever coordinates the group:
nothing has to be loaded, nothing waits for followers, and the generation is not checked.
OffsetDelete and DeleteGroups go to the group's coordinator, because it knows the members; it asks
the controller to delete the nodes. An offset expires by its age alone. The node of a group goes
with its last offset.
"""

from collections.abc import Iterable

from brokertwin.state.cluster import image
from brokertwin.state.cluster.machines import Machine
from brokertwin.state.core import pending
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.errors import NONE, Error
from brokertwin.state.core.java_hashes import hash_map_order, java_hash
from brokertwin.state.core.remembered import remembering
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.tables import KEYS_KEPT, Tables

GROUP_TOPIC = "__consumer_offsets"
TRANSACTION_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"

NO_LEADER = -1

LOADING = "loading"
"""The kind of the timers of coordinators that read their partition."""

COORDINATED = (GROUP_TOPIC, TRANSACTION_TOPIC, SHARE_TOPIC)
"""The topics by whose partitions groups, transactional ids and share state are coordinated."""


@remembering(KEYS_KEPT)
def partition_for(key: str, partition_count: int) -> int:
    """The partition of the internal topic that `key` belongs to; the least int32 counts as 0."""
    number = java_hash(key)
    return (0 if number == -(1 << 31) else abs(number)) % partition_count


def coordinator_key(group_id: str, topic_id: Uuid, partition: int) -> str:
    """What `__share_group_state` is hashed by (`SharePartitionKey.asCoordinatorKey`)."""
    return f"{group_id}:{topic_id}:{partition}"


def in_partition_order(machine: Machine, group_ids: Iterable[str]) -> list[str]:
    """Groups in the order in which an answer tells of them: by the partition they belong to.

    Kafka asks each partition of `__consumer_offsets` for its groups, as a Java `HashMap` has them.
    Without the internal topic they stay as they are.
    """
    topic = machine.topic_by_name(GROUP_TOPIC)
    if topic is None:
        return list(group_ids)
    asked: dict[int, list[str]] = {}
    for group_id in group_ids:
        asked.setdefault(partition_for(group_id, len(topic.partitions)), []).append(group_id)
    partitions = hash_map_order(asked, _topic_partition_hash, len(asked))
    return [group_id for partition in partitions for group_id in asked[partition]]


def _topic_partition_hash(partition: int) -> int:
    """`TopicPartition.hashCode` of a partition of the groups' topic."""
    return 31 * (31 + partition) + java_hash(GROUP_TOPIC)


def coordinator_of(machine: Machine, topic_name: str, key: str) -> int | None:
    """The broker that coordinates `key`, -1 while its partition has no leader.

    None while there is no internal topic.
    """
    topic = machine.topic_by_name(topic_name)
    if topic is None:
        return None
    return topic.partitions[partition_for(key, len(topic.partitions))].leader


def has_followers(machine: Machine, topic_name: str, key: str) -> bool:
    """Whether what is written of `key` has to reach other brokers."""
    topic = machine.topic_by_name(topic_name)
    if topic is None or len(machine.cell.brokers) == 1:
        return False
    return len(topic.partitions[partition_for(key, len(topic.partitions))].replicas) > 1


def leads(tables: Tables, broker: int, topic_name: str, key: str) -> bool:
    """Whether a broker leads the partition of `key`; for checks. Without the topic it does."""
    topic = image.topic_by_name(tables.metadata, broker, topic_name)
    if topic is None:
        return True
    return topic.partitions[partition_for(key, len(topic.partitions))].leader == broker


def group_error(machine: Machine, group_id: str) -> Error:
    """16 where `machine` does not coordinate the group, 14 while it loads, NONE where it does."""
    return _error(machine, GROUP_TOPIC, group_id)


def transaction_error(machine: Machine, transactional_id: str) -> Error:
    """The same for a transactional id."""
    return _error(machine, TRANSACTION_TOPIC, transactional_id)


def has_zookeeper(machine: Machine) -> bool:
    """Whether the offsets of groups are in ZooKeeper."""
    return machine.settings.brokertwin_offset_storage == "zookeeper"


def keeper_of_offsets(machine: Machine, group_id: str) -> int | None:
    """The machine that keeps a group's offsets: its coordinator, or the controller for ZooKeeper.

    None while there is no coordinator.
    """
    if has_zookeeper(machine):
        return CONTROLLER
    coordinator = coordinator_of(machine, GROUP_TOPIC, group_id)
    return None if coordinator == NO_LEADER else coordinator


def offsets_error(machine: Machine, group_id: str) -> Error:
    """Why `machine` cannot say what a group has committed, as of `group_error`."""
    return NONE if has_zookeeper(machine) else group_error(machine, group_id)


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
    """What follows the broker in the name of the timer at which a partition is loaded."""
    return f"{topic_id}/{partition}"
