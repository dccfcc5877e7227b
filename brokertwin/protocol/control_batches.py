"""Control batches: the end markers of transactions.

Source: KIP-98; `EndTransactionMarker`, `ControlRecordType`, `DefaultRecordBatch` in Kafka. Leaders
write a marker into each partition of a transaction. It is a v2 batch of 78 bytes with one record;
its bytes follow from its header and its `EndMarker`.

    key      int16 version 0, int16 type: 0 abort, 1 commit
    value    int16 version 0, int32 coordinator epoch
"""

import struct

from brokertwin.protocol.additions import FetchedBatch
from brokertwin.protocol.batch_headers import Batch, EndMarker
from brokertwin.protocol.crc32c import crc32c

SIZE_IN_BYTES = 78

_LOG_OVERHEAD = 12
_ATTRIBUTES = 0x30
"""Transactional and control, no compression."""

_APPEND_TIME = 0x08

_PREFIX = struct.Struct(">qiibI")
_CHECKED = struct.Struct(">hiqqqhiibbbbbhhbhib")
_MAGIC = 2
_NO_SEQUENCE = -1
_RECORD_BYTES, _KEY_BYTES, _VALUE_BYTES = (2 * size for size in (16, 4, 6))  # zigzag varints


def end_batch(
    producer_id: int, producer_epoch: int, marker: EndMarker, base_offset: int, timestamp: int
) -> Batch:
    """The batch of an end marker; `timestamp` is in ms since 1970."""
    batch = Batch(
        base_offset=base_offset,
        last_offset_delta=0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        size_in_bytes=SIZE_IN_BYTES,
        record_count=1,
        is_transactional=True,
        is_control=True,
        end_marker=marker,
    )
    batch.crc = crc32c(_checked(batch, marker))
    return batch


def to_bytes(batch: Batch | FetchedBatch) -> bytes:
    assert batch.end_marker is not None, "not an end marker"
    checked = _checked(batch, batch.end_marker)
    prefix = _PREFIX.pack(
        batch.base_offset,
        SIZE_IN_BYTES - _LOG_OVERHEAD,
        batch.partition_leader_epoch,
        _MAGIC,
        crc32c(checked),
    )
    return prefix + checked


def _checked(batch: Batch | FetchedBatch, marker: EndMarker) -> bytes:
    """The part that the CRC covers: from the attributes to the end of the record."""
    return _CHECKED.pack(
        _ATTRIBUTES | (_APPEND_TIME if marker.is_append_time else 0),
        0,
        batch.base_timestamp,
        batch.max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        _NO_SEQUENCE,
        1,
        _RECORD_BYTES,
        0,
        0,
        0,
        _KEY_BYTES,
        0,
        int(marker.is_commit),
        _VALUE_BYTES,
        0,
        marker.coordinator_epoch,
        0,
    )
