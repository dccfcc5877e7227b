"""Storage and timers of the groups of a coordinator, for all kinds.

Items (`/` and `%` in group ids are escaped):

    groups       <broker>/group/<group>                StoredClassicGroup, ConsumerGroup, ShareGroup
                                                       or StreamsGroup: the durable state
    live_groups  <broker>/live-group/<group>           ClassicGroup with its pending requests
    pending      timer/group/<broker>/<group>/<timer>  timers

Only this module accesses these items. Committed offsets are in `committed_offsets.py`. After a
restart or a coordinator change, groups are restored from their records. Pending requests and the
elapsed part of timeouts are lost.

Only classic groups have an item in `live_groups`, because the other kinds are durable except for
their timers. A simple group (offsets without members) has none. A group whose first commit failed
with 12 OFFSET_METADATA_TOO_LARGE has only this item. Requests to its coordinator find it, but
ListGroups and DescribeGroups do not, as in Kafka until the coordinator writes again.

Timers by kind:

    classic   join (rebalance timeout or initial delay), sync, and heartbeat/<member> for each
              member and each pending member id
    consumer  session/<member>, rebalance/<member> while the member revokes partitions; for a
              member of the classic protocol join/<member> and sync/<member>
    share     session/<member>
    streams   session/<member>, rebalance/<member>, initial (the initial rebalance delay)

Each member has its own timer, so the cost of a heartbeat does not depend on the group's size.
"""

from typing import Any, TypeVar, cast

import msgspec

from brokertwin.protocol.generated.group_rows import GroupMetadataValue
from brokertwin.state.core import pending
from brokertwin.state.core.tables import (
    MachineTables,
    Table,
    cached_key,
    escape,
    machine_prefix,
    unescape,
)
from brokertwin.state.groups.classic_group import ClassicGroup
from brokertwin.state.groups.classic_records import restored
from brokertwin.state.groups.consumer_group import ConsumerGroup
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.groups.streams_group import StreamsGroup

Group = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup

Modern = TypeVar("Modern", ConsumerGroup, ShareGroup, StreamsGroup)
"""A kind of group whose whole state is durable."""

TIMER = "group"
"""Prefix of the names of group timers."""

JOIN = "join"
SYNC = "sync"
INITIAL = "initial"
_HEARTBEAT, _SESSION, _REBALANCE = "heartbeat/", "session/", "rebalance/"
_REJOIN, _RESYNC = "join/", "sync/"


class StoredClassicGroup(msgspec.Struct, tag_field="type", tag="classic"):
    """Durable state of a classic group; no metadata for a simple group."""

    group_id: str
    metadata: GroupMetadataValue | None = None


StoredGroup = StoredClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup
"""The durable state of a group of any kind."""

STORED_GROUP = cast("type[StoredGroup]", cast(Any, StoredGroup))
"""`StoredGroup` as an item type; msgspec decodes it by its tag."""


def find(at: MachineTables, group_id: str) -> Group | None:
    """Return the group, read-only: the live classic group or the stored one."""
    live = at.tables.live_groups.get(_live_key(at.id, group_id), ClassicGroup)
    return live or _restored(at, group_id)


def all_groups(at: MachineTables) -> list[Group]:
    """Return every stored group of the broker, read-only, sorted by id."""
    groups = [find(at, group_id) for group_id in stored_ids(at)]
    return [group for group in groups if group is not None]


def find_if_stored(at: MachineTables, group_id: str) -> Group | None:
    """Return the group, read-only, if it has records. Used to describe groups."""
    is_written = find_stored(at, group_id) is not None
    return find(at, group_id) if is_written else None


def all_with_unwritten(at: MachineTables) -> list[Group]:
    """Like `all_groups`, with groups that have no records yet."""
    ids = {*stored_ids(at), *live_ids(at)}
    groups = [find(at, group_id) for group_id in sorted(ids)]
    return [group for group in groups if group is not None]


def create_unwritten(at: MachineTables, group_id: str) -> None:
    """Create a group without records: its first commit stored no offset."""
    group = restored(group_id, None)
    group.is_kept = True
    save(at, group)


def find_live(at: MachineTables, group_id: str) -> ClassicGroup | None:
    """Return the live classic group, read-only; None if only records exist."""
    return at.tables.live_groups.get(_live_key(at.id, group_id), ClassicGroup)


def live_ids(at: MachineTables) -> list[str]:
    """Return the ids of the live classic groups of a broker, in key order."""
    return _ids(at.tables.live_groups, _live_key(at.id, ""))


def timed_ids(at: MachineTables) -> list[str]:
    names = pending.timers_of(at.tables.pending, f"{TIMER}/{at.id}/")
    return sorted({timer_of(name)[0] for name in names})


def stored_ids(at: MachineTables) -> list[str]:
    return sorted(_ids(at.tables.groups, _written_key(at.id, "")))


def change(at: MachineTables, group_id: str) -> ClassicGroup | None:
    """Return a classic group for modification. A restored group is live only after `save`."""
    key = _live_key(at.id, group_id)
    if key in at.tables.live_groups:
        return at.tables.live_groups.change(key, ClassicGroup)
    restored_group = _restored(at, group_id)
    return restored_group if isinstance(restored_group, ClassicGroup) else None


