"""A producer's batch: records on their way to one partition, and what is known of its attempts.

Source: seed 002; `ProducerBatch` in Kafka. A batch has no producer id, epoch and sequence until it
is drained for the first time; from then on they change only through `renumber`.
"""

from typing import NamedTuple

import msgspec

from brokertwin.clients.partitions import TopicPartition
from brokertwin.state.core.records import Batch
from brokertwin.state.logs.producer import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, sequence_after

NO_SEQUENCE = -1

BATCH_OVERHEAD = 61
"""Bytes of a v2 batch before its first record (`DefaultRecordBatch.RECORD_BATCH_OVERHEAD`)."""


class IdAndEpoch(NamedTuple):
    """A producer's id and epoch, both -1 while it has none."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH

    @property
    def is_valid(self) -> bool:
        """Whether there is an id."""
        return self.producer_id != NO_PRODUCER_ID


NO_ID = IdAndEpoch()


class PendingRecord(NamedTuple):
    """A record as the producer sees it: its bytes stay with the caller, who knows them by `id`.

    `size_in_bytes` is the record's size within a batch, `timestamp` is ms since 1970.
    """

    id: int
    size_in_bytes: int
    timestamp: int


class ProducerBatch(msgspec.Struct, eq=False, kw_only=True):
    """Records of one partition. Times are ms on the caller's clock.

    Attributes:
        created: when its first record was sent; the delivery timeout counts from here.
        attempts: how often it was put back into the queue.
        retry_at: no attempt before this time, unless the leader has changed.
        leader_epoch: of the leader that the last attempt went to, -1 where none is known.
        is_closed: whether it has been drained; a closed batch takes no more records.
        is_on_wire: whether an attempt is under way.
        is_outcome_unknown: whether an attempt ended so that its records may be in the log, or may
            still come into it.
        is_renumbered: whether its sequence was rewritten since its last attempt.
        is_done: whether its records were acknowledged or failed.
        is_transactional: whether it was drained in a transaction.
    """

    topic_partition: TopicPartition
    created: int
    records: list[PendingRecord] = msgspec.field(default_factory=list)
    id_and_epoch: IdAndEpoch = NO_ID
    base_sequence: int = NO_SEQUENCE
    attempts: int = 0
    retry_at: int = 0
    leader_epoch: int = -1
    is_closed: bool = False
    is_on_wire: bool = False
    is_outcome_unknown: bool = False
    is_renumbered: bool = False
    is_done: bool = False
    is_transactional: bool = False

    @property
    def size_in_bytes(self) -> int:
        """The batch with its header, before compression."""
        return BATCH_OVERHEAD + sum(record.size_in_bytes for record in self.records)

    @property
    def has_sequence(self) -> bool:
        """Whether it was drained under a producer id."""
        return self.base_sequence != NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        """The sequence of its last record."""
        return sequence_after(self.base_sequence, len(self.records) - 1)

    def number(self, id_and_epoch: IdAndEpoch, base_sequence: int) -> None:
        """Gives a batch its sequences. Raises ValueError where it was drained before.

        A batch that may have been written must keep its sequences, or it is written again.
        """
        if self.is_closed:
            raise ValueError(f"the batch for {self.topic_partition} was drained already")
        self.id_and_epoch, self.base_sequence = id_and_epoch, base_sequence

    def renumber(self, id_and_epoch: IdAndEpoch, base_sequence: int) -> None:
        """Exchanges the sequences of a batch in flight when its partition begins again."""
        self.id_and_epoch, self.base_sequence = id_and_epoch, base_sequence
        self.is_renumbered = True

    def header(self) -> Batch:
        """The batch as a Produce request carries it, without its bytes."""
        return Batch(
            base_offset=0,
            last_offset_delta=len(self.records) - 1,
            producer_id=self.id_and_epoch.producer_id,
            producer_epoch=self.id_and_epoch.epoch,
            base_sequence=self.base_sequence,
            base_timestamp=self.records[0].timestamp,
            max_timestamp=max(record.timestamp for record in self.records),
            size_in_bytes=self.size_in_bytes,
            record_count=len(self.records),
            is_transactional=self.is_transactional,
        )


def split(batch: ProducerBatch, size_max: int) -> list[ProducerBatch]:
    """Parts of `batch` of at most `size_max` bytes each, or one record; two parts at least.

    The parts follow one another in the batch's own sequences and share what is known of it. Kafka
    splits to its batch size alone: where the whole batch fits in that, it comes out as it was and
    is refused again and again; here it is halved.
    """
    limit = size_max if batch.size_in_bytes > size_max else batch.size_in_bytes // 2
    parts: list[ProducerBatch] = []
    sequence = batch.base_sequence
    for record in batch.records:
        if not parts or parts[-1].size_in_bytes + record.size_in_bytes > limit:
            parts.append(
                ProducerBatch(
                    topic_partition=batch.topic_partition,
                    created=batch.created,
                    id_and_epoch=batch.id_and_epoch,
                    base_sequence=sequence,
                    attempts=batch.attempts,
                    leader_epoch=batch.leader_epoch,
                    is_closed=True,
                    is_outcome_unknown=batch.is_outcome_unknown,
                    is_transactional=batch.is_transactional,
                )
            )
        parts[-1].records.append(record)
        sequence = sequence_after(sequence, 1) if batch.has_sequence else NO_SEQUENCE
    return parts
