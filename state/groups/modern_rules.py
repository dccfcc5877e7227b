"""Common rules of consumer, share and streams groups: errors, timers, invariants.

Source: `ModernGroup`, `ConsumerGroup.validateOffsetFetch`, `.validateDeleteGroup` in Kafka;
KIP-848.
"""

from typing import Any, ClassVar

from brokertwin.protocol.errors import Error
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.check import Violations
from brokertwin.state.core.decision import Decision
from brokertwin.state.groups import groups
from brokertwin.state.groups.group_kind import GroupKind
from brokertwin.state.groups.groups import Modern
from brokertwin.state.groups.modern_coordinator import ModernGroupCoordinator


class ModernKind(GroupKind[Modern]):
    """A kind of group whose whole state is durable; `coordinator` makes its coordinators."""

    coordinator: ClassVar[type[ModernGroupCoordinator[Any]]]

    def _coordinator(self, broker: Broker, group_id: str) -> ModernGroupCoordinator[Any]:
        return self.coordinator(broker, groups.find(broker, group_id))

    def fire(self, broker: Broker, group_id: str, timer: str) -> Decision:
        """Fence a member whose session or rebalance timeout has expired."""
        return self.expire(broker, group_id, [groups.timer_member(timer)])

    def expire(self, broker: Broker, group_id: str, member_ids: list[str]) -> Decision:
        coordinator = self._coordinator(broker, group_id)
        members = coordinator.group.members
        coordinator.fence([members[each] for each in member_ids if each in members])
        return Decision(records=coordinator.records, resumed=coordinator.responses)

    def load(self, broker: Broker, group_id: str) -> None:
        """Take over a group from its records; session timeouts start now."""
        self._coordinator(broker, group_id).load()

    def fetch_error(self, group: Modern, member_id: str | None, member_epoch: int) -> Error:
        """Return the error of an offset fetch.

        25 UNKNOWN_MEMBER_ID, 113 STALE_MEMBER_EPOCH, or NONE. An epoch without a member id, which
        no client sends, returns UNKNOWN_SERVER_ERROR as in Kafka.
        """
        if member_id is None:
            return Error.NONE if member_epoch < 0 else Error.UNKNOWN_SERVER_ERROR
        member = group.members.get(member_id)
        if member is None:
            return Error.UNKNOWN_MEMBER_ID
        return Error.NONE if member_epoch == member.member_epoch else Error.STALE_MEMBER_EPOCH


def check_epochs(group: Modern) -> Violations:
    """Check: member epochs <= assignment epoch <= group epoch; targets belong to members."""
    if group.assignment_epoch > group.group_epoch:
        yield f"assignment epoch {group.assignment_epoch} is above group epoch {group.group_epoch}"
    for member in group.members.values():
        if member.member_epoch > group.assignment_epoch:
            yield f"{member.member_id} has epoch {member.member_epoch}, above the assignment epoch"
    unknown = group.target.keys() - group.members.keys()
    if unknown:
        yield f"targets of unknown members: {sorted(unknown)}"
