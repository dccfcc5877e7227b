"""An idempotent producer on a partition: its epoch and its last five batches.

Source: seed 002; KIP-98, KIP-360; `ProducerStateEntry`, `ProducerAppendInfo`,
`ProducerStateManager` in Kafka. `check` decides, `append` writes.

    batch's epoch      batch                            result
    no known producer  any sequence                     accepted
    lower              any                              47 INVALID_PRODUCER_EPOCH
    higher             first sequence 0                 accepted; remembered batches are dropped
    higher             first sequence not 0             45 OUT_OF_ORDER_SEQUENCE_NUMBER
    same               one of the last five             duplicate: the original response
    same               follows the last batch           accepted
    same               anything else                    45 OUT_OF_ORDER_SEQUENCE_NUMBER

Two settings of ours change this, both from the seed:

    brokertwin.reject.unknown.producer      an unknown producer must start at 0, else
                                              59 UNKNOWN_PRODUCER_ID; a producer is forgotten with
                                              its last record (Kafka before 2.4)
    brokertwin.duplicates.below.expected    a batch below the expected sequence is a duplicate even
                                              if it is not one of the last five:
                                              46 DUPLICATE_SEQUENCE_NUMBER, without an offset

The second setting assumes that all lower sequences were written. That fails for a producer that
starts at 17 because the broker has forgotten it, so set it together with the first.

A transaction opens with its producer's first transactional batch and ends with a marker. Until then
only transactional batches are accepted:

    another batch of the producer                     48 INVALID_TXN_STATE
    a marker of a lower epoch; with transactions V2,
    also of the same epoch in an open transaction     47 INVALID_PRODUCER_EPOCH
    a marker of an older coordinator                  52 TRANSACTION_COORDINATOR_FENCED
    any other marker                                  accepted; a new epoch drops the batches

The first transactional batch is verified (`transactions/transaction_verification.py`). While the
verification is remembered, a sequence above its lowest one gives 45 OUT_OF_ORDER_SEQUENCE_NUMBER;
so does, with transactions V2, a first sequence above 0 of a producer without batches.

Idle producers are forgotten (`producer_expiry.py`), unless they have an open transaction.
"""

from collections.abc import Iterator

import msgspec

from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import NONE, Error
from brokertwin.state.core.applying import applies
from brokertwin.state.core.records import ProducerNoted, ProducersExpired
from brokertwin.state.core.tables import MachineTables, cached_key

BATCHES_KEPT = 5
"""Batches remembered for each producer and partition (`NUM_BATCHES_TO_RETAIN`)."""

SEQUENCE_MAX = 2**31 - 1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_COORDINATOR_EPOCH = -1
NO_OFFSET = -1
NO_SEQUENCE = -1
"""Sequence of batches that a coordinator writes for a producer."""

FENCING_EPOCH = 2**15 - 1
"""Epoch of no producer: the marker of a fenced producer can be written twice in it."""

TRANSACTIONS_V2 = 2
"""Transaction version in which each end of a transaction raises the epoch (KIP-890)."""


class RememberedBatch(msgspec.Struct, array_like=True, gc=False):
    """One of the last batches; `offset_delta` is its length minus one, `timestamp` is in ms."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return sequence_before(self.last_sequence, self.offset_delta)

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerStateEntry(msgspec.Struct, omit_defaults=True):
    """State of one producer id on one partition; `last_timestamp` is in ms since 1970.

    `coordinator_epoch` is that of the last marker, `current_txn_first_offset` the first offset of
    the open transaction; -1 if there is none.
    """

    producer_epoch: int = NO_PRODUCER_EPOCH
    last_timestamp: int = -1
    batches: list[RememberedBatch] = []
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    current_txn_first_offset: int = NO_OFFSET

    @property
    def has_open_transaction(self) -> bool:
        """True if the producer has written in a transaction that has not ended here."""
        return self.current_txn_first_offset != NO_OFFSET


class Verification(msgspec.Struct, array_like=True):
    """A partition's verification state for a producer's transaction (KIP-890).

    `lowest_sequence` is the lowest among the batches of `producer_epoch` that required it.
    `created` is in ms since 1970.
    """

    created: int
    producer_epoch: int
    lowest_sequence: int
    is_v2: bool


class SequenceCheck(msgspec.Struct, frozen=True):
    """Result of a check; `duplicate` is the earlier batch that the checked one repeats."""

    error: Error
    duplicate: RememberedBatch | None = None


ACCEPTED = SequenceCheck(NONE)


class SequenceRules(msgspec.Struct, frozen=True):
    """Deviations from Kafka's check, and whether transactions are verified."""

    rejects_unknown: bool = False
    knows_duplicates_below: bool = False
    verifies: bool = True


KAFKA_RULES = SequenceRules()


@cached_key
def producer_key(broker: int, topic_id: Uuid, partition: int, producer_id: int) -> str:
    return f"{_prefix(broker, topic_id, partition)}{producer_id}"


def _prefix(broker: int, topic_id: Uuid, partition: int) -> str:
    return f"{broker}/producer/{topic_id}/{partition}/"


def sequence_after(sequence: int, count: int) -> int:
    """`sequence` + `count`; 2147483647 wraps to 0 (`DefaultRecordBatch.incrementSequence`)."""
    return (sequence + count) % (SEQUENCE_MAX + 1)


def sequence_before(sequence: int, count: int) -> int:
    """`sequence` - `count`; 0 wraps to 2147483647 (`DefaultRecordBatch.decrementSequence`)."""
    return (sequence - count) % (SEQUENCE_MAX + 1)


