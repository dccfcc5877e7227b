"""Lines of files of others: decompressed, unpacked from archives, decoded, in bounded pieces.

The content is examined, not the name, because rotation and download tools drop suffixes. No file,
however it is compressed, takes more memory than about the limit of a line.
"""

import bz2
import codecs
import io
import lzma
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import IO, Any

from brokertwin.errors import UserError

LINE_BYTES_MAX = 64 * 1024 * 1024
"""A longer line is cut; a search result may be one JSON object with many entries."""

CUT = (
    "the compressed data has no end: the file was cut, or is still being written. What was before"
    " that is read."
)
"""A warning of commands that read such a file."""

HEAD_BYTES = 512
"""Bytes that show a file's format; a tar header is one block."""

CHUNK_BYTES = 256 * 1024
ZSTD_CHUNK_BYTES = 2 * 1024
"""zstandard decompresses a piece as a whole: at most 128 KiB for each 4 bytes."""

DICTIONARY_BYTES_MAX = 256 * 1024 * 1024
"""Memory of an xz decompressor; `xz -9` needs 65 MiB."""

TAR_HEADER_BYTES_MAX = 1024 * 1024
"""Size of a tar header with long names or attributes; Python reads one as a whole."""

NESTED_MAX = 4
"""Depth of archives in archives; there are some that contain themselves."""

_ZSTD = b"\x28\xb5\x2f\xfd"
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
)
"""Errors of reading a damaged file."""

Decompressor = Any
"""An object with `decompress(data, size)`, `eof`, `needs_input` and `unused_data`."""


def members(
    raw: io.BufferedReader, on_cut: Callable[[], None], depth: int = 0
) -> Iterator[tuple[str, io.BufferedReader]]:
    """Yield the files in a file: their names, and their content as UTF-8.

    A file that is no archive is its only member, without a name. Links in an archive are left out.

    Args:
        raw: the file.
        on_cut: called if compressed data ends without its end marker; the rest is still read.
        depth: number of archives around the file.
    """
    if depth > NESTED_MAX:
        raise ValueError(f"archives are nested more than {NESTED_MAX} deep")
    head = raw.peek(HEAD_BYTES)[:HEAD_BYTES]
    if head.startswith(_ZIP):
        yield from _in_zip(raw, depth)
        return
    stream = _decompressed(raw, head, on_cut)
    head = stream.peek(HEAD_BYTES)[:HEAD_BYTES]
    if head[_TAR_AT:].startswith(b"ustar"):
        yield from _in_tar(stream, depth)
        return
    yield "", _decoded(stream, head)


def lines(stream: io.BufferedReader) -> Iterator[bytes]:
    """Yield the lines of a file with their ends.

    A line that is too long is cut after `LINE_BYTES_MAX` and one more byte.

    Raises:
        ValueError: a line has no end within twice that size, as in `/dev/zero`.
    """
    while line := stream.readline(LINE_BYTES_MAX + 1):
        yield line
        size = len(line)
        while size > LINE_BYTES_MAX and line and not line.endswith(b"\n"):
            line = stream.readline(CHUNK_BYTES)
            size += len(line)
            if size > 2 * LINE_BYTES_MAX:
                raise ValueError(f"it has a line of more than {size >> 20} MiB, so it is no text")


def read(path: Path, most: int) -> bytes:
    """Read a file of a limited size. Raises UserError."""
    try:
        with path.open("rb") as file:
            found = file.read(most + 1)
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from None
    if len(found) > most:
        raise UserError(f"Cannot read {path}: it has more than {most >> 20} MiB.")
    return found


def buffered(stream: Any) -> io.BufferedReader:
    return stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(stream)


def _in_zip(raw: IO[bytes], depth: int) -> Iterator[tuple[str, io.BufferedReader]]:
    with tempfile.TemporaryFile() as copy:
        if not raw.seekable():
            shutil.copyfileobj(raw, copy)
        with zipfile.ZipFile(raw if raw.seekable() else copy) as archive:
            names = [each for each in archive.namelist() if not each.endswith("/")]
            for name in names:
                with archive.open(name) as member:
                    for _, stream in members(buffered(member), lambda: None, depth + 1):
                        yield (name if len(names) > 1 else ""), stream


