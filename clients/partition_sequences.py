"""What a producer knows of its sequences on one partition.

Source: seed 002; `TxnPartitionEntry` and `TxnPartitionMap` in Kafka.

Kafka's client takes the greater of two sequences for the later one, for the last acknowledged and
for the unresolved sequence, and sorts the batches in flight by their number. Past 2147483647 that
is wrong: `last_acked` sticks at the high value, and the batch with sequence 0 overtakes those
before it. Here a sequence is later where it lies less than half the circle ahead, and the batches
in flight keep the order in which they got their sequences.
"""

from brokertwin.clients.producer_batch import NO_ID, NO_SEQUENCE, IdAndEpoch, ProducerBatch
from brokertwin.state.logs.producer import SEQUENCE_MAX, sequence_after

NO_OFFSET = -1


def is_later(sequence: int, other: int) -> bool:
    """Whether `sequence` comes after `other` on the circle of 2^31 sequences; all after -1."""
    if NO_SEQUENCE in (sequence, other):
        return sequence != NO_SEQUENCE
    ahead = (sequence - other) % (SEQUENCE_MAX + 1)
    return 0 < ahead <= SEQUENCE_MAX // 2


class PartitionSequences:
    """The sequences of one partition under one producer id and epoch.

    Attributes:
        id_and_epoch: of the batches that get their sequence from here.
        next_sequence: what the next new batch gets.
        last_acked: the last sequence acknowledged, -1 before the first.
        last_acked_offset: its offset, -1 where none is known.
        in_flight: batches with a sequence that are not done, in sequence order.
        unresolved: the sequence after the last batch that was given up with its outcome unknown;
            None while there is no such batch.
    """

    def __init__(self) -> None:
        self.id_and_epoch: IdAndEpoch = NO_ID
        self.next_sequence = 0
        self.last_acked = NO_SEQUENCE
        self.last_acked_offset = NO_OFFSET
        self.in_flight: list[ProducerBatch] = []
        self.unresolved: int | None = None

    @property
    def expected(self) -> int:
        """The sequence that follows the last acknowledged one."""
        return sequence_after(self.last_acked, 1)

    @property
    def is_all_acked(self) -> bool:
        """Whether every sequence given so far was acknowledged."""
        return self.next_sequence == self.expected

    def assign(self, batch: ProducerBatch) -> None:
        """Gives a new batch its sequences and counts it as in flight."""
        batch.number(self.id_and_epoch, self.next_sequence)
        self.next_sequence = sequence_after(self.next_sequence, len(batch.records))
        self.in_flight.append(batch)

    def acked(self, batch: ProducerBatch, base_offset: int) -> None:
        """A batch of this id and epoch was acknowledged, at `base_offset` or (-1) somewhere."""
        if batch.id_and_epoch != self.id_and_epoch:
            return
        if is_later(batch.last_sequence, self.last_acked):
            self.last_acked = batch.last_sequence
        if base_offset != NO_OFFSET:
            last_offset = base_offset + len(batch.records) - 1
            self.last_acked_offset = max(self.last_acked_offset, last_offset)

    def remove(self, batch: ProducerBatch) -> None:
        """The batch is in flight no more."""
        if batch in self.in_flight:
            self.in_flight.remove(batch)

    def replace(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """Its parts take the place of a batch that was split."""
        at = self.in_flight.index(batch)
        self.in_flight[at : at + 1] = parts

    def mark_unresolved(self, batch: ProducerBatch) -> None:
        """Whether `batch` was written will show only when those after it are answered."""
        following = sequence_after(batch.last_sequence, 1)
        if self.unresolved is None or is_later(following, self.unresolved):
            self.unresolved = following

    def give_up_unsafe(self) -> list[ProducerBatch]:
        """Takes out the batches that must not be written under other sequences.

        Those that may be in the log, or come into it, and those before one that was acknowledged.
        """
        unsafe = [
            batch
            for batch in self.in_flight
            if batch.is_outcome_unknown or is_later(self.last_acked, batch.base_sequence)
        ]
        self.in_flight = [batch for batch in self.in_flight if batch not in unsafe]
        return unsafe

    def restart(self, id_and_epoch: IdAndEpoch) -> None:
        """Begins again at 0 under a new id or epoch; the batches in flight are renumbered."""
        sequence = 0
        for batch in self.in_flight:
            batch.renumber(id_and_epoch, sequence)
            sequence = sequence_after(sequence, len(batch.records))
        self.id_and_epoch = id_and_epoch
        self.next_sequence = sequence
        self.last_acked = NO_SEQUENCE
        self.unresolved = None
