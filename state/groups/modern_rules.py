"""Common rules of consumer, share and streams groups: errors, timers, invariants.

Source: `ModernGroup`, `ConsumerGroup.validateOffsetFetch`, `.validateDeleteGroup` in Kafka;
KIP-848.
"""

from collections.abc import Callable
from typing import Any

from brokertwin.protocol.errors import Error
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.check import Violations
from brokertwin.state.core.decision import Decision
from brokertwin.state.groups import groups
from brokertwin.state.groups.consumer_coordinator import ConsumerGroupCoordinator
from brokertwin.state.groups.consumer_group import ConsumerGroup
from brokertwin.state.groups.modern_coordinator import ModernGroupCoordinator
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.groups.share_group_coordinator import ShareGroupCoordinator
from brokertwin.state.groups.streams_coordinator import StreamsGroupCoordinator
from brokertwin.state.groups.streams_group import StreamsGroup

ModernGroup = ConsumerGroup | ShareGroup | StreamsGroup

_COORDINATORS: dict[type, Callable[[Broker, Any], ModernGroupCoordinator[Any]]] = {
    ConsumerGroup: ConsumerGroupCoordinator,
    ShareGroup: ShareGroupCoordinator,
    StreamsGroup: StreamsGroupCoordinator,
}


def fetch_error(
    group: ConsumerGroup | StreamsGroup, member_id: str | None, member_epoch: int
) -> Error:
    """Return the error of an offset fetch.

    25 UNKNOWN_MEMBER_ID, 113 STALE_MEMBER_EPOCH, or NONE. An epoch without a member id, which no
    client sends, returns UNKNOWN_SERVER_ERROR as in Kafka.
    """
    if member_id is None:
        return Error.NONE if member_epoch < 0 else Error.UNKNOWN_SERVER_ERROR
    member = group.members.get(member_id)
    if member is None:
        return Error.UNKNOWN_MEMBER_ID
    return Error.NONE if member_epoch == member.member_epoch else Error.STALE_MEMBER_EPOCH


def delete_error(group: ModernGroup) -> Error:
    """Return 68 NON_EMPTY_GROUP or NONE."""
    return Error.NON_EMPTY_GROUP if group.members else Error.NONE


def delete_offsets_error(_group: ModernGroup) -> Error:
    """Return NONE: offsets of unsubscribed topics can be deleted."""
    return Error.NONE


def kept_since(_group: ModernGroup, commit_timestamp: int) -> int:
    """Return the commit time, where the retention starts."""
    return commit_timestamp


def fire(broker: Broker, group_id: str, timer: str) -> Decision:
    """Fence a member whose session or rebalance timeout has expired."""
    return expire(broker, group_id, [groups.timer_member(timer)])


def expire(broker: Broker, group_id: str, member_ids: list[str]) -> Decision:
    """Fence members as if their sessions had expired."""
    coordinator = _coordinator(broker, group_id)
    members = coordinator.group.members
    coordinator.fence([members[each] for each in member_ids if each in members])
    return Decision(records=coordinator.records, resumed=coordinator.responses)


def load(broker: Broker, group_id: str) -> None:
    """Take over a group from its records; session timeouts start now."""
    _coordinator(broker, group_id).load()


def _coordinator(broker: Broker, group_id: str) -> ModernGroupCoordinator[Any]:
    group = groups.find(broker, group_id)
    return _COORDINATORS[type(group)](broker, group)


def check_epochs(group: ModernGroup) -> Violations:
    """Check: member epochs <= assignment epoch <= group epoch; targets belong to members."""
    if group.assignment_epoch > group.group_epoch:
        yield f"assignment epoch {group.assignment_epoch} is above group epoch {group.group_epoch}"
    for member in group.members.values():
        if member.member_epoch > group.assignment_epoch:
            yield f"{member.member_id} has epoch {member.member_epoch}, above the assignment epoch"
    unknown = group.target.keys() - group.members.keys()
    if unknown:
        yield f"targets of unknown members: {sorted(unknown)}"