_TAR_HEADERS = (
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
)


class _Member(tarfile.TarInfo):
    """A member whose headers have a limited size."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _TAR_HEADERS and self.size > TAR_HEADER_BYTES_MAX:
            raise tarfile.ReadError(f"a header in it has {self.size} bytes")
        return super()._proc_member(archive)  # type: ignore[misc, no-any-return]


def _in_tar(stream: IO[bytes], depth: int) -> Iterator[tuple[str, io.BufferedReader]]:
    with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member) as archive:
        for each in archive:
            archive.members = []  # type: ignore[attr-defined]  # else all of them are kept
            member = archive.extractfile(each) if each.isreg() else None
            if member is not None:
                for _, inner in members(buffered(member), lambda: None, depth + 1):
                    yield each.name, inner


class _Inflate:
    """Gzip with the interface of `bz2.BZ2Decompressor`."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self._held = b""

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._held

    def decompress(self, data: bytes, size: int) -> bytes:
        found = self._inflate.decompress(self._held + data, size)
        self._held = self._inflate.unconsumed_tail
        return found


class _Zstd:
    """Zstandard with the interface of `bz2.BZ2Decompressor`; takes pieces of a limited size."""

    def __init__(self) -> None:
        self._module = _module("zstandard", "zstd")
        self._frame = self._module.ZstdDecompressor().decompressobj()
        self._held = memoryview(b"")

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._frame.unused_data) + bytes(self._held)

    @property
    def needs_input(self) -> bool:
        return not self._held

    def decompress(self, data: bytes, _: int) -> bytes:
        if data:
            self._held = memoryview(data)
        piece, self._held = self._held[:ZSTD_CHUNK_BYTES], self._held[ZSTD_CHUNK_BYTES:]
        try:
            return bytes(self._frame.decompress(piece))
        except self._module.ZstdError as error:
            raise ValueError(str(error)) from None


def _module(name: str, format_: str) -> ModuleType:
    """Import a codec when a file needs it; not every installation has all."""
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise ValueError(
            f"it is compressed with {format_}, and the package {package} is not installed."
            " Decompress it first"
        ) from None


_DECOMPRESSORS: tuple[tuple[bytes, Callable[[], Decompressor]], ...] = (
    (b"\x1f\x8b", _Inflate),
    (b"BZh", bz2.BZ2Decompressor),
    (b"\xfd7zXZ\x00", lambda: lzma.LZMADecompressor(memlimit=DICTIONARY_BYTES_MAX)),
    (_ZSTD, _Zstd),
    (b"\x04\x22\x4d\x18", lambda: _module("lz4.frame", "lz4").LZ4FrameDecompressor()),
)


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
        is_done = False
        while not is_done:
            yield current.decompress(data, CHUNK_BYTES)
            data = b""
            is_done = current.needs_input
            if current.eof:
                data = current.unused_data or raw.read(CHUNK_BYTES)
                if not data.strip(b"\0"):
                    return
                if not data.startswith(magic):
                    raise ValueError("there is something else behind the compressed data")
                current, is_done = make(), False
    on_cut()


def _sized(raw: IO[bytes], on_cut: Callable[[], None]) -> Iterator[bytes]:
    """The lines of an OpenTelemetry Collector's file: sizes, each with a zstd frame."""
    while head := raw.read(4):
        left = int.from_bytes(head)
        frame, last = _Zstd(), b""
        while left:
            data = raw.read(min(left, ZSTD_CHUNK_BYTES))
            if not data:
                on_cut()
                return
            left -= len(data)
            piece = frame.decompress(data, CHUNK_BYTES)
            last = piece[-1:] or last
            yield piece
        if last != b"\n":
            yield b"\n"


def _decoded(stream: io.BufferedReader, head: bytes) -> io.BufferedReader:
    """Return the text as UTF-8 without a byte order mark."""
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
