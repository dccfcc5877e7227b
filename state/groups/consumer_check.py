"""Invariants of a consumer group: epochs, assignments, counts, timers."""

from collections import Counter

from brokertwin.state.core.check import Violations
from brokertwin.state.groups import groups
from brokertwin.state.groups.consumer_group import ConsumerGroup, ConsumerMember


def check(group: ConsumerGroup, running: set[str]) -> Violations:
    """Yield violated invariants; `running` are the group's timers."""
    yield from _epochs(group)
    yield from _counts(group)
    yield from _partitions(group)
    yield from _targets(group)
    yield from _timers(group, running)


def _timers(group: ConsumerGroup, running: set[str]) -> Violations:
    """Check that all members have the timers they need.

    A classic member that has switched to the new protocol keeps its join and sync timers, as in
    Kafka.
    """
    wanted = {groups.session(each) for each in group.members}
    revoking = [each for each in _members(group) if each.is_revoking()]
    wanted |= {groups.rebalance(m.member_id) for m in revoking if not m.uses_classic_protocol}
    others = {timer(each) for each in group.members for timer in (groups.rejoin, groups.resync)}
    others |= {groups.rebalance(each.member_id) for each in revoking}
    if not wanted <= running <= wanted | others:
        yield f"has timers {sorted(running)}, needs {sorted(wanted)}"


def _members(group: ConsumerGroup) -> list[ConsumerMember]:
    return list(group.members.values())


def _epochs(group: ConsumerGroup) -> Violations:
    """Check: member epochs <= assignment epoch <= group epoch."""
    if group.assignment_epoch > group.group_epoch:
        yield f"assignment epoch {group.assignment_epoch} is above group epoch {group.group_epoch}"
    for member in _members(group):
        if member.member_epoch > group.assignment_epoch:
            yield f"{member.member_id} has epoch {member.member_epoch}, above the assignment epoch"
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
    supporters = Counter(n for m in members for n in {name for name, _ in m.classic_protocols()})
    if classic != (sum(each.uses_classic_protocol for each in members), dict(supporters)):
        yield f"wrong counts of classic members and protocols: {classic}"
    found = (
        dict(Counter(name for each in members for name in each.subscribed_topic_names)),
        dict(Counter(m.subscribed_topic_regex for m in members if m.subscribed_topic_regex)),
        dict(Counter(each.server_assignor for each in members if each.server_assignor is not None)),
        {each.instance_id: each.member_id for each in members if each.instance_id is not None},
    )
    if counted != found:
        yield f"counts of topics, assignors, static members are {counted}, should be {found}"
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
    """Check that targets belong to members and do not overlap."""
    unknown = group.target.keys() - group.members.keys()
    if unknown:
        yield f"targets of unknown members: {sorted(unknown)}"
    partitions = Counter(
        (topic_id, partition)
        for target in group.target.values()
        for topic_id, partitions in target.items()
        for partition in partitions
    )
    if any(count > 1 for count in partitions.values()):
        yield f"in several targets: {sorted(p for p in partitions if partitions[p] > 1)}"
