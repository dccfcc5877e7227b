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

from brokertwin.state.core.schema import Uuid
from brokertwin.state.groups.assignments import Assigned, Target
from brokertwin.state.groups.consumer_group import ConsumerMember, ConsumerMemberState

Owned = dict[Uuid, list[int]]
"""What a member says it owns."""


class ReconcileInput(NamedTuple):
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


def next_step(member: ConsumerMember, way: ReconcileInput) -> ConsumerMember:
    """The member after a heartbeat; the same one where it has to wait, or is there."""
    if member.state is ConsumerMemberState.STABLE and member.member_epoch == way.epoch:
        return _without_unsubscribed(member, way) if way.has_subscription_changed else member
    is_waiting = member.state is ConsumerMemberState.UNREVOKED_PARTITIONS
    if is_waiting and _owns(way.owned, member.pending_revocation):
        return _without_unsubscribed(member, way) if way.has_subscription_changed else member
    return _reconcile(member, way)


def _owns(owned: Owned | None, revoked: Assigned) -> bool:
    """Whether a member still has some of what it is to give back; it has while it says nothing."""
    if owned is None:
        return True
    return any(
        partition in revoked.get(topic_id, {})
        for topic_id, partitions in owned.items()
        for partition in partitions
    )


def _without_unsubscribed(member: ConsumerMember, way: ReconcileInput) -> ConsumerMember:
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
    state = ConsumerMemberState.UNREVOKED_PARTITIONS
    return msgspec.structs.replace(member, state=state, pending_revocation=revoked)


def _reconcile(member: ConsumerMember, way: ReconcileInput) -> ConsumerMember:
    """Keeps what is in the target, gives back what is not, gets what is free."""
    kept: Assigned = {}
    revoked: Assigned = {}
    gained: Assigned = {}
    is_unreleased = False
    for topic_id in dict.fromkeys((*way.target, *member.assigned)):
        target = way.target.get(topic_id, []) if topic_id in way.topic_ids else []
        had, mine = member.assigned.get(topic_id, {}), member.pending_revocation.get(topic_id, {})
        _put(kept, topic_id, {p: epoch for p, epoch in had.items() if p in target})
        _put(revoked, topic_id, {p: epoch for p, epoch in had.items() if p not in target})
        wanted = [p for p in target if p not in had]
        free = [p for p in wanted if p in mine or not way.has_owner(topic_id, p)]
        is_unreleased = is_unreleased or len(free) < len(wanted)
        _put(gained, topic_id, dict.fromkeys(free, way.epoch))
    if revoked and _owns(way.owned, revoked):
        return msgspec.structs.replace(
            member.in_epoch(member.member_epoch),
            state=ConsumerMemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            pending_revocation=revoked,
        )
    for topic_id, epochs in gained.items():
        kept[topic_id] = {**kept.get(topic_id, {}), **epochs}
    return msgspec.structs.replace(
        member.in_epoch(way.epoch),
        state=ConsumerMemberState.UNRELEASED_PARTITIONS
        if is_unreleased
        else ConsumerMemberState.STABLE,
        assigned=kept,
        pending_revocation={},
    )


def _put(assigned: Assigned, topic_id: Uuid, epochs: dict[int, int]) -> None:
    if epochs:
        assigned[topic_id] = epochs
