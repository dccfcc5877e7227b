"""The target assignment of a consumer group: what each member is to have, by an assignor.

Source: `TargetAssignmentBuilder`, `GroupSpecImpl`, `ConsumerGroup.subscriptionType`,
`ModernGroup.computeMetadataHash` in Kafka. The assignors are pure functions of a `GroupSpec`.
"""

import hashlib
from collections.abc import Callable, Iterable

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.java_hashes import JavaMap, java_hash
from brokertwin.state.core.schema import Uuid
from brokertwin.state.groups import range_assignor, subscriptions, uniform_assignor
from brokertwin.state.groups.assignments import RANGE, UNIFORM, GroupSpec, Subscriber, Target
from brokertwin.state.groups.consumer_group import ConsumerGroup, ConsumerMember

ASSIGNORS: dict[str, Callable[[GroupSpec], dict[str, Target]]] = {
    UNIFORM: uniform_assignor.assign,
    RANGE: range_assignor.assign,
}
"""Kafka's own assignors by name."""


def offered(broker: Broker) -> list[str]:
    """The assignors that the broker offers, its default first; those of others are left out."""
    names = [each for each in broker.settings.group_consumer_assignors if each in ASSIGNORS]
    return names or [UNIFORM]


def metadata_hash(broker: Broker, topic_names: Iterable[str]) -> int:
    """What changes when one of these topics comes, goes, or has other partitions: an int64.

    Kafka takes XXH3 of the same; 0 stands for no topic at all in both. The racks of a partition's
    replicas count, too, though no assignor of 4.3 looks at them.
    """
    digest = hashlib.sha256()
    topics = [broker.topic_by_name(name) for name in sorted(topic_names)]
    known = [topic for topic in topics if topic is not None]
    racks = {each: broker.rack_of(each) for each in broker.brokers}
    has_racks = any(racks.values())
    for topic in known:
        digest.update(f"{topic.topic_id}/{topic.name}/{len(topic.partitions)}\n".encode())
        for partition in topic.partitions if has_racks else ():
            found = sorted(filter(None, map(racks.get, partition.replicas)))
            digest.update(f"{found}\n".encode())
    return int.from_bytes(digest.digest()[:8], "big", signed=True) if known else 0


def compute(
    broker: Broker,
    group: ConsumerGroup,
    former: ConsumerMember,
    member: ConsumerMember,
    *,
    is_homogeneous: bool,
) -> dict[str, Target]:
    """What each member is to have, by member id.

    Args:
        broker: the coordinator, whose image says which topics there are.
        group: the group as its records know it.
        former: the member as it was before the heartbeat, without topics where it is new.
        member: the member as it is now, also where it is new.
        is_homogeneous: whether all subscribe to the same.
    """
    assign = ASSIGNORS[group.assignor(offered(broker)[0], former, member)]
    replaced = group.static_member(member.instance_id)
    members = _members(group, member, replaced)
    subscribers = {each: _subscriber(broker, group, members[each]) for each in members}
    spec = GroupSpec(
        members=subscribers,
        partition_counts=_partition_counts(broker, subscribers),
        is_homogeneous=is_homogeneous,
        is_assigned={
            (topic_id, partition)
            for target in group.target.values()
            for topic_id, partitions in target.items()
            for partition in partitions
        },
    )
    computed = assign(spec)
    return {each: computed.get(each, {}) for each in subscribers}


def _members(
    group: ConsumerGroup, member: ConsumerMember, replaced: ConsumerMember | None
) -> JavaMap[str, ConsumerMember]:
    """All members in Kafka's order, with the one that asks, without whose place it takes."""
    members: JavaMap[str, ConsumerMember] = JavaMap(java_hash)
    for each in group.in_order():
        members[each.member_id] = each
    members[member.member_id] = member
    if replaced is not None and replaced.member_id != member.member_id:
        members.pop(replaced.member_id)
    return members


def _subscriber(broker: Broker, group: ConsumerGroup, member: ConsumerMember) -> Subscriber:
    has_place = member.instance_id in group.static_members
    target = group.target_of(member) if has_place else group.target.get(member.member_id, {})
    names = subscriptions.topics_of(group, member)
    return Subscriber(member.instance_id, _ids(broker, names), len(names), target)


def topic_ids(broker: Broker, group: ConsumerGroup, member: ConsumerMember) -> list[Uuid]:
    """The ids of the topics that a member subscribes to and that exist."""
    return _ids(broker, subscriptions.topics_of(group, member))


def _ids(broker: Broker, names: list[str]) -> list[Uuid]:
    topics = map(broker.topic_by_name, names)
    return [topic.topic_id for topic in topics if topic is not None]


def _partition_counts(broker: Broker, subscribers: dict[str, Subscriber]) -> dict[Uuid, int]:
    counts: dict[Uuid, int] = {}
    for subscriber in subscribers.values():
        for topic_id in subscriber.topics:
            if topic_id not in counts:
                topic = broker.topic_by_id(topic_id)
                assert topic is not None, topic_id
                counts[topic_id] = len(topic.partitions)
    return counts
