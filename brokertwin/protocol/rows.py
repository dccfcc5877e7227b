"""Base classes of generated rows in internal topics.

Coordinators write them. A key begins with its kind, a value with its version, both as an int16.
"""

import struct
from typing import Any, ClassVar, Self, TypeVar

import msgspec

from brokertwin.protocol.codec import Write, message_reader, message_writer
from brokertwin.protocol.primitives import MalformedError

Encoded = tuple[bytes, bytes | None]
"""Key and value of a row; a value None is a tombstone."""

T = TypeVar("T", bound="RowPart")

_INT16 = struct.Struct(">h")
VERSION_BYTES = _INT16.size

_writers: dict[tuple[type, int], Write] = {}


def kind_of(key: bytes) -> int:
    """Kafka's number of a key's kind, or a value's version. Raises MalformedError."""
    if len(key) < VERSION_BYTES:
        raise MalformedError(f"{len(key)} bytes, without a kind or a version")
    return int(_INT16.unpack_from(key)[0])


class RowPart(msgspec.Struct, rename="camel"):
    """A row, or a nested struct of one."""


def append(out: bytearray, row: RowPart, version: int) -> None:
    """Append the fields of a version. Raises ValueError for too long a string."""
    kind = type(row)
    message_writer(kind.__name__, version, kind)(out, row)


def read(kind: type[T], data: bytes, at: int, version: int) -> tuple[T, int]:
    """Read the fields of a version; return where they end, too. Raises MalformedError."""
    result: tuple[Any, int] = message_reader(kind.__name__, version, kind)(data, at)
    return result


def _read_all(kind: type[T], data: bytes, version: int) -> T:
    message, end = read(kind, data, VERSION_BYTES, version)
    if end != len(data):
        raise MalformedError(f"{len(data) - end} bytes too many")
    return message


class RowKey(RowPart, tag=True):
    """A key. `KIND` is Kafka's number of the row's kind."""

    KIND: ClassVar[int]
    WRITE: ClassVar[Write | None] = None

    def encoded(self) -> bytes:
        """The bytes. Raises ValueError for strings of more than 32,767 bytes."""
        kind = type(self)
        write = kind.WRITE
        if write is None:
            write = kind.WRITE = message_writer(kind.__name__, 0, kind)
        out = bytearray(_INT16.pack(kind.KIND))
        write(out, self)
        return bytes(out)

    @classmethod
    def decoded(cls, data: bytes) -> Self:
        """The key in bytes of its kind. Raises MalformedError."""
        return _read_all(cls, data, 0)


class Row(RowPart, tag=True):
    """A value, or another message that begins with its version.

    `VERSIONS` are the first and the last one.
    """

    VERSIONS: ClassVar[tuple[int, int]]

    def encoded(self, version: int) -> bytes:
        """Encode a version. Raises ValueError for too long a string."""
        kind = type(self)
        write = _writers.get((kind, version))
        if write is None:
            write = _writers[kind, version] = message_writer(kind.__name__, version, kind)
        out = bytearray(_INT16.pack(version))
        write(out, self)
        return bytes(out)

    @classmethod
    def decoded(cls, data: bytes) -> Self:
        """The message in its bytes.

        Raises MalformedError for bytes of another version, cut or too many.
        """
        version = kind_of(data)
        first, last = cls.VERSIONS
        if not first <= version <= last:
            versions = f"versions {first} to {last}" if first < last else f"version {first}"
            raise MalformedError(f"{cls.__name__} has {versions}, not {version}")
        return _read_all(cls, data, version)

    @classmethod
    def parsed(cls, data: bytes) -> Self:
        """Decode a message; a newer version is read as the newest known.

        Raises MalformedError for bytes that are cut.
        """
        return read(cls, data, VERSION_BYTES, cls.version_of(data))[0]

    @classmethod
    def version_of(cls, data: bytes) -> int:
        """Read the version, at most the newest. Raises MalformedError."""
        version = kind_of(data)
        if version < 0:
            raise MalformedError("a version below 0")
        return min(version, cls.VERSIONS[1])
