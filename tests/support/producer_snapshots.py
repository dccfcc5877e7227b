"""Kafka's producer snapshot files, written from a partition's producers.

Source: `ProducerStateManager`, `ProducerSnapshot.json` in Kafka. The file
`<offset, 20 digits>.snapshot` has the producers of the records below that offset. Numbers are
big-endian:

    int16 version, 1        uint32 CRC-32C of the rest        int32 number of entries
    an entry: int64 producer id, int16 epoch, int32 last sequence, int64 last offset,
    int32 offset delta, int64 timestamp, int32 coordinator epoch, int64 first offset of the
    open transaction
"""

import struct
from collections.abc import Iterable

from brokertwin.protocol.crc32c import crc32c
from brokertwin.state.logs.producer import NO_OFFSET, NO_SEQUENCE, ProducerStateEntry

VERSION = 1

_PREFIX = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


def file_name(offset: int) -> str:
    """Return the name of the snapshot at `offset`."""
    return f"{offset:020d}.snapshot"


def encode(producers: Iterable[tuple[int, ProducerStateEntry]]) -> bytes:
    entries = [_entry(*each) for each in producers]
    body = _COUNT.pack(len(entries)) + b"".join(entries)
    return _PREFIX.pack(VERSION, crc32c(body)) + body


def _entry(producer_id: int, producer: ProducerStateEntry) -> bytes:
    last = producer.batches[-1] if producer.batches else None
    return _ENTRY.pack(
        producer_id,
        producer.producer_epoch,
        NO_SEQUENCE if last is None else last.last_sequence,
        NO_OFFSET if last is None else last.last_offset,
        0 if last is None else last.offset_delta,
        producer.last_timestamp,
        producer.coordinator_epoch,
        producer.current_txn_first_offset,
    )
