"""Pending offsets of open transactions.

Source: KIP-98, KIP-447; `OffsetMetadataManager` in Kafka. Items of the table `groups`:

    <broker>/pending/<group>            PendingOffsets, in write order
    <broker>/pending-in/<producer id>   ProducerGroups: an index

A commit marker commits a producer's pending offsets, except those followed by another committed
offset of the same partition. The order of writes counts, not that of markers. A tombstone also
drops pending offsets of its partition.
"""

from collections.abc import Callable

import msgspec

from brokertwin.state.cluster.coordinators import GROUP_TOPIC, partition_for
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.applying import applies
from brokertwin.state.core.records import (
    OffsetCommitted,
    OffsetDeleted,
    Record,
    TransactionalOffset,
    TransactionalOffsetsEnded,
    TransactionalOffsetsWritten,
)
from brokertwin.state.core.tables import MachineTables, Table, cached_key, escape
from brokertwin.state.groups import committed_offsets, groups

NO_PRODUCER_ID = -1


class PendingOffset(msgspec.Struct, array_like=True):
    """An offset of an open transaction.

    A superseded one keeps its partition unstable, but will not be committed.
    """

    producer_id: int
    commit_timestamp: int
    offset: TransactionalOffset
    is_superseded: bool = False

    def is_of(self, topic: str, partition: int) -> bool:
        return (self.offset.topic, self.offset.partition) == (topic, partition)


class PendingOffsets(msgspec.Struct, array_like=True):
    """The pending offsets of a group, in write order."""

    offsets: list[PendingOffset]


class ProducerGroups(msgspec.Struct, array_like=True):
    """The groups with pending offsets of a producer, sorted."""

    group_ids: list[str]


@cached_key
def _key(broker: int, group_id: str) -> str:
    return f"{broker}/pending/{escape(group_id)}"


def _index_key(broker: int, producer_id: int) -> str:
    return f"{broker}/pending-in/{producer_id}"


def is_index(key: str) -> bool:
    """True if a key of the table `groups` is that of an index."""
    return key.split("/", 2)[1] == "pending-in"


def index(at: MachineTables, key: str) -> None:
    """Add new pending offsets (if `key` is such an item) to the index."""
    for producer_id in _producers(at.tables.groups, key):
        _add_to_index(at, producer_id, committed_offsets.group_of(key))


def unindex(at: MachineTables, key: str) -> None:
    """Remove pending offsets (if `key` is such an item) from the index."""
    for producer_id in _producers(at.tables.groups, key):
        _remove_from_index(at, producer_id, [committed_offsets.group_of(key)])


def unstable(at: MachineTables, group_id: str) -> set[tuple[str, int]]:
    pending = at.tables.groups.get(_key(at.id, group_id), PendingOffsets)
    offsets = pending.offsets if pending is not None else []
    return {(each.offset.topic, each.offset.partition) for each in offsets}


def groups_of(broker: Broker, producer_id: int, partition: int) -> list[str]:
    """Return a producer's groups in a partition of `__consumer_offsets`."""
    index = broker.tables.groups.get(_index_key(broker.id, producer_id), ProducerGroups)
    topic = broker.topic_by_name(GROUP_TOPIC)
    assert topic is not None, partition
    return [
        group_id
        for group_id in (index.group_ids if index is not None else [])
        if partition_for(group_id, len(topic.partitions)) == partition
    ]


def marker_records(
    broker: Broker, producer_id: int, partition: int, is_commit: bool
) -> list[Record]:
    group_ids = groups_of(broker, producer_id, partition)
    if not group_ids:
        return []
    records: list[Record] = []
    if is_commit:
        for group_id in group_ids:
            records.extend(_committed(broker, group_id, producer_id))
    return [*records, TransactionalOffsetsEnded(producer_id, group_ids)]


