"""Durable share state of share coordinators, by group and partition.

    groups   <broker>/share-state/<group>/<topic id>/<partition>   ShareState

Source: `ShareCoordinatorShard` in Kafka; KIP-932. `apply` writes the items, from ShareStateWritten.
"""

from typing import Literal, NamedTuple

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.state.cluster import broker_configs
from brokertwin.state.cluster.coordinators import SHARE_TOPIC, coordinator_key, coordinator_of
from brokertwin.state.cluster.machines import Broker, Machine
from brokertwin.state.core.applying import applies
from brokertwin.state.core.share_records import ShareSnapshot, ShareStateWritten, ShareUpdate
from brokertwin.state.core.tables import MachineTables, escape, unescape
from brokertwin.state.share.state_batches import combined

KIND = "share-state"
"""The kind of the items in their keys."""

NO_OFFSET = -1
NO_EPOCH, FIRST_LEADER_EPOCH = -1, 0
UNKNOWN = -1
"""Unknown count of done records."""

ShareKey = tuple[str, Uuid, int]
"""Group id, topic id and partition."""


class ShareState(msgspec.Struct):
    """Progress of a share group in a partition, on its share coordinator.

    The epochs are the highest ones received. Requests with lower ones are fenced, even after the
    state was initialized again.
    """

    snapshot: ShareSnapshot
    state_epoch: int = NO_EPOCH
    leader_epoch: int = NO_EPOCH
    updates: int = 0
    """Number of updates since the last periodic snapshot."""


class ShareStateError(NamedTuple):
    error: Error
    message: str


Operation = Literal["read", "read summary", "write", "initialize", "delete"]

_OPERATIONS: dict[Operation, str] = {
    "read": "read share group state",
    "read summary": "read share group state summary",
    "write": "write share group state",
    "initialize": "initialize share group state",
    "delete": "delete share group state",
}
UNKNOWN_PARTITION_MESSAGE = "This server does not host this topic-partition."
_OLD_LEADER_EPOCH = "The leader epoch in the request is older than the epoch on the broker."
_OLD_STATE_EPOCH = (
    "The share coordinator rejected the request because the share-group state epoch did not match."
)
_OLD_STATE_EPOCH_4_4 = "The coordinator rejected the request because the state epoch did not match."


def find(broker: Broker, group_id: str, topic_id: Uuid, partition: int) -> ShareSnapshot | None:
    """Return the state of a partition, read-only."""
    key = _key(broker.id, group_id, topic_id, partition)
    state = broker.tables.groups.get(key, ShareState)
    return state.snapshot if state is not None else None


def initialized_snapshot(
    broker: Broker, share_key: ShareKey, state_epoch: int, start_offset: int
) -> ShareSnapshot:
    """Return a new state. With offset -1, the partition's leader determines the start."""
    done = UNKNOWN if start_offset == NO_OFFSET else 0
    former = find(broker, *share_key)
    snapshot_epoch = 0 if former is None else former.snapshot_epoch + 1
    return ShareSnapshot(
        state_epoch, FIRST_LEADER_EPOCH, start_offset, done, snapshot_epoch=snapshot_epoch
    )


def update_record(broker: Broker, share_key: ShareKey, update: ShareUpdate) -> ShareStateWritten:
    """Return the record of an update.

    It is an update or, after `share.coordinator.snapshot.update.records.per.snapshot` updates, a
    snapshot.
    """
    state = broker.tables.groups.get(_key(broker.id, *share_key), ShareState)
    assert state is not None, share_key
    former = state.snapshot
    start = former.start_offset if update.start_offset == NO_OFFSET else update.start_offset
    updates_max = broker.settings.share_coordinator_snapshot_update_records_per_snapshot
    is_snapshot = state.updates >= updates_max
    snapshot = ShareSnapshot(
        state_epoch=former.state_epoch,
        leader_epoch=update.leader_epoch,
        start_offset=start,
        delivery_complete_count=update.delivery_complete_count,
        batches=combined([*former.batches, *update.batches], start),
        snapshot_epoch=former.snapshot_epoch + is_snapshot,
    )
    return ShareStateWritten(*share_key, snapshot, None if is_snapshot else update)


@applies(ShareStateWritten)
def apply_written(at: MachineTables, record: ShareStateWritten) -> None:
    key = _key(at.id, record.group_id, record.topic_id, record.partition)
    if record.snapshot is None:
        at.tables.groups.drop(key)
        return
    former = at.tables.groups.get(key, ShareState)
    state = ShareState(record.snapshot, record.snapshot.state_epoch, record.snapshot.leader_epoch)
    if former is not None:
        state.updates = _counted(at, former.updates, record.update)
        state.state_epoch = max(state.state_epoch, former.state_epoch)
        state.leader_epoch = max(state.leader_epoch, former.leader_epoch)
    at.tables.groups.put(key, state)


