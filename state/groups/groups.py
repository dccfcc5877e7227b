"""The groups that a coordinator keeps, of whatever kind: the only way to their items and timers.

What is known of a group lies in three tables, with `/` and `%` of its id escaped:

    groups     <broker>/group/<group>                WrittenGroup, ConsumerGroup, ShareGroup or
                                                     StreamsGroup: what is durable
    sessions   <broker>/live-group/<group>           ClassicGroup: as it lives, with its members
    waiting    timer/group/<broker>/<group>/<timer>  its timers

The tag `type` of an item says of which kind the group is; what a kind does is in `kinds.py`. A
broker that restarts, or takes a group over, reads it from its records; who was waiting, and for how
long, it forgets. A classic group that commits without members has no item in `live_groups`; other
groups never have one, since all of them but their timers is durable. One whose first commit stored
nothing (12) has that item alone until something is written of it: requests to its coordinator find
it, who asks for groups does not, as in Kafka before the coordinator writes on. `drop` takes all
three away; nobody else touches these items. Offsets have their own (`committed_offsets.py`).

The timers of a classic group are `join` (the rebalance time-out, or the initial delay), `sync`, and
of each member, or id that was given away, `heartbeat/<member>`: so a heartbeat costs the same in a
group of any size. Those of a consumer group are `session/<member>` of each member,
`rebalance/<member>` of one that has to give partitions back, and of a member of the classic
protocol `join/<member>` while it is to join again, `sync/<member>` while it is to sync. A share
group has `session/<member>` of each member alone, a streams group that and `rebalance/<member>`,
and `initial` while it waits for more members than the first.
"""

from typing import Any, TypeVar, cast

import msgspec

from brokertwin.state.cluster.image import machine_prefix
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import pending
from brokertwin.state.core.group_records import (
    GroupMetadata,
    GroupMetadataWritten,
)
from brokertwin.state.core.tables import Table, Tables, cached_key, escape, unescape
from brokertwin.state.groups.classic_group import ClassicGroup
from brokertwin.state.groups.consumer_group import ConsumerGroup
from brokertwin.state.groups.group_metadata import restored
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.groups.streams_group import StreamsGroup

Group = ClassicGroup | ConsumerGroup | ShareGroup | StreamsGroup
"""A group of any kind."""

Modern = TypeVar("Modern", ConsumerGroup, ShareGroup, StreamsGroup)
"""A kind whose groups are durable as they are."""

TIMER = "group"
"""The kind of the groups' timers among all."""

JOIN = "join"
SYNC = "sync"
INITIAL = "initial"
_HEARTBEAT, _SESSION, _REBALANCE = "heartbeat/", "session/", "rebalance/"
_REJOIN, _RESYNC = "join/", "sync/"


class WrittenGroup(msgspec.Struct, tag_field="type", tag="classic"):
    """A classic group as it was last written; one that only commits has no metadata."""

    group_id: str
    metadata: GroupMetadata | None = None


Written = WrittenGroup | ConsumerGroup | ShareGroup | StreamsGroup
"""What is durable of a group of any kind."""

WRITTEN = cast("type[Written]", cast(Any, Written))
"""`Written` as a table's type of items: msgspec decodes a union by its tag."""


def find(broker: Broker, group_id: str) -> Group | None:
    """The group, to be read only: as it lives, else as it was written down."""
    tables = broker.tables
    living_group = tables.live_groups.get(_live_key(broker.id, group_id), ClassicGroup)
    return living_group or _restored(tables, broker.id, group_id)


def all_groups(broker: Broker) -> list[Group]:
    """Every group that the broker coordinates, to be read only, by id."""
    found = [find(broker, group_id) for group_id in written_ids(broker.tables, broker.id)]
    return [group for group in found if group is not None]


def shown(broker: Broker, group_id: str) -> Group | None:
    """The group, to be read only, where something is written of it: what is told of groups."""
    is_written = written(broker.tables.groups, broker.id, group_id) is not None
    return find(broker, group_id) if is_written else None


def held(broker: Broker) -> list[Group]:
    """`all_groups`, and those of which nothing is written."""
    ids = {*written_ids(broker.tables, broker.id), *living_ids(broker.tables, broker.id)}
    found = [find(broker, group_id) for group_id in sorted(ids)]
    return [group for group in found if group is not None]


def begin(broker: Broker, group_id: str) -> None:
    """A group is there of which nothing is written: its first commit has stored no offset."""
    group = restored(group_id, None)
    group.is_kept = True
    save(broker.tables, broker.id, group)


def known(tables: Tables, broker: int, group_id: str) -> Group | None:
    """`find`, for those who have the tables alone."""
    return living(tables, broker, group_id) or _restored(tables, broker, group_id)


def living(tables: Tables, broker: int, group_id: str) -> ClassicGroup | None:
    """The classic group as it lives, to be read only; None where only records know it."""
    return tables.live_groups.get(_live_key(broker, group_id), ClassicGroup)


def living_ids(tables: Tables, broker: int) -> list[str]:
    """The ids of the classic groups that live at a broker, sorted by their keys."""
    return _ids(tables.live_groups, _live_key(broker, ""))


def timed_ids(tables: Tables, broker: int) -> list[str]:
    """The ids of the groups of any kind that have timers at a broker, sorted."""
    names = pending.timers_of(tables.pending, f"{TIMER}/{broker}/")
    return sorted({timer_of(name)[0] for name in names})


def written_ids(tables: Tables, broker: int) -> list[str]:
    """The ids of the groups that a broker coordinates, sorted."""
    return sorted(_ids(tables.groups, _written_key(broker, "")))


