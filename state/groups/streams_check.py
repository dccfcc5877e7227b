"""Invariants of a streams group: epochs, tasks, timers."""

from collections import Counter

from brokertwin.state.core.check import Violations
from brokertwin.state.groups import groups
from brokertwin.state.groups.streams_group import StreamsGroup, StreamsMemberState


def check(group: StreamsGroup, running: set[str]) -> Violations:
    """Yield violated invariants; `running` are the group's timers."""
    members = group.members.values()
    revoking = [each for each in members if each.state is StreamsMemberState.UNREVOKED_TASKS]
    wanted = {groups.session(each) for each in group.members}
    wanted |= {groups.rebalance(each.member_id) for each in revoking}
    if running - {groups.INITIAL} != wanted:
        yield f"has timers {sorted(running)}, needs {sorted(wanted)}"
    if group.assignment_epoch > group.group_epoch:
        yield f"assignment epoch {group.assignment_epoch} is above group epoch {group.group_epoch}"
    if group.members and group.topology is None:
        yield "has members but no topology"
    unknown = group.target.keys() - group.members.keys()
    if unknown:
        yield f"targets of unknown members: {sorted(unknown)}"
    for member in members:
        if member.member_epoch > group.assignment_epoch:
            yield f"{member.member_id} has epoch {member.member_epoch}, above the assignment epoch"
        is_revoking = member.state is StreamsMemberState.UNREVOKED_TASKS
        pending = member.pending_revocation
        if is_revoking != any((pending.active, pending.standby, pending.warmup)):
            yield f"{member.member_id} is {member.state.name} but must revoke {pending}"
    yield from _tasks(group)


def _tasks(group: StreamsGroup) -> Violations:
    """Check that each active task has one owner and one target."""
    has = Counter(
        (part, number)
        for member in group.members.values()
        for tasks in (member.assigned, member.pending_revocation)
        for part, numbers in tasks.active.items()
        for number in numbers
    )
    wanted = Counter(
        (part, number)
        for tasks in group.target.values()
        for part, numbers in tasks.active.items()
        for number in numbers
    )
    for what, counted in (("owned", has), ("assigned", wanted)):
        for (part, number), count in counted.items():
            if count > 1:
                yield f"task {part}_{number} is {what} more than once"
