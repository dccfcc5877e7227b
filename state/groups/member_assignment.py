"""How a member of a consumer group comes from what it has to what it is to have.

Source: `CurrentAssignmentBuilder` in Kafka; KIP-848. A partition changes hands in two steps, which
only heartbeats bring about: who is to give it back is told so and stays in its epoch until it no
longer names the partition among those that it owns; only then somebody else may get it.

    STABLE                  in the epoch of the assignment there is nothing to do
    UNREVOKED_PARTITIONS    waits until the member has told that it has given them back
    UNRELEASED_PARTITIONS   looks again whether others have given back what it is to get

`next_step` decides, `owned` is what the member says it owns, None where it says nothing.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from brokertwin.state.core.java_hashes import JavaMap, own_hash, uuid_hash
from brokertwin.state.core.schema import Uuid
from brokertwin.state.groups.assignments import Assigned, Target, in_hash_order
from brokertwin.state.groups.consumer_group import ConsumerMember, MemberState

Owned = dict[Uuid, list[int]]
"""What a member says it owns."""


class Way(NamedTuple):
    """What a member is under way to.

    Attributes:
        epoch: that of the target assignment.
        target: what the member is to have.
        topic_ids: the topics that it subscribes to.
        has_subscription_changed: whether it says so in this heartbeat.
        owned: what it says it owns.
        has_owner: whether anybody has a partition.
    """

    epoch: int
    target: Target
    topic_ids: set[Uuid]
    has_subscription_changed: bool
    owned: Owned | None
    has_owner: Callable[[Uuid, int], bool]


def next_step(member: ConsumerMember, way: Way) -> ConsumerMember:
    """The member after a heartbeat; the same one where it has to wait, or is there."""
    if member.state is MemberState.STABLE and member.member_epoch == way.epoch:
        return _without_others(member, way) if way.has_subscription_changed else member
    is_waiting = member.state is MemberState.UNREVOKED_PARTITIONS
    if is_waiting and _owns(way.owned, member.pending_revocation):
        return _without_others(member, way) if way.has_subscription_changed else member
    return _towards(member, way)


def _owns(owned: Owned | None, revoked: Assigned) -> bool:
    """Whether a member still has some of what it is to give back; it has while it says nothing."""
    if owned is None:
        return True
    return any(
        partition in revoked.get(topic_id, {})
        for topic_id, partitions in owned.items()
        for partition in partitions
    )


def _without_others(member: ConsumerMember, way: Way) -> ConsumerMember:
    """Takes away the topics to which the member subscribes no more."""
    kept = {t: epochs for t, epochs in member.assigned.items() if t in way.topic_ids}
    if len(kept) == len(member.assigned):
        return member
    revoked = dict(member.pending_revocation)
    for topic_id, epochs in member.assigned.items():
        if topic_id not in kept:
            revoked[topic_id] = {**revoked.get(topic_id, {}), **epochs}
    member = msgspec.structs.replace(member.in_epoch(member.member_epoch), assigned=kept)
    if not _owns(way.owned, revoked):
        return member
    state = MemberState.UNREVOKED_PARTITIONS
    return msgspec.structs.replace(member, state=state, pending_revocation=revoked)


def _towards(member: ConsumerMember, way: Way) -> ConsumerMember:
    """Keep what is in the target, revoke what is not, add what is free.

    Topics and partitions come in the order of Kafka's maps, because the response shows it.
    """
    kept: JavaMap[Uuid, JavaMap[int, int]] = JavaMap(uuid_hash)
    revoked: Assigned = {}
    gained: JavaMap[Uuid, list[int]] = JavaMap(uuid_hash)
    is_unreleased = False
    topic_ids = JavaMap.holding(uuid_hash, way.target)
    stored = in_hash_order(member.assigned)
    for topic_id in stored:
        topic_ids[topic_id] = []
    for topic_id in topic_ids:
        target = way.target.get(topic_id, []) if topic_id in way.topic_ids else []
        had, mine = member.assigned.get(topic_id, {}), member.pending_revocation.get(topic_id, {})
        remaining = JavaMap.copying(own_hash, {p: had[p] for p in stored.get(topic_id, [])})
        _put(revoked, topic_id, {p: epoch for p, epoch in had.items() if p not in target})
        for partition in had:
            if partition not in target:
                remaining.pop(partition)
        wanted = [p for p in JavaMap.holding(own_hash, dict.fromkeys(target)) if p not in had]
        free = [p for p in wanted if p in mine or not way.has_owner(topic_id, p)]
        is_unreleased = is_unreleased or len(free) < len(wanted)
        if len(remaining):
            kept[topic_id] = remaining
        if free:
            gained[topic_id] = free
    if revoked and _owns(way.owned, revoked):
        return msgspec.structs.replace(
            member.in_epoch(member.member_epoch),
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=_in_order(kept),
            pending_revocation=revoked,
        )
    for topic_id in gained:
        partitions = kept.compute_if_absent(topic_id, JavaMap(own_hash))
        for partition in gained[topic_id]:
            partitions[partition] = way.epoch
    return msgspec.structs.replace(
        member.in_epoch(way.epoch),
        state=MemberState.UNRELEASED_PARTITIONS if is_unreleased else MemberState.STABLE,
        assigned=_in_order(kept),
        pending_revocation={},
    )


def _in_order(assigned: JavaMap[Uuid, JavaMap[int, int]]) -> Assigned:
    return {
        topic_id: {partition: assigned[topic_id][partition] for partition in assigned[topic_id]}
        for topic_id in assigned
    }


def _put(assigned: Assigned, topic_id: Uuid, epochs: dict[int, int]) -> None:
    if epochs:
        assigned[topic_id] = epochs
