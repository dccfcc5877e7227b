"""Invariants of a classic group: members, counts, timers."""

from collections import Counter

from brokertwin.state.core.check import Violations
from brokertwin.state.groups import groups
from brokertwin.state.groups.classic_group import ClassicGroup, ClassicGroupState


def check(group: ClassicGroup, running: set[str]) -> Violations:
    """Yield violated invariants; `running` are the group's timers."""
    yield from _members(group)
    yield from _timers(group, running)


def _members(group: ClassicGroup) -> Violations:
    members = group.members
    if members and group.leader_id not in members:
        yield f"leader {group.leader_id} is not one of {sorted(members)}"
    if (group.state is ClassicGroupState.EMPTY) != (not members) and group.state is not (
        ClassicGroupState.PREPARING_REBALANCE
    ):
        yield f"state is {group.state} with {len(members)} members"
    # A replaced static member's former id may still be pending to sync, as in Kafka.
    if (
        group.state is not ClassicGroupState.STABLE
        and not group.pending_sync.keys() <= members.keys()
    ):
        yield f"pending syncs of {sorted(group.pending_sync)}, members are {sorted(members)}"
    if group.pending.keys() & members.keys():
        yield f"pending ids {sorted(group.pending)}, members are {sorted(members)}"
    joining = sum(bool(member.join_id) for member in members.values())
    supporters = Counter(name for m in members.values() for name in {n for n, _ in m.protocols})
    static = {m.group_instance_id: i for i, m in members.items() if m.group_instance_id is not None}
    if (group.joining, group.supporters) != (joining, dict(supporters)):
        counted, found = (group.joining, group.supporters), (joining, dict(supporters))
        yield f"counts of joins and supporters are {counted}, should be {found}"
    if group.static_members != static:
        yield f"static members are {group.static_members}, should be {static}"


def _timers(group: ClassicGroup, running: set[str]) -> Violations:
    timed = {groups.heartbeat_member(timer) for timer in running} - {None}
    unknown = timed - group.members.keys() - group.pending.keys()
    if unknown:
        yield f"heartbeat timers of unknown members: {sorted(map(str, unknown))}"
    for member_id, member in group.members.items():
        if member_id not in timed and not (member.join_id or member.sync_id):
            yield f"{member_id} has no heartbeat timer"
    for member_id in group.pending:
        if member_id not in timed:
            yield f"pending id {member_id} has no timer"
    is_joining = group.state is ClassicGroupState.PREPARING_REBALANCE
    if is_joining != (groups.JOIN in running):
        yield f"state is {group.state}, join timer {'runs' if not is_joining else 'is off'}"
    if (groups.SYNC in running) != bool(group.pending_sync):
        yield f"pending syncs of {sorted(group.pending_sync)}, timers are {sorted(running)}"
