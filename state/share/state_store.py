"""The durable state of share coordinators: one item for each group and partition.

    groups   <broker>/share-state/<group>/<topic id>/<partition>   ShareState

Source: `ShareCoordinatorShard` in Kafka; KIP-932. `apply` writes the items, from ShareStateWritten.
"""

from typing import Literal, NamedTuple

import msgspec

from brokertwin.state.cluster import broker_configs
from brokertwin.state.cluster.coordinators import (
    SHARE_TOPIC,
    coordinator_key,
    coordinator_of,
)
from brokertwin.state.cluster.machines import Broker, Machine
from brokertwin.state.core.errors import Error
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.share_records import ShareSnapshot, ShareStateWritten, ShareUpdate
from brokertwin.state.core.tables import Table, Tables, escape, unescape
from brokertwin.state.share.state_batches import combined

KIND = "share-state"
"""The kind of the items, in their keys."""

NO_OFFSET = -1
NO_EPOCH, FIRST_LEADER_EPOCH = -1, 0
UNKNOWN = -1
"""How many records are done with, where nobody has said."""

ShareKey = tuple[str, Uuid, int]
"""A group, and a partition of a topic."""


class ShareState(msgspec.Struct):
    """What a share group has done with a partition, as its coordinator knows it.

    The epochs are the highest ones that it has heard of: what comes of earlier ones is fenced, also
    where the state has begun again since.
    """

    snapshot: ShareSnapshot
    state_epoch: int = NO_EPOCH
    leader_epoch: int = NO_EPOCH
    updates: int = 0
    """How many came since a snapshot was last written because there were enough of them."""


class ShareStateError(NamedTuple):
    """Why a share coordinator does not do it, and in which words."""

    error: Error
    message: str


Operation = Literal["read", "read summary", "write", "initialize", "delete"]
"""What is asked of a state."""

