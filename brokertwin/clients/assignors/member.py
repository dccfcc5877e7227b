"""How one member of a classic group takes part in assignment.

Source: `ConsumerPartitionAssignor` in Kafka: subscriptionUserData, assign, onAssignment. Kafka's
assignors are in `ConsumersOwn`; Streams has its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from brokertwin.clients.assignors.assign import ASSIGNORS, AssignorName, assign, user_data
from brokertwin.clients.assignors.group import NO_GENERATION, Subscription
from brokertwin.clients.consumer_protocol import decode_assignment, encode_assignment
from brokertwin.clients.partitions import TopicPartition


class MembersAssignor(ABC):
    """The assignor of one member.

    Attributes:
        names: the offered protocols, most preferred first.
        is_cooperative: the member keeps its partitions during a rebalance.
    """

    names: tuple[str, ...]
    is_cooperative: bool

    @abstractmethod
    def user_data(self, name: str) -> bytes | None:
        """Return the user data of the subscription under a protocol."""

    @abstractmethod
    def assign(
        self,
        name: str,
        partition_counts: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
    ) -> dict[str, bytes]:
        """Return the assignment of each member; called on the leader."""

    @abstractmethod
    def assigned(self, name: str, generation: int, data: bytes) -> None:
        """Take over this member's assignment."""


class ConsumersOwn(MembersAssignor):
    """Kafka's consumer assignors by name."""

    def __init__(self, names: Iterable[AssignorName]) -> None:
        self.names = tuple(names)
        self.is_cooperative = all(ASSIGNORS[AssignorName(n)].is_cooperative for n in self.names)
        self._previous: dict[str, tuple[list[TopicPartition], int]] = {}

    def user_data(self, name: str) -> bytes | None:
        """Return the last assignment if the assignor needs it."""
        had, had_in = self._previous.get(name, (None, NO_GENERATION))
        return user_data(AssignorName(name), had, had_in)

    def assign(
        self,
        name: str,
        partition_counts: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
    ) -> dict[str, bytes]:
        assignment = assign(AssignorName(name), partition_counts, subscriptions)
        return {member: encode_assignment(partitions) for member, partitions in assignment.items()}

    def assigned(self, name: str, generation: int, data: bytes) -> None:
        self._previous[name] = (sorted(decode_assignment(data)), generation)
