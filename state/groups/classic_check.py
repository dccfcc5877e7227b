"""What must hold of a classic group: members, what is counted of them, and its timers agree."""

from collections import Counter

from brokertwin.state.core.check import Violations
from brokertwin.state.groups import groups
from brokertwin.state.groups.classic_group import ClassicGroup, ClassicGroupState


def check(group: ClassicGroup, running: set[str]) -> Violations:
    """What does not hold; `running` are the group's timers."""
    yield from _members(group)
    yield from _timers(group, running)


def _members(group: ClassicGroup) -> Violations:
    members = group.members
    if members and group.leader_id not in members:
        yield f"{group.leader_id} leads and is none of {sorted(members)}"
    if (group.state is ClassicGroupState.EMPTY) != (not members) and group.state is not (
        ClassicGroupState.PREPARING_REBALANCE
    ):
        yield f"it is {group.state} with {len(members)} members"
    # Where a static member came back under another id, its former one is still to sync (Kafka).
    if (
        group.state is not ClassicGroupState.STABLE
        and not group.pending_sync.keys() <= members.keys()
    ):
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
    silent = {groups.heartbeat_member(timer) for timer in running} - {None}
    strangers = silent - group.members.keys() - group.pending.keys()
    if strangers:
        yield f"{sorted(map(str, strangers))} have a timer and are no members"
    for member_id, member in group.members.items():
        if member_id not in silent and not (member.join_id or member.sync_id):
            yield f"nobody would notice that {member_id} is silent"
    for member_id in group.pending:
        if member_id not in silent:
            yield f"nobody would notice that {member_id} does not join"
    is_joining = group.state is ClassicGroupState.PREPARING_REBALANCE
    if is_joining != (groups.JOIN in running):
        yield f"it is {group.state}, and its join timer {'runs' if not is_joining else 'is off'}"
    if (groups.SYNC in running) != bool(group.pending_sync):
        yield f"{sorted(group.pending_sync)} are to sync, its timers are {sorted(running)}"