def check(
    producer: ProducerStateEntry | None,
    batch: Batch,
    rules: SequenceRules = KAFKA_RULES,
    verification: Verification | None = None,
) -> SequenceCheck:
    """Check whether a batch of an idempotent producer can be appended.

    `verification` is the partition's verification state of the producer, if any.
    """
    entry = None if producer is None or producer.producer_epoch == NO_PRODUCER_EPOCH else producer
    if entry is not None and batch.producer_epoch == entry.producer_epoch:
        last = (batch.base_sequence + batch.last_offset_delta) % (SEQUENCE_MAX + 1)
        for each in entry.batches:
            if each.last_sequence == last and each.first_sequence == batch.base_sequence:
                return SequenceCheck(NONE, each)
    is_unverified = batch.is_transactional and rules.verifies and verification is None
    if is_unverified and not is_ongoing(entry, batch.producer_epoch):
        return SequenceCheck(Error.INVALID_TXN_STATE)
    if entry is not None and batch.producer_epoch < entry.producer_epoch:
        return SequenceCheck(Error.INVALID_PRODUCER_EPOCH)
    if verification is not None and not _may_be_first(entry, batch, verification):
        return SequenceCheck(Error.OUT_OF_ORDER_SEQUENCE_NUMBER)
    if entry is None:
        is_refused = rules.rejects_unknown and batch.base_sequence != 0
        return SequenceCheck(Error.UNKNOWN_PRODUCER_ID) if is_refused else ACCEPTED
    checked = check_sequence(entry, batch, rules)
    if batch.is_transactional or checked is not ACCEPTED:
        return checked
    is_open = entry.current_txn_first_offset != NO_OFFSET
    return SequenceCheck(Error.INVALID_TXN_STATE) if is_open else ACCEPTED


def is_ongoing(producer: ProducerStateEntry | None, producer_epoch: int) -> bool:
    """True if a producer has an open transaction in this epoch."""
    return (
        producer is not None
        and producer.current_txn_first_offset != NO_OFFSET
        and producer.producer_epoch == producer_epoch
    )


def _may_be_first(
    entry: ProducerStateEntry | None, batch: Batch, verification: Verification
) -> bool:
    """True if the sequence can be that of a transaction's first batch."""
    is_new = entry is None or not entry.batches
    if verification.is_v2 and is_new and batch.base_sequence != 0:
        return False
    return batch.base_sequence <= verification.lowest_sequence


def check_marker(
    producer: ProducerStateEntry | None, batch: Batch, transaction_version: int
) -> Error:
    """Error of an end marker: 47 INVALID_PRODUCER_EPOCH, 52 TRANSACTION_COORDINATOR_FENCED."""
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


def check_sequence(
    producer: ProducerStateEntry, batch: Batch, rules: SequenceRules = KAFKA_RULES
) -> SequenceCheck:
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
    """True if a whole batch is below a sequence: within the preceding half of the range."""
    distance = sequence_before(expected, batch.base_sequence)
    return batch.last_offset_delta < distance <= SEQUENCE_MAX // 2


def append(at: MachineTables, topic_id: Uuid, partition: int, batch: Batch) -> None:
    """Remember an appended batch; a new epoch drops the batches of the old one."""
    if batch.producer_id == NO_PRODUCER_ID:
        return
    key = producer_key(at.id, topic_id, partition, batch.producer_id)
    update(at.tables.producers.ensure(key, ProducerStateEntry), batch)


@applies(ProducerNoted)
def note_producer(at: MachineTables, record: ProducerNoted) -> None:
    """Remember a producer's write on a machine that has no log."""
    key = producer_key(at.id, record.topic_id, record.partition, record.producer_id)
    producer = at.tables.producers.ensure(key, ProducerStateEntry)
    producer.producer_epoch = record.producer_epoch
    producer.last_timestamp = record.timestamp
    if record.coordinator_epoch != NO_COORDINATOR_EPOCH:
        producer.coordinator_epoch = record.coordinator_epoch


def update(producer: ProducerStateEntry, batch: Batch) -> None:
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
    at: MachineTables, topic_id: Uuid, partition: int
) -> list[tuple[int, ProducerStateEntry]]:
    """A partition's producers, sorted by id."""
    prefix = _prefix(at.id, topic_id, partition)
    entries = [
        (int(key.rsplit("/", 1)[1]), p)
        for key, p in at.tables.producers.items(prefix, ProducerStateEntry)
    ]
    return sorted(entries, key=lambda entry: entry[0])


def all_producers(at: MachineTables) -> Iterator[tuple[tuple[Uuid, int, int], ProducerStateEntry]]:
    """A broker's producers by topic id, partition and producer id."""
    for key, producer in at.tables.producers.items(f"{at.id}/producer/", ProducerStateEntry):
        _, _, topic_id, partition, producer_id = key.split("/")
        yield (topic_id, int(partition), int(producer_id)), producer


@applies(ProducersExpired)
def expire(at: MachineTables, record: ProducersExpired) -> None:
    for producer_id in record.producer_ids:
        at.tables.producers.drop(
            producer_key(at.id, record.topic_id, record.partition, producer_id)
        )


def forget_from(at: MachineTables, topic_id: Uuid, partition: int, offset: int) -> None:
    for key in at.tables.producers.keys(_prefix(at.id, topic_id, partition)):
        producer = at.tables.producers.change(key, ProducerStateEntry)
        producer.batches = [each for each in producer.batches if each.last_offset < offset]
        if producer.current_txn_first_offset >= offset:
            producer.current_txn_first_offset = NO_OFFSET
        if not producer.batches and not producer.has_open_transaction:
            at.tables.producers.drop(key)


def remove_partition(at: MachineTables, topic_id: Uuid, partition: int) -> None:
    for key in at.tables.producers.keys(_prefix(at.id, topic_id, partition)):
        at.tables.producers.drop(key)
