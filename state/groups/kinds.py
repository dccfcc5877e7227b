"""The kinds of groups and their operations, as one table.

The tag of a group's item is its kind. Requests that accept groups of any kind use this table. To
add a kind, add its struct to `groups.Group` and a row to `KINDS`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from brokertwin.protocol.errors import Error
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.check import Violations
from brokertwin.state.core.decision import Decision, Resumed
from brokertwin.state.core.records import OffsetDeleted, Record
from brokertwin.state.groups import (
    classic_coordinator,
    committed_offsets,
    consumer_group_records,
    consumer_rules,
    group_rules,
    groups,
    modern_rules,
    share_group_records,
    share_rules,
    streams_group_records,
    streams_live,
    streams_rules,
)
from brokertwin.state.groups.classic_group import ClassicGroup
from brokertwin.state.groups.consumer_group import ConsumerGroup
from brokertwin.state.groups.group_rules import OffsetCommitCheck
from brokertwin.state.groups.groups import Group
from brokertwin.state.groups.share_group import SHARE as SHARE_NAME
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.groups.streams_group import STREAMS as STREAMS_NAME
from brokertwin.state.groups.streams_group import StreamsGroup


class GroupKind(NamedTuple):
    """Operations of a kind of group.

    Attributes:
        name: Kafka's name of the group type, in lower case.
        fire: handles an expired timer of a group.
        expire: removes members whose session has expired.
        load: takes a group over from another coordinator.
        check: yields violated invariants, given the group and its running timers.
        commit_error: error of an offset commit.
        fetch_error: error of an offset fetch by a member (id and epoch).
        delete_error: error of a group deletion.
        delete_offsets_error: error of the deletion of any offset.
        subscribed_topics: topics whose offsets are kept; None for all.
        kept_since: start of an offset's retention, given its commit time; None if it does not
            expire.
        tombstones: records that delete a group without members.
        member_tombstones: records that delete a member; None if members are part of the group's
            record.
        may_expire: whether a group without offsets and members is deleted automatically.
    """

    name: str
    fire: Callable[[Broker, str, str], Decision]
    expire: Callable[[Broker, str, list[str]], Decision]
    load: Callable[[Broker, str], None]
    check: Callable[[Any, set[str]], Violations]
    commit_error: Callable[[Any, OffsetCommitCheck], Error]
    fetch_error: Callable[[Any, str | None, int], Error]
    delete_error: Callable[[Any], Error]
    delete_offsets_error: Callable[[Any], Error]
    subscribed_topics: Callable[[Any], set[str] | None]
    kept_since: Callable[[Any, int], int | None]
    tombstones: Callable[[Any], list[Record]]
    member_tombstones: Callable[[str, str], list[Record]] | None = None
    may_expire: bool = True


CLASSIC = GroupKind(
    name="classic",
    fire=classic_coordinator.fire,
    expire=classic_coordinator.expire,
    load=classic_coordinator.load,
    check=group_rules.check,
    commit_error=group_rules.commit_error,
    fetch_error=group_rules.fetch_error,
    delete_error=group_rules.delete_error,
    delete_offsets_error=group_rules.delete_offsets_error,
    subscribed_topics=group_rules.subscribed_topics,
    kept_since=group_rules.kept_since,
    tombstones=group_rules.tombstones,
)

CONSUMER = GroupKind(
    name="consumer",
    fire=modern_rules.fire,
    expire=modern_rules.expire,
    load=modern_rules.load,
    check=consumer_rules.check,
    commit_error=consumer_rules.commit_error,
    fetch_error=consumer_rules.fetch_error,
    delete_error=modern_rules.delete_error,
    delete_offsets_error=modern_rules.delete_offsets_error,
    subscribed_topics=consumer_rules.subscribed_topics,
    kept_since=modern_rules.kept_since,
    tombstones=consumer_rules.tombstones,
    member_tombstones=consumer_group_records.member_tombstones,
)

SHARE = GroupKind(
    name=SHARE_NAME,
    fire=modern_rules.fire,
    expire=modern_rules.expire,
    load=modern_rules.load,
    check=share_rules.check,
    commit_error=share_rules.commit_error,
    fetch_error=share_rules.fetch_error,
    delete_error=modern_rules.delete_error,
    delete_offsets_error=share_rules.delete_offsets_error,
    subscribed_topics=share_rules.subscribed_topics,
    kept_since=share_rules.kept_since,
    tombstones=share_group_records.tombstones,
    member_tombstones=share_group_records.member_tombstones,
    may_expire=False,
)

STREAMS = GroupKind(
    name=STREAMS_NAME,
    fire=streams_rules.fire,
    expire=modern_rules.expire,
    load=modern_rules.load,
    check=streams_rules.check,
    commit_error=streams_rules.commit_error,
    fetch_error=modern_rules.fetch_error,
    delete_error=modern_rules.delete_error,
    delete_offsets_error=modern_rules.delete_offsets_error,
    subscribed_topics=streams_rules.subscribed_topics,
    kept_since=modern_rules.kept_since,
    tombstones=streams_group_records.tombstones,
    member_tombstones=streams_group_records.member_tombstones,
)

KINDS: dict[type, GroupKind] = {
    ClassicGroup: CLASSIC,
    ConsumerGroup: CONSUMER,
    ShareGroup: SHARE,
    StreamsGroup: STREAMS,
}
"""Kinds by the struct of `groups.Group`."""


def kind_of(group: Group) -> GroupKind:
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
    tables = broker.tables
    living = groups.live_ids(tables, broker.id)
    live_streams = streams_live.ids(tables, broker.id)
    return sorted({*living, *live_streams, *groups.timed_ids(tables, broker.id)})


def unload(broker: Broker, group_id: str) -> list[Resumed]:
    """Give up a group whose records another coordinator has taken over."""
    tables = broker.tables
    if groups.find_live(tables, broker.id, group_id) is not None:
        return classic_coordinator.unload(broker, group_id)
    groups.stop_timers(tables, broker.id, group_id)
    streams_live.drop(tables, broker.id, group_id)
    return []


def tombstones_of_all(broker: Broker) -> list[Record]:
    """Return tombstones for all groups and offsets: their topic is deleted."""
    table, tombstones = broker.tables.groups, list[Record]()
    for group in groups.all_groups(broker):
        kind, group_id = kind_of(group), group.group_id
        for name, numbers in committed_offsets.partitions_of(table, broker.id, group_id):
            tombstones += [OffsetDeleted(group_id, name, number) for number in numbers]
        if kind.member_tombstones is not None:
            for member in group.members:
                tombstones += kind.member_tombstones(group_id, member)
        tombstones += kind.tombstones(group)
    return tombstones
