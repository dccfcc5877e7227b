"""The durable state of share coordinators: one item for each group and partition.

    groups   <broker>/share-state/<group>/<topic id>/<partition>   ShareState

Source: `ShareCoordinatorShard` in Kafka; KIP-932. `apply` writes the items, from ShareStateWritten.
"""

import msgspec

from brokerstream.state.cluster.coordinators import (
    SHARE_TOPIC,
    coordinator_key,
    coordinator_of,
)
from brokerstream.state.cluster.machines import Broker, Machine
from brokerstream.state.core.errors import Error
from brokerstream.state.core.schema import Uuid
from brokerstream.state.core.share_records import ShareSnapshot, ShareStateWritten
from brokerstream.state.core.tables import Table, Tables, escape, unescape

KIND = "share-state"
"""The kind of the items, in their keys."""

NO_EPOCH = -1


class ShareState(msgspec.Struct):
    """What a share group has done with a partition, as its coordinator knows it."""

    snapshot: ShareSnapshot


class Fault(msgspec.Struct, frozen=True):
    """Why a share coordinator does not do it, and in which words."""

    error: Error
    message: str


def find(broker: Broker, group_id: str, topic_id: Uuid, partition: int) -> ShareSnapshot | None:
    """The state of a partition in a group, to be read only."""
    key = _key(broker.id, group_id, topic_id, partition)
    state = broker.tables.groups.get(key, ShareState)
    return state.snapshot if state is not None else None


def apply_written(tables: Tables, broker: int, record: ShareStateWritten) -> None:
    """Stores a snapshot, or forgets the partition's state."""
    key = _key(broker, record.group_id, record.topic_id, record.partition)
    if record.snapshot is None:
        tables.groups.drop(key)
    else:
        tables.groups.put(key, ShareState(record.snapshot))


def coordinator_key_of(key: str) -> str:
    """What `__share_group_state` is hashed by for an item."""
    _, _, group_id, topic_id, partition = key.split("/")
    return coordinator_key(unescape(group_id), topic_id, int(partition))


def keys(table: Table, broker: int) -> list[str]:
    """The keys of the states that a broker coordinates; `table` is `groups`."""
    return table.keys(f"{broker}/{KIND}/")


def is_state(key: str) -> bool:
    """Whether a key of the table `groups` is that of a partition's state."""
    return key.split("/", 2)[1] == KIND


def forget_topic(table: Table, machine: int, topic_id: Uuid) -> None:
    """Forgets the states of a topic that goes; `table` is `groups`."""
    for key in keys(table, machine):
        if key.split("/")[3] == topic_id:
            table.drop(key)


def fault(machine: Machine, group_id: str, topic_id: Uuid, partition: int) -> Fault | None:
    """Why a machine does not have the state of a partition: 42, 3, 16, or None."""
    if partition < 0:
        message = "The partition id cannot be a negative number."
        return Fault(Error.INVALID_REQUEST, message)
    key = coordinator_key(group_id, topic_id, partition)
    if coordinator_of(machine, SHARE_TOPIC, key) != machine.id:
        return Fault(Error.NOT_COORDINATOR, "This is not the correct coordinator.")
    topic = machine.topic_by_id(topic_id)
    if topic is None or partition >= len(topic.partitions):
        unknown = "This server does not host this topic-partition."
        return Fault(Error.UNKNOWN_TOPIC_OR_PARTITION, unknown)
    return None


def _key(broker: int, group_id: str, topic_id: Uuid, partition: int) -> str:
    return f"{broker}/{KIND}/{escape(group_id)}/{topic_id}/{partition}"
