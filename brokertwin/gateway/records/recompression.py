"""Recompression of batches to their topic's codec (`compression.type`).

Source: `LogValidator` in Kafka. A batch stays unchanged if the setting is `producer`, if it is
rejected, or if it has the codec already. The header for the state machine, with size and CRC,
describes the stored bytes; `max.message.bytes` limits both the received and the stored size. Unlike
in Kafka, Produce versions before zstd keep their codec if either codec is zstd.
"""

import struct

import msgspec

from brokertwin.protocol import compression
from brokertwin.protocol import record_batches as records
from brokertwin.protocol.record_batches import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER_BYTES,
    RecordSet,
)
from brokertwin.state.configs.codecs import TopicCodec

ZSTD_VERSION = 7
"""First version of Produce with zstd."""

_SIZE_POSITION = 8
_SIZE = struct.Struct(">i")
_INT16 = struct.Struct(">h")


def in_codec(found: RecordSet, codec: TopicCodec, version: int) -> RecordSet:
    """Recompress the batch of a record set; `version` is that of the Produce request."""
    if found.data is None or found.error:
        return found
    header = found.batches[0]
    received = header.compression_type
    if received == codec.name or header.is_control:
        return found
    if version < ZSTD_VERSION and "zstd" in (received, codec.name):
        return found
    plain = compression.decompress(received, found.data[HEADER_BYTES:])
    batch = bytearray(found.data[:HEADER_BYTES])
    batch += compression.compress(codec.name, plain, codec.level)
    (attributes,) = _INT16.unpack_from(batch, ATTRIBUTES_POSITION)
    attributes = attributes & ~CODEC_MASK | compression.NAMES.index(codec.name)
    _INT16.pack_into(batch, ATTRIBUTES_POSITION, attributes)
    _SIZE.pack_into(batch, _SIZE_POSITION, len(batch) - records.LOG_OVERHEAD)
    crc = records.set_crc(batch)
    changed = msgspec.structs.replace(
        header, compression_type=codec.name, size_in_bytes=len(batch), crc=crc
    )
    return found._replace(batches=[changed], data=bytes(batch))
