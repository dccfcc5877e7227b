"""Common parts of the coordinators of consumer, share and streams groups.

Source: `GroupMetadataManager`, `ModernGroup` in Kafka; KIP-848.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, Generic

from brokertwin.protocol.errors import Error
from brokertwin.state.cluster import topics
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Refused
from brokertwin.state.core.decision import Request, Resumed
from brokertwin.state.core.records import Record
from brokertwin.state.groups import groups
from brokertwin.state.groups.consumer_group import JOIN_EPOCH
from brokertwin.state.groups.groups import Modern


class ModernGroupCoordinator(ABC, Generic[Modern]):
    """A group at its coordinator, for one request or timer.

    Attributes:
        group: the group in the state of its records; read-only.
        records: records to write.
        responses: responses to pending requests.
    """

    def __init__(self, broker: Broker, group: Modern) -> None:
        self._broker = broker
        self.group: Modern = group
        self.records: list[Record] = []
        self.responses: list[Resumed] = []

    @abstractmethod
    def fence(self, members: list[Any]) -> None:
        """Remove members and bump the group epoch."""

    @abstractmethod
    def load(self) -> None:
        """Start the timeouts of a group taken over from another coordinator."""

    def _unknown(self, member_id: str) -> Refused:
        unknown = f"Member {member_id} is not a member of group {self.group.group_id}."
        return Refused(Error.UNKNOWN_MEMBER_ID, unknown)

    def _is_early(self, interval_ms: int) -> bool:
        """Whether a new assignment would come within the interval after the last one."""
        computed = self.group.assignment_timestamp
        return bool(computed) and self._broker.now - computed < interval_ms

    def _set_timer(self, timer: str, deadline: int | None) -> None:
        groups.set_timer(self._broker, self.group.group_id, timer, deadline)


def blank_field(*fields: tuple[str, str | None]) -> str | None:
    """Return Kafka's message for the first blank field; None is not blank."""
    for name, value in fields:
        if value is not None and not value.strip():
            return f"{name} can't be empty."
    return None


def new_member_id(request: Request) -> str:
    """Return a member id: the recorded choice, or derived from the nonce."""
    return request.choices.member_id or topics.derive_uuid(request.nonce, "member")


def not_found(kind: str, group_id: str, member_epoch: int) -> Refused:
    """Return the error of a heartbeat for a missing group; `kind` is its name in lower case."""
    what = "Group" if member_epoch < JOIN_EPOCH else f"{kind.capitalize()} group"
    return Refused(Error.GROUP_ID_NOT_FOUND, f"{what} {group_id} not found.")


def other_kind(kind: str, group_id: str) -> Refused:
    return Refused(Error.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a {kind} group.")


def size_error(kind: str, members: Collection[str], size_max: int) -> Refused | None:
    """Return the error of a join to a group without room."""
    if len(members) < size_max:
        return None
    limit = f"The {kind} group has reached its maximum capacity of {size_max} members."
    return Refused(Error.GROUP_MAX_SIZE_REACHED, limit)


def unknown_instance(instance_id: str | None) -> Refused:
    return Refused(Error.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")


def fenced_instance(owner_id: str, member_id: str, instance_id: str | None) -> Refused:
    """Return the error of a member whose instance id another one has taken over."""
    text = f"Static member {member_id} with instance id {instance_id} was fenced by member"
    return Refused(Error.FENCED_INSTANCE_ID, f"{text} {owner_id}.")


def unreleased_instance(owner_id: str, member_id: str, instance_id: str | None) -> Refused:
    """Return the error of a join with the instance id of an active member."""
    text = (
        f"Static member {member_id} with instance id {instance_id} cannot join the group because"
        f" the instance id is owned by {owner_id} member."
    )
    return Refused(Error.UNRELEASED_INSTANCE_ID, text)


def epoch_message(kind: str, epoch: int, current: int, detail: str = "") -> str:
    """Return the message of 110 FENCED_MEMBER_EPOCH."""
    size = "greater" if epoch > current else "smaller"
    return (
        f"The {kind} group member has a {size} member epoch ({epoch}) than the one known by the "
        f"group coordinator ({current}){detail}. The member must abandon all its partitions and "
        "rejoin."
    )
