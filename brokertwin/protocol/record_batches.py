"""Record sets: validation of Produce data, and batch headers for events.

Source: `ByteBufferLogInputStream`, `DefaultRecordBatch`, `DefaultRecord`, `LogValidator` in Kafka;
KIP-98 (magic 2). Bytes are stored as received, without a producer's append time flag. Base offset,
leader epoch and, with log append time, flag and maximum timestamp are set when a batch is read.
"""

import struct
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import islice, starmap
from typing import NamedTuple

from crc32c import crc32c

from brokertwin.protocol import compression
from brokertwin.protocol.additions import FetchedBatch, RecordsSummary
from brokertwin.protocol.batch_headers import UNKNOWN_CODEC, Batch
from brokertwin.protocol.compression import DecompressionError
from brokertwin.protocol.errors import Error
from brokertwin.protocol.primitives import MalformedError, read_varint

LOG_OVERHEAD = 12
"""Base offset and size field; the size does not include them."""

MAGIC_END = 17
LEGACY_OVERHEAD = 14
"""Minimum size field of a batch of any magic."""

HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
CRC_POSITION = 17
CHECKED_FROM = 21
"""The CRC covers the bytes from the attributes on."""

ATTRIBUTES_POSITION = 21
FLAGS_POSITION = 22
"""The second byte of the attributes has all flags and the codec."""

MAX_TIMESTAMP_POSITION = 35
CODEC_MASK = 0x07
APPEND_TIME_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
MAGIC = 2
NO_TIMESTAMP = -1
_CODECS = [*compression.NAMES, *[UNKNOWN_CODEC] * (CODEC_MASK + 1 - len(compression.NAMES))]
RECORDS_MAX = 1_000_000
"""Maximum of records in a batch. A million records of 7 bytes each compress to 725 bytes."""

BATCHES_READ_MAX = 2
"""A valid Produce request has one batch; a second one proves the request invalid."""

_SIZE = struct.Struct(">i")
_CRC = struct.Struct(">I")
_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT64 = struct.Struct(">q")
_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
LEADER_EPOCH_POSITION = 12


class RecordSet(NamedTuple):
    """Record set of one partition of a Produce request.

    `batches` are headers as in events. `error` is `recordsError` for the state machine, or 0.
    `data` is the only batch, if there is one. `seen` is further information on its records
    (`recordsSeen`), or None.
    """

    size_in_bytes: int
    batches: list[Batch]
    error: int
    data: bytes | None
    seen: RecordsSummary | None = None


class RecordDeltas(NamedTuple):
    """Deltas of a record's offset and timestamp (ms) in its batch.

    `key_size` and `value_size` are in bytes, negative for null.
    """

    offset_delta: int
    timestamp_delta: int
    key_size: int
    value_size: int


class Columns(NamedTuple):
    """`RecordDeltas` of all records of a batch, as columns."""

    offset_deltas: list[int]
    timestamp_deltas: list[int]
    key_sizes: list[int]
    value_sizes: list[int]


NO_RECORDS = Columns([], [], [], [])
NOTHING_SEEN = RecordsSummary()


class _CorruptError(ValueError):
    """The bytes are no batch."""


def parse(data: bytes | None) -> RecordSet:
    """Parse and validate batches. Never raises."""
    data = data or b""
    try:
        spans = [(0, len(data))]  # mostly, the data are one batch
        has_header = len(data) >= HEADER_BYTES and data[MAGIC_END - 1] == MAGIC
        if not has_header or _SIZE.unpack_from(data, 8)[0] + LOG_OVERHEAD != len(data):
            spans = list(islice(_spans(data), BATCHES_READ_MAX))
    except _CorruptError:
        return RecordSet(len(data), _first_odd(data), Error.CORRUPT_MESSAGE, None)
    batches = list(starmap(partial(_header, data), spans))
    if len(spans) != 1 or batches[0].magic != MAGIC:
        return RecordSet(len(data), batches, Error.NONE, None)
    start, end = spans[0]
    batch = data[start:end]
    error, records = _check(batch, batches[0])
    if not records.offset_deltas:
        return RecordSet(len(data), batches, error, batch)
    greatest = max(records.timestamp_deltas)
    if batch[FLAGS_POSITION] & APPEND_TIME_FLAG:
        seen = _seen(batch, batches[0], records)
        return RecordSet(len(data), batches, error, _with_create_time(batch, batches[0]), seen)
    if batches[0].base_timestamp + greatest != batches[0].max_timestamp:
        batch = _with_true_timestamp(batch, batches[0], greatest)
    if batches[0].base_timestamp != batches[0].max_timestamp:
        batches[0].greatest_delta = records.timestamp_deltas.index(greatest)
    return RecordSet(len(data), batches, error, batch, _seen(batch, batches[0], records))


