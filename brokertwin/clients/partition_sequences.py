"""Sequence numbers of a producer on one partition.

Source: seed 002; `TxnPartitionEntry` and `TxnPartitionMap` in Kafka.

Kafka's client compares sequences as numbers, for the last acknowledged and the unresolved sequence,
and sorts in-flight batches by them. That is wrong after 2147483647: `last_acked` sticks at the high
value, and the batch with sequence 0 overtakes earlier ones. Here a sequence is later if it is less
than half the circle ahead, and in-flight batches keep their assignment order.
"""

from brokertwin.clients.producer_batch import NO_ID, NO_SEQUENCE, IdAndEpoch, ProducerBatch
from brokertwin.state.logs.producer import SEQUENCE_MAX, sequence_after

NO_OFFSET = -1


def is_later(sequence: int, other: int) -> bool:
    """Whether `sequence` follows `other` modulo 2^31; all follow -1."""
    if NO_SEQUENCE in (sequence, other):
        return sequence != NO_SEQUENCE
    ahead = (sequence - other) % (SEQUENCE_MAX + 1)
    return 0 < ahead <= SEQUENCE_MAX // 2


class PartitionSequences:
    """The sequences of one partition under one producer id and epoch.

    Attributes:
        id_and_epoch: of batches that receive their sequence here.
        next_sequence: of the next new batch.
        last_acked: last acknowledged sequence, -1 before the first.
        last_acked_offset: its offset, -1 if unknown.
        in_flight: unfinished batches with a sequence, in sequence order.
        unresolved: the sequence after the last batch given up with unknown outcome, or None.
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
        return sequence_after(self.last_acked, 1)

    @property
    def is_all_acked(self) -> bool:
        return self.next_sequence == self.expected

    def assign(self, batch: ProducerBatch) -> None:
        """Assign sequences to a new batch and add it to `in_flight`."""
        batch.number(self.id_and_epoch, self.next_sequence)
        self.next_sequence = sequence_after(self.next_sequence, len(batch.records))
        self.in_flight.append(batch)

    def acked(self, batch: ProducerBatch, base_offset: int) -> None:
        """Record an acknowledged batch; `base_offset` may be unknown (-1)."""
        if batch.id_and_epoch != self.id_and_epoch:
            return
        if is_later(batch.last_sequence, self.last_acked):
            self.last_acked = batch.last_sequence
        if base_offset != NO_OFFSET:
            last_offset = base_offset + len(batch.records) - 1
            self.last_acked_offset = max(self.last_acked_offset, last_offset)

    def remove(self, batch: ProducerBatch) -> None:
        if batch in self.in_flight:
            self.in_flight.remove(batch)

    def replace(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        at = self.in_flight.index(batch)
        self.in_flight[at : at + 1] = parts

    def mark_unresolved(self, batch: ProducerBatch) -> None:
        """Mark the outcome of a batch as unknown until later batches finish."""
        following = sequence_after(batch.last_sequence, 1)
        if self.unresolved is None or is_later(following, self.unresolved):
            self.unresolved = following

    def give_up_unsafe(self) -> list[ProducerBatch]:
        """Remove the batches that must not be written under new sequences.

        These may be in the log or reach it, or precede an acknowledged batch.
        """
        unsafe = [
            batch
            for batch in self.in_flight
            if batch.is_outcome_unknown or is_later(self.last_acked, batch.base_sequence)
        ]
        self.in_flight = [batch for batch in self.in_flight if batch not in unsafe]
        return unsafe

    def restart(self, id_and_epoch: IdAndEpoch) -> None:
        """Restart at 0 with a new id or epoch; renumbers in-flight batches."""
        sequence = 0
        for batch in self.in_flight:
            batch.renumber(id_and_epoch, sequence)
            sequence = sequence_after(sequence, len(batch.records))
        self.id_and_epoch = id_and_epoch
        self.next_sequence = sequence
        self.last_acked = NO_SEQUENCE
        self.unresolved = None
