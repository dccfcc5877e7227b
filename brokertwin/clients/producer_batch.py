"""A batch of records on its way to a partition.

Source: seed 002; `ProducerBatch` in Kafka. A batch receives producer id, epoch and sequence when it
is first drained. After that they change only through `renumber`.
"""

from typing import NamedTuple

import msgspec

from brokertwin.clients.partitions import TopicPartition
from brokertwin.protocol.batch_headers import Batch
from brokertwin.state.logs.producer import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, sequence_after

NO_SEQUENCE = -1

BATCH_OVERHEAD = 61
"""Size of a v2 batch header (`DefaultRecordBatch.RECORD_BATCH_OVERHEAD`)."""


class IdAndEpoch(NamedTuple):
    """A producer id and epoch, both -1 if there is none."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


NO_ID = IdAndEpoch()


class PendingRecord(NamedTuple):
    """A record of the producer; the caller keeps its content by `id`.

    `size_in_bytes` is its size within a batch, `timestamp` is ms since 1970.
    """

    id: int
    size_in_bytes: int
    timestamp: int


class ProducerBatch(msgspec.Struct, eq=False, kw_only=True):
    """Records of one partition. Times are ms on the caller's clock.

    Attributes:
        created: when its first record was sent; starts the delivery timeout.
        attempts: how often it was put back into the queue.
        retry_at: no attempt before this time, unless the leader changed.
        leader_epoch: leader epoch of the last attempt, -1 if unknown.
        is_closed: it was drained and accepts no further records.
        is_on_wire: an attempt is in flight.
        is_outcome_unknown: an attempt ended without a result; its records may be in the log or
            still reach it.
        is_renumbered: its sequence changed since the last attempt.
        is_done: its records were acknowledged or failed.
        is_transactional: it was drained in a transaction.
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
        return BATCH_OVERHEAD + sum(record.size_in_bytes for record in self.records)

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        return sequence_after(self.base_sequence, len(self.records) - 1)

    def number(self, id_and_epoch: IdAndEpoch, base_sequence: int) -> None:
        """Assign sequences. Raises ValueError if it was drained before.

        A batch that may be in the log must keep its sequences, or it is written again.
        """
        if self.is_closed:
            raise ValueError(f"the batch for {self.topic_partition} was drained already")
        self.id_and_epoch, self.base_sequence = id_and_epoch, base_sequence

    def renumber(self, id_and_epoch: IdAndEpoch, base_sequence: int) -> None:
        self.id_and_epoch, self.base_sequence = id_and_epoch, base_sequence
        self.is_renumbered = True

    def header(self) -> Batch:
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
    """Split a batch into at least two parts of at most `size_max` bytes.

    A part has at least one record. The parts continue the sequences of the batch. Kafka splits by
    batch size only, so a batch that fits is returned unchanged and rejected repeatedly; here it is
    halved.
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
