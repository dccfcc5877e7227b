"""Rules of a share group: errors of requests, invariants.

Source: `ShareGroup.validateOffsetCommit`, `.validateOffsetDelete` in Kafka; KIP-932. A share group
has no committed offsets. Commits and offset deletions fail: 69 GROUP_ID_NOT_FOUND.
"""

from collections import Counter

from brokertwin.protocol.errors import Error
from brokertwin.state.core.check import Violations
from brokertwin.state.core.group_records import GroupRecord
from brokertwin.state.groups import groups
from brokertwin.state.groups import share_group_records as rows
from brokertwin.state.groups.group_kind import ModernKind, OffsetCommitCheck, check_epochs
from brokertwin.state.groups.share_group import SHARE, ShareGroup
from brokertwin.state.groups.share_group_coordinator import ShareGroupCoordinator


class ShareKind(ModernKind[ShareGroup]):
    """Share groups; they have no offsets and do not expire."""

    name = SHARE
    coordinator = ShareGroupCoordinator
    may_expire = False
    member_tombstones = staticmethod(rows.member_tombstones)

    def commit_error(self, group: ShareGroup, commit: OffsetCommitCheck) -> Error:
        """Return 69 GROUP_ID_NOT_FOUND."""
        return Error.GROUP_ID_NOT_FOUND

    def fetch_error(self, group: ShareGroup, member_id: str | None, member_epoch: int) -> Error:
        """Return NONE: the response has no offsets."""
        return Error.NONE

    def delete_offsets_error(self, group: ShareGroup) -> Error:
        """Return 69 GROUP_ID_NOT_FOUND."""
        return Error.GROUP_ID_NOT_FOUND

    def subscribed_topics(self, group: ShareGroup) -> set[str]:
        return set(group.subscribers)

    def kept_since(self, group: ShareGroup, commit_timestamp: int) -> None:
        """Return None: share groups do not expire."""
        return

    def tombstones(self, group: ShareGroup) -> list[GroupRecord]:
        """Return the records that delete a group without members."""
        return rows.group_tombstones(group.group_id)

    def check(self, group: ShareGroup, running: set[str]) -> Violations:
        """Yield violated invariants; `running` are the group's timers."""
        required = {groups.session(each) for each in group.members}
        if required != running:
            yield f"has timers {sorted(running)}, needs {sorted(required)}"
        yield from check_epochs(group)
        names = (name for each in group.members.values() for name in each.subscribed_topic_names)
        counted = dict(Counter(names))
        if counted != group.subscribers:
            yield f"counts of topics are {group.subscribers}, should be {counted}"
        for member in group.members.values():
            for topic_id, partitions in member.assigned.items():
                ready = group.initialized.get(topic_id)
                if ready is not None and not set(partitions) <= set(ready.partitions):
                    has = f"{member.member_id} has uninitialized partitions"
                    yield f"{has} {partitions} of {topic_id}"
