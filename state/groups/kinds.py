"""The kinds of groups, and what each of them does: one table.

A group's tag says which kind it is of; requests that any group may get come through here. A further
kind has its struct in `groups.Group`, and a row in `KINDS`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.check import Violations
from brokertwin.state.core.decision import Decision, Resumed
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import OffsetDeleted, Record
from brokertwin.state.groups import (
    classic_check,
    committed_offsets,
    consumer_check,
    consumer_group_records,
    consumer_rules,
    group_coordinator,
    group_rules,
    groups,
    share_check,
    share_group_records,
    share_rules,
    streams_check,
    streams_group_records,
    streams_live,
    streams_rules,
)
from brokertwin.state.groups.classic_group import ClassicGroup
from brokertwin.state.groups.consumer_group import ConsumerGroup
from brokertwin.state.groups.group_rules import Commit
from brokertwin.state.groups.groups import Group
from brokertwin.state.groups.share_group import SHARE as SHARE_NAME
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.groups.streams_group import STREAMS as STREAMS_NAME
from brokertwin.state.groups.streams_group import StreamsGroup


class Kind(NamedTuple):
    """What a kind of groups does.

    Attributes:
        name: Kafka's name of the type, in lower case.
        fire: what a timer asks for, by group id and timer.
        expire: takes members for gone.
        load: takes a group over from another coordinator.
        unload: lets it go; the answers are for those who wait.
        check: what does not hold of a group, given its running timers.
        commit_error: why offsets are not taken.
        fetch_error: why offsets are not told to a member, by its id and epoch.
        delete_error: why a group cannot be deleted.
        delete_offsets_error: why none of its offsets can.
        subscribed_topics: whose offsets stay; None: all of them.
        kept_since: from when on an offset is kept, by its commit's time; None: for ever.
        tombstones: the records by which a group without members goes.
        member_tombstones: those by which a member goes; None where members are written with it.
        may_expire: whether one without offsets and members goes by itself.
    """

    name: str
    fire: Callable[[Broker, str, str], Decision]
    expire: Callable[[Broker, str, list[str]], Decision]
    load: Callable[[Broker, str], None]
    unload: Callable[[Broker, str], list[Resumed]]
    check: Callable[[Any, set[str]], Violations]
    commit_error: Callable[[Any, Commit], Error]
    fetch_error: Callable[[Any, str | None, int], Error]
    delete_error: Callable[[Any], Error]
    delete_offsets_error: Callable[[Any], Error]
    subscribed_topics: Callable[[Any], set[str] | None]
    kept_since: Callable[[Any, int], int | None]
    tombstones: Callable[[Any], list[Record]]
    member_tombstones: Callable[[str, str], list[Record]] | None = None
    may_expire: bool = True


CLASSIC = Kind(
    name="classic",
    fire=group_coordinator.fire,
    expire=group_coordinator.expire,
    load=group_coordinator.load,
    unload=group_coordinator.unload,
    check=classic_check.check,
    commit_error=group_rules.commit_error,
    fetch_error=group_rules.fetch_error,
    delete_error=group_rules.delete_error,
    delete_offsets_error=group_rules.delete_offsets_error,
    subscribed_topics=group_rules.subscribed_topics,
    kept_since=group_rules.kept_since,
    tombstones=group_rules.tombstones,
)

CONSUMER = Kind(
    name="consumer",
    fire=consumer_rules.fire,
    expire=consumer_rules.expire,
    load=consumer_rules.load,
    unload=consumer_rules.unload,
    check=consumer_check.check,
    commit_error=consumer_rules.commit_error,
    fetch_error=consumer_rules.fetch_error,
    delete_error=consumer_rules.delete_error,
    delete_offsets_error=consumer_rules.delete_offsets_error,
    subscribed_topics=consumer_rules.subscribed_topics,
    kept_since=consumer_rules.kept_since,
    tombstones=consumer_rules.tombstones,
    member_tombstones=consumer_group_records.member_tombstones,
)

SHARE = Kind(
    name=SHARE_NAME,
    fire=share_rules.fire,
    expire=share_rules.expire,
    load=share_rules.load,
    unload=share_rules.unload,
    check=share_check.check,
    commit_error=share_rules.commit_error,
    fetch_error=share_rules.fetch_error,
    delete_error=share_rules.delete_error,
    delete_offsets_error=share_rules.delete_offsets_error,
    subscribed_topics=share_rules.subscribed_topics,
    kept_since=share_rules.kept_since,
    tombstones=share_group_records.tombstones,
    member_tombstones=share_group_records.member_tombstones,
    may_expire=False,
)

STREAMS = Kind(
    name=STREAMS_NAME,
    fire=streams_rules.fire,
    expire=streams_rules.expire,
    load=streams_rules.load,
    unload=streams_rules.unload,
    check=streams_check.check,
    commit_error=streams_rules.commit_error,
    fetch_error=streams_rules.fetch_error,
    delete_error=streams_rules.delete_error,
    delete_offsets_error=streams_rules.delete_offsets_error,
    subscribed_topics=streams_rules.subscribed_topics,
    kept_since=streams_rules.kept_since,
    tombstones=streams_group_records.tombstones,
    member_tombstones=streams_group_records.member_tombstones,
)

KINDS: dict[type, Kind] = {
    ClassicGroup: CLASSIC,
    ConsumerGroup: CONSUMER,
    ShareGroup: SHARE,
    StreamsGroup: STREAMS,
}
"""The kind of each struct of `groups.Group`."""


def kind_of(group: Group) -> Kind:
    """The kind of a group."""
    return KINDS[type(group)]


def fire(broker: Broker, name: str) -> Decision:
    """Does what a group's timer asks for; `name` is what follows the broker in the timer's name."""
    group_id, timer = groups.timer_of(name)
    group = groups.find(broker, group_id)
    assert group is not None, f"a timer of a group that is not there: {name}"
    return kind_of(group).fire(broker, group_id, timer)


def expire(broker: Broker, group_id: str, member_ids: list[str]) -> Decision:
    """Takes members of a group for gone; nothing where there is no such group."""
    group = groups.find(broker, group_id)
    if group is None:
        return Decision()
    return kind_of(group).expire(broker, group_id, member_ids)


def load(broker: Broker, group_id: str) -> None:
    """Takes over a group as it was last written."""
    group = groups.find(broker, group_id)
    assert group is not None, group_id
    kind_of(group).load(broker, group_id)


def loaded_ids(broker: Broker) -> list[str]:
    """The ids of the groups that live at a broker or have timers there, sorted."""
    tables = broker.tables
    living = groups.living_ids(tables, broker.id)
    live_streams = streams_live.ids(tables, broker.id)
    return sorted({*living, *live_streams, *groups.timed_ids(tables, broker.id)})


def unload(broker: Broker, group_id: str) -> list[Resumed]:
    """Lets go of a group whose records another coordinator has by now."""
    is_classic = groups.living(broker.tables, broker.id, group_id) is not None
    return (CLASSIC if is_classic else STREAMS).unload(broker, group_id)


def all_tombstones(broker: Broker) -> list[Record]:
    """What takes back all that a broker has written of groups: their topic goes."""
    table, gone = broker.tables.groups, list[Record]()
    for group in groups.all_groups(broker):
        kind, group_id = kind_of(group), group.group_id
        for name, numbers in committed_offsets.partitions_of(table, broker.id, group_id):
            gone += [OffsetDeleted(group_id, name, number) for number in numbers]
        if kind.member_tombstones is not None:
            for member in group.members:
                gone += kind.member_tombstones(group_id, member)
        gone += kind.tombstones(group)
    return gone