def _seen(batch: bytes, header: Batch, records: Columns) -> RecordsSummary | None:
    """Return what the state machine needs beside the header, or None."""
    seen = RecordsSummary()
    has_append_time = bool(batch[FLAGS_POSITION] & APPEND_TIME_FLAG)
    base, greatest = header.base_timestamp, header.max_timestamp
    if has_append_time:
        seen.has_append_time = True
        base = least = greatest
    else:
        least = base + min(records.timestamp_deltas)
        if least == NO_TIMESTAMP:
            times = (base + delta for delta in records.timestamp_deltas)
            least = min((time for time in times if time != NO_TIMESTAMP), default=NO_TIMESTAMP)
    if least != header.base_timestamp and -(2**63) <= least < 2**63:
        seen.least_timestamp = least
    if min(records.key_sizes) < 0:
        seen.has_keyless = True
        if max(records.key_sizes) < 0:
            return seen
        times_of_keyed = [
            greatest if has_append_time else base + delta
            for delta, size in zip(records.timestamp_deltas, records.key_sizes, strict=True)
            if size >= 0
        ]
        known = [time for time in times_of_keyed if time != NO_TIMESTAMP]
        if known and -(2**63) <= min(known) <= max(known) < 2**63:
            seen.keyed_timestamps = [min(known), max(known)]
    return seen if seen != NOTHING_SEEN else None


def has_append_time_flag(batch: bytes) -> bool:
    return bool(batch[FLAGS_POSITION] & APPEND_TIME_FLAG)


def _first_odd(data: bytes) -> list[Batch]:
    """Return the legible part of a first batch with an unknown magic."""
    if len(data) < MAGIC_END or data[MAGIC_END - 1] <= MAGIC:
        return []
    if _SIZE.unpack_from(data, 8)[0] < LEGACY_OVERHEAD:
        return []
    header = _header(data, 0, len(data))
    (header.magic,) = _INT8.unpack_from(data, MAGIC_END - 1)
    return [header]


def batch_headers(data: bytes) -> list[Batch]:
    """Return the headers of all complete batches, unchecked, up to invalid bytes."""
    headers = []
    with suppress(_CorruptError):
        for start, end in _spans(data):
            headers.append(_header(data, start, end))
    return headers


def _spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield the span of each complete batch; skip an incomplete last one."""
    position = 0
    while True:
        remaining = len(data) - position
        if remaining < LOG_OVERHEAD:
            return
        (size,) = _SIZE.unpack_from(data, position + 8)
        if size < LEGACY_OVERHEAD:
            raise _CorruptError
        if remaining < MAGIC_END:
            return
        magic = data[position + MAGIC_END - 1]
        if magic > MAGIC:
            raise _CorruptError
        end = position + LOG_OVERHEAD + size
        if end > len(data):
            return
        yield position, end
        position = end


def _header(data: bytes, start: int, end: int) -> Batch:
    """Return the header of a batch; only the legible part of an older magic."""
    magic = data[start + MAGIC_END - 1]
    if magic != MAGIC or end - start < HEADER_BYTES:
        (base_offset,) = _BASE_OFFSET.unpack_from(data, start)
        size = end - start
        return Batch(base_offset=base_offset, last_offset_delta=0, magic=magic, size_in_bytes=size)
    (
        base_offset,
        _size,
        leader_epoch,
        magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = HEADER.unpack_from(data, start)
    codec = attributes & CODEC_MASK
    return Batch(
        base_offset=base_offset,
        last_offset_delta=last_offset_delta,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        partition_leader_epoch=leader_epoch,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        size_in_bytes=end - start,
        record_count=max(count, 0),
        magic=magic,
        compression_type=_CODECS[codec],
        is_transactional=bool(attributes & TRANSACTIONAL_FLAG),
        is_control=bool(attributes & CONTROL_FLAG),
        crc=crc,
    )


def codec_name(codec: int) -> str:
    """Return the codec's name; `none` for an unknown number."""
    return compression.NAMES[codec] if codec < len(compression.NAMES) else "none"


