"""What a partition remembers of an idempotent producer: its epoch and its last five batches.

Source: seed 002; KIP-98, KIP-360; `ProducerStateEntry`, `ProducerAppendInfo`,
`ProducerStateManager` in Kafka. `check` decides, `append` writes.

    known epoch        batch                            answer
    none               any sequence                     accepted
    higher             any                              47 INVALID_PRODUCER_EPOCH
    lower              first sequence 0                 accepted, the remembered batches are gone
    lower              first sequence not 0             45 OUT_OF_ORDER_SEQUENCE_NUMBER
    same               one of the last five             duplicate: answered with its first answer
    same               follows the last batch           accepted
    same               anything else                    45

Two settings of ours change this, both from the seed:

    brokerstream.reject.unknown.producer      a producer that is not known begins at 0, else
                                              59 UNKNOWN_PRODUCER_ID; and it is forgotten when its
                                              last record is deleted (Kafka before 2.4)
    brokerstream.duplicates.below.expected    a batch that lies below the next expected sequence is
                                              a duplicate also where it is none of the last five:
                                              46 DUPLICATE_SEQUENCE_NUMBER, without an offset

The second trusts that all below was written. That holds from sequence 0 on; a producer that begins
at 17 because the broker has forgotten it can lose the batch before: set it with the first.

Producers that were silent for too long are forgotten (`state/expiry.py`).

Not done: open transactions.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from brokerstream.state.errors import Error
from brokerstream.state.records import Batch, ProducersExpired
from brokerstream.state.schema import Uuid
from brokerstream.state.tables import Table

BATCHES_KEPT = 5
"""Batches remembered for each producer and partition (`NUM_BATCHES_TO_RETAIN`)."""

SEQUENCE_MAX = 2**31 - 1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


class RememberedBatch(msgspec.Struct, array_like=True):
    """One of the last batches: last sequence and offset, length less one, timestamp in ms."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """The sequence of the batch's first record."""
        return sequence_before(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        """The offset of the batch's first record."""
        return self.last_offset - self.offset_delta


class Producer(msgspec.Struct):
    """The state of one producer id on one partition. `last_timestamp` is in ms since 1970."""

    producer_epoch: int = NO_PRODUCER_EPOCH
    last_timestamp: int = -1
    batches: list[RememberedBatch] = []


class Check(NamedTuple):
    """Whether a batch may be appended; `duplicate` is the batch that it repeats, if it does."""

    error: Error
    duplicate: RememberedBatch | None = None
    message: str | None = None


ACCEPTED = Check(Error.NONE)


class Rules(NamedTuple):
    """Where a broker departs from Kafka's check."""

    rejects_unknown: bool = False
    knows_duplicates_below: bool = False


KAFKAS = Rules()


def producer_key(broker: int, topic_id: Uuid, partition: int, producer_id: int) -> str:
    """The key of a producer in the table `producers`."""
    return f"{broker}/producer/{topic_id}/{partition}/{producer_id}"


def sequence_after(sequence: int, count: int) -> int:
    """`sequence` + `count`; after 2147483647 comes 0 (`DefaultRecordBatch.incrementSequence`)."""
    return (sequence + count) % (SEQUENCE_MAX + 1)


def sequence_before(sequence: int, count: int) -> int:
    """`sequence` - `count`; before 0 comes 2147483647 (`DefaultRecordBatch.decrementSequence`)."""
    return (sequence - count) % (SEQUENCE_MAX + 1)


def last_sequence(batch: Batch) -> int:
    """The sequence of a batch's last record."""
    return sequence_after(batch.base_sequence, batch.last_offset_delta)


def check(producer: Producer | None, batch: Batch, rules: Rules = KAFKAS) -> Check:
    """Whether `batch` of an idempotent producer may be appended, by Kafka's rules or others."""
    if producer is None or producer.producer_epoch == NO_PRODUCER_EPOCH:
        is_refused = rules.rejects_unknown and batch.base_sequence != 0
        return Check(Error.UNKNOWN_PRODUCER_ID) if is_refused else ACCEPTED
    if batch.producer_epoch == producer.producer_epoch:
        duplicate = _duplicate_of(producer, batch)
        if duplicate is not None:
            return Check(Error.NONE, duplicate)
    if batch.producer_epoch < producer.producer_epoch:
        return Check(
            Error.INVALID_PRODUCER_EPOCH,
            message=f"Epoch of producer {batch.producer_id} is {batch.producer_epoch}, which is"
            f" smaller than the last seen epoch {producer.producer_epoch}",
        )
    return _check_sequence(producer, batch, rules)


def _duplicate_of(producer: Producer, batch: Batch) -> RememberedBatch | None:
    bounds = (batch.base_sequence, last_sequence(batch))
    for remembered in producer.batches:
        if (remembered.first_sequence, remembered.last_sequence) == bounds:
            return remembered
    return None


def _check_sequence(producer: Producer, batch: Batch, rules: Rules) -> Check:
    is_newer = batch.producer_epoch > producer.producer_epoch
    if is_newer or not producer.batches:
        expected = 0
    else:
        expected = sequence_after(producer.batches[-1].last_sequence, 1)
    if batch.base_sequence == expected:
        return ACCEPTED
    if rules.knows_duplicates_below and not is_newer and _is_below(batch, expected):
        return Check(Error.DUPLICATE_SEQUENCE_NUMBER)
    epoch = f"new epoch {batch.producer_epoch}" if is_newer else f"epoch {batch.producer_epoch}"
    return Check(
        Error.OUT_OF_ORDER_SEQUENCE_NUMBER,
        message=f"Out of order sequence number for producer {batch.producer_id} in {epoch}:"
        f" {batch.base_sequence} (incoming), {expected} (expected)",
    )


def _is_below(batch: Batch, expected: int) -> bool:
    """Whether all of a batch lies below a sequence: in the half of all sequences before it."""
    distance = sequence_before(expected, batch.base_sequence)
    return batch.last_offset_delta < distance <= SEQUENCE_MAX // 2


def append(table: Table, broker: int, topic_id: Uuid, partition: int, batch: Batch) -> None:
    """Remembers an appended batch; a new epoch forgets the batches of the old one."""
    if batch.producer_id == NO_PRODUCER_ID:
        return
    key = producer_key(broker, topic_id, partition, batch.producer_id)
    if key not in table:
        table.put(key, Producer())
    producer = table.change(key, Producer)
    if producer.producer_epoch != batch.producer_epoch:
        producer.producer_epoch = batch.producer_epoch
        producer.batches = []
    producer.last_timestamp = batch.max_timestamp
    remembered = RememberedBatch(
        last_sequence(batch), batch.last_offset, batch.last_offset_delta, batch.max_timestamp
    )
    producer.batches = [*producer.batches, remembered][-BATCHES_KEPT:]


def of_partition(
    table: Table, broker: int, topic_id: Uuid, partition: int
) -> list[tuple[int, Producer]]:
    """The producers that a partition remembers, by their ids."""
    prefix = f"{broker}/producer/{topic_id}/{partition}/"
    found = [(int(key.rsplit("/", 1)[1]), p) for key, p in table.items(prefix, Producer)]
    return sorted(found, key=lambda entry: entry[0])


def all_producers(table: Table, broker: int) -> Iterator[tuple[tuple[Uuid, int, int], Producer]]:
    """What a broker remembers: topic id, partition and producer id, and the state of each."""
    for key, producer in table.items(f"{broker}/producer/", Producer):
        _, _, topic_id, partition, producer_id = key.split("/")
        yield (topic_id, int(partition), int(producer_id)), producer


def expire(table: Table, broker: int, record: ProducersExpired) -> None:
    """Forgets producers."""
    for producer_id in record.producer_ids:
        table.drop(producer_key(broker, record.topic_id, record.partition, producer_id))


def remove_partition(table: Table, broker: int, topic_id: Uuid, partition: int) -> None:
    """Forgets every producer of a partition that is deleted."""
    for key in table.keys(f"{broker}/producer/{topic_id}/{partition}/"):
        table.drop(key)
