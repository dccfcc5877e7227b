"""What must hold of a share group: epochs, assignments, counts and timers agree."""

from collections import Counter

from brokertwin.state.core.check import Violations
from brokertwin.state.groups import groups
from brokertwin.state.groups.share_group import ShareGroup


def check(group: ShareGroup, running: set[str]) -> Violations:
    """What does not hold; `running` are the group's timers."""
    wanted = {groups.session(each) for each in group.members}
    if wanted != running:
        yield f"its timers are {sorted(running)}, its members need {sorted(wanted)}"
    if group.assignment_epoch > group.group_epoch:
        yield f"the assignment is in epoch {group.assignment_epoch}, the group {group.group_epoch}"
    strangers = group.target.keys() - group.members.keys()
    if strangers:
        yield f"{sorted(strangers)} are to have partitions and are no members"
    names = (name for each in group.members.values() for name in each.subscribed_topic_names)
    counted = dict(Counter(names))
    if counted != group.subscribers:
        yield f"topics are counted as {group.subscribers}, members name {counted}"
    for member in group.members.values():
        if member.member_epoch > group.assignment_epoch:
            yield f"{member.member_id} is in epoch {member.member_epoch}, ahead of the assignment"
        for topic_id, partitions in member.assigned.items():
            ready = group.initialized.get(topic_id)
            if ready is not None and not set(partitions) <= set(ready.partitions):
                yield f"{member.member_id} has {partitions} of {topic_id}, which are not ready"
