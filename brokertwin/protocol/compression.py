"""Compression and size-limited decompression of record batches.

Codecs have the names of the request log. Snappy is either raw (librdkafka) or in the format of
xerial's snappy-java: a header of 16 bytes, then blocks, each after its length.
"""

import gzip
import io
import struct
import zlib
from collections.abc import Callable

import lz4.frame
import snappy
import zstandard

DECOMPRESSED_BYTES_MAX = 128 * 1024 * 1024
"""Larger records are rejected, so that a small batch cannot exhaust memory."""

NAMES = ("none", "gzip", "snappy", "lz4", "zstd")
"""Codec names by their number in a batch's attributes."""

XERIAL_MAGIC = b"\x82SNAPPY\0"
XERIAL_HEADER_BYTES = 16
XERIAL_BLOCK_BYTES = 32 * 1024
ZSTD_BLOCK_HEADER_BYTES, ZSTD_CHECKSUM_BYTES, ZSTD_REPEATED = 3, 4, 1
ZSTD_HEADER_BYTES_MAX = 18
ZSTD_SKIPPABLE, ZSTD_SKIPPABLE_HEADER_BYTES = b"\x2a\x4d\x18", 8
"""Bytes after the first one of a skippable frame; its header ends with its size."""
GZIP_LEVEL, LZ4_LEVEL, ZSTD_LEVEL = 6, 9, 3
"""Kafka's default levels."""
GZIP_DEFAULT = -1
"""The level for zlib's own default."""

_LENGTH = struct.Struct(">i")


class DecompressionError(ValueError):
    """The data cannot be decompressed, or not within the limit."""


def decompress(name: str, data: bytes, most: int | None = None) -> bytes:
    """Decompress records, or other data of at most `most` bytes.

    Raises DecompressionError, without producing more bytes than that.
    """
    decoder = _DECODERS.get(name)
    if decoder is None:
        return data
    limit = DECOMPRESSED_BYTES_MAX if most is None else most
    try:
        content = decoder(data, limit)
    except (
        OSError,
        EOFError,
        RuntimeError,
        ValueError,
        zlib.error,
        struct.error,
        zstandard.ZstdError,
        snappy.UncompressError,
    ) as error:
        raise DecompressionError(f"{name}: {error}") from None
    if len(content) > limit:
        raise DecompressionError(f"more than {limit} bytes")
    return content


def _gzip(data: bytes, limit: int) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        return stream.read(limit + 1)


def _lz4(data: bytes, limit: int) -> bytes:
    decompressor = lz4.frame.LZ4FrameDecompressor()
    content = decompressor.decompress(data, max_length=limit + 1)
    if not decompressor.eof and len(content) <= limit:
        raise DecompressionError("the frame ends too early")
    return bytes(content)


def _zstd(data: bytes, limit: int) -> bytes:
    stream = zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True)
    content = stream.read(limit + 1)
    if not _is_whole(data):
        raise DecompressionError("a frame ends too early")
    return content


def _is_whole(data: bytes) -> bool:
    """True if all frames are complete; the decoder does not report truncation."""
    at = 0
    while at < len(data):
        header_bytes = data[at : at + ZSTD_HEADER_BYTES_MAX]
        if header_bytes[1:4] == ZSTD_SKIPPABLE:
            at += ZSTD_SKIPPABLE_HEADER_BYTES + int.from_bytes(header_bytes[4:8], "little")
            continue
        has_checksum = zstandard.get_frame_parameters(header_bytes).has_checksum
        at += zstandard.frame_header_size(header_bytes)
        is_last = False
        while not is_last and at < len(data):
            header = int.from_bytes(data[at : at + ZSTD_BLOCK_HEADER_BYTES], "little")
            is_last, kind, size = bool(header & 1), header >> 1 & 3, header >> 3
            at += ZSTD_BLOCK_HEADER_BYTES + (1 if kind == ZSTD_REPEATED else size)
        at += ZSTD_CHECKSUM_BYTES if has_checksum else 0
        if not is_last or at > len(data):
            return False
    return at == len(data)


def _snappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(XERIAL_MAGIC):
        return _snappy_block(data, limit)
    out = io.BytesIO()
    position = XERIAL_HEADER_BYTES
    while position < len(data):
        (size,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        if not 0 < size <= len(data) - position:
            raise DecompressionError(f"a block of {size} bytes at byte {position}")
        room = limit - out.tell()
        out.write(_snappy_block(data[position : position + size], room))
        position += size
    return out.getvalue()


def _snappy_block(block: bytes, room: int) -> bytes:
    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > room:
        raise DecompressionError(f"a block of {size} bytes")
    return bytes(snappy.uncompress(block))


def compress(name: str, data: bytes, level: int | None = None) -> bytes:
    """Compress records as Kafka's brokers do; level None is Kafka's default."""
    if name == "gzip":
        gzip_level = GZIP_LEVEL if level is None or level == GZIP_DEFAULT else level
        return gzip.compress(data, gzip_level, mtime=0)
    if name == "zstd":
        return zstandard.ZstdCompressor(ZSTD_LEVEL if level is None else level).compress(data)
    if name == "lz4":
        return bytes(
            lz4.frame.compress(
                data,
                compression_level=LZ4_LEVEL if level is None else level,
                block_size=lz4.frame.BLOCKSIZE_MAX64KB,
                block_linked=False,
                store_size=False,
            )
        )
    return _to_snappy(data) if name == "snappy" else data


def _to_snappy(data: bytes) -> bytes:
    """Compress in the format of xerial's snappy-java."""
    out = bytearray(XERIAL_MAGIC + struct.pack(">ii", 1, 1))
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = snappy.compress(data[start : start + XERIAL_BLOCK_BYTES])
        out += _LENGTH.pack(len(block)) + block
    return bytes(out)


_DECODERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gzip,
    "snappy": _snappy,
    "lz4": _lz4,
    "zstd": _zstd,
}
