"""What a streams group takes of other requests than heartbeats, and its timers.

Source: `StreamsGroup.validateOffsetCommit`, `.createAssignmentEpochValidator`,
`.validateOffsetFetch`, `.isSubscribedToTopic` in Kafka; KIP-1071.
"""

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Decision, Resumed
from brokertwin.state.core.errors import Error
from brokertwin.state.groups import groups, streams_live
from brokertwin.state.groups.consumer_rules import EPOCHS_SINCE
from brokertwin.state.groups.group_rules import Commit
from brokertwin.state.groups.streams_coordinator import StreamsCoordinator
from brokertwin.state.groups.streams_group import (
    StreamsGroup,
    StreamsGroupState,
    StreamsMember,
)


def commit_error(group: StreamsGroup, commit: Commit) -> Error:
    """Why a group does not take offsets: 25, 35, 113 (22 in a transaction), or NONE.

    A member that has not heard of its new epoch yet may still commit for the tasks that it was
    given in an epoch up to the one that it names.
    """
    if commit.generation < 0 and not group.members:
        return Error.NONE
    is_nobody = (commit.generation, commit.member_id, commit.group_instance_id) == (-1, "", None)
    if commit.is_transactional and is_nobody:
        return Error.NONE
    member = group.members.get(commit.member_id)
    if member is None:
        return Error.UNKNOWN_MEMBER_ID
    if not commit.is_transactional and commit.version < EPOCHS_SINCE:
        return Error.UNSUPPORTED_VERSION
    if commit.generation == member.member_epoch or _is_in_time(group, member, commit):
        return Error.NONE
    return Error.ILLEGAL_GENERATION if commit.is_transactional else Error.STALE_MEMBER_EPOCH


def _is_in_time(group: StreamsGroup, member: StreamsMember, commit: Commit) -> bool:
    """Whether the member had the task of every partition in the epoch that it names."""
    sources = group.source_topics()
    assigned, pending = member.assigned.active, member.pending_revocation.active
    for topic, _, partition in commit.places:
        part = sources.get(topic, "")
        epochs = {**pending.get(part, {}), **assigned.get(part, {})}
        if topic not in sources or commit.generation < epochs.get(partition, commit.generation + 1):
            return False
    return commit.generation < member.member_epoch


def fetch_error(group: StreamsGroup, member_id: str | None, member_epoch: int) -> Error:
    """Why a group does not tell its offsets: 25, 113, or NONE; of nobody as `consumer_rules`."""
    if member_id is None:
        return Error.NONE if member_epoch < 0 else Error.UNKNOWN_SERVER_ERROR
    member = group.members.get(member_id)
    if member is None:
        return Error.UNKNOWN_MEMBER_ID
    is_present = member_epoch == member.member_epoch
    return Error.NONE if is_present else Error.STALE_MEMBER_EPOCH


def delete_error(group: StreamsGroup) -> Error:
    """Why a group cannot be deleted: NON_EMPTY_GROUP, or NONE."""
    is_empty = group.state is StreamsGroupState.EMPTY
    return Error.NONE if is_empty else Error.NON_EMPTY_GROUP


def delete_offsets_error(_group: StreamsGroup) -> Error:
    """Offsets of topics that nobody reads can always be deleted."""
    return Error.NONE


def subscribed_topics(group: StreamsGroup) -> set[str]:
    """The topics that members may be reading."""
    return set(group.source_topics()) if group.members else set()


def kept_since(_group: StreamsGroup, commit_timestamp: int) -> int:
    """An offset is kept from its commit on."""
    return commit_timestamp


# Timers and moves


def fire(broker: Broker, group_id: str, timer: str) -> Decision:
    """The wait for more members is over, or a member was silent or slow for too long."""
    if timer != groups.INITIAL:
        return expire(broker, group_id, [groups.late_member(timer)])
    coordinator = _coordinator(broker, group_id)
    coordinator.assign_late()
    return Decision(records=coordinator.records)


def expire(broker: Broker, group_id: str, member_ids: list[str]) -> Decision:
    """Takes members for gone, as when their session time-outs are over."""
    coordinator = _coordinator(broker, group_id)
    members = coordinator.group.members
    coordinator.fence([members[each] for each in member_ids if each in members])
    return Decision(records=coordinator.records)


def load(broker: Broker, group_id: str) -> None:
    """Takes over a group; its members have their time-outs from now on."""
    _coordinator(broker, group_id).load()


def unload(broker: Broker, group_id: str) -> list[Resumed]:
    """Lets go of a group that another broker coordinates now; nobody waits in it."""
    groups.stop_timers(broker.tables, broker.id, group_id)
    streams_live.drop(broker.tables, broker.id, group_id)
    return []


def _coordinator(broker: Broker, group_id: str) -> StreamsCoordinator:
    group = groups.find(broker, group_id)
    assert isinstance(group, StreamsGroup), group_id
    return StreamsCoordinator(broker, group)
