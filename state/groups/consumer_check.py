"""What must hold of a consumer group: epochs, assignments, counts and timers agree."""

from collections import Counter

from brokertwin.state.core.check import Violations
from brokertwin.state.groups import groups
from brokertwin.state.groups.consumer_group import ConsumerGroup, ConsumerMember


def check(group: ConsumerGroup, running: set[str]) -> Violations:
    """What does not hold; `running` are the group's timers."""
    yield from _epochs(group)
    yield from _counts(group)
    yield from _partitions(group)
    yield from _targets(group)
    yield from _timers(group, running)


def _timers(group: ConsumerGroup, running: set[str]) -> Violations:
    """Each member's silence is noticed, and who is to do something has only so long for it.

    A member of the classic protocol that has gone over to the other keeps those times (Kafka).
    """
    wanted = {groups.session(each) for each in group.members}
    revoking = [each for each in _members(group) if each.is_revoking()]
    wanted |= {groups.rebalance(m.member_id) for m in revoking if not m.uses_classic_protocol}
    others = {timer(each) for each in group.members for timer in (groups.rejoin, groups.resync)}
    others |= {groups.rebalance(each.member_id) for each in revoking}
    if not wanted <= running <= wanted | others:
        yield f"its timers are {sorted(running)}, its members need {sorted(wanted)}"


def _members(group: ConsumerGroup) -> list[ConsumerMember]:
    return list(group.members.values())


def _epochs(group: ConsumerGroup) -> Violations:
    """Nobody is ahead of the assignment, and the assignment not ahead of the group."""
    if group.assignment_epoch > group.group_epoch:
        yield f"the assignment is in epoch {group.assignment_epoch}, the group {group.group_epoch}"
    for member in _members(group):
        if member.member_epoch > group.assignment_epoch:
            yield f"{member.member_id} is in epoch {member.member_epoch}, ahead of the assignment"
        for epochs in (*member.assigned.values(), *member.pending_revocation.values()):
            if max(epochs.values()) > group.assignment_epoch:
                yield f"{member.member_id} got partitions in epoch {max(epochs.values())}"
        if member.pending_revocation and not member.is_revoking():
            yield f"{member.member_id} has partitions to give back and is {member.state.name}"


def _counts(group: ConsumerGroup) -> Violations:
    members = _members(group)
    counted = (
        *(group.subscribers, group.regex_subscribers),
        *(group.assignors, group.static_members),
    )
    classic = (group.classic_members, group.supporters)
    supporters = Counter(n for m in members for n in {name for name, _ in m.classic_protocols()})
    if classic != (sum(each.uses_classic_protocol for each in members), dict(supporters)):
        yield f"classic members and their protocols are counted as {classic}"
    found = (
        dict(Counter(name for each in members for name in each.subscribed_topic_names)),
        dict(Counter(m.subscribed_topic_regex for m in members if m.subscribed_topic_regex)),
        dict(Counter(each.server_assignor for each in members if each.server_assignor is not None)),
        {each.instance_id: each.member_id for each in members if each.instance_id is not None},
    )
    if counted != found:
        yield f"topics, assignors and static members are counted as {counted}, there are {found}"
    strangers = group.resolved.keys() - group.regex_subscribers.keys()
    if strangers:
        yield f"{sorted(strangers)} are resolved and nobody has them"


def _partitions(group: ConsumerGroup) -> Violations:
    """A partition has one owner, and the group knows its epoch."""
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
        yield f"partitions are in the epochs {group.partition_epochs}, their owners in {owners}"


def _targets(group: ConsumerGroup) -> Violations:
    """Only members are to have partitions, and each of them one member."""
    strangers = group.target.keys() - group.members.keys()
    if strangers:
        yield f"{sorted(strangers)} are to have partitions and are no members"
    places = Counter(
        (topic_id, partition)
        for target in group.target.values()
        for topic_id, partitions in target.items()
        for partition in partitions
    )
    if any(count > 1 for count in places.values()):
        yield f"more than one is to have {sorted(p for p in places if places[p] > 1)}"
