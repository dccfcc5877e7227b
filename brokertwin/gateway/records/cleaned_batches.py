"""Batches for the log cleaner, and the bytes of a cleaned batch.

Source: `MemoryRecords.filterTo`, `MemoryRecordsBuilder`, `DefaultRecordBatch.writeEmptyHeader` in
Kafka; KIP-534. A cleaned batch keeps its base and last offset. A delete horizon replaces the base
timestamp, marked by a flag, and timestamp deltas count from it.
"""

import struct
from typing import NamedTuple

from brokertwin.protocol import compression
from brokertwin.protocol import record_batches as records
from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.primitives import MalformedError, read_varint, write_varint
from brokertwin.protocol.record_batches import (
    APPEND_TIME_FLAG,
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER,
    HEADER_BYTES,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
)
from brokertwin.state.logs.cleaner import CleanedBatch, CleanerBatch, CleanerRecord
from brokertwin.state.logs.log import StoredBatch

DELETE_HORIZON_FLAG = 0x40
_INT16 = struct.Struct(">h")
_INT64 = struct.Struct(">q")
_BASE_TIMESTAMP_POSITION = 27


class RawRecord(NamedTuple):
    """A record: offset, timestamp in ms, and its bytes from the key on."""

    offset: int
    timestamp: int
    rest: bytes
    key: bytes | None
    has_value: bool


def seen(data: bytes, header: StoredBatch) -> tuple[CleanerBatch, list[RawRecord]]:
    """Decode a batch, with its bytes as in a Fetch response.

    Raises:
        DecompressionError, MalformedError: as `records.records_of`.
    """
    (attributes,) = _INT16.unpack_from(data, ATTRIBUTES_POSITION)
    (base_timestamp,) = _INT64.unpack_from(data, _BASE_TIMESTAMP_POSITION)
    records = _raw_records(data, header, attributes, base_timestamp)
    horizon = base_timestamp if attributes & DELETE_HORIZON_FLAG else None
    of_records = [CleanerRecord(each.offset, each.key, each.has_value) for each in records]
    return CleanerBatch(header, of_records, horizon), records


def _raw_records(
    data: bytes, header: StoredBatch, attributes: int, base_timestamp: int
) -> list[RawRecord]:
    count = HEADER.unpack_from(data)[-1]
    plain = compression.decompress(
        records.codec_name(attributes & CODEC_MASK), bytes(data[HEADER_BYTES:])
    )
    raw_records, end = [], 0
    for _ in range(count):
        try:
            size, start = read_varint(plain, end)
            end = start + size
            timestamp_delta, at = read_varint(plain, start + 1)
            offset_delta, at = read_varint(plain, at)
            key_size, key_at = read_varint(plain, at)
            value_size, _ = read_varint(plain, key_at + max(key_size, 0))
        except IndexError:
            raise MalformedError("the records end too early") from None
        key = plain[key_at : key_at + key_size] if key_size >= 0 else None
        timestamp = base_timestamp + timestamp_delta
        if attributes & APPEND_TIME_FLAG:
            timestamp = header.max_timestamp
        raw_records.append(
            RawRecord(
                header.base_offset + offset_delta, timestamp, plain[at:end], key, value_size >= 0
            )
        )
    return raw_records


def left_of(
    data: bytes, header: StoredBatch, found: list[RawRecord], outcome: CleanedBatch
) -> bytes:
    assert outcome.places is not None, "the batch is not deleted"
    kept = [found[place] for place in outcome.places]
    (attributes,) = _INT16.unpack_from(data, ATTRIBUTES_POSITION)
    attributes &= ~DELETE_HORIZON_FLAG
    if not kept:
        flags = attributes & (APPEND_TIME_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG)
        return records.encoded(header.header(), flags, NO_TIMESTAMP, header.max_timestamp, 0, b"")
    base_timestamp, newest = kept[0].timestamp, max(each.timestamp for each in kept)
    if outcome.delete_horizon is not None:
        attributes |= DELETE_HORIZON_FLAG
        base_timestamp = outcome.delete_horizon
    if attributes & APPEND_TIME_FLAG:
        newest = header.max_timestamp
    plain = bytearray()
    for each in kept:
        body = bytearray(b"\0")
        write_varint(body, each.timestamp - base_timestamp)
        write_varint(body, each.offset - header.base_offset)
        body += each.rest
        write_varint(plain, len(body))
        plain += body
    packed = compression.compress(records.codec_name(attributes & CODEC_MASK), bytes(plain), None)
    return records.encoded(header.header(), attributes, base_timestamp, newest, len(kept), packed)


def header_of(data: bytes, before: StoredBatch, first_timestamp: int) -> Batch:
    """Return the header of a cleaned batch.

    Its base timestamp is that of its first record, even if the bytes have a delete horizon there.
    """
    header = records.batch_headers(data)[0]
    header.base_timestamp = first_timestamp
    if header.record_count:
        header.end_marker = before.end_marker
    return header
