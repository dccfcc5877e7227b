"""Committed offsets of groups.

Source: seed 003; `OffsetMetadataManager`, `OffsetAndMetadata` in Kafka. Items of the table `groups`
(`/` and `%` in group ids and topic names are escaped):

    <broker>/committed/<group>                   CommittedPartitions: an index of the group
    <broker>/offset/<group>/<topic>/<partition>  Offset

Offsets in ZooKeeper are items of the `controller` instead of a broker (`coordinators.py`). A simple
group (without members, protocol type none) exists from its first commit on, even if its offsets are
deleted.
"""

from bisect import insort
from typing import NamedTuple

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.records import OffsetCommitted, OffsetDeleted
from brokertwin.state.core.tables import (
    MachineTables,
    Table,
    cached_key,
    escape,
    machine_prefix,
    unescape,
)
from brokertwin.state.groups import groups


class CommittedPartitions(msgspec.Struct, array_like=True):
    """Partitions with an offset: sorted numbers by topic name."""

    partitions: dict[str, list[int]]


class Offset(msgspec.Struct, array_like=True):
    """A committed offset. Times are in ms since 1970; -1 is no expiry."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: int
    expire_timestamp: int
    topic_id: Uuid


class CommittedOffsetRow(NamedTuple):
    """A committed offset with group and partition, for snapshots and reports."""

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


def _key_parts(key: str) -> tuple[str, str, int]:
    _, _, group_id, topic, partition = key.split("/")
    return unescape(group_id), unescape(topic), int(partition)


def group_of(key: str) -> str:
    return unescape(key.split("/")[2])


def offset(at: MachineTables, group_id: str, topic: str, partition: int) -> Offset | None:
    return at.tables.groups.get(_offset_key(at.id, group_id, topic, partition), Offset)


def partitions_of(at: MachineTables, group_id: str) -> list[tuple[str, list[int]]]:
    committed = at.tables.groups.get(_committed_key(at.id, group_id), CommittedPartitions)
    return sorted(committed.partitions.items()) if committed is not None else []


def apply_committed(at: MachineTables, record: OffsetCommitted) -> None:
    """Store an offset; create the group if it does not exist."""
    table = at.tables.groups
    key = _offset_key(at.id, record.group_id, record.topic, record.partition)
    groups.ensure(at, record.group_id)
    if key not in table:
        _add_to_committed(at, record)
    item = Offset(
        record.offset,
        record.leader_epoch,
        record.metadata,
        record.commit_timestamp,
        record.expire_timestamp,
        record.topic_id,
    )
    table.put(key, item)


def _add_to_committed(at: MachineTables, record: OffsetCommitted) -> None:
    table, key = at.tables.groups, _committed_key(at.id, record.group_id)
    if key not in table:
        table.put(key, CommittedPartitions({}))
    partitions = table.change(key, CommittedPartitions).partitions
    insort(partitions.setdefault(record.topic, []), record.partition)


def apply_deleted(at: MachineTables, record: OffsetDeleted) -> None:
    """Delete an offset, if it exists.

    The group stays, except in ZooKeeper, where it disappears with its last offset.
    """
    key = _offset_key(at.id, record.group_id, record.topic, record.partition)
    if key not in at.tables.groups:
        return
    at.tables.groups.drop(key)
    committed_key = _committed_key(at.id, record.group_id)
    partitions = at.tables.groups.change(committed_key, CommittedPartitions).partitions
    partitions[record.topic].remove(record.partition)
    if not partitions[record.topic]:
        del partitions[record.topic]
    if not partitions:
        at.tables.groups.drop(committed_key)
        if at.id == CONTROLLER:
            groups.drop_stored(at, record.group_id)


def tombstones(at: MachineTables, group_id: str) -> list[OffsetDeleted]:
    """Return tombstones for all offsets of a group, sorted."""
    return [
        OffsetDeleted(group_id, topic, partition)
        for topic, partitions in partitions_of(at, group_id)
        for partition in partitions
    ]


def tombstones_of_topic(at: MachineTables, topic_name: str) -> list[OffsetDeleted]:
    """Return tombstones for the offsets of a deleted topic, sorted."""
    prefix = _committed_key(at.id, "")
    return [
        OffsetDeleted(unescape(key[len(prefix) :]), topic_name, partition)
        for key, committed in at.tables.groups.items(prefix, CommittedPartitions)
        for partition in committed.partitions.get(topic_name, [])
    ]


def rows(column: bytes, machine: int | None = None) -> list[CommittedOffsetRow]:
    """Return the offsets in a cell's column `groups`, of all machines or of one, sorted."""
    table = Table(column)
    found = []
    for key in table.keys("" if machine is None else f"{machine_prefix(machine)}/"):
        item = table.get(key, Offset) if key.split("/", 2)[1] == "offset" else None
        if item is not None:
            *values, _topic_id = msgspec.structs.astuple(item)
            found.append(CommittedOffsetRow(*_key_parts(key), *values))
    return sorted(found)
