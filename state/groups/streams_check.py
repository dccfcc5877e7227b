"""What must hold of a streams group: epochs, tasks and timers agree."""

from collections import Counter

from brokertwin.state.core.check import Violations
from brokertwin.state.groups import groups
from brokertwin.state.groups.streams_group import StreamsGroup, StreamsMemberState


def check(group: StreamsGroup, running: set[str]) -> Violations:
    """What does not hold; `running` are the group's timers."""
    members = group.members.values()
    slow = [each for each in members if each.state is StreamsMemberState.UNREVOKED_TASKS]
    wanted = {groups.session(each) for each in group.members}
    wanted |= {groups.rebalance(each.member_id) for each in slow}
    if running - {groups.INITIAL} != wanted:
        yield f"its timers are {sorted(running)}, its members need {sorted(wanted)}"
    if group.assignment_epoch > group.group_epoch:
        yield f"the assignment is in epoch {group.assignment_epoch}, the group {group.group_epoch}"
    if group.members and group.topology is None:
        yield "it has members and no topology"
    strangers = group.target.keys() - group.members.keys()
    if strangers:
        yield f"{sorted(strangers)} are to have tasks and are no members"
    for member in members:
        if member.member_epoch > group.assignment_epoch:
            yield f"{member.member_id} is in epoch {member.member_epoch}, ahead of the assignment"
        is_slow = member.state is StreamsMemberState.UNREVOKED_TASKS
        pending = member.pending_revocation
        if is_slow != any((pending.active, pending.standby, pending.warmup)):
            yield f"{member.member_id} is {member.state.name} and has {pending} to give back"
    yield from _tasks(group)


def _tasks(group: StreamsGroup) -> Violations:
    """A task runs in one place, and is to run in one."""
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
    for what, counted in (("has", has), ("is to have", wanted)):
        for (part, number), count in counted.items():
            if count > 1:
                yield f"more than one member {what} the task {part}_{number}"
