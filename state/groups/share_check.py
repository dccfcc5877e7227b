"""Invariants of a share group: epochs, assignments, counts, timers."""

from collections import Counter

from brokertwin.state.core.check import Violations
from brokertwin.state.groups import groups
from brokertwin.state.groups.share_group import ShareGroup


def check(group: ShareGroup, running: set[str]) -> Violations:
    """Yield violated invariants; `running` are the group's timers."""
    wanted = {groups.session(each) for each in group.members}
    if wanted != running:
        yield f"has timers {sorted(running)}, needs {sorted(wanted)}"
    if group.assignment_epoch > group.group_epoch:
        yield f"assignment epoch {group.assignment_epoch} is above group epoch {group.group_epoch}"
    unknown = group.target.keys() - group.members.keys()
    if unknown:
        yield f"targets of unknown members: {sorted(unknown)}"
    names = (name for each in group.members.values() for name in each.subscribed_topic_names)
    counted = dict(Counter(names))
    if counted != group.subscribers:
        yield f"counts of topics are {group.subscribers}, should be {counted}"
    for member in group.members.values():
        if member.member_epoch > group.assignment_epoch:
            yield f"{member.member_id} has epoch {member.member_epoch}, above the assignment epoch"
        for topic_id, partitions in member.assigned.items():
            ready = group.initialized.get(topic_id)
            if ready is not None and not set(partitions) <= set(ready.partitions):
                yield f"{member.member_id} has uninitialized partitions {partitions} of {topic_id}"
