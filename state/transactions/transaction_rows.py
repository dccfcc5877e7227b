"""What is known of transactional ids as rows of `__transaction_state`, in Kafka's own bytes.

Source: `TransactionLog`, `TransactionLogKey`, `TransactionLogValue` in Kafka 4.3's
transaction-coordinator. A key has version 0, a value version 1, which is flexible; where the
feature `transaction.version` is 0 a value has version 0, and no producer ids but its own. A null
value takes back what the key names.
"""

import struct

from brokertwin.state.core.java_hashes import hash_map_order, hash_order, partition_hash
from brokertwin.state.core.records import (
    Record,
    TransactionalIdExpired,
    TransactionMetadata,
    TransactionMetadataWritten,
)
from brokertwin.state.core.wire.primitives import Writer
from brokertwin.state.transactions.transactions import State

Row = tuple[bytes, bytes | None]
"""Key and value."""

FLEXIBLE = 1
"""The first version of a value that is flexible."""

_STATUS = {state: number for number, state in enumerate(State)}


def encode(record: Record) -> Row | None:
    """The row of a record; None where it is not of a transactional id.

    Raises ValueError for an id of more than 32767 bytes, which Kafka's protocol has no room for.
    """
    if isinstance(record, TransactionMetadataWritten):
        return _key(record.transactional_id), _value(record.metadata, record.row_version)
    if isinstance(record, TransactionalIdExpired):
        return _key(record.transactional_id), None
    return None


def _key(transactional_id: str) -> bytes:
    writer = Writer()
    writer.int16(0)
    writer.string(transactional_id)
    return writer.encoded()


def _value(metadata: TransactionMetadata, version: int) -> bytes:
    writer = Writer(is_flexible=version >= FLEXIBLE)
    writer.int16(version)
    writer.int64(metadata.producer_id)
    writer.int16(metadata.producer_epoch)
    writer.int32(metadata.transaction_timeout_ms)
    state = State(metadata.state)
    writer.int8(_STATUS[state])

    def partitions(topic: tuple[str, list[int]]) -> None:
        name, numbers = topic
        writer.string(name)
        writer.array(numbers, lambda number: writer.int32(number))
        writer.tags({})

    if state is State.EMPTY:
        writer.nullable_array(None, partitions)
    else:
        writer.array(_in_hash_order(metadata.partitions), partitions)
    writer.int64(metadata.last_update_timestamp)
    writer.int64(metadata.transaction_start_timestamp)
    writer.tags(_tags(metadata))
    return writer.encoded()


def _in_hash_order(partitions: dict[str, list[int]]) -> list[tuple[str, list[int]]]:
    """The partitions by topic in the order of Kafka's hash tables of `TopicPartition`."""
    every = [(topic, number) for topic, numbers in partitions.items() for number in numbers]
    every = hash_map_order(every, lambda p: partition_hash(*p), len(every))
    names = hash_order(dict.fromkeys(topic for topic, _ in every), len(partitions))
    return [(name, [number for topic, number in every if topic == name]) for name in names]


def _tags(metadata: TransactionMetadata) -> dict[int, bytes]:
    """The tagged fields that have not their defaults."""
    ids = (metadata.previous_producer_id, metadata.next_producer_id)
    tags = {tag: struct.pack(">q", each) for tag, each in enumerate(ids) if each != -1}
    if metadata.client_transaction_version:
        tags[2] = struct.pack(">h", metadata.client_transaction_version)
    return tags
