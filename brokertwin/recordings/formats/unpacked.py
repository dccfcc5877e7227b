"""Decompresses files, unpacks archives, and decodes UTF-16.

The content is examined, not the name, because rotation and download tools drop suffixes.
"""

import bz2
import codecs
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any

import lz4.frame
import zstandard

HEAD_BYTES = 512
"""Bytes that show a file's format; a tar header is one block."""

CHUNK_BYTES = 256 * 1024

Decompressor = Any
"""An object with `decompress`, `eof` and `unused_data`, like `bz2.BZ2Decompressor`."""

_ZSTD = b"\x28\xb5\x2f\xfd"
_DECOMPRESSORS: tuple[tuple[bytes, Callable[[], Decompressor]], ...] = (
    (b"\x1f\x8b", lambda: zlib.decompressobj(wbits=31)),
    (b"BZh", bz2.BZ2Decompressor),
    (b"\xfd7zXZ\x00", lzma.LZMADecompressor),
    (_ZSTD, lambda: zstandard.ZstdDecompressor().decompressobj()),
    (b"\x04\x22\x4d\x18", lz4.frame.LZ4FrameDecompressor),
)
_NOT_READ = {
    b"\x1f\x9d": "compress",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"Rar!\x1a\x07": "RAR",
    b"LZIP": "lzip",
    b"\xff\x06\x00\x00sNaPpY": "Snappy",
}
"""Compressed data that is refused by its name."""

_ZIP = b"PK\x03\x04"
_TAR_AT = 257

ERRORS = (
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    zlib.error,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zstandard.ZstdError,
)
"""Errors of reading a damaged file."""


def members(
    raw: io.BufferedReader, on_cut: Callable[[], None]
) -> Iterator[tuple[str, Iterable[bytes]]]:
    """Yield the files in a file, with their names and lines.

    A file that is no archive is its only member, without a name.

    Args:
        raw: the file.
        on_cut: called if compressed data ends without its end marker; the rest is still read.
    """
    head = raw.peek(HEAD_BYTES)[:HEAD_BYTES]
    if head.startswith(_ZIP):
        yield from _zipped(raw)
        return
    stream = _decompressed(raw, head, on_cut)
    head = stream.peek(HEAD_BYTES)[:HEAD_BYTES]
    if head[_TAR_AT:].startswith(b"ustar"):
        yield from _in_tar(stream)
        return
    yield "", _decoded(stream, head)


def _zipped(raw: IO[bytes]) -> Iterator[tuple[str, Iterable[bytes]]]:
    source = raw if raw.seekable() else io.BytesIO(raw.read())
    with zipfile.ZipFile(source) as archive:
        names = [each for each in archive.namelist() if not each.endswith("/")]
        for name in names:
            with archive.open(name) as member:
                for _, lines in members(buffered(member), lambda: None):
                    yield (name if len(names) > 1 else ""), lines


def _in_tar(stream: IO[bytes]) -> Iterator[tuple[str, Iterable[bytes]]]:
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        for each in archive:
            member = archive.extractfile(each)
            if member is not None:
                for _, lines in members(buffered(member), lambda: None):
                    yield each.name, lines


def _decompressed(
    raw: io.BufferedReader, head: bytes, on_cut: Callable[[], None]
) -> io.BufferedReader:
    for magic, make in _DECOMPRESSORS:
        if head.startswith(magic):
            return _buffered(_chunks(raw, magic, make, on_cut))
    if head[4:].startswith(_ZSTD):
        return _buffered(_sized(raw, on_cut))
    name = next((name for magic, name in _NOT_READ.items() if head.startswith(magic)), None)
    if name is not None:
        raise ValueError(f"it is compressed with {name}. Decompress it first")
    return raw


def _chunks(
    raw: IO[bytes], magic: bytes, make: Callable[[], Decompressor], on_cut: Callable[[], None]
) -> Iterator[bytes]:
    """Yield decompressed pieces; a file may have several streams."""
    current = make()
    while data := raw.read(CHUNK_BYTES):
        while data:
            yield current.decompress(data)
            data = b""
            if current.eof:
                rest = current.unused_data or raw.read(CHUNK_BYTES)
                if not rest.strip(b"\0"):
                    return
                if not rest.startswith(magic):
                    raise ValueError("there is something else behind the compressed data")
                current, data = make(), rest
    on_cut()


def _sized(raw: IO[bytes], on_cut: Callable[[], None]) -> Iterator[bytes]:
    """The lines of an OpenTelemetry Collector's file: sizes, each with a zstd frame."""
    while head := raw.read(4):
        size = int.from_bytes(head)
        frame = raw.read(size)
        if len(frame) < size:
            on_cut()
            return
        yield zstandard.ZstdDecompressor().decompressobj().decompress(frame).rstrip(b"\n") + b"\n"


def _decoded(stream: io.BufferedReader, head: bytes) -> Iterable[bytes]:
    """Yield the lines as UTF-8 without a byte order mark."""
    if head.startswith(codecs.BOM_UTF8):
        stream.read(len(codecs.BOM_UTF8))
        return stream
    encoding = _utf_16(head)
    if not encoding:
        return stream
    texts = codecs.iterdecode(iter(lambda: stream.read(CHUNK_BYTES), b""), encoding, "replace")
    return _buffered(text.encode() for text in texts)


def _utf_16(head: bytes) -> str:
    """Return the codec of UTF-16 text from Windows tools, or empty."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    even, odd = head[0::2], head[1::2]
    if len(odd) > 1 and not any(odd) and all(even):
        return "utf-16-le"
    return "utf-16-be" if len(odd) > 1 and not any(even) and all(odd) else ""


def buffered(stream: Any) -> io.BufferedReader:
    """Return a buffered reader that allows peeking."""
    return stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(stream)


class _Chunked(io.RawIOBase):
    """A raw stream over pieces."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._held = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._held:
            piece = next(self._chunks, None)
            if piece is None:
                return 0
            self._held = memoryview(piece)
        size = min(len(buffer), len(self._held))
        buffer[:size], self._held = self._held[:size], self._held[size:]
        return size


def _buffered(chunks: Iterator[bytes]) -> io.BufferedReader:
    return io.BufferedReader(_Chunked(chunks), CHUNK_BYTES)
