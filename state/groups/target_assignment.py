"""Target assignment of a consumer group by an assignor.

Source: `TargetAssignmentBuilder`, `GroupSpecImpl`, `ConsumerGroup.subscriptionType`,
`ModernGroup.computeMetadataHash` in Kafka. The assignors are pure functions of a `GroupSpec`.
"""

import hashlib
from collections.abc import Callable, Iterable

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.java_hashes import JavaMap, java_hash
from brokertwin.state.groups import consumer_group, range_assignor, uniform_assignor
from brokertwin.state.groups.assignments import RANGE, UNIFORM, GroupSpec, Subscriber, Target
from brokertwin.state.groups.consumer_group import ConsumerGroup, ConsumerMember

ASSIGNORS: dict[str, Callable[[GroupSpec], dict[str, Target]]] = {
    UNIFORM: uniform_assignor.assign,
    RANGE: range_assignor.assign,
}
"""Kafka's assignors by name."""

HASHES_MAX, HASHED_NAMES_MAX = 1_000, 100_000
"""Cached hashes of a broker, and their topic names; a hash with more names is kept alone."""


def offered(broker: Broker) -> list[str]:
    """Return the known assignors of the broker, its default first."""
    names = [each for each in broker.settings.group_consumer_assignors if each in ASSIGNORS]
    return names or [UNIFORM]


def metadata_hash(broker: Broker, topic_names: Iterable[str]) -> int:
    """Return an int64 hash of topics that changes with their partitions.

    Kafka uses XXH3 of the same data, including racks; 0 means no topic in both.
    """
    names = frozenset(topic_names)
    result = broker.hashes.get(names)
    if result is None:
        count = sum(map(len, broker.hashes)) + len(names)
        if len(broker.hashes) >= HASHES_MAX or count > HASHED_NAMES_MAX:
            broker.hashes.clear()
        result = broker.hashes[names] = _hash_of(broker, names)
    return result


def _hash_of(broker: Broker, topic_names: frozenset[str]) -> int:
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
    """Return the targets of all members.

    Args:
        broker: the coordinator with its metadata image.
        group: the group in the state of its records.
        former: the member before the heartbeat; without topics if it is new.
        member: the updated or new member.
        is_homogeneous: whether all subscriptions are equal.
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
    """Return all members in Kafka's order, with the updated one."""
    members: JavaMap[str, ConsumerMember] = JavaMap(java_hash)
    for each in group.in_order():
        members[each.member_id] = each
    members[member.member_id] = member
    if replaced is not None and replaced.member_id != member.member_id:
        members.pop(replaced.member_id)
    return members


def _subscriber(broker: Broker, group: ConsumerGroup, member: ConsumerMember) -> Subscriber:
    is_known_instance = member.instance_id in group.static_members
    target = (
        group.target_of(member) if is_known_instance else group.target.get(member.member_id, {})
    )
    names = consumer_group.topics_of(group, member)
    return Subscriber(member.instance_id, _ids(broker, names), len(names), target)


def topic_ids(broker: Broker, group: ConsumerGroup, member: ConsumerMember) -> list[Uuid]:
    """Return the ids of a member's existing subscribed topics."""
    return _ids(broker, consumer_group.topics_of(group, member))


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
