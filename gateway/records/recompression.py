"""Batches in the codec that their topic asks for (`compression.type`), whatever the producer chose.

Source: `LogValidator` in Kafka. `producer` keeps what came, so does a
batch that is refused anyway, or that has the codec already. The header that the machine is told,
its size and its CRC among it, is that of the bytes that are kept; `max.message.bytes` bounds that
size and the one that came. Otherwise than in Kafka what comes in a version of Produce before zstd
keeps its codec where zstd is asked for or has come.
"""

import struct

from brokertwin.gateway.records import compression, records
from brokertwin.gateway.records.records import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER_BYTES,
    RecordSet,
)
from brokertwin.state.configs.codecs import TopicCodec

ZSTD_VERSION = 7
"""The first version of Produce that may bring zstd."""

_SIZE_POSITION = 8
_SIZE = struct.Struct(">i")
_INT16 = struct.Struct(">h")


def in_codec(found: RecordSet, codec: TopicCodec, version: int) -> RecordSet:
    """A record set with its batch in a codec; `version` is that of the Produce request."""
    if found.data is None or found.error:
        return found
    header = found.batches[0]
    came = header["compressionType"]
    if came == codec.name or header["isControl"]:
        return found
    if version < ZSTD_VERSION and "zstd" in (came, codec.name):
        return found
    plain = compression.decompress(came, found.data[HEADER_BYTES:])
    batch = bytearray(found.data[:HEADER_BYTES])
    batch += compression.compress(codec.name, plain, codec.level)
    (attributes,) = _INT16.unpack_from(batch, ATTRIBUTES_POSITION)
    attributes = attributes & ~CODEC_MASK | compression.NAMES.index(codec.name)
    _INT16.pack_into(batch, ATTRIBUTES_POSITION, attributes)
    _SIZE.pack_into(batch, _SIZE_POSITION, len(batch) - records.LOG_OVERHEAD)
    crc = records.set_crc(batch)
    told = {**header, "compressionType": codec.name, "sizeInBytes": len(batch), "crc": crc}
    return found._replace(batches=[told], data=bytes(batch))
