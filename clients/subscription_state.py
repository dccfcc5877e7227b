"""What a consumer subscribes to, what it is assigned, and how far it has read.

Source: `SubscriptionState` in Kafka.
"""

from collections.abc import Iterable, Mapping

from brokertwin.clients.partitions import TopicPartition


class SubscriptionState:
    """Shared by a consumer's coordinator and by who reads its partitions.

    Attributes:
        topics: that it subscribes to.
        pattern: what these match; in a consumer group brokers match it, and `topics` stays empty.
        positions: the assigned partitions and the offset to be read next; None while not known.
        is_pending_revocation: nothing more is given to the application until it is revoked.
        epochs: the leader epoch of the record before a position, where it is known (KIP-320).
        sought: the positions that were set or given back, not moved by reading, since somebody has
            looked.
        without_offset: the partitions that the group has committed nothing of.
        paused: the partitions of which no more is fetched (`pause`).
    """

    def __init__(self, topics: Iterable[str] = (), pattern: str | None = None) -> None:
        self.topics = frozenset(topics)
        self.pattern = pattern
        self.positions: dict[TopicPartition, int | None] = {}
        self.epochs: dict[TopicPartition, int] = {}
        self.sought: set[TopicPartition] = set()
        self.is_pending_revocation = False
        self.without_offset: set[TopicPartition] = set()
        self.paused: set[TopicPartition] = set()

    @property
    def assigned(self) -> list[TopicPartition]:
        """The assigned partitions in order."""
        return sorted(self.positions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Has these partitions; those that it had keep their positions."""
        former = self.positions.keys()
        self.positions = {each: self.positions.get(each) for each in partitions}
        self.sought |= former - self.positions.keys()
        self.epochs = {each: at for each, at in self.epochs.items() if each in self.positions}
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

    def seek(self, partition: TopicPartition, offset: int, epoch: int | None = None) -> None:
        """Reads on from an offset, with the epoch of the record before it, where that is known.

        Passed over where the partition is not assigned any more.
        """
        if partition in self.positions:
            self.sought.add(partition)
        self.advance(partition, offset, epoch)

    def advance(self, partition: TopicPartition, offset: int, epoch: int | None) -> None:
        """As `seek`, by reading: the leader is the one that has told of the record."""
        if partition not in self.positions:
            return
        self.positions[partition] = offset
        self.without_offset.discard(partition)
        if epoch is None:
            self.epochs.pop(partition, None)
        else:
            self.epochs[partition] = epoch

    def reset(self, partition: TopicPartition) -> None:
        """Begins where `auto.offset.reset` says; passed over as in `seek`."""
        if partition in self.positions:
            self.positions[partition] = None
            self.epochs.pop(partition, None)
            self.without_offset.add(partition)

    def epochs_of(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The epochs to be committed with offsets: of those that are positions (KIP-320)."""
        return {
            each: epoch
            for each, epoch in self.epochs.items()
            if each in offsets and offsets[each] == self.positions[each]
        }

    def all_consumed(self) -> dict[TopicPartition, int]:
        """What an automatic commit stores."""
        return {each: offset for each, offset in self.positions.items() if offset is not None}
