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

    brokertwin.reject.unknown.producer      a producer that is not known begins at 0, else
                                              59 UNKNOWN_PRODUCER_ID; and it is forgotten when its
                                              last record is deleted (Kafka before 2.4)
    brokertwin.duplicates.below.expected    a batch that lies below the next expected sequence is
                                              a duplicate also where it is none of the last five:
                                              46 DUPLICATE_SEQUENCE_NUMBER, without an offset

The second trusts that all below was written. That holds from sequence 0 on; a producer that begins
at 17 because the broker has forgotten it can lose the batch before: set it with the first.

A transaction opens with its producer's first transactional batch and ends with the marker that the
coordinator has written. Until then nothing but transactional batches come in:

    another batch of its producer                    48 INVALID_TXN_STATE
    a marker of a lower epoch; from transactions V2
    on, where every end has an epoch of its own, of
    the same epoch, too, while a transaction is open 47
    a marker of an older coordinator                 52 TRANSACTION_COORDINATOR_FENCED
    a marker otherwise                               accepted; a new epoch forgets the batches

The first transactional batch is verified (`transactions/transaction_verification.py`). While a
producer's verification is remembered, no sequence above the lowest one that came with it is
accepted (45); in transactions V2 a producer without batches begins at 0 (45).

Producers that were silent for too long are forgotten (`producer_expiry.py`), unless a transaction
is open.
"""

from collections.abc import Iterator

import msgspec

from brokertwin.state.core.errors import NONE, Error
from brokertwin.state.core.records import Batch, ProducerNoted, ProducersExpired
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.tables import Table, kept

BATCHES_KEPT = 5
"""Batches remembered for each producer and partition (`NUM_BATCHES_TO_RETAIN`)."""

SEQUENCE_MAX = 2**31 - 1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_COORDINATOR_EPOCH = -1
NO_OFFSET = -1
NO_SEQUENCE = -1
"""The sequence of batches that a coordinator writes for a producer."""

FENCING_EPOCH = 2**15 - 1
"""An epoch that no producer gets: the marker of a fenced one may come twice in it."""

TRANSACTIONS_V2 = 2
"""The transaction version (KIP-890) in which each end of a transaction raises the epoch."""


class RememberedBatch(msgspec.Struct, array_like=True, gc=False):
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


class Producer(msgspec.Struct, omit_defaults=True):
    """The state of one producer id on one partition. `last_timestamp` is in ms since 1970.

    `coordinator_epoch` is that of the last end marker, `current_txn_first_offset` where the open
    transaction begins; both are -1 for none.
    """

    producer_epoch: int = NO_PRODUCER_EPOCH
    last_timestamp: int = -1
    batches: list[RememberedBatch] = []
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    current_txn_first_offset: int = NO_OFFSET

    @property
    def has_open_transaction(self) -> bool:
        """Whether the producer has written in a transaction that has not ended here."""
        return self.current_txn_first_offset != NO_OFFSET


class Verification(msgspec.Struct, array_like=True):
    """What a partition remembers of the verification of a producer's transaction (KIP-890).

    `lowest_sequence` is the lowest one among the batches of `producer_epoch` that asked for it.
    `created` is in ms since 1970.
    """

    created: int
    producer_epoch: int
    lowest_sequence: int
    is_v2: bool


class SequenceCheck(msgspec.Struct, frozen=True):
    """Whether a batch may be appended; `duplicate` is the batch that it repeats, if it does."""

    error: Error
    duplicate: RememberedBatch | None = None


ACCEPTED = SequenceCheck(NONE)


class SequenceRules(msgspec.Struct, frozen=True):
    """Where a broker departs from Kafka's check, and whether transactions are verified."""

    rejects_unknown: bool = False
    knows_duplicates_below: bool = False
    verifies: bool = True


KAFKA_RULES = SequenceRules()


@kept
def producer_key(broker: int, topic_id: Uuid, partition: int, producer_id: int) -> str:
    """The key of a producer in the table `producers`."""
    return f"{_prefix(broker, topic_id, partition)}{producer_id}"


