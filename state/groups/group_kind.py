"""Operations of a kind of group: errors, timers, records, invariants.

Source: `ModernGroup`, `ConsumerGroup.validateOffsetFetch`, `.validateDeleteGroup` in Kafka.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import NONE, Error
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.check import Violations
from brokertwin.state.core.decision import Decision
from brokertwin.state.core.group_records import GroupRecord
from brokertwin.state.groups import groups
from brokertwin.state.groups.groups import Group, Modern
from brokertwin.state.groups.modern_coordinator import ModernGroupCoordinator

G = TypeVar("G", bound=Group)


TXN_EPOCHS_SINCE = 6
"""First version of TxnOffsetCommit with member epochs (KIP-1319)."""


class OffsetCommitCheck(msgspec.Struct):
    """An offset commit as the coordinator of a group validates it.

    Attributes:
        member_id: "" for a commit from outside the group.
        group_instance_id: instance id of a static member.
        generation: generation or member epoch; negative for a commit from outside the group.
        version: version of OffsetCommit or TxnOffsetCommit.
        places: topic name, topic id and partition of each offset that may be stored.
        is_transactional: whether it is part of a transaction.
    """

    member_id: str
    group_instance_id: str | None
    generation: int
    version: int
    places: list[tuple[str, Uuid, int]]
    is_transactional: bool = False

    @property
    def has_generation(self) -> bool:
        """True for TxnOffsetCommit before version 6, whose clients know no member epochs."""
        return self.is_transactional and self.version < TXN_EPOCHS_SINCE


class GroupKind(ABC, Generic[G]):
    """A kind of group.

    Attributes:
        name: Kafka's name of the group type, in lower case.
        may_expire: whether a group without offsets and members is deleted automatically.
    """

    name: ClassVar[str]
    may_expire = True

    @abstractmethod
    def fire(self, broker: Broker, group_id: str, timer: str) -> Decision:
        """Handle an expired timer of a group."""

    @abstractmethod
    def expire(self, broker: Broker, group_id: str, member_ids: list[str]) -> Decision:
        """Remove members as if their sessions had expired."""

    @abstractmethod
    def load(self, broker: Broker, group_id: str) -> None:
        """Take over a group from its records; session timeouts start now."""

    @abstractmethod
    def commit_error(self, group: G, commit: OffsetCommitCheck) -> Error:
        """Return the error of an offset commit."""

    def fetch_error(self, group: G, member_id: str | None, member_epoch: int) -> Error:
        """Return the error of an offset fetch; by default, any client may fetch."""
        return NONE

    def delete_error(self, group: G) -> Error:
        """Return 68 NON_EMPTY_GROUP or NONE."""
        return Error.NON_EMPTY_GROUP if group.members else NONE

    def delete_offsets_error(self, group: G) -> Error:
        return NONE

    @abstractmethod
    def subscribed_topics(self, group: G) -> set[str] | None:
        """Return the topics that members may consume; None for any topic."""

    def kept_since(self, group: G, commit_timestamp: int) -> int | None:
        """Return the start of an offset's retention; None if it does not expire."""
        return commit_timestamp

    @abstractmethod
    def tombstones(self, group: G) -> Iterable[GroupRecord]:
        """Return the records that delete a group without members."""

    def member_tombstones(self, group_id: str, member_id: str) -> Iterable[GroupRecord]:
        return ()

    @abstractmethod
    def check(self, group: G, running: set[str]) -> Violations:
        """Yield violated invariants; `running` are the group's timers."""


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
