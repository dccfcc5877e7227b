"""Encodes the records of transactional ids as rows of `__transaction_state`.

Source: `TransactionLog` in Kafka 4.3's transaction-coordinator. A value has version 1, or version 0
if the feature `transaction.version` is 0. A null value is a tombstone.
"""

from brokertwin.protocol.generated.transaction_rows import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from brokertwin.protocol.rows import Encoded
from brokertwin.state.core.java_hashes import hash_map_order, hash_order, partition_hash
from brokertwin.state.core.records import (
    Record,
    TransactionalIdExpired,
    TransactionMetadata,
    TransactionMetadataWritten,
)
from brokertwin.state.transactions.transactions import TransactionState

_STATUS = {state: number for number, state in enumerate(TransactionState)}


def encode(record: Record) -> Encoded | None:
    """The row of a record; None if it is not a record of a transactional id.

    Raises ValueError for an id of more than 32,767 bytes.
    """
    if isinstance(record, TransactionMetadataWritten):
        value = _value(record.metadata).encoded(record.row_version)
        return TransactionLogKey(record.transactional_id).encoded(), value
    if isinstance(record, TransactionalIdExpired):
        return TransactionLogKey(record.transactional_id).encoded(), None
    return None


def _value(metadata: TransactionMetadata) -> TransactionLogValue:
    state = TransactionState(metadata.state)
    return TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.transaction_timeout_ms,
        transaction_status=_STATUS[state],
        transaction_partitions=(
            None if state is TransactionState.EMPTY else _in_hash_order(metadata.partitions)
        ),
        transaction_last_update_timestamp_ms=metadata.last_update_timestamp,
        transaction_start_timestamp_ms=metadata.transaction_start_timestamp,
        client_transaction_version=metadata.client_transaction_version,
    )


def _in_hash_order(partitions: dict[str, list[int]]) -> list[PartitionsSchema]:
    """The partitions by topic in the order of Kafka's hash tables of `TopicPartition`."""
    every = [(topic, number) for topic, numbers in partitions.items() for number in numbers]
    every = hash_map_order(every, lambda p: partition_hash(*p), len(every))
    names = hash_order(dict.fromkeys(topic for topic, _ in every), len(partitions))
    return [
        PartitionsSchema(name, [number for topic, number in every if topic == name])
        for name in names
    ]
