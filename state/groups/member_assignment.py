"""Reconciliation of a consumer group member with its target assignment.

Source: `CurrentAssignmentBuilder` in Kafka; KIP-848. A partition moves in two steps, both by
heartbeats. First its owner must revoke it. The owner keeps its epoch until a heartbeat no longer
lists the partition as owned. Only then another member can get it.

    STABLE                 no-op in the epoch of the assignment
    UNREVOKED_PARTITIONS   waits until the member has revoked its partitions
    UNRELEASED_PARTITIONS  checks again whether other members have revoked its partitions
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.core.java_hashes import JavaMap, own_hash, uuid_hash
from brokertwin.state.groups.assignments import Assigned, Target, in_hash_order
from brokertwin.state.groups.consumer_group import ConsumerMember, ConsumerMemberState

Owned = dict[Uuid, list[int]]
"""Partitions that a member reports as owned, by topic id."""


class ReconcileInput(NamedTuple):
    """Input of a reconciliation.

    Attributes:
        epoch: epoch of the target assignment.
        target: the member's target.
        topic_ids: the topics to which the member subscribes.
        has_subscription_changed: whether this heartbeat changes the subscription.
        owned: partitions that the heartbeat reports as owned; None if not reported.
        has_owner: whether any member owns a partition.
    """

    epoch: int
    target: Target
    topic_ids: set[Uuid]
    has_subscription_changed: bool
    owned: Owned | None
    has_owner: Callable[[Uuid, int], bool]


def next_step(member: ConsumerMember, inputs: ReconcileInput) -> ConsumerMember:
    """Return the member after a heartbeat; unchanged if it waits or is done."""
    if member.state is ConsumerMemberState.STABLE and member.member_epoch == inputs.epoch:
        return _without_unsubscribed(member, inputs) if inputs.has_subscription_changed else member
    is_waiting = member.state is ConsumerMemberState.UNREVOKED_PARTITIONS
    if is_waiting and _owns(inputs.owned, member.pending_revocation):
        return _without_unsubscribed(member, inputs) if inputs.has_subscription_changed else member
    return _reconcile(member, inputs)


def _owns(owned: Owned | None, revoked: Assigned) -> bool:
    """True if the member may still own revoked partitions."""
    if owned is None:
        return True
    return any(
        partition in revoked.get(topic_id, {})
        for topic_id, partitions in owned.items()
        for partition in partitions
    )


def _without_unsubscribed(member: ConsumerMember, inputs: ReconcileInput) -> ConsumerMember:
    """Revoke the partitions of topics no longer subscribed to."""
    kept = {t: epochs for t, epochs in member.assigned.items() if t in inputs.topic_ids}
    if len(kept) == len(member.assigned):
        return member
    revoked = dict(member.pending_revocation)
    for topic_id, epochs in member.assigned.items():
        if topic_id not in kept:
            revoked[topic_id] = {**revoked.get(topic_id, {}), **epochs}
    member = msgspec.structs.replace(member.in_epoch(member.member_epoch), assigned=kept)
    if not _owns(inputs.owned, revoked):
        return member
    state = ConsumerMemberState.UNREVOKED_PARTITIONS
    return msgspec.structs.replace(member, state=state, pending_revocation=revoked)


def _reconcile(member: ConsumerMember, inputs: ReconcileInput) -> ConsumerMember:
    """Keep partitions of the target, revoke others, and add free ones.

    Topics and partitions are in the order of Kafka's maps, because the response shows it.
    """
    kept: JavaMap[Uuid, JavaMap[int, int]] = JavaMap(uuid_hash)
    revoked: Assigned = {}
    gained: JavaMap[Uuid, list[int]] = JavaMap(uuid_hash)
    is_unreleased = False
    topic_ids = JavaMap.holding(uuid_hash, inputs.target)
    stored = in_hash_order(member.assigned)
    for topic_id in stored:
        topic_ids[topic_id] = []
    for topic_id in topic_ids:
        target = inputs.target.get(topic_id, []) if topic_id in inputs.topic_ids else []
        current, pending = (
            member.assigned.get(topic_id, {}),
            member.pending_revocation.get(topic_id, {}),
        )
        remaining = JavaMap.copying(own_hash, {p: current[p] for p in stored.get(topic_id, [])})
        _put(revoked, topic_id, {p: epoch for p, epoch in current.items() if p not in target})
        for partition in current:
            if partition not in target:
                remaining.pop(partition)
        wanted = [p for p in JavaMap.holding(own_hash, dict.fromkeys(target)) if p not in current]
        free = [p for p in wanted if p in pending or not inputs.has_owner(topic_id, p)]
        is_unreleased = is_unreleased or len(free) < len(wanted)
        if len(remaining):
            kept[topic_id] = remaining
        if free:
            gained[topic_id] = free
    if revoked and _owns(inputs.owned, revoked):
        return msgspec.structs.replace(
            member.in_epoch(member.member_epoch),
            state=ConsumerMemberState.UNREVOKED_PARTITIONS,
            assigned=_in_order(kept),
            pending_revocation=revoked,
        )
    for topic_id in gained:
        partitions = kept.compute_if_absent(topic_id, JavaMap(own_hash))
        for partition in gained[topic_id]:
            partitions[partition] = inputs.epoch
    return msgspec.structs.replace(
        member.in_epoch(inputs.epoch),
        state=ConsumerMemberState.UNRELEASED_PARTITIONS
        if is_unreleased
        else ConsumerMemberState.STABLE,
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
