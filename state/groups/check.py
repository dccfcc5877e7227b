"""Invariants of groups: members, pending requests, timers, offset index."""

from collections.abc import Sequence

from brokertwin.protocol.kafka_apis import JOIN_GROUP, SYNC_GROUP
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, leads
from brokertwin.state.core import pending
from brokertwin.state.core.check import ALL, Touched, Violations, by_kind, machine_of
from brokertwin.state.core.tables import CellTables, MachineTables, escape
from brokertwin.state.groups import groups
from brokertwin.state.groups.classic_group import ClassicGroup
from brokertwin.state.groups.committed_offsets import CommittedPartitions
from brokertwin.state.groups.kinds import kind_of

LIVE_KINDS = ("live-group", "live-streams")
"""Kinds of group items in the table `live_groups`."""


def check(tables: CellTables, brokers: Sequence[int], touched: Touched = ALL) -> Violations:
    has_groups = touched.has("groups") or touched.has("live_groups", *LIVE_KINDS)
    is_led = touched.has("metadata", "topic") or touched.has("cluster", "network")
    has_timers = has_groups or is_led or touched.has_timer(groups.TIMER)
    has_pending = has_groups or is_led or touched.has("pending", "wait")
    if has_timers:
        yield from _groups(tables, {each: _groups_of(tables.of(each)) for each in brokers})
    if has_pending:
        yield from _pending_requests(tables, brokers)
    if touched.has("groups"):
        yield from _offsets(tables)


GroupsOfBroker = list[tuple[str, groups.Group, bool]]
"""The groups of a broker: id, group, and whether the broker serves it."""


def _groups_of(at: MachineTables) -> GroupsOfBroker:
    result: GroupsOfBroker = []
    ids = {*groups.stored_ids(at), *groups.live_ids(at)}
    for group_id in sorted(ids):
        group = groups.find(at, group_id)
        assert group is not None, group_id
        result.append((group_id, group, _is_loaded(at, group_id, group)))
    return result


def _is_loaded(at: MachineTables, group_id: str, group: groups.Group) -> bool:
    """True if a broker coordinates the group and has loaded it."""
    if not leads(at, GROUP_TOPIC, group_id):
        return False
    is_classic = isinstance(group, ClassicGroup)
    return not is_classic or groups.find_live(at, group_id) is not None


def _groups(tables: CellTables, by_broker: dict[int, GroupsOfBroker]) -> Violations:
    for broker, found in by_broker.items():
        timers = set(pending.timers_of(tables.pending, f"{groups.TIMER}/{broker}/"))
        written = groups.stored_ids(tables.of(broker))
        for group_id, group, is_loaded in found:
            own_timers = {name for name in timers if name.split("/", 1)[0] == escape(group_id)}
            timers -= own_timers
            if not is_loaded:
                continue
            running = {groups.timer_of(name)[1] for name in own_timers}
            for violation in kind_of(group).check(group, running):
                yield f"group {group_id!r} of broker {broker}: {violation}"
            if isinstance(group, ClassicGroup) and not (
                group.members or group.pending or group.is_kept or group_id in written
            ):
                yield f"group {group_id!r} of broker {broker} is live without members or records"
        for name in sorted(timers):
            yield f"timer {name} of broker {broker} has no live group"


def _pending_requests(tables: CellTables, brokers: Sequence[int]) -> Violations:
    """Check that pending joins and syncs belong to members and vice versa."""
    waiting_ids: set[str] = set()
    for key in by_kind(tables.live_groups).get(LIVE_KINDS[0], ()):
        broker, group = machine_of(key), tables.live_groups.get(key, ClassicGroup)
        if group is None or broker is None or broker not in brokers:
            continue
        ids = _waiting_ids(group)
        if ids and leads(tables.of(broker), GROUP_TOPIC, group.group_id):
            waiting_ids |= ids
    joins_and_syncs = {
        each.event_id
        for each in pending.requests(tables.pending)
        if each.api_key in (JOIN_GROUP.key, SYNC_GROUP.key)
        and not each.is_held
        and each.state != pending.UNTIL_COMMITTED
    }
    for event_id in sorted(waiting_ids - joins_and_syncs):
        yield f"request {event_id} is pending for its member, but not in `pending`"
    for event_id in sorted(joins_and_syncs - waiting_ids):
        yield f"request {event_id} is pending, but not for a member"


def _waiting_ids(group: ClassicGroup) -> set[str]:
    members = group.members.values()
    return {each for m in members for each in (m.join_id, m.sync_id) if each}


def _offsets(tables: CellTables) -> Violations:
    table = tables.groups
    kinds = by_kind(table)
    indexed = set()
    for key in kinds.get("committed", []):
        committed = table.get(key, CommittedPartitions)
        assert committed is not None, key
        broker, _, group = key.split("/")
        if f"{broker}/group/{group}" not in table:
            yield f"{key} has no group"
        for topic, partitions in committed.partitions.items():
            if not partitions or partitions != sorted(set(partitions)):
                yield f"{key} has the partitions {partitions} of {topic}"
            indexed |= {f"{broker}/offset/{group}/{escape(topic)}/{p}" for p in partitions}
    for key in sorted(indexed ^ set(kinds.get("offset", []))):
        yield f"{key} {'is missing' if key in indexed else 'is not indexed'}"
