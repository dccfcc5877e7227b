"""The kinds of groups, as one table.

The tag of a group's item is its kind. Requests that accept groups of any kind use this table. To
add a kind, add its struct to `groups.Group` and a class to `KINDS`.
"""

from typing import Any

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Decision, Resumed
from brokertwin.state.core.records import OffsetDeleted, Record
from brokertwin.state.groups import classic_coordinator, committed_offsets, groups, streams_live
from brokertwin.state.groups.classic_group import ClassicGroup
from brokertwin.state.groups.classic_rules import ClassicKind
from brokertwin.state.groups.consumer_group import ConsumerGroup
from brokertwin.state.groups.consumer_rules import ConsumerKind
from brokertwin.state.groups.group_kind import GroupKind
from brokertwin.state.groups.groups import Group
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.groups.share_rules import ShareKind
from brokertwin.state.groups.streams_group import StreamsGroup
from brokertwin.state.groups.streams_rules import StreamsKind

KINDS: dict[type, GroupKind[Any]] = {
    ClassicGroup: ClassicKind(),
    ConsumerGroup: ConsumerKind(),
    ShareGroup: ShareKind(),
    StreamsGroup: StreamsKind(),
}
"""Kinds by the struct of `groups.Group`."""


def kind_of(group: Group) -> GroupKind[Any]:
    return KINDS[type(group)]


def fire(broker: Broker, name: str) -> Decision:
    """Handle an expired timer; `name` is the timer's name without its broker."""
    group_id, timer = groups.timer_of(name)
    group = groups.find(broker, group_id)
    assert group is not None, f"timer of an unknown group: {name}"
    return kind_of(group).fire(broker, group_id, timer)


def expire(broker: Broker, group_id: str, member_ids: list[str]) -> Decision:
    """Remove members of a group. No-op if the group does not exist."""
    group = groups.find(broker, group_id)
    if group is None:
        return Decision()
    return kind_of(group).expire(broker, group_id, member_ids)


def load(broker: Broker, group_id: str) -> None:
    """Take over a group in the state of its records."""
    group = groups.find(broker, group_id)
    assert group is not None, group_id
    kind_of(group).load(broker, group_id)


def loaded_ids(broker: Broker) -> list[str]:
    """Return the ids of groups with live state or timers at a broker, sorted."""
    living = groups.live_ids(broker)
    live_streams = streams_live.ids(broker)
    return sorted({*living, *live_streams, *groups.timed_ids(broker)})


def unload(broker: Broker, group_id: str) -> list[Resumed]:
    """Give up a group whose records another coordinator has taken over."""
    if groups.find_live(broker, group_id) is not None:
        return classic_coordinator.unload(broker, group_id)
    groups.stop_timers(broker, group_id)
    streams_live.drop(broker, group_id)
    return []


def tombstones_of_all(broker: Broker) -> list[Record]:
    """Return tombstones for all groups and offsets: their topic is deleted."""
    tombstones = list[Record]()
    for group in groups.all_groups(broker):
        kind, group_id = kind_of(group), group.group_id
        for name, numbers in committed_offsets.partitions_of(broker, group_id):
            tombstones += [OffsetDeleted(group_id, name, number) for number in numbers]
        for member in group.members:
            tombstones += kind.member_tombstones(group_id, member)
        tombstones += kind.tombstones(group)
    return tombstones