def _counted(at: MachineTables, updates: int, update: ShareUpdate | None) -> int:
    """Return the number of updates; initialization does not reset it."""
    if update is not None:
        return updates + 1
    settings = broker_configs.settings_of(at, at.id, at.tables.given)
    updates_max = settings.share_coordinator_snapshot_update_records_per_snapshot
    return 0 if updates >= updates_max else updates


def coordinator_key_of(key: str) -> str:
    """Return the key that selects the partition of `__share_group_state`."""
    _, _, group_id, topic_id, partition = key.split("/")
    return coordinator_key(unescape(group_id), topic_id, int(partition))


def keys(at: MachineTables) -> list[str]:
    return at.tables.groups.keys(f"{at.id}/{KIND}/")


def is_state(key: str) -> bool:
    """True if a key of the table `groups` is that of a state."""
    return key.split("/", 2)[1] == KIND


def tombstones_of_topic(at: MachineTables, topic_id: Uuid) -> list[ShareStateWritten]:
    """Return tombstones for a deleted topic.

    Source: `ShareCoordinatorShard.maybeCleanupShareState`.
    """
    keys_found = [key.split("/")[2:] for key in keys(at)]
    return [
        ShareStateWritten(unescape(group_id), found, int(partition), None)
        for group_id, found, partition in keys_found
        if found == topic_id
    ]


def forget_topic(at: MachineTables, topic_id: Uuid) -> None:
    for key in keys(at):
        if key.split("/")[3] == topic_id:
            at.tables.groups.drop(key)


def epoch_error(
    broker: Broker, share_key: ShareKey, state_epoch: int, leader_epoch: int
) -> ShareStateError | None:
    """Return 74 FENCED_LEADER_EPOCH, 124 FENCED_STATE_EPOCH, or None. Epoch -1 is never fenced."""
    state = broker.tables.groups.get(_key(broker.id, *share_key), ShareState)
    if state is None:
        return None
    if NO_EPOCH != leader_epoch < state.leader_epoch:
        return ShareStateError(Error.FENCED_LEADER_EPOCH, _OLD_LEADER_EPOCH)
    if NO_EPOCH != state_epoch < state.state_epoch:
        text = _OLD_STATE_EPOCH_4_4 if broker.settings.is_4_4 else _OLD_STATE_EPOCH
        return ShareStateError(Error.FENCED_STATE_EPOCH, text)
    return None


def is_new_leader_epoch(broker: Broker, share_key: ShareKey, leader_epoch: int) -> bool:
    """True if a leader epoch differs from the last one; -1 is ignored."""
    state = broker.tables.groups.get(_key(broker.id, *share_key), ShareState)
    return state is not None and leader_epoch not in (NO_EPOCH, state.leader_epoch)


def access_error(
    broker: Broker,
    share_key: ShareKey,
    epochs: tuple[int, int],
    operation: Literal["read", "write"],
) -> ShareStateError | None:
    """Return why a state cannot be read or written.

    42 INVALID_REQUEST, 16 NOT_COORDINATOR, 74 FENCED_LEADER_EPOCH, 124 FENCED_STATE_EPOCH, 3
    UNKNOWN_TOPIC_OR_PARTITION, or None. `epochs` are state epoch and leader epoch of the request.
    """
    error = coordinator_error(broker, share_key, operation)
    if error is not None and error.error is not Error.UNKNOWN_TOPIC_OR_PARTITION:
        return error
    if find(broker, *share_key) is None:
        return uninitialized_error(operation)
    return epoch_error(broker, share_key, *epochs) or error


def failure_message(operation: Operation, why: str) -> str:
    return f"Unable to {_OPERATIONS[operation]}: {why}"


def uninitialized_error(operation: Literal["read", "write"]) -> ShareStateError:
    text = f"{operation.capitalize()} operation on uninitialized share partition not allowed."
    return ShareStateError(Error.INVALID_REQUEST, text)


def coordinator_error(
    machine: Machine, share_key: ShareKey, operation: Operation
) -> ShareStateError | None:
    """Return why a machine does not have a state.

    42 INVALID_REQUEST, 3 UNKNOWN_TOPIC_OR_PARTITION, 16 NOT_COORDINATOR, or None.
    """
    group_id, topic_id, partition = share_key
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
