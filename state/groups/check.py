"""What must hold of groups: members, their waits and their timers agree; offsets have an index."""

from collections import Counter
from collections.abc import Iterable

from brokerstream.state.core import waiting
from brokerstream.state.core.check import Violations, by_kind
from brokerstream.state.core.kafka_apis import JOIN_GROUP, SYNC_GROUP
from brokerstream.state.core.tables import Tables, escape
from brokerstream.state.groups import groups
from brokerstream.state.groups.classic_group import ClassicGroup, GroupState
from brokerstream.state.groups.committed_offsets import Committed


def check(tables: Tables, brokers: Iterable[int]) -> Violations:
    """The groups that some brokers coordinate."""
    waiting_ids: set[str] = set()
    for broker in brokers:
        timers = set(waiting.timers_of(tables.waiting, f"{groups.TIMER}/{broker}/"))
        for group_id in groups.living_ids(tables, broker):
            group = groups.living(tables, broker, group_id)
            assert group is not None, group_id
            mine = {name for name in timers if name.split("/", 1)[0] == escape(group_id)}
            timers -= mine
            running = {groups.timer_of(name)[1] for name in mine}
            for violation in (*_members(group), *_timers(group, running)):
                yield f"group {group_id!r} of broker {broker}: {violation}"
            is_written = groups.written(tables.groups, broker, group_id) is not None
            if not (group.members or group.pending or is_written):
                yield f"group {group_id!r} of broker {broker} lives without anybody"
            for member in group.members.values():
                waiting_ids |= {each for each in (member.join_id, member.sync_id) if each}
        for name in sorted(timers):
            yield f"the timer {name} of broker {broker} is of no group that lives"
    joins_and_syncs = {
        each.event_id
        for each in waiting.all_waiting(tables.waiting)
        if each.api_key in (JOIN_GROUP, SYNC_GROUP) and not each.is_held
    }
    for event_id in sorted(waiting_ids - joins_and_syncs):
        yield f"request {event_id} does not wait, and its member says that it does"
    for event_id in sorted(joins_and_syncs - waiting_ids):
        yield f"request {event_id} waits, and is no member's"
    yield from _offsets(tables)


def _members(group: ClassicGroup) -> Violations:
    members = group.members
    if members and group.leader_id not in members:
        yield f"{group.leader_id} leads and is none of {sorted(members)}"
    if (group.state is GroupState.EMPTY) != (not members) and group.state is not (
        GroupState.PREPARING_REBALANCE
    ):
        yield f"it is {group.state} with {len(members)} members"
    # Where a static member came back under another id, its former one is still to sync (Kafka).
    if group.state is not GroupState.STABLE and not group.pending_sync.keys() <= members.keys():
        yield f"{sorted(group.pending_sync)} are to sync, members are {sorted(members)}"
    if group.pending.keys() & members.keys():
        yield f"{sorted(group.pending)} are to join, members are {sorted(members)}"
    joining = sum(bool(member.join_id) for member in members.values())
    supporters = Counter(name for m in members.values() for name in {n for n, _ in m.protocols})
    static = {m.group_instance_id: i for i, m in members.items() if m.group_instance_id is not None}
    if (group.joining, group.supporters) != (joining, dict(supporters)):
        counted, found = (group.joining, group.supporters), (joining, dict(supporters))
        yield f"joins and supporters are counted as {counted}, there are {found}"
    if group.static_members != static:
        yield f"the static members {group.static_members} are {static}"


def _timers(group: ClassicGroup, running: set[str]) -> Violations:
    silent = {groups.silent_member(timer) for timer in running} - {None}
    strangers = silent - group.members.keys() - group.pending.keys()
    if strangers:
        yield f"{sorted(map(str, strangers))} have a timer and are no members"
    for member_id, member in group.members.items():
        if member_id not in silent and not (member.join_id or member.sync_id):
            yield f"nobody would notice that {member_id} is silent"
    for member_id in group.pending:
        if member_id not in silent:
            yield f"nobody would notice that {member_id} does not join"
    is_joining = group.state is GroupState.PREPARING_REBALANCE
    if is_joining != (groups.JOIN in running):
        yield f"it is {group.state}, and its join timer {'runs' if not is_joining else 'is off'}"
    if (groups.SYNC in running) != bool(group.pending_sync):
        yield f"{sorted(group.pending_sync)} are to sync, its timers are {sorted(running)}"


def _offsets(tables: Tables) -> Violations:
    table = tables.groups
    kinds = by_kind(table)
    indexed = set()
    for key in kinds.get("committed", []):
        committed = table.get(key, Committed)
        assert committed is not None, key
        broker, _, group = key.split("/")
        if f"{broker}/group/{group}" not in table:
            yield f"{key} is of no group"
        for topic, partitions in committed.partitions.items():
            if not partitions or partitions != sorted(set(partitions)):
                yield f"{key} has the partitions {partitions} of {topic}"
            indexed |= {f"{broker}/offset/{group}/{escape(topic)}/{p}" for p in partitions}
    for key in sorted(indexed ^ set(kinds.get("offset", []))):
        yield f"{key} {'is not there' if key in indexed else 'is in no index'}"
