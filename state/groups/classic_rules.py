"""Rules of a classic group: errors of requests, expiry, invariants.

Source: `ClassicGroup.validateOffsetCommit`, `.validateOffsetDelete`, `.validateDeleteGroup`,
`.isSubscribedToTopic`, `.offsetExpirationCondition` in Kafka.
"""

from collections import Counter

import msgspec

from brokertwin.protocol.errors import NONE, Error
from brokertwin.protocol.generated.group_rows import GroupMetadataKey
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster import coordinators
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.check import Violations
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.group_records import GroupRecord
from brokertwin.state.groups import groups
from brokertwin.state.groups.classic_coordinator import ClassicGroupCoordinator
from brokertwin.state.groups.classic_group import CONSUMER, NO_TIME, ClassicGroup, ClassicGroupState
from brokertwin.state.groups.group_kind import GroupKind, OffsetCommitCheck


def access_error(
    broker: Broker, request: Request, group_id: str, operation: Operation = Operation.READ
) -> Error:
    """Return the error of a request before its group is read.

    30 GROUP_AUTHORIZATION_FAILED, 24 INVALID_GROUP_ID, 16 NOT_COORDINATOR, 14
    COORDINATOR_LOAD_IN_PROGRESS, or NONE.
    """
    if broker.has_authorizer and not broker.allows(
        request, operation, ResourceType.GROUP, group_id
    ):
        return Error.GROUP_AUTHORIZATION_FAILED
    if not group_id:
        return Error.INVALID_GROUP_ID
    return coordinators.group_error(broker, group_id)


class ClassicKind(GroupKind[ClassicGroup]):
    """Classic groups; any client may fetch their offsets."""

    name = "classic"

    def fire(self, broker: Broker, group_id: str, timer: str) -> Decision:
        coordinator = ClassicGroupCoordinator(broker, group_id)
        assert not coordinator.is_new, f"timer of an unknown group: {group_id} {timer}"
        return coordinator.fire(timer)

    def expire(self, broker: Broker, group_id: str, member_ids: list[str]) -> Decision:
        coordinator = ClassicGroupCoordinator(broker, group_id)
        for member_id in member_ids:
            coordinator.session_expired(member_id)
        return coordinator.result()

    def load(self, broker: Broker, group_id: str) -> None:
        """Take over a group from its records; session timeouts start now."""
        ClassicGroupCoordinator(broker, group_id)

    def commit_error(self, group: ClassicGroup, commit: OffsetCommitCheck) -> Error:
        """Return the error of an offset commit.

        82 FENCED_INSTANCE_ID, 25 UNKNOWN_MEMBER_ID, 22 ILLEGAL_GENERATION, 27
        REBALANCE_IN_PROGRESS, or NONE.
        """
        is_empty = group.state is ClassicGroupState.EMPTY
        if commit.generation < 0 and is_empty:
            return NONE
        if commit.generation >= 0 or commit.member_id or commit.group_instance_id is not None:
            error = group.member_error(commit.member_id, commit.group_instance_id)
            if error is not NONE:
                return error
            if commit.generation != group.generation_id:
                return Error.ILLEGAL_GENERATION
        elif not commit.is_transactional and not is_empty:
            return Error.UNKNOWN_MEMBER_ID
        if not commit.is_transactional and group.state is ClassicGroupState.COMPLETING_REBALANCE:
            return Error.REBALANCE_IN_PROGRESS
        return NONE

    def delete_error(self, group: ClassicGroup) -> Error:
        """Return 68 NON_EMPTY_GROUP or NONE."""
        return NONE if group.state is ClassicGroupState.EMPTY else Error.NON_EMPTY_GROUP

    def delete_offsets_error(self, group: ClassicGroup) -> Error:
        """Return 68 NON_EMPTY_GROUP if members are not consumers, else NONE."""
        is_open = group.state is ClassicGroupState.EMPTY or group.protocol_type == CONSUMER
        return NONE if is_open else Error.NON_EMPTY_GROUP

    def subscribed_topics(self, group: ClassicGroup) -> set[str] | None:
        """Return the topics that members may consume; None for any topic."""
        if group.protocol_type != CONSUMER:
            return set()
        subscribed = (
            group.subscriptions() if group.subscribed is msgspec.UNSET else group.subscribed
        )
        return None if subscribed is None else set(subscribed)

    def kept_since(self, group: ClassicGroup, commit_timestamp: int) -> int | None:
        """Return the start of an offset's retention; None if it does not expire.

        Without members, it is the time when the last member left.
        """
        if group.protocol_type is None:
            return commit_timestamp
        if group.state is ClassicGroupState.EMPTY:
            is_timed = group.state_timestamp != NO_TIME
            return group.state_timestamp if is_timed else commit_timestamp
        is_read = group.protocol_type == CONSUMER and group.state is ClassicGroupState.STABLE
        return commit_timestamp if is_read else None

    def tombstones(self, group: ClassicGroup) -> list[GroupRecord]:
        return [GroupRecord(GroupMetadataKey(group.group_id))]

    def check(self, group: ClassicGroup, running: set[str]) -> Violations:
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
