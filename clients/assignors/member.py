"""How a member of a classic group takes part in assigning: what it says, gives out and takes.

Source: `ConsumerPartitionAssignor` in Kafka: subscriptionUserData, assign, onAssignment. Kafka's
own assignors are `ConsumersOwn`; Streams has another one.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping

from brokertwin.clients.assignors.assign import ASSIGNORS, AssignorName, assign, user_data
from brokertwin.clients.assignors.group import Subscription
from brokertwin.clients.consumer_protocol import decode_assignment, encode_assignment
from brokertwin.clients.partitions import TopicPartition

NO_GENERATION = -1


class MembersAssignor(ABC):
    """One member's.

    Attributes:
        names: the protocols that it offers, most wanted first.
        is_cooperative: whether it keeps what it owns while the group rebalances.
    """

    names: tuple[str, ...]
    is_cooperative: bool

    @abstractmethod
    def user_data(self, name: str) -> bytes | None:
        """What it adds to its subscription under a protocol."""

    @abstractmethod
    def assign(
        self,
        name: str,
        partition_counts: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
    ) -> dict[str, bytes]:
        """The leader: what each member gets."""

    @abstractmethod
    def assigned(self, name: str, generation: int, data: bytes) -> None:
        """What this member got, as it takes it over."""


class ConsumersOwn(MembersAssignor):
    """Kafka's assignors of consumers, by their names."""

    def __init__(self, names: Iterable[AssignorName]) -> None:
        self.names = tuple(names)
        self.is_cooperative = all(ASSIGNORS[AssignorName(n)].is_cooperative for n in self.names)
        self._previous: dict[str, tuple[list[TopicPartition], int]] = {}

    def user_data(self, name: str) -> bytes | None:
        """What it was last assigned, where the assignor asks for that."""
        had, had_in = self._previous.get(name, (None, NO_GENERATION))
        return user_data(AssignorName(name), had, had_in)

    def assign(
        self,
        name: str,
        partition_counts: Mapping[str, int],
        subscriptions: Mapping[str, Subscription],
    ) -> dict[str, bytes]:
        """By the assignor that all members know."""
        given = assign(AssignorName(name), partition_counts, subscriptions)
        return {member: encode_assignment(partitions) for member, partitions in given.items()}

    def assigned(self, name: str, generation: int, data: bytes) -> None:
        """Is remembered for the next rebalance."""
        self._previous[name] = (sorted(decode_assignment(data)), generation)
