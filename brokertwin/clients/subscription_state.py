"""Subscription, assignment and positions of a consumer. Source: `SubscriptionState` in Kafka."""

from collections.abc import Iterable, Mapping

from brokertwin.clients.partitions import TopicPartition


class SubscriptionState:
    """Shared by the coordinator and the fetcher of a consumer.

    Attributes:
        pattern: matched by `topics`; in a consumer group only brokers match it.
        positions: next offset of each assigned partition; None while unknown.
        is_pending_revocation: no records are returned until the revocation.
        epochs: leader epoch of the record before a position, if known (KIP-320).
        sought: positions that were set or removed, not advanced, since the last validation.
        without_offset: partitions without a committed offset.
        paused: partitions that are not fetched (`pause`).
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
        return sorted(self.positions)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Set the assigned partitions; kept ones keep their positions."""
        former = self.positions.keys()
        self.positions = {each: self.positions.get(each) for each in partitions}
        self.sought |= former - self.positions.keys()
        self.epochs = {each: at for each, at in self.epochs.items() if each in self.positions}
        self.without_offset &= self.positions.keys()
        self.paused &= self.positions.keys()
        self.is_pending_revocation = False

    def unknown(self) -> list[TopicPartition]:
        """Partitions whose committed offset has to be fetched."""
        return [
            each
            for each, position in self.positions.items()
            if position is None and each not in self.without_offset
        ]

    def seek(self, partition: TopicPartition, offset: int, epoch: int | None = None) -> None:
        """Continue at an offset; `epoch` is that of the preceding record.

        Ignored if the partition is no longer assigned.
        """
        if partition in self.positions:
            self.sought.add(partition)
        self.advance(partition, offset, epoch)

    def advance(self, partition: TopicPartition, offset: int, epoch: int | None) -> None:
        """Like `seek`, after reading from the current leader."""
        if partition not in self.positions:
            return
        self.positions[partition] = offset
        self.without_offset.discard(partition)
        if epoch is None:
            self.epochs.pop(partition, None)
        else:
            self.epochs[partition] = epoch

    def reset(self, partition: TopicPartition) -> None:
        """Apply `auto.offset.reset`; ignored like in `seek`."""
        if partition in self.positions:
            self.positions[partition] = None
            self.epochs.pop(partition, None)
            self.without_offset.add(partition)

    def forget_positions(self) -> None:
        self.positions = dict.fromkeys(self.positions)
        self.without_offset.clear()

    def epochs_of(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The leader epochs to commit with offsets that are positions (KIP-320)."""
        return {
            each: epoch
            for each, epoch in self.epochs.items()
            if each in offsets and offsets[each] == self.positions[each]
        }

    def all_consumed(self) -> dict[TopicPartition, int]:
        return {each: offset for each, offset in self.positions.items() if offset is not None}