_UNABLE: dict[Operation, str] = {
    "read": "read share group state",
    "read summary": "read share group state summary",
    "write": "write share group state",
    "initialize": "initialize share group state",
    "delete": "delete share group state",
}
UNKNOWN_PARTITION_MESSAGE = "This server does not host this topic-partition."
DENIED = ShareStateError(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
_OLD_LEADER_EPOCH = "The leader epoch in the request is older than the epoch on the broker."
_OLD_STATE_EPOCH = (
    "The share coordinator rejected the request because the share-group state epoch did not match."
)


def find(broker: Broker, group_id: str, topic_id: Uuid, partition: int) -> ShareSnapshot | None:
    """The state of a partition in a group, to be read only."""
    key = _key(broker.id, group_id, topic_id, partition)
    state = broker.tables.groups.get(key, ShareState)
    return state.snapshot if state is not None else None


def initialized_snapshot(
    broker: Broker, place: ShareKey, state_epoch: int, start_offset: int
) -> ShareSnapshot:
    """A state that begins, or begins anew; at an offset -1 its leader is to settle where."""
    done = UNKNOWN if start_offset == NO_OFFSET else 0
    former = find(broker, *place)
    snapshot_epoch = 0 if former is None else former.snapshot_epoch + 1
    return ShareSnapshot(
        state_epoch, FIRST_LEADER_EPOCH, start_offset, done, snapshot_epoch=snapshot_epoch
    )


def update_record(broker: Broker, place: ShareKey, told: ShareUpdate) -> ShareStateWritten:
    """A state that has begun with what is told of it.

    It is written as an update, or as a snapshot after as many updates as
    `share.coordinator.snapshot.update.records.per.snapshot`.
    """
    state = broker.tables.groups.get(_key(broker.id, *place), ShareState)
    assert state is not None, place
    former = state.snapshot
    start = former.start_offset if told.start_offset == NO_OFFSET else told.start_offset
    most = broker.settings.share_coordinator_snapshot_update_records_per_snapshot
    is_snapshot = state.updates >= most
    snapshot = ShareSnapshot(
        state_epoch=former.state_epoch,
        leader_epoch=told.leader_epoch,
        start_offset=start,
        delivery_complete_count=told.delivery_complete_count,
        batches=combined([*former.batches, *told.batches], start),
        snapshot_epoch=former.snapshot_epoch + is_snapshot,
    )
    return ShareStateWritten(*place, snapshot, None if is_snapshot else told)


def apply_written(tables: Tables, broker: int, record: ShareStateWritten) -> None:
    """Stores a snapshot, or forgets the partition's state."""
    key = _key(broker, record.group_id, record.topic_id, record.partition)
    if record.snapshot is None:
        tables.groups.drop(key)
        return
    former = tables.groups.get(key, ShareState)
    state = ShareState(record.snapshot, record.snapshot.state_epoch, record.snapshot.leader_epoch)
    if former is not None:
        state.updates = _counted(tables, broker, former.updates, record.update)
        state.state_epoch = max(state.state_epoch, former.state_epoch)
        state.leader_epoch = max(state.leader_epoch, former.leader_epoch)
    tables.groups.put(key, state)


def _counted(tables: Tables, broker: int, updates: int, update: ShareUpdate | None) -> int:
    """How many updates have come since; a state that begins anew leaves the count as it is."""
    if update is not None:
        return updates + 1
    settings = broker_configs.settings_of(tables.metadata, broker, broker, tables.given)
    most = settings.share_coordinator_snapshot_update_records_per_snapshot
    return 0 if updates >= most else updates


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


def tombstones_of_topic(table: Table, broker: int, topic_id: Uuid) -> list[ShareStateWritten]:
    """Return the tombstones for a deleted topic (`ShareCoordinatorShard.maybeCleanupShareState`).

    `table` is `groups`.
    """
    places = [key.split("/")[2:] for key in keys(table, broker)]
    return [
        ShareStateWritten(unescape(group_id), found, int(partition), None)
        for group_id, found, partition in places
        if found == topic_id
    ]


def forget_topic(table: Table, machine: int, topic_id: Uuid) -> None:
    """Forgets the states of a topic that goes; `table` is `groups`."""
    for key in keys(table, machine):
        if key.split("/")[3] == topic_id:
            table.drop(key)


def epoch_error(
    broker: Broker, place: ShareKey, state_epoch: int, leader_epoch: int
) -> ShareStateError | None:
    """Why what comes of these epochs is too late: 74, 124, or None; -1 is never too late."""
    known = broker.tables.groups.get(_key(broker.id, *place), ShareState)
    if known is None:
        return None
    if NO_EPOCH != leader_epoch < known.leader_epoch:
        return ShareStateError(Error.FENCED_LEADER_EPOCH, _OLD_LEADER_EPOCH)
    if NO_EPOCH != state_epoch < known.state_epoch:
        return ShareStateError(Error.FENCED_STATE_EPOCH, _OLD_STATE_EPOCH)
    return None


def is_new_leader_epoch(broker: Broker, place: ShareKey, leader_epoch: int) -> bool:
    """Whether nobody has heard of a leader epoch yet; -1 is none."""
    known = broker.tables.groups.get(_key(broker.id, *place), ShareState)
    return known is not None and leader_epoch not in (NO_EPOCH, known.leader_epoch)


def access_error(
    broker: Broker,
    place: ShareKey,
    epochs: tuple[int, int],
    operation: Literal["read", "write"],
    is_allowed: bool,
) -> ShareStateError | None:
    """Why a state cannot be read or written: 31, 42, 16, 74, 124, 3, or None.

    `epochs` are the state epoch and the leader epoch that are spoken of.
    """
    if not is_allowed:
        return DENIED
    found = coordinator_error(broker, place, operation)
    if found is not None and found.error is not Error.UNKNOWN_TOPIC_OR_PARTITION:
        return found
    if find(broker, *place) is None:
        return uninitialized_error(operation)
    return epoch_error(broker, place, *epochs) or found


def failure_message(operation: Operation, why: str) -> str:
    """A share coordinator's words for what it cannot do."""
    return f"Unable to {_UNABLE[operation]}: {why}"


def uninitialized_error(operation: Literal["read", "write"]) -> ShareStateError:
    """What is said of a state that has not begun."""
    text = f"{operation.capitalize()} operation on uninitialized share partition not allowed."
    return ShareStateError(Error.INVALID_REQUEST, text)


def coordinator_error(
    machine: Machine, place: ShareKey, operation: Operation
) -> ShareStateError | None:
    """Why a machine does not have the state of a partition: 42, 3, 16, or None."""
    group_id, topic_id, partition = place
    if partition < 0:
        message = "The partition id cannot be a negative number."
        return ShareStateError(Error.INVALID_REQUEST, message)
    key = coordinator_key(group_id, topic_id, partition)
    if coordinator_of(machine, SHARE_TOPIC, key) != machine.id:
        text = failure_message(operation, "This is not the correct coordinator.")
        return ShareStateError(Error.NOT_COORDINATOR, text)
    topic = machine.topic_by_id(topic_id)
    if topic is None or partition >= len(topic.partitions):
        return ShareStateError(Error.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_PARTITION_MESSAGE)
    return None


def _key(broker: int, group_id: str, topic_id: Uuid, partition: int) -> str:
    return f"{broker}/{KIND}/{escape(group_id)}/{topic_id}/{partition}"