def _prefix(broker: int, topic_id: Uuid, partition: int) -> str:
    """How the keys of a partition's producers begin."""
    return f"{broker}/producer/{topic_id}/{partition}/"


def sequence_after(sequence: int, count: int) -> int:
    """`sequence` + `count`; after 2147483647 comes 0 (`DefaultRecordBatch.incrementSequence`)."""
    return (sequence + count) % (SEQUENCE_MAX + 1)


def sequence_before(sequence: int, count: int) -> int:
    """`sequence` - `count`; before 0 comes 2147483647 (`DefaultRecordBatch.decrementSequence`)."""
    return (sequence - count) % (SEQUENCE_MAX + 1)


def check(
    producer: Producer | None,
    batch: Batch,
    rules: SequenceRules = KAFKA_RULES,
    verification: Verification | None = None,
) -> SequenceCheck:
    """Whether `batch` of an idempotent producer may be appended, by Kafka's rules or others.

    `verification` is what the partition remembers of the producer's, where there is one.
    """
    known = None if producer is None or producer.producer_epoch == NO_PRODUCER_EPOCH else producer
    if known is not None and batch.producer_epoch == known.producer_epoch:
        duplicate = _duplicate_of(known, batch)
        if duplicate is not None:
            return SequenceCheck(NONE, duplicate)
    is_unverified = batch.is_transactional and rules.verifies and verification is None
    if is_unverified and not is_ongoing(known, batch.producer_epoch):
        return SequenceCheck(Error.INVALID_TXN_STATE)
    if known is not None and batch.producer_epoch < known.producer_epoch:
        return SequenceCheck(Error.INVALID_PRODUCER_EPOCH)
    if verification is not None and not _may_be_first(known, batch, verification):
        return SequenceCheck(Error.OUT_OF_ORDER_SEQUENCE_NUMBER)
    if known is None:
        is_refused = rules.rejects_unknown and batch.base_sequence != 0
        return SequenceCheck(Error.UNKNOWN_PRODUCER_ID) if is_refused else ACCEPTED
    checked = check_sequence(known, batch, rules)
    if batch.is_transactional or checked is not ACCEPTED:
        return checked
    is_open = known.current_txn_first_offset != NO_OFFSET
    return SequenceCheck(Error.INVALID_TXN_STATE) if is_open else ACCEPTED


def is_ongoing(producer: Producer | None, producer_epoch: int) -> bool:
    """Whether a producer has a transaction open in this epoch."""
    return (
        producer is not None
        and producer.current_txn_first_offset != NO_OFFSET
        and producer.producer_epoch == producer_epoch
    )


def _may_be_first(known: Producer | None, batch: Batch, verification: Verification) -> bool:
    """Whether the sequence may be that of a transaction's first batch, as far as is known."""
    is_new = known is None or not known.batches
    if verification.is_v2 and is_new and batch.base_sequence != 0:
        return False
    return batch.base_sequence <= verification.lowest_sequence


def check_marker(producer: Producer | None, batch: Batch, transaction_version: int) -> Error:
    """Whether an end marker may be written: 47 or 52 where it may not."""
    if producer is None or batch.end_marker is None:
        return NONE
    epoch, known_epoch = batch.producer_epoch, producer.producer_epoch
    is_old = epoch < known_epoch
    if transaction_version >= TRANSACTIONS_V2 and epoch == known_epoch:
        is_old = producer.has_open_transaction and epoch != FENCING_EPOCH
    if is_old:
        return Error.INVALID_PRODUCER_EPOCH
    if batch.end_marker.coordinator_epoch < producer.coordinator_epoch:
        return Error.TRANSACTION_COORDINATOR_FENCED
    return NONE


def _duplicate_of(producer: Producer, batch: Batch) -> RememberedBatch | None:
    last = (batch.base_sequence + batch.last_offset_delta) % (SEQUENCE_MAX + 1)
    for remembered in producer.batches:
        if remembered.last_sequence == last and remembered.first_sequence == batch.base_sequence:
            return remembered
    return None


