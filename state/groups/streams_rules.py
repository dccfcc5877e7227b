"""Rules of a streams group: errors of requests, timers, invariants.

Source: `StreamsGroup.validateOffsetCommit`, `.createAssignmentEpochValidator`,
`.validateOffsetFetch`, `.isSubscribedToTopic` in Kafka; KIP-1071.
"""

from collections import Counter

from brokertwin.protocol.errors import Error
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.check import Violations
from brokertwin.state.core.decision import Decision
from brokertwin.state.core.group_records import GroupRecord
from brokertwin.state.groups import groups
from brokertwin.state.groups import streams_group_records as rows
from brokertwin.state.groups.consumer_rules import EPOCHS_SINCE
from brokertwin.state.groups.group_kind import ModernKind, OffsetCommitCheck, check_epochs
from brokertwin.state.groups.streams_coordinator import StreamsGroupCoordinator
from brokertwin.state.groups.streams_group import (
    STREAMS,
    StreamsGroup,
    StreamsMember,
    StreamsMemberState,
)


class StreamsKind(ModernKind[StreamsGroup]):
    name = STREAMS
    coordinator = StreamsGroupCoordinator
    member_tombstones = staticmethod(rows.member_tombstones)

    def commit_error(self, group: StreamsGroup, commit: OffsetCommitCheck) -> Error:
        """Return the error of an offset commit.

        25 UNKNOWN_MEMBER_ID, 35 UNSUPPORTED_VERSION, 113 STALE_MEMBER_EPOCH (22 ILLEGAL_GENERATION
        in a transaction before version 6), or NONE. An older epoch is valid if the tasks were
        already assigned to the member in that epoch, because the member may not know its new epoch
        yet.
        """
        if commit.generation < 0 and not group.members:
            return Error.NONE
        sender = (commit.generation, commit.member_id, commit.group_instance_id)
        is_anonymous = sender == (-1, "", None)
        if commit.is_transactional and is_anonymous:
            return Error.NONE
        member = group.members.get(commit.member_id)
        if member is None:
            return Error.UNKNOWN_MEMBER_ID
        if not commit.is_transactional and commit.version < EPOCHS_SINCE:
            return Error.UNSUPPORTED_VERSION
        if commit.generation == member.member_epoch or _is_in_time(group, member, commit):
            return Error.NONE
        return Error.ILLEGAL_GENERATION if commit.has_generation else Error.STALE_MEMBER_EPOCH

    def subscribed_topics(self, group: StreamsGroup) -> set[str]:
        return set(group.source_topics()) if group.members else set()

    def tombstones(self, group: StreamsGroup) -> list[GroupRecord]:
        """Return the records that delete a group without members."""
        return rows.group_tombstones(group.group_id)

    def fire(self, broker: Broker, group_id: str, timer: str) -> Decision:
        """Assign after the initial delay, or fence a member."""
        if timer != groups.INITIAL:
            return super().fire(broker, group_id, timer)
        group = groups.find(broker, group_id)
        assert isinstance(group, StreamsGroup), group_id
        coordinator = StreamsGroupCoordinator(broker, group)
        coordinator.assign_after_initial_delay()
        return Decision(records=coordinator.records)

    def check(self, group: StreamsGroup, running: set[str]) -> Violations:
        """Yield violated invariants; `running` are the group's timers."""
        members = group.members.values()
        revoking = [each for each in members if each.state is StreamsMemberState.UNREVOKED_TASKS]
        required = {groups.session(each) for each in group.members}
        required |= {groups.rebalance(each.member_id) for each in revoking}
        if running - {groups.INITIAL} != required:
            yield f"has timers {sorted(running)}, needs {sorted(required)}"
        yield from check_epochs(group)
        if group.members and group.topology is None:
            yield "has members but no topology"
        for member in members:
            is_revoking = member.state is StreamsMemberState.UNREVOKED_TASKS
            pending = member.pending_revocation
            if is_revoking != any((pending.active, pending.standby, pending.warmup)):
                yield f"{member.member_id} is {member.state.name} but must revoke {pending}"
        yield from _tasks(group)


def _is_in_time(group: StreamsGroup, member: StreamsMember, commit: OffsetCommitCheck) -> bool:
    """True if the member had all tasks of the partitions in that epoch."""
    sources = group.source_topics()
    assigned, pending = member.assigned.active, member.pending_revocation.active
    for topic, _, partition in commit.places:
        part = sources.get(topic, "")
        epochs = {**pending.get(part, {}), **assigned.get(part, {})}
        if topic not in sources or commit.generation < epochs.get(partition, commit.generation + 1):
            return False
    return commit.generation < member.member_epoch


# Invariants


def _tasks(group: StreamsGroup) -> Violations:
    """Check that each active task has one owner and one target."""
    has = Counter(
        (part, number)
        for member in group.members.values()
        for tasks in (member.assigned, member.pending_revocation)
        for part, numbers in tasks.active.items()
        for number in numbers
    )
    required = Counter(
        (part, number)
        for tasks in group.target.values()
        for part, numbers in tasks.active.items()
        for number in numbers
    )
    for what, counted in (("owned", has), ("assigned", required)):
        for (part, number), count in counted.items():
            if count > 1:
                yield f"task {part}_{number} is {what} more than once"
