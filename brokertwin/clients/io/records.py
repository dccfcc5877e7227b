"""Encodes record batches for Produce and decodes those of Fetch responses.

kafka-python handles the bytes (magic 2; older ones are read). Source: KIP-98; `DefaultRecordBatch`,
`CompletedFetch` in Kafka.
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any

from kafka.record import MemoryRecords, MemoryRecordsBuilder

from brokertwin.clients.fetcher import Records
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.producer_batch import ProducerBatch
from brokertwin.protocol.record_batches import LEADER_EPOCH_POSITION

MAGIC = 2
COMPRESSION = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LEADER_EPOCH = struct.Struct(">i")
NO_EPOCH = -1
"""The leader sets its epoch, which the CRC does not cover; kafka-python leaves 0."""

ABORT = 0
"""Control record type of an aborted transaction."""


def encode_batch(
    batch: ProducerBatch,
    messages: Mapping[int, ProducerRecord],
    compression: str = "none",
) -> bytes:
    """Encode a batch; `messages` by record id."""
    producer_id, epoch = batch.id_and_epoch
    builder = MemoryRecordsBuilder(
        MAGIC,
        COMPRESSION[compression],
        2**31,
        transactional=batch.is_transactional,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=batch.base_sequence,
    )
    for record in batch.records:
        message = messages[record.id]
        headers = list(message.headers)
        builder.append(record.timestamp, message.key, message.value, headers)
    builder.close()
    data = bytearray(builder.buffer())
    LEADER_EPOCH.pack_into(data, LEADER_EPOCH_POSITION, NO_EPOCH)
    return bytes(data)


def decode_records(data: bytes, aborted: Iterable[Mapping[str, Any]] | None) -> Records | None:
    """Decode whole batches into records with offsets and leader epochs.

    Returns None without a whole batch. Leaves out control records and, with read_committed, records
    of `aborted` transactions.
    """
    batches = MemoryRecords(data)
    begins = sorted((each["firstOffset"], each["producerId"]) for each in aborted or ())
    open_ones: set[int] = set()
    items: list[tuple[int, ProducerRecord]] = []
    epochs: list[tuple[int, int]] = []
    for batch in batches:
        epochs.append((batch.next_offset, batch.leader_epoch if batch.magic >= MAGIC else NO_EPOCH))
        if batch.magic < MAGIC:
            items += [(each.offset, _message(each)) for each in batch]
            continue
        while begins and begins[0][0] <= batch.next_offset - 1:
            open_ones.add(begins.pop(0)[1])
        if batch.is_control_batch:
            if any(int.from_bytes(record.key[2:4], "big") == ABORT for record in batch):
                open_ones.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in open_ones):
            items += [(each.offset, _message(each)) for each in batch]
    return Records(items, epochs[-1][0], epochs) if epochs else None


def _message(record: Any) -> ProducerRecord:
    key, value = record.key, record.value
    return ProducerRecord(
        None if key is None else bytes(key),
        None if value is None else bytes(value),
        record.timestamp,
        tuple(record.headers),
    )
