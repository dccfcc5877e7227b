"""What a consumer subscribes to, what it is assigned, and how far it has read.

Source: `SubscriptionState` in Kafka. Not done: patterns.
"""

from collections.abc import Iterable

from brokerstream.clients.partitions import TopicPartition


class SubscriptionState:
    """Shared by a consumer's coordinator and by who reads its partitions.

    Attributes:
        topics: that it subscribes to.
        positions: the assigned partitions and the offset to be read next; None while not known.
        is_pending_revocation: nothing more is given to the application until it is revoked.
        without_offset: the partitions that the group has committed nothing of.
        paused: the partitions of which no more is fetched (`pause`).
    """

    def __init__(self, topics: Iterable[str] = ()) -> None:
        self.topics = frozenset(topics)
        self.positions: dict[TopicPartition, int | None] = {}
        self.is_pending_revocation = False
        self.without_offset: set[TopicPartition] = set()
        self.paused: set[TopicPartition] = set()

    @property
    def assigned(self) -> list[TopicPartition]:
        """The assigned partitions in order."""
        return sorted(self.positions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Has these partitions; those that it had keep their positions."""
        self.positions = {each: self.positions.get(each) for each in partitions}
        self.without_offset &= self.positions.keys()
        self.paused &= self.positions.keys()
        self.is_pending_revocation = False

    def unknown(self) -> list[TopicPartition]:
        """Partitions whose committed offset is to be asked for."""
        return [
            each
            for each, position in self.positions.items()
            if position is None and each not in self.without_offset
        ]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Reads on from an offset; passed over where the partition is not assigned any more."""
        if partition in self.positions:
            self.positions[partition] = offset
            self.without_offset.discard(partition)

    def all_consumed(self) -> dict[TopicPartition, int]:
        """What an automatic commit stores."""
        return {each: offset for each, offset in self.positions.items() if offset is not None}