def check_sequence(
    producer: Producer, batch: Batch, rules: SequenceRules = KAFKA_RULES
) -> SequenceCheck:
    """Whether a batch, which is no duplicate, follows what is known of its producer."""
    is_newer = batch.producer_epoch > producer.producer_epoch
    if is_newer or not producer.batches:
        expected = 0
    else:
        expected = (producer.batches[-1].last_sequence + 1) % (SEQUENCE_MAX + 1)
    if batch.base_sequence == expected:
        return ACCEPTED
    if rules.knows_duplicates_below and not is_newer and _is_below(batch, expected):
        return SequenceCheck(Error.DUPLICATE_SEQUENCE_NUMBER)
    return SequenceCheck(Error.OUT_OF_ORDER_SEQUENCE_NUMBER)


def _is_below(batch: Batch, expected: int) -> bool:
    """Whether all of a batch lies below a sequence: in the half of all sequences before it."""
    distance = sequence_before(expected, batch.base_sequence)
    return batch.last_offset_delta < distance <= SEQUENCE_MAX // 2


def append(table: Table, broker: int, topic_id: Uuid, partition: int, batch: Batch) -> None:
    """Remembers an appended batch; a new epoch forgets the batches of the old one."""
    if batch.producer_id == NO_PRODUCER_ID:
        return
    key = producer_key(broker, topic_id, partition, batch.producer_id)
    update(table.ensure(key, Producer), batch)


def note_producer(table: Table, broker: int, record: ProducerNoted) -> None:
    """Remembers what a producer, or a marker of its, has written where no log is kept."""
    key = producer_key(broker, record.topic_id, record.partition, record.producer_id)
    producer = table.ensure(key, Producer)
    producer.producer_epoch = record.producer_epoch
    producer.last_timestamp = record.timestamp
    if record.coordinator_epoch != NO_COORDINATOR_EPOCH:
        producer.coordinator_epoch = record.coordinator_epoch


def update(producer: Producer, batch: Batch) -> None:
    """What a producer's state is after `batch`, a marker or not."""
    if producer.producer_epoch != batch.producer_epoch:
        producer.producer_epoch = batch.producer_epoch
        producer.batches = []
    producer.last_timestamp = batch.max_timestamp
    if batch.is_control:
        producer.current_txn_first_offset = NO_OFFSET
        if batch.end_marker is not None:
            producer.coordinator_epoch = batch.end_marker.coordinator_epoch
        return
    if batch.is_transactional and producer.current_txn_first_offset == NO_OFFSET:
        producer.current_txn_first_offset = batch.base_offset
    if batch.base_sequence == NO_SEQUENCE:
        return
    delta = batch.last_offset_delta
    last = (batch.base_sequence + delta) % (SEQUENCE_MAX + 1)
    remembered = RememberedBatch(last, batch.base_offset + delta, delta, batch.max_timestamp)
    if len(producer.batches) >= BATCHES_KEPT:
        del producer.batches[: 1 - BATCHES_KEPT]
    producer.batches.append(remembered)


def of_partition(
    table: Table, broker: int, topic_id: Uuid, partition: int
) -> list[tuple[int, Producer]]:
    """The producers that a partition remembers, by their ids."""
    prefix = _prefix(broker, topic_id, partition)
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


def forget_from(table: Table, broker: int, topic_id: Uuid, partition: int, offset: int) -> None:
    """Forgets what a partition's producers have written from `offset` on."""
    for key in table.keys(_prefix(broker, topic_id, partition)):
        producer = table.change(key, Producer)
        producer.batches = [each for each in producer.batches if each.last_offset < offset]
        if producer.current_txn_first_offset >= offset:
            producer.current_txn_first_offset = NO_OFFSET
        if not producer.batches and not producer.has_open_transaction:
            table.drop(key)


def remove_partition(table: Table, broker: int, topic_id: Uuid, partition: int) -> None:
    """Forgets every producer of a partition that is deleted."""
    for key in table.keys(_prefix(broker, topic_id, partition)):
        table.drop(key)