def change(tables: Tables, broker: int, group_id: str) -> ClassicGroup | None:
    """A classic group for changing; one that does not live yet does not before `save`."""
    key = _live_key(broker, group_id)
    if key in tables.live_groups:
        return tables.live_groups.change(key, ClassicGroup)
    restored_group = _restored(tables, broker, group_id)
    return restored_group if isinstance(restored_group, ClassicGroup) else None


def save(tables: Tables, broker: int, group: ClassicGroup) -> None:
    """Lets a classic group live, in place of what was there."""
    tables.live_groups.put(_live_key(broker, group.group_id), group)


def unload(tables: Tables, broker: int, group_id: str) -> None:
    """Lets a classic group live no more; what is written of it stays."""
    group = living(tables, broker, group_id)
    if group is None:
        return
    heartbeats = [heartbeat(member_id) for member_id in [*group.members, *group.pending]]
    for timer in [JOIN, SYNC, *heartbeats]:
        set_timer(tables, broker, group_id, timer, None)
    tables.live_groups.drop(_live_key(broker, group_id))


def stop_timers(tables: Tables, broker: int, group_id: str) -> None:
    """Stops every timer of a group, without a look at its members."""
    for name in pending.timers_of(tables.pending, f"{TIMER}/{broker}/{escape(group_id)}/"):
        set_timer(tables, broker, group_id, name, None)


def drop(tables: Tables, broker: int, group_id: str) -> None:
    """Forgets a group: what is written of it, what lives, and its timers."""
    unload(tables, broker, group_id)
    tables.groups.drop(_written_key(broker, group_id))


def written(table: Table, broker: int, group_id: str) -> Written | None:
    """What is written of a group, in the table `groups`."""
    return table.get(_written_key(broker, group_id), WRITTEN)


def change_written(table: Table, broker: int, group_id: str, kind: type[Modern]) -> Modern:
    """A group of this kind for changing by a record; one of mere offsets gives it its place."""
    key = _written_key(broker, group_id)
    if not isinstance(table.get(key, WRITTEN), kind):
        table.put(key, kind(group_id))
    group = table.change(key, WRITTEN)
    assert isinstance(group, kind), group_id
    return group


def drop_written(table: Table, broker: int, group_id: str) -> None:
    """Forgets what is written of a consumer group; a classic one may live in its place already."""
    table.drop(_written_key(broker, group_id))


def ensure(table: Table, broker: int, group_id: str) -> None:
    """A group that has offsets is there, without members at first; `table` is `groups`."""
    if _written_key(broker, group_id) not in table:
        table.put(_written_key(broker, group_id), WrittenGroup(group_id))


def apply_written(tables: Tables, broker: int, record: GroupMetadataWritten) -> None:
    """Stores what is new of a group."""
    stored = WrittenGroup(record.group_id, record.metadata)
    tables.groups.put(_written_key(broker, record.group_id), stored)


def set_timer(tables: Tables, broker: int, group_id: str, timer: str, deadline: int | None) -> None:
    """Lets a timer of a group fire at a time in ms since 1970, or not at all.

    Args:
        tables: the cell's.
        broker: the coordinator.
        group_id: the group's id.
        timer: JOIN, SYNC, INITIAL, a `heartbeat`, `session`, `rebalance`, `rejoin` or `resync`.
        deadline: None stops the timer.
    """
    pending.set_timer(tables.pending, _timer_name(broker, group_id, timer), deadline)


@cached_key
def heartbeat(member_id: str) -> str:
    """The timer of a classic member, or of an id that was given away."""
    return _HEARTBEAT + escape(member_id)


def session(member_id: str) -> str:
    """The timer of a consumer group's member: its session time-out."""
    return _SESSION + escape(member_id)


def rebalance(member_id: str) -> str:
    """The timer of a member that has to give partitions back: its rebalance time-out."""
    return _REBALANCE + escape(member_id)


def rejoin(member_id: str) -> str:
    """The timer of a classic member of a consumer group that is to join again."""
    return _REJOIN + escape(member_id)


def resync(member_id: str) -> str:
    """The timer of a classic member of a consumer group that has joined and is to sync."""
    return _RESYNC + escape(member_id)


def is_timed(tables: Tables, broker: int, group_id: str, timer: str) -> bool:
    """Whether a timer of a group runs."""
    return pending.timer_of(tables.pending, _timer_name(broker, group_id, timer)) is not None


@cached_key
def _timer_name(broker: int, group_id: str, timer: str) -> str:
    return f"{TIMER}/{broker}/{escape(group_id)}/{timer}"


def timer_of(name: str) -> tuple[str, str]:
    """The group and the timer in what follows the broker in a timer's name."""
    group_id, timer = name.split("/", 1)
    return unescape(group_id), timer


def silent_member(timer: str) -> str | None:
    """The member that a heartbeat's timer is of; None for the other timers."""
    if not timer.startswith(_HEARTBEAT):
        return None
    return unescape(timer.removeprefix(_HEARTBEAT))


def late_member(timer: str) -> str:
    """The member of a consumer group that a timer is of."""
    kind, _, member = timer.partition("/")
    assert f"{kind}/" in (_SESSION, _REBALANCE, _REJOIN, _RESYNC), timer
    return unescape(member)


def _restored(tables: Tables, broker: int, group_id: str) -> Group | None:
    stored = written(tables.groups, broker, group_id)
    if isinstance(stored, WrittenGroup):
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
