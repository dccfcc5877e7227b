"""Encoder of transactional ids to rows of `__transaction_state`.

Source: `TransactionLog`, `TransactionLogKey`, `TransactionLogValue` in Kafka 4.3's
transaction-coordinator. Keys have version 0. Values have version 1, which is flexible, or version 0
if the feature `transaction.version` has level 0. Version 0 has no previous and next producer ids. A
null value is a tombstone.
"""

import struct

from brokertwin.state.core.java_hashes import hash_map_order, hash_order, partition_hash
from brokertwin.state.core.kafka_bytes import Writer
from brokertwin.state.core.records import (
    Record,
    TransactionalIdExpired,
    TransactionMetadata,
    TransactionMetadataWritten,
)
from brokertwin.state.transactions.transactions import TransactionState

Row = tuple[bytes, bytes | None]

FLEXIBLE = 1
"""First flexible version of a value."""

_STATUS = {state: number for number, state in enumerate(TransactionState)}


def encode(record: Record) -> Row | None:
    """Return the row of a record; None if it is not of a transactional id.

    Raises ValueError for an id longer than 32767 bytes, the limit of Kafka's protocol.
    """
    if isinstance(record, TransactionMetadataWritten):
        return _key(record.transactional_id), _value(record.metadata, record.row_version)
    if isinstance(record, TransactionalIdExpired):
        return _key(record.transactional_id), None
    return None


def _key(transactional_id: str) -> bytes:
    writer = Writer()
    writer.number("h", 0)
    writer.string(transactional_id)
    return writer.encoded()


def _value(metadata: TransactionMetadata, version: int) -> bytes:
    writer = Writer(is_flexible=version >= FLEXIBLE)
    writer.number("h", version)
    writer.number("q", metadata.producer_id)
    writer.number("h", metadata.producer_epoch)
    writer.number("i", metadata.transaction_timeout_ms)
    state = TransactionState(metadata.state)
    writer.number("b", _STATUS[state])

    def partitions(topic: tuple[str, list[int]]) -> None:
        name, numbers = topic
        writer.string(name)
        writer.array(numbers, lambda number: writer.number("i", number))
        writer.tags({})

    if state is TransactionState.EMPTY:
        writer.number(*(("b", 0) if writer.is_flexible else ("i", -1)))  # null array
    else:
        writer.array(_in_hash_order(metadata.partitions), partitions)
    writer.number("q", metadata.last_update_timestamp)
    writer.number("q", metadata.transaction_start_timestamp)
    writer.tags(_tags(metadata))
    return writer.encoded()


def _in_hash_order(partitions: dict[str, list[int]]) -> list[tuple[str, list[int]]]:
    """Return partitions by topic in the order of Kafka's hash tables."""
    every = [(topic, number) for topic, numbers in partitions.items() for number in numbers]
    every = hash_map_order(every, lambda p: partition_hash(*p), len(every))
    names = hash_order(dict.fromkeys(topic for topic, _ in every), len(partitions))
    return [(name, [number for topic, number in every if topic == name]) for name in names]


def _tags(metadata: TransactionMetadata) -> dict[int, bytes]:
    """Return the tagged fields that differ from their defaults."""
    ids = (metadata.previous_producer_id, metadata.next_producer_id)
    tags = {tag: struct.pack(">q", each) for tag, each in enumerate(ids) if each != -1}
    if metadata.client_transaction_version:
        tags[2] = struct.pack(">h", metadata.client_transaction_version)
    return tags
