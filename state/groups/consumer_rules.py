"""What a consumer group takes of other requests than heartbeats.

Source: `ConsumerGroup.validateOffsetCommit`, `.validateOffsetFetch`, `.validateDeleteGroup`,
`.isSubscribedToTopic`, `GroupMetadataManager.classicGroupLeaveToConsumerGroup` in Kafka; KIP-848,
KIP-1251 (commits in the epoch of an assignment).
"""

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Decision, Resumed
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import Record
from brokertwin.state.groups import groups, subscriptions
from brokertwin.state.groups.consumer_coordinator import ConsumerCoordinator
from brokertwin.state.groups.consumer_group import (
    ConsumerGroup,
    ConsumerGroupState,
    ConsumerMember,
)
from brokertwin.state.groups.consumer_group_records import group_tombstones
from brokertwin.state.groups.group_rules import Commit

EPOCHS_SINCE = 9
"""The version of OffsetCommit from which on members have epochs."""


def commit_error(group: ConsumerGroup, commit: Commit) -> Error:
    """Why a group does not take offsets: 25, 35, 113, or NONE.

    22 in place of 113 in a transaction, and for a member of the classic protocol. A member that has
    not heard of its new epoch yet may still commit what it was assigned in an epoch up to the one
    that it names.
    """
    if commit.generation < 0 and not group.members:
        return Error.NONE
    is_named = commit.generation >= 0 or commit.member_id or commit.group_instance_id is not None
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
    has_generation = commit.is_transactional or is_classic
    return Error.ILLEGAL_GENERATION if has_generation else Error.STALE_MEMBER_EPOCH


def _is_in_time(member: ConsumerMember, commit: Commit) -> bool:
    """Whether the member had every partition in the epoch that it names."""
    for _, topic_id, partition in commit.places:
        pending = member.pending_revocation.get(topic_id, {})
        since = member.assigned.get(topic_id, {}).get(partition, pending.get(partition))
        if since is None or commit.generation < since:
            return False
    return commit.generation < member.member_epoch


def fetch_error(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> Error:
    """Why a group does not tell its offsets: 25, 113 (22 to a classic member), or NONE.

    An epoch of nobody, as no client sends it, is UNKNOWN_SERVER_ERROR, as in Kafka.
    """
    if member_id is None:
        return Error.NONE if member_epoch < 0 else Error.UNKNOWN_SERVER_ERROR
    member = group.members.get(member_id)
    if member is None:
        return Error.UNKNOWN_MEMBER_ID
    if member_epoch == member.member_epoch:
        return Error.NONE
    is_classic = member.uses_classic_protocol
    return Error.ILLEGAL_GENERATION if is_classic else Error.STALE_MEMBER_EPOCH


def delete_error(group: ConsumerGroup) -> Error:
    """Why a group cannot be deleted: NON_EMPTY_GROUP, or NONE."""
    is_empty = group.state is ConsumerGroupState.EMPTY
    return Error.NONE if is_empty else Error.NON_EMPTY_GROUP


def delete_offsets_error(_group: ConsumerGroup) -> Error:
    """Offsets of topics that nobody subscribes to can always be deleted."""
    return Error.NONE


def subscribed_topics(group: ConsumerGroup) -> set[str]:
    """The topics that members may be reading."""
    return subscriptions.of(group).topics


def kept_since(_group: ConsumerGroup, commit_timestamp: int) -> int:
    """An offset is kept from its commit on."""
    return commit_timestamp


def tombstones(group: ConsumerGroup) -> list[Record]:
    """The records by which a group goes."""
    return group_tombstones(group.group_id, regexes=group.resolved)


# Timers and moves


def fire(broker: Broker, group_id: str, timer: str) -> Decision:
    """A member was silent, or has not given its partitions back, for too long."""
    return expire(broker, group_id, [groups.late_member(timer)])


def expire(broker: Broker, group_id: str, member_ids: list[str]) -> Decision:
    """Takes members for gone, as when their session time-outs are over."""
    group = groups.find(broker, group_id)
    assert isinstance(group, ConsumerGroup), group_id
    coordinator = ConsumerCoordinator(broker, group)
    known = [group.members[each] for each in member_ids if each in group.members]
    coordinator.fence(known)
    return Decision(records=coordinator.records, resumed=coordinator.answers)


def load(broker: Broker, group_id: str) -> None:
    """Takes over a group; its members have their time-outs from now on."""
    group = groups.find(broker, group_id)
    assert isinstance(group, ConsumerGroup), group_id
    ConsumerCoordinator(broker, group).load()


def unload(broker: Broker, group_id: str) -> list[Resumed]:
    """Lets go of a group that another broker coordinates now; nobody waits in it."""
    groups.stop_timers(broker.tables, broker.id, group_id)
    return []
