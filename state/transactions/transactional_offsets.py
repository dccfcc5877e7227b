"""Offsets of open transactions: pending until the marker commits or drops them.

Source: KIP-98, KIP-447; `OffsetMetadataManager` in Kafka. Items of the table `groups`:

    <broker>/pending/<group>            Pending: what transactions want to commit, as written
    <broker>/pending-in/<producer id>   PendingIn: the groups in which a producer has some

A marker that commits makes a producer's pending offsets the group's, but for those behind which
another offset of the same partition was written and committed meanwhile: the later one wins, by the
order of writing and not of markers. A tombstone drops what is pending for its partition, too.
"""

from collections.abc import Callable

import msgspec

from brokertwin.state.cluster.coordinators import GROUP_TOPIC, partition_for
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.records import (
    OffsetCommitted,
    OffsetDeleted,
    Record,
    TransactionalOffset,
    TransactionalOffsetsEnded,
    TransactionalOffsetsWritten,
)
from brokertwin.state.core.tables import Table, cached_key, escape
from brokertwin.state.groups import committed_offsets, groups

NO_PRODUCER_ID = -1


class PendingOffset(msgspec.Struct, array_like=True):
    """An offset that a producer's transaction commits if it commits.

    One that is `superseded` still keeps its partition unstable, but is not committed any more.
    """

    producer_id: int
    commit_timestamp: int
    offset: TransactionalOffset
    is_superseded: bool = False

    def is_of(self, topic: str, partition: int) -> bool:
        """Whether the offset is one of this partition."""
        return (self.offset.topic, self.offset.partition) == (topic, partition)


class Pending(msgspec.Struct, array_like=True):
    """The pending offsets of a group, in the order of writing."""

    offsets: list[PendingOffset]


class PendingIn(msgspec.Struct, array_like=True):
    """The groups in which a producer has pending offsets, sorted."""

    group_ids: list[str]


@cached_key
def _key(broker: int, group_id: str) -> str:
    return f"{broker}/pending/{escape(group_id)}"


def _index_key(broker: int, producer_id: int) -> str:
    return f"{broker}/pending-in/{producer_id}"


def is_index(key: str) -> bool:
    """Whether a key of the table `groups` is that of a producer's index, and of no group."""
    return key.split("/", 2)[1] == "pending-in"


def index(table: Table, broker: int, key: str) -> None:
    """Where `key` is that of pending offsets that have just come: their producers' index has it."""
    for producer_id in _producers(table, key):
        _add_to_index(table, broker, producer_id, committed_offsets.group_of(key))


def unindex(table: Table, broker: int, key: str) -> None:
    """Where `key` is that of pending offsets that are about to go: no index has them any more."""
    for producer_id in _producers(table, key):
        _take_from_index(table, broker, producer_id, [committed_offsets.group_of(key)])


def unstable(table: Table, broker: int, group_id: str) -> set[tuple[str, int]]:
    """The topics and partitions for which a group has a pending offset."""
    pending = table.get(_key(broker, group_id), Pending)
    offsets = pending.offsets if pending is not None else []
    return {(each.offset.topic, each.offset.partition) for each in offsets}


def groups_of(broker: Broker, producer_id: int, partition: int) -> list[str]:
    """The groups in a partition of `__consumer_offsets` that a producer has pending offsets in."""
    index = broker.tables.groups.get(_index_key(broker.id, producer_id), PendingIn)
    topic = broker.topic_by_name(GROUP_TOPIC)
    assert topic is not None, partition
    return [
        group_id
        for group_id in (index.group_ids if index is not None else [])
        if partition_for(group_id, len(topic.partitions)) == partition
    ]


def ended(broker: Broker, producer_id: int, partition: int, is_commit: bool) -> list[Record]:
    """The records of a marker in a partition of `__consumer_offsets`."""
    table = broker.tables.groups
    group_ids = groups_of(broker, producer_id, partition)
    if not group_ids:
        return []
    records: list[Record] = []
    if is_commit:
        for group_id in group_ids:
            records.extend(_committed(table, broker.id, group_id, producer_id))
    return [*records, TransactionalOffsetsEnded(producer_id, group_ids)]


