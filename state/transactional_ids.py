"""Transactional ids: what their coordinator keeps of them, and how a producer takes one over.

Source: KIP-98, KIP-360, KIP-588; `TransactionCoordinator.prepareInitProducerIdTransit`,
`TransactionMetadata` in Kafka. Items of the table `transactions`, `<broker>/id/<transactional id>`:
the coordinator is the leader of the id's partition of `__transaction_state`.

InitProducerId, in this order; *expected* are the producer id and epoch that the request holds:

    known         expected                                     answer
    no            anything                                     a new producer id, epoch 0
    yes           another id, but the previous one of an
                  exhausted epoch                              90 PRODUCER_FENCED
    exhausted     none, or the stored epoch                    a new producer id, epoch 0
    exhausted     another epoch                                -1 UNKNOWN_SERVER_ERROR
    yes           none                                         the next epoch; no last epoch
    yes           the stored epoch                             the next epoch; the stored is last
    yes           the last epoch                               the stored epoch: a repeated request
    yes           another epoch                                90

Epoch 32766 is exhausted: 32767 is for fencing alone. A repeat after a new producer id was given
comes with the previous id and its exhausted epoch, which is the last epoch.

Not done: transactions. The only state is Empty; nothing is ever pending.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from brokerstream.state.errors import Error
from brokerstream.state.records import (
    TransactionalIdExpired,
    TransactionMetadata,
    TransactionMetadataWritten,
)
from brokerstream.state.tables import Table

EXHAUSTED_EPOCH = 32766
"""From this epoch on the next producer gets a new producer id."""

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


class ProducerIdAndEpoch(NamedTuple):
    """What a producer holds already."""

    producer_id: int
    epoch: int


def _key(broker: int, transactional_id: str) -> str:
    return f"{broker}/id/{transactional_id}"


def transactional_id_of(key: str) -> str:
    """The transactional id that a key of the table `transactions` is about."""
    return key.split("/", 2)[2]


def metadata(table: Table, broker: int, transactional_id: str) -> TransactionMetadata | None:
    """What the coordinator knows of a transactional id, if anything."""
    return table.get(_key(broker, transactional_id), TransactionMetadata)


def fence_error(known: TransactionMetadata | None, expected: ProducerIdAndEpoch | None) -> Error:
    """PRODUCER_FENCED where another producer has taken the id over, NONE where none has."""
    if known is None or expected is None or expected.producer_id == known.producer_id:
        return Error.NONE
    is_repeat = expected.producer_id == known.previous_producer_id
    if is_repeat and expected.epoch >= EXHAUSTED_EPOCH:
        return Error.NONE
    return Error.PRODUCER_FENCED


def needs_new_id(known: TransactionMetadata | None, expected: ProducerIdAndEpoch | None) -> bool:
    """Whether the producer gets a new producer id."""
    if known is None:
        return True
    is_exhausted = known.producer_epoch >= EXHAUSTED_EPOCH
    return is_exhausted and (expected is None or expected.epoch == known.producer_epoch)


def with_new_id(
    known: TransactionMetadata | None,
    expected: ProducerIdAndEpoch | None,
    producer_id: int,
) -> TransactionMetadata:
    """The metadata with a new producer id in epoch 0; its timeout and time are still to be set."""
    if known is None:
        return TransactionMetadata(producer_id=producer_id, producer_epoch=0)
    return TransactionMetadata(
        producer_id=producer_id,
        previous_producer_id=known.producer_id,
        producer_epoch=0,
        last_producer_epoch=NO_PRODUCER_EPOCH if expected is None else known.producer_epoch,
    )


def with_next_epoch(
    known: TransactionMetadata, expected: ProducerIdAndEpoch | None
) -> TransactionMetadata | Error:
    """The metadata in the epoch that the producer gets, or the error of the table above."""
    if known.producer_epoch >= EXHAUSTED_EPOCH:
        return Error.UNKNOWN_SERVER_ERROR
    if expected is None:
        epoch, last = known.producer_epoch + 1, NO_PRODUCER_EPOCH
    elif expected.epoch == known.producer_epoch:
        epoch, last = known.producer_epoch + 1, known.producer_epoch
    elif expected.epoch == known.last_producer_epoch:
        epoch, last = known.producer_epoch, known.last_producer_epoch
    else:
        return Error.PRODUCER_FENCED
    return msgspec.structs.replace(known, producer_epoch=epoch, last_producer_epoch=last)


def is_expired(known: TransactionMetadata, now: int, expiration_ms: int) -> bool:
    """Whether a check at `now` (ms since 1970) forgets the transactional id."""
    return known.last_update_timestamp <= now - expiration_ms


def all_ids(table: Table, broker: int) -> Iterator[tuple[str, TransactionMetadata]]:
    """The transactional ids that a broker coordinates, sorted, and what it knows of them."""
    prefix = _key(broker, "")
    for key, known in table.items(prefix, TransactionMetadata):
        yield key.removeprefix(prefix), known


def apply_written(table: Table, broker: int, record: TransactionMetadataWritten) -> None:
    """Stores what is new of a transactional id."""
    table.put(_key(broker, record.transactional_id), msgspec.structs.replace(record.metadata))


def apply_expired(table: Table, broker: int, record: TransactionalIdExpired) -> None:
    """Forgets a transactional id."""
    table.drop(_key(broker, record.transactional_id))
