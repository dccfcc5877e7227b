"""Rules of a share group: errors of requests, timers, invariants.

Source: `ShareGroup.validateOffsetCommit`, `.validateOffsetDelete`, `.validateDeleteGroup` in Kafka;
KIP-932. A share group has no committed offsets. Commits and offset deletions fail: 69
GROUP_ID_NOT_FOUND.
"""

from collections import Counter

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.check import Violations
from brokertwin.state.core.decision import Decision, Resumed
from brokertwin.state.core.errors import Error
from brokertwin.state.groups import groups
from brokertwin.state.groups.group_rules import OffsetCommitCheck
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.groups.share_group_coordinator import ShareGroupCoordinator


def commit_error(_group: ShareGroup, _commit: OffsetCommitCheck) -> Error:
    """Return 69 GROUP_ID_NOT_FOUND."""
    return Error.GROUP_ID_NOT_FOUND


def fetch_error(_group: ShareGroup, _member_id: str | None, _member_epoch: int) -> Error:
    """Return NONE: the response has no offsets."""
    return Error.NONE


def delete_error(group: ShareGroup) -> Error:
    """Return 68 NON_EMPTY_GROUP or NONE."""
    return Error.NON_EMPTY_GROUP if group.members else Error.NONE


def delete_offsets_error(_group: ShareGroup) -> Error:
    """Return 69 GROUP_ID_NOT_FOUND."""
    return Error.GROUP_ID_NOT_FOUND


def subscribed_topics(group: ShareGroup) -> set[str]:
    """Return the topics that members may consume."""
    return set(group.subscribers)


def kept_since(_group: ShareGroup, _commit_timestamp: int) -> None:
    """Return None: share groups do not expire."""
    return


def fire(broker: Broker, group_id: str, timer: str) -> Decision:
    """Fence a member whose session has expired."""
    return expire(broker, group_id, [groups.timer_member(timer)])


def expire(broker: Broker, group_id: str, member_ids: list[str]) -> Decision:
    """Fence members as if their sessions had expired."""
    coordinator = _coordinator(broker, group_id)
    members = coordinator.group.members
    coordinator.fence([members[each] for each in member_ids if each in members])
    return Decision(records=coordinator.records)


def load(broker: Broker, group_id: str) -> None:
    """Take over a group from its records; session timeouts start now."""
    _coordinator(broker, group_id).load()


def unload(broker: Broker, group_id: str) -> list[Resumed]:
    """Give up a group. It has no pending requests."""
    groups.stop_timers(broker.tables, broker.id, group_id)
    return []


def _coordinator(broker: Broker, group_id: str) -> ShareGroupCoordinator:
    group = groups.find(broker, group_id)
    assert isinstance(group, ShareGroup), group_id
    return ShareGroupCoordinator(broker, group)


# Invariants


def check(group: ShareGroup, running: set[str]) -> Violations:
    """Yield violated invariants; `running` are the group's timers."""
    required = {groups.session(each) for each in group.members}
    if required != running:
        yield f"has timers {sorted(running)}, needs {sorted(required)}"
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