def save(at: MachineTables, group: ClassicGroup) -> None:
    at.tables.live_groups.put(_live_key(at.id, group.group_id), group)


def unload(at: MachineTables, group_id: str) -> None:
    """Remove a live classic group and its timers. Its records stay."""
    group = find_live(at, group_id)
    if group is None:
        return
    heartbeats = [heartbeat(member_id) for member_id in [*group.members, *group.pending]]
    for timer in [JOIN, SYNC, *heartbeats]:
        set_timer(at, group_id, timer, None)
    at.tables.live_groups.drop(_live_key(at.id, group_id))


def stop_timers(at: MachineTables, group_id: str) -> None:
    for name in pending.timers_of(at.tables.pending, f"{TIMER}/{at.id}/{escape(group_id)}/"):
        set_timer(at, group_id, name, None)


def drop(at: MachineTables, group_id: str) -> None:
    """Remove a group: its durable state, its live state and its timers."""
    unload(at, group_id)
    at.tables.groups.drop(_written_key(at.id, group_id))


def find_stored(at: MachineTables, group_id: str) -> StoredGroup | None:
    return at.tables.groups.get(_written_key(at.id, group_id), STORED_GROUP)


def change_stored(at: MachineTables, group_id: str, kind: type[Modern]) -> Modern:
    """Return a group of this kind for modification by a record.

    A simple group is replaced by an empty group of the kind.
    """
    key = _written_key(at.id, group_id)
    if not isinstance(at.tables.groups.get(key, STORED_GROUP), kind):
        at.tables.groups.put(key, kind(group_id))
    group = at.tables.groups.change(key, STORED_GROUP)
    assert isinstance(group, kind), group_id
    return group


def drop_stored(at: MachineTables, group_id: str) -> None:
    """Remove the durable state of a group.

    The live state stays: a consumer group may have become a classic group.
    """
    at.tables.groups.drop(_written_key(at.id, group_id))


def ensure(at: MachineTables, group_id: str) -> None:
    """Create a simple group if the group does not exist."""
    table, key = at.tables.groups, _written_key(at.id, group_id)
    if key not in table:
        table.put(key, StoredClassicGroup(group_id))


def store_classic(at: MachineTables, group_id: str, metadata: GroupMetadataValue) -> None:
    at.tables.groups.put(_written_key(at.id, group_id), StoredClassicGroup(group_id, metadata))


def set_timer(at: MachineTables, group_id: str, timer: str, deadline: int | None) -> None:
    """Set or stop a timer of a group.

    Args:
        at: tables of the coordinator.
        group_id: the group's id.
        timer: JOIN, SYNC, INITIAL, or the result of `heartbeat`, `session`, `rebalance`, `rejoin`
            or `resync`.
        deadline: in ms since 1970; None stops the timer.
    """
    pending.set_timer(at.tables.pending, _timer_name(at.id, group_id, timer), deadline)


@cached_key
def heartbeat(member_id: str) -> str:
    """Timer name: session timeout of a classic member or a pending member id."""
    return _HEARTBEAT + escape(member_id)


def session(member_id: str) -> str:
    """Timer name: session timeout of a member of the other kinds."""
    return _SESSION + escape(member_id)


def rebalance(member_id: str) -> str:
    """Timer name: timeout for a member to revoke partitions or tasks."""
    return _REBALANCE + escape(member_id)


def rejoin(member_id: str) -> str:
    """Timer name: a classic-protocol member of a consumer group must rejoin."""
    return _REJOIN + escape(member_id)


def resync(member_id: str) -> str:
    """Timer name: a classic-protocol member of a consumer group must sync."""
    return _RESYNC + escape(member_id)


def has_timer(at: MachineTables, group_id: str, timer: str) -> bool:
    return pending.timer_of(at.tables.pending, _timer_name(at.id, group_id, timer)) is not None


@cached_key
def _timer_name(broker: int, group_id: str, timer: str) -> str:
    return f"{TIMER}/{broker}/{escape(group_id)}/{timer}"


def timer_of(name: str) -> tuple[str, str]:
    group_id, timer = name.split("/", 1)
    return unescape(group_id), timer


def heartbeat_member(timer: str) -> str | None:
    """Return the member of a heartbeat timer; None for other timers."""
    if not timer.startswith(_HEARTBEAT):
        return None
    return unescape(timer.removeprefix(_HEARTBEAT))


def timer_member(timer: str) -> str:
    """Return the member of a timer of a consumer, share or streams group."""
    kind, _, member = timer.partition("/")
    assert f"{kind}/" in (_SESSION, _REBALANCE, _REJOIN, _RESYNC), timer
    return unescape(member)


def _restored(at: MachineTables, group_id: str) -> Group | None:
    stored = find_stored(at, group_id)
    if isinstance(stored, StoredClassicGroup):
        return restored(group_id, stored.metadata)
    return stored


def _ids(table: Table, prefix: str) -> list[str]:
    return [unescape(key.removeprefix(prefix)) for key in table.keys(prefix)]


@cached_key
def _live_key(broker: int, group_id: str) -> str:
    return f"{broker}/live-group/{escape(group_id)}"


@cached_key
def _written_key(broker: int, group_id: str) -> str:
    return f"{machine_prefix(broker)}/group/{escape(group_id)}"