def _check(batch: bytes, header: Batch) -> tuple[Error, Columns]:
    """Validate a batch of magic 2; return an error and its records."""
    if len(batch) < HEADER_BYTES:
        return Error.CORRUPT_MESSAGE, NO_RECORDS
    if crc32c(memoryview(batch)[CHECKED_FROM:]) != header.crc:
        return Error.CORRUPT_MESSAGE, NO_RECORDS
    if header.compression_type == UNKNOWN_CODEC:
        return Error.UNKNOWN_SERVER_ERROR, NO_RECORDS
    if header.record_count != header.last_offset_delta + 1 or header.is_control:
        return Error.NONE, NO_RECORDS  # the state machine validates the header
    try:
        records = _columns_of(batch)
    except DecompressionError:
        return Error.UNKNOWN_SERVER_ERROR, NO_RECORDS
    except MalformedError:
        return Error.INVALID_RECORD, NO_RECORDS
    if header.compression_type != "none":
        deltas = records.offset_deltas
        if deltas != list(range(len(deltas))):
            return Error.INVALID_RECORD, NO_RECORDS
    return Error.NONE, records


def _with_true_timestamp(batch: bytes, header: Batch, delta: int) -> bytes:
    """Set the maximum timestamp to that of the records, like Kafka."""
    greatest = header.base_timestamp + delta
    if greatest == header.max_timestamp or not -(2**63) <= greatest < 2**63:
        return batch
    patched = bytearray(batch)
    _INT64.pack_into(patched, MAX_TIMESTAMP_POSITION, greatest)
    header.max_timestamp = greatest
    header.crc = set_crc(patched)
    return bytes(patched)


def _with_create_time(batch: bytes, header: Batch) -> bytes:
    """Clear the append time flag, which only topics with create time accept."""
    patched = bytearray(batch)
    patched[FLAGS_POSITION] &= ~APPEND_TIME_FLAG
    header.crc = set_crc(patched)
    return bytes(patched)


def encoded(
    header: Batch | FetchedBatch, attributes: int, base: int, newest: int, count: int, packed: bytes
) -> bytes:
    """Encode a batch of magic 2 from its records, which are compressed as the attributes say.

    Args:
        header: offsets, epochs and producer.
        attributes: codec and flags.
        base: base timestamp in ms since 1970.
        newest: greatest timestamp.
        count: number of records.
        packed: the records' bytes.
    """
    batch = bytearray(
        HEADER.pack(
            header.base_offset,
            HEADER_BYTES + len(packed) - LOG_OVERHEAD,
            header.partition_leader_epoch,
            header.magic,
            0,
            attributes,
            header.last_offset_delta,
            base,
            newest,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            count,
        )
    )
    batch += packed
    set_crc(batch)
    return bytes(batch)


def set_crc(batch: bytearray) -> int:
    crc = crc32c(bytes(memoryview(batch)[CHECKED_FROM:]))
    _CRC.pack_into(batch, CRC_POSITION, crc)
    return crc


def records_of(batch: bytes) -> list[RecordDeltas]:
    """Return the records of a batch of magic 2, in order.

    Raises:
        DecompressionError: they cannot be decompressed.
        MalformedError: they cannot be decoded, or their number differs from the header.
    """
    return list(map(RecordDeltas._make, zip(*_columns_of(batch), strict=True)))


