"""Committed offsets: one item for each group and partition.

Source: seed 003; `OffsetMetadataManager`, `OffsetAndMetadata` in Kafka. Items of
the table `groups`, with `/` and `%` of group ids and topic names escaped:

    <broker>/committed/<group>                   Committed: the partitions that have an offset
    <broker>/offset/<group>/<topic>/<partition>  Offset

In place of a broker it is the `controller` that has those of ZooKeeper (`coordinators.py`).

`Committed` makes the offsets of one group readable without a look at any other group's. A group
that commits without members ("simple", protocol type none) exists from its first commit on, also
when its offsets are gone.

Not done: a group that Kafka keeps in memory although every partition of its first commit was
refused.
"""

from bisect import insort
from typing import NamedTuple

import msgspec

from brokertwin.state.cluster.image import machine_prefix
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.records import (
    OffsetCommitted,
    OffsetDeleted,
)
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.tables import Table, cached_key, escape, unescape
from brokertwin.state.groups import groups


class Committed(msgspec.Struct, array_like=True):
    """The partitions of a group that have an offset: topic name to sorted partition numbers."""

    partitions: dict[str, list[int]]


class Offset(msgspec.Struct, array_like=True):
    """A committed offset. Times in ms since 1970; `expire_timestamp` is -1 where none was set."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    topic_id: Uuid


class OffsetRow(NamedTuple):
    """A committed offset with its place, as snapshots and reports show it."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int


def _committed_key(broker: int, group_id: str) -> str:
    return f"{machine_prefix(broker)}/committed/{escape(group_id)}"


@cached_key
def _offset_key(broker: int, group_id: str, topic: str, partition: int) -> str:
    return f"{machine_prefix(broker)}/offset/{escape(group_id)}/{escape(topic)}/{partition}"


def _offset_place(key: str) -> tuple[str, str, int]:
    """The group, topic and partition that an offset's key names."""
    _, _, group_id, topic, partition = key.split("/")
    return unescape(group_id), unescape(topic), int(partition)


def group_of(key: str) -> str:
    """The group that a key of the table `groups` is about."""
    return unescape(key.split("/")[2])


def offset(table: Table, broker: int, group_id: str, topic: str, partition: int) -> Offset | None:
    """The committed offset of a group for one partition, if there is one."""
    return table.get(_offset_key(broker, group_id, topic, partition), Offset)


def partitions_of(table: Table, broker: int, group_id: str) -> list[tuple[str, list[int]]]:
    """The topics and partitions for which a group has committed, both sorted."""
    committed = table.get(_committed_key(broker, group_id), Committed)
    return sorted(committed.partitions.items()) if committed is not None else []


def apply_committed(table: Table, broker: int, record: OffsetCommitted) -> None:
    """Stores an offset; a group that was not there before is now, without members."""
    key = _offset_key(broker, record.group_id, record.topic, record.partition)
    groups.ensure(table, broker, record.group_id)
    if key not in table:
        _add_to_committed(table, broker, record)
    item = Offset(
        record.offset,
        record.leader_epoch,
        record.metadata,
        record.commit_timestamp,
        record.expire_timestamp,
        record.topic_id,
    )
    table.put(key, item)


def _add_to_committed(table: Table, broker: int, record: OffsetCommitted) -> None:
    key = _committed_key(broker, record.group_id)
    if key not in table:
        table.put(key, Committed({}))
    partitions = table.change(key, Committed).partitions
    insort(partitions.setdefault(record.topic, []), record.partition)


def apply_deleted(table: Table, broker: int, record: OffsetDeleted) -> None:
    """Removes an offset, if there is one.

    The group stays; in ZooKeeper its node goes with its last offset.
    """
    key = _offset_key(broker, record.group_id, record.topic, record.partition)
    if key not in table:
        return
    table.drop(key)
    committed_key = _committed_key(broker, record.group_id)
    partitions = table.change(committed_key, Committed).partitions
    partitions[record.topic].remove(record.partition)
    if not partitions[record.topic]:
        del partitions[record.topic]
    if not partitions:
        table.drop(committed_key)
        if broker == CONTROLLER:
            groups.drop_written(table, broker, record.group_id)


def tombstones(table: Table, broker: int, group_id: str) -> list[OffsetDeleted]:
    """The tombstones of all offsets of a group, by topic and partition."""
    return [
        OffsetDeleted(group_id, topic, partition)
        for topic, partitions in partitions_of(table, broker, group_id)
        for partition in partitions
    ]


def of_deleted_topic(table: Table, broker: int, topic_name: str) -> list[OffsetDeleted]:
    """The tombstones that the deletion of a topic asks for, by group and partition."""
    prefix = _committed_key(broker, "")
    return [
        OffsetDeleted(unescape(key[len(prefix) :]), topic_name, partition)
        for key, committed in table.items(prefix, Committed)
        for partition in committed.partitions.get(topic_name, [])
    ]


def rows(column: bytes) -> list[OffsetRow]:
    """The committed offsets in the bytes of a cell's column `groups`, by group and partition."""
    table = Table(column)
    found = []
    for key in table.keys(""):
        item = table.get(key, Offset) if key.split("/", 2)[1] == "offset" else None
        if item is not None:
            *values, _topic_id = msgspec.structs.astuple(item)
            found.append(OffsetRow(*_offset_place(key), *values))
    return sorted(found)
