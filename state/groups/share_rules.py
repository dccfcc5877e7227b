"""Rules of a share group: errors of requests, invariants.

Source: `ShareGroup.validateOffsetCommit`, `.validateOffsetDelete` in Kafka; KIP-932. A share group
has no committed offsets. Commits and offset deletions fail: 69 GROUP_ID_NOT_FOUND.
"""

from collections import Counter

from brokertwin.protocol.errors import Error
from brokertwin.state.core.check import Violations
from brokertwin.state.groups import groups, modern_rules
from brokertwin.state.groups.group_rules import OffsetCommitCheck
from brokertwin.state.groups.share_group import ShareGroup


def commit_error(_group: ShareGroup, _commit: OffsetCommitCheck) -> Error:
    """Return 69 GROUP_ID_NOT_FOUND."""
    return Error.GROUP_ID_NOT_FOUND


def fetch_error(_group: ShareGroup, _member_id: str | None, _member_epoch: int) -> Error:
    """Return NONE: the response has no offsets."""
    return Error.NONE


def delete_offsets_error(_group: ShareGroup) -> Error:
    """Return 69 GROUP_ID_NOT_FOUND."""
    return Error.GROUP_ID_NOT_FOUND


def subscribed_topics(group: ShareGroup) -> set[str]:
    """Return the topics that members may consume."""
    return set(group.subscribers)


def kept_since(_group: ShareGroup, _commit_timestamp: int) -> None:
    """Return None: share groups do not expire."""
    return


# Invariants


def check(group: ShareGroup, running: set[str]) -> Violations:
    """Yield violated invariants; `running` are the group's timers."""
    required = {groups.session(each) for each in group.members}
    if required != running:
        yield f"has timers {sorted(running)}, needs {sorted(required)}"
    yield from modern_rules.check_epochs(group)
    names = (name for each in group.members.values() for name in each.subscribed_topic_names)
    counted = dict(Counter(names))
    if counted != group.subscribers:
        yield f"counts of topics are {group.subscribers}, should be {counted}"
    for member in group.members.values():
        for topic_id, partitions in member.assigned.items():
            ready = group.initialized.get(topic_id)
            if ready is not None and not set(partitions) <= set(ready.partitions):
                yield f"{member.member_id} has uninitialized partitions {partitions} of {topic_id}"