def _committed(table: Table, broker: int, group_id: str, producer_id: int) -> list[OffsetCommitted]:
    """What a producer's transaction commits: its last offset of each partition."""
    pending = table.get(_key(broker, group_id), Pending) or Pending([])
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


def apply_written(table: Table, broker: int, record: TransactionalOffsetsWritten) -> None:
    """Stores pending offsets; a group that was not there before is now, without members."""
    groups.ensure(table, broker, record.group_id)
    key = _key(broker, record.group_id)
    if key not in table:
        table.put(key, Pending([]))
    table.change(key, Pending).offsets.extend(
        PendingOffset(record.producer_id, record.commit_timestamp, offset)
        for offset in record.offsets
    )
    _add_to_index(table, broker, record.producer_id, record.group_id)


def apply_ended(table: Table, broker: int, record: TransactionalOffsetsEnded) -> None:
    """Nothing of the producer's is pending in these groups any more."""
    for group_id in record.group_ids:
        _keep(table, broker, group_id, lambda each: each.producer_id != record.producer_id)
    _take_from_index(table, broker, record.producer_id, record.group_ids)


def apply_committed(table: Table, broker: int, record: OffsetCommitted) -> None:
    """What was written before a committed offset cannot replace it any more."""
    key = _key(broker, record.group_id)
    if key not in table:
        return
    offsets = table.change(key, Pending).offsets
    before = len(offsets)
    if record.producer_id != NO_PRODUCER_ID:
        own = [
            place
            for place, each in enumerate(offsets)
            if each.producer_id == record.producer_id and each.is_of(record.topic, record.partition)
        ]
        before = max(own, default=0)  # cleaned logs lack it where nothing was pending before it
    for each in offsets[:before]:
        if each.is_of(record.topic, record.partition):
            each.is_superseded = True


def apply_deleted(table: Table, broker: int, record: OffsetDeleted) -> None:
    """A tombstone drops what is pending for its partition."""
    _keep(
        table,
        broker,
        record.group_id,
        lambda each: not each.is_of(record.topic, record.partition),
    )


def of_deleted_topic(table: Table, broker: int, topic_name: str) -> list[OffsetDeleted]:
    """The tombstones of pending offsets that the deletion of a topic asks for."""
    return [
        OffsetDeleted(committed_offsets.group_of(key), topic_name, partition)
        for key, pending in table.items(f"{broker}/pending/", Pending)
        for partition in sorted(
            {each.offset.partition for each in pending.offsets if each.offset.topic == topic_name}
        )
    ]


def _keep(
    table: Table, broker: int, group_id: str, is_kept: Callable[[PendingOffset], bool]
) -> None:
    key = _key(broker, group_id)
    if key not in table:
        return
    pending = table.change(key, Pending)
    pending.offsets = [each for each in pending.offsets if is_kept(each)]
    if not pending.offsets:
        table.drop(key)


def _producers(table: Table, key: str) -> list[int]:
    pending = table.get(key, Pending) if key.split("/", 2)[1] == "pending" else None
    return sorted({each.producer_id for each in pending.offsets}) if pending is not None else []


def _add_to_index(table: Table, broker: int, producer_id: int, group_id: str) -> None:
    key = _index_key(broker, producer_id)
    if key not in table:
        table.put(key, PendingIn([]))
    index = table.change(key, PendingIn)
    index.group_ids = sorted({*index.group_ids, group_id})


def _take_from_index(table: Table, broker: int, producer_id: int, group_ids: list[str]) -> None:
    key = _index_key(broker, producer_id)
    if key not in table:
        return
    index = table.change(key, PendingIn)
    index.group_ids = [each for each in index.group_ids if each not in group_ids]
    if not index.group_ids:
        table.drop(key)
