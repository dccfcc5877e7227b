"""Rules of a consumer group: errors of requests, invariants.

Source: `ConsumerGroup.validateOffsetCommit`, `.validateOffsetFetch`,
`.isSubscribedToTopic`, `GroupMetadataManager.classicGroupLeaveToConsumerGroup` in Kafka; KIP-848,
KIP-1251 (commits in the epoch of an assignment).
"""

from collections import Counter

from brokertwin.protocol.errors import Error
from brokertwin.state.core.check import Violations
from brokertwin.state.core.group_records import GroupRecord
from brokertwin.state.groups import consumer_group, groups
from brokertwin.state.groups import consumer_group_records as rows
from brokertwin.state.groups.consumer_coordinator import ConsumerGroupCoordinator
from brokertwin.state.groups.consumer_group import ConsumerGroup, ConsumerMember
from brokertwin.state.groups.group_kind import ModernKind, OffsetCommitCheck, check_epochs

EPOCHS_SINCE = 9
"""First version of OffsetCommit with member epochs."""


class ConsumerKind(ModernKind[ConsumerGroup]):
    name = "consumer"
    coordinator = ConsumerGroupCoordinator
    member_tombstones = staticmethod(rows.member_tombstones)

    def commit_error(self, group: ConsumerGroup, commit: OffsetCommitCheck) -> Error:
        """Return the error of an offset commit.

        25 UNKNOWN_MEMBER_ID, 35 UNSUPPORTED_VERSION, 113 STALE_MEMBER_EPOCH, or NONE. Transactions
        before version 6 and classic members: 22 ILLEGAL_GENERATION instead of 113
        STALE_MEMBER_EPOCH. An older epoch is valid if the partitions were already assigned to the
        member in that epoch, because the member may not know its new epoch yet (KIP-1251).
        """
        if commit.generation < 0 and not group.members:
            return Error.NONE
        is_named = (
            commit.generation >= 0 or commit.member_id or commit.group_instance_id is not None
        )
        if commit.is_transactional and not is_named:
            return Error.NONE
        member = group.members.get(commit.member_id)
        if member is None:
            return Error.UNKNOWN_MEMBER_ID
        is_classic = member.uses_classic_protocol
        if not (commit.is_transactional or is_classic) and commit.version < EPOCHS_SINCE:
            return Error.UNSUPPORTED_VERSION
        if commit.generation == member.member_epoch or _is_in_time(member, commit):
            return Error.NONE
        has_generation = commit.has_generation or is_classic
        return Error.ILLEGAL_GENERATION if has_generation else Error.STALE_MEMBER_EPOCH

    def fetch_error(self, group: ConsumerGroup, member_id: str | None, member_epoch: int) -> Error:
        """Return the error of an offset fetch; classic members: 22 ILLEGAL_GENERATION if stale."""
        error = super().fetch_error(group, member_id, member_epoch)
        if member_id is None or error is not Error.STALE_MEMBER_EPOCH:
            return error
        is_classic = group.members[member_id].uses_classic_protocol
        return Error.ILLEGAL_GENERATION if is_classic else error

    def subscribed_topics(self, group: ConsumerGroup) -> set[str]:
        return consumer_group.subscriptions_of(group).topics

    def tombstones(self, group: ConsumerGroup) -> list[GroupRecord]:
        return rows.group_tombstones(group.group_id, regexes=group.resolved)

    def check(self, group: ConsumerGroup, running: set[str]) -> Violations:
        """Yield violated invariants; `running` are the group's timers."""
        yield from check_epochs(group)
        yield from _epochs(group)
        yield from _counts(group)
        yield from _partitions(group)
        yield from _targets(group)
        yield from _timers(group, running)


def _is_in_time(member: ConsumerMember, commit: OffsetCommitCheck) -> bool:
    for _, topic_id, partition in commit.places:
        pending = member.pending_revocation.get(topic_id, {})
        since = member.assigned.get(topic_id, {}).get(partition, pending.get(partition))
        if since is None or commit.generation < since:
            return False
    return commit.generation < member.member_epoch


# Invariants


def _timers(group: ConsumerGroup, running: set[str]) -> Violations:
    """Check that all members have the timers they need.

    A classic member that has switched to the new protocol keeps its join and sync timers, as in
    Kafka.
    """
    required = {groups.session(each) for each in group.members}
    revoking = [each for each in _members(group) if each.is_revoking()]
    required |= {groups.rebalance(m.member_id) for m in revoking if not m.uses_classic_protocol}
    others = {timer(each) for each in group.members for timer in (groups.rejoin, groups.resync)}
    others |= {groups.rebalance(each.member_id) for each in revoking}
    if not required <= running <= required | others:
        yield f"has timers {sorted(running)}, needs {sorted(required)}"


def _members(group: ConsumerGroup) -> list[ConsumerMember]:
    return list(group.members.values())


def _epochs(group: ConsumerGroup) -> Violations:
    for member in _members(group):
        for epochs in (*member.assigned.values(), *member.pending_revocation.values()):
            if max(epochs.values()) > group.assignment_epoch:
                yield f"{member.member_id} has partitions of future epoch {max(epochs.values())}"
        if member.pending_revocation and not member.is_revoking():
            yield f"{member.member_id} must revoke partitions but is {member.state.name}"


def _counts(group: ConsumerGroup) -> Violations:
    members = _members(group)
    counted = (
        *(group.subscribers, group.regex_subscribers),
        *(group.assignors, group.static_members),
    )
    classic = (group.classic_members, group.supporters)
    supporters = Counter(n for m in members for n in {each.name for each in m.classic_protocols()})
    if classic != (sum(each.uses_classic_protocol for each in members), dict(supporters)):
        yield f"wrong counts of classic members and protocols: {classic}"
    counts = (
        dict(Counter(name for each in members for name in each.subscribed_topic_names)),
        dict(Counter(m.subscribed_topic_regex for m in members if m.subscribed_topic_regex)),
        dict(Counter(each.server_assignor for each in members if each.server_assignor is not None)),
        {each.instance_id: each.member_id for each in members if each.instance_id is not None},
    )
    if counted != counts:
        yield f"counts of topics, assignors, static members are {counted}, should be {counts}"
    unknown = group.resolved.keys() - group.regex_subscribers.keys()
    if unknown:
        yield f"resolved expressions without members: {sorted(unknown)}"


def _partitions(group: ConsumerGroup) -> Violations:
    """Check that each partition has one owner, in the group's recorded epoch."""
    owners: dict[str, dict[int, int]] = {}
    for member in _members(group):
        for assigned in (member.assigned, member.pending_revocation):
            for topic_id, partitions in assigned.items():
                epochs = owners.setdefault(topic_id, {})
                for partition in partitions:
                    if partition in epochs:
                        yield f"partition {partition} of {topic_id} has two owners"
                    epochs[partition] = member.member_epoch
    if owners != group.partition_epochs:
        yield f"partition epochs are {group.partition_epochs}, should be {owners}"


def _targets(group: ConsumerGroup) -> Violations:
    """Check that targets do not overlap."""
    partitions = Counter(
        (topic_id, partition)
        for target in group.target.values()
        for topic_id, partitions in target.items()
        for partition in partitions
    )
    if any(count > 1 for count in partitions.values()):
        yield f"in several targets: {sorted(p for p in partitions if partitions[p] > 1)}"