def _committed(at: MachineTables, group_id: str, producer_id: int) -> list[OffsetCommitted]:
    """Return the last pending offset of each partition."""
    pending = at.tables.groups.get(_key(at.id, group_id), PendingOffsets) or PendingOffsets([])
    last = {
        (each.offset.topic, each.offset.partition): each
        for each in pending.offsets
        if each.producer_id == producer_id
    }
    return [
        OffsetCommitted(
            group_id=group_id,
            topic=each.offset.topic,
            partition=each.offset.partition,
            offset=each.offset.offset,
            leader_epoch=each.offset.leader_epoch,
            metadata=each.offset.metadata,
            commit_timestamp=each.commit_timestamp,
            topic_id=each.offset.topic_id,
            producer_id=producer_id,
        )
        for each in last.values()
        if not each.is_superseded
    ]


@applies(TransactionalOffsetsWritten)
def apply_written(at: MachineTables, record: TransactionalOffsetsWritten) -> None:
    """Store pending offsets; create the group if it does not exist."""
    groups.ensure(at, record.group_id)
    key = _key(at.id, record.group_id)
    if key not in at.tables.groups:
        at.tables.groups.put(key, PendingOffsets([]))
    at.tables.groups.change(key, PendingOffsets).offsets.extend(
        PendingOffset(record.producer_id, record.commit_timestamp, offset)
        for offset in record.offsets
    )
    _add_to_index(at, record.producer_id, record.group_id)


@applies(TransactionalOffsetsEnded)
def apply_ended(at: MachineTables, record: TransactionalOffsetsEnded) -> None:
    for group_id in record.group_ids:
        _retain(at, group_id, lambda each: each.producer_id != record.producer_id)
    _remove_from_index(at, record.producer_id, record.group_ids)


def apply_committed(at: MachineTables, record: OffsetCommitted) -> None:
    """Mark older pending offsets of a committed offset's partition."""
    key = _key(at.id, record.group_id)
    if key not in at.tables.groups:
        return
    offsets = at.tables.groups.change(key, PendingOffsets).offsets
    before = len(offsets)
    if record.producer_id != NO_PRODUCER_ID:
        own = [
            position
            for position, each in enumerate(offsets)
            if each.producer_id == record.producer_id and each.is_of(record.topic, record.partition)
        ]
        before = max(own, default=0)  # missing in cleaned logs if nothing was pending before
    for each in offsets[:before]:
        if each.is_of(record.topic, record.partition):
            each.is_superseded = True


def apply_deleted(at: MachineTables, record: OffsetDeleted) -> None:
    """Drop pending offsets of a tombstone's partition."""
    _retain(at, record.group_id, lambda each: not each.is_of(record.topic, record.partition))


def tombstones_of_topic(at: MachineTables, topic_name: str) -> list[OffsetDeleted]:
    return [
        OffsetDeleted(committed_offsets.group_of(key), topic_name, partition)
        for key, pending in at.tables.groups.items(f"{at.id}/pending/", PendingOffsets)
        for partition in sorted(
            {each.offset.partition for each in pending.offsets if each.offset.topic == topic_name}
        )
    ]


def _retain(at: MachineTables, group_id: str, is_kept: Callable[[PendingOffset], bool]) -> None:
    key = _key(at.id, group_id)
    if key not in at.tables.groups:
        return
    pending = at.tables.groups.change(key, PendingOffsets)
    pending.offsets = [each for each in pending.offsets if is_kept(each)]
    if not pending.offsets:
        at.tables.groups.drop(key)


def _producers(table: Table, key: str) -> list[int]:
    pending = table.get(key, PendingOffsets) if key.split("/", 2)[1] == "pending" else None
    return sorted({each.producer_id for each in pending.offsets}) if pending is not None else []


def _add_to_index(at: MachineTables, producer_id: int, group_id: str) -> None:
    key = _index_key(at.id, producer_id)
    if key not in at.tables.groups:
        at.tables.groups.put(key, ProducerGroups([]))
    index = at.tables.groups.change(key, ProducerGroups)
    index.group_ids = sorted({*index.group_ids, group_id})


def _remove_from_index(at: MachineTables, producer_id: int, group_ids: list[str]) -> None:
    key = _index_key(at.id, producer_id)
    if key not in at.tables.groups:
        return
    index = at.tables.groups.change(key, ProducerGroups)
    index.group_ids = [each for each in index.group_ids if each not in group_ids]
    if not index.group_ids:
        at.tables.groups.drop(key)