def _columns_of(batch: bytes) -> Columns:
    """Same as `records_of`, without an object for each record."""
    (count,) = _SIZE.unpack_from(batch, HEADER_BYTES - 4)
    if count > RECORDS_MAX:
        raise MalformedError(f"{count} records; at most {RECORDS_MAX} are accepted")
    data, begin = batch, HEADER_BYTES
    codec = batch[FLAGS_POSITION] & CODEC_MASK
    if codec:
        data, begin = compression.decompress(codec_name(codec), batch[HEADER_BYTES:]), 0
    if count > len(data) - begin:
        raise MalformedError(f"{count} records in {len(data) - begin} bytes")
    offset_deltas, timestamp_deltas, key_sizes, value_sizes = columns = Columns([], [], [], [])
    end = begin
    # Numbers of one byte are decoded inline: function calls would take most of the time.
    try:
        for _ in range(count):
            size, position = read_varint(data, end)
            end = position + size
            if size < 0 or end > len(data):
                raise MalformedError(f"a record of {size} bytes")
            byte = data[position + 1]  # after the attributes
            if byte < 0x80:
                timestamp_deltas.append((byte >> 1) ^ -(byte & 1))
                position += 2
            else:
                delta, position = read_varint(data, position + 1)
                timestamp_deltas.append(delta)
            byte = data[position]
            if byte < 0x80:
                offset_deltas.append((byte >> 1) ^ -(byte & 1))
                position += 1
            else:
                delta, position = read_varint(data, position)
                offset_deltas.append(delta)
            if data[position] == 1:  # -1: no key
                key_size = -1
                position += 1
            else:
                key_size, position = read_varint(data, position)
            key_sizes.append(key_size)
            value_size, position = read_varint(data, position + max(key_size, 0))
            value_sizes.append(value_size)
            if value_size > 0:
                position += value_size
            position = _after_headers(data, position, size) if data[position] else position + 1
            if position != end:
                raise MalformedError(f"a record that ends at byte {position} instead of {end}")
    except IndexError:
        raise MalformedError("the records end too early") from None
    if end != len(data):
        raise MalformedError(f"{len(data) - end} bytes after the last record")
    return columns


def _after_headers(data: bytes, position: int, size: int) -> int:
    """Return the end of a record's headers. Raises IndexError at the end of data."""
    headers, position = read_varint(data, position)
    if not 0 <= headers <= size:
        raise MalformedError(f"{headers} headers")
    for _ in range(headers):
        length, position = read_varint(data, position)
        if length < 0:
            raise MalformedError("a header without key")
        length, position = read_varint(data, position + length)
        position += max(length, 0)
    return position


def as_stored(data: bytes, header: Batch | FetchedBatch) -> bytearray:
    """Return a batch's bytes as in a Fetch response, with its offsets in the log.

    Args:
        data: bytes as received.
        header: batch in the Fetch response. With log append time, the CRC is recomputed. Batches
            of former programs have it if their maximum timestamp is not that of the bytes.
    """
    batch = bytearray(data)
    _BASE_OFFSET.pack_into(batch, 0, header.base_offset)
    _LEADER_EPOCH.pack_into(batch, LEADER_EPOCH_POSITION, header.partition_leader_epoch)
    (max_timestamp,) = _INT64.unpack_from(batch, MAX_TIMESTAMP_POSITION)
    if header.has_append_time or max_timestamp != header.max_timestamp:
        (attributes,) = _INT16.unpack_from(batch, ATTRIBUTES_POSITION)
        _INT16.pack_into(batch, ATTRIBUTES_POSITION, attributes | APPEND_TIME_FLAG)
        _INT64.pack_into(batch, MAX_TIMESTAMP_POSITION, header.max_timestamp)
        set_crc(batch)
    return batch


def last_offset_delta(data: bytes) -> int:
    """Return the difference of a batch's last and first offset."""
    return int(HEADER.unpack_from(data)[6])


def timestamps_of(data: bytes, base_offset: int) -> list[tuple[int, int]]:
    """Return offset and timestamp of each record of a batch at `base_offset`.

    Raises:
        DecompressionError, MalformedError: as `records_of`.
    """
    base_timestamp, max_timestamp = HEADER.unpack_from(data)[7:9]
    if has_append_time_flag(data):
        return [(base_offset + each.offset_delta, max_timestamp) for each in records_of(data)]
    return [
        (base_offset + record.offset_delta, base_timestamp + record.timestamp_delta)
        for record in records_of(data)
    ]
