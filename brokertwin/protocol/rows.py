"""Base classes of generated rows in internal topics.

Coordinators write them. A key begins with its kind, a value with its version, both as an int16.
"""

from collections.abc import Sequence
from typing import ClassVar, Self

import msgspec

from brokertwin.protocol.primitives import INT16, MalformedError, Reader, put_count

Encoded = tuple[bytes, bytes | None]
"""Key and value of a row; a value None is a tombstone."""


def kind_of(key: bytes) -> int:
    """Kafka's number of a key's kind. Raises MalformedError."""
    return Reader(key).int16()


class RowPart(msgspec.Struct):
    """A nested struct of a row."""

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """Read a version's fields, none by default. Raises MalformedError."""
        reader.tags()
        return cls()

    def write(self, out: bytearray, version: int, is_flexible: bool) -> None:
        """Append the fields of a version. Raises ValueError for too long a string."""
        if is_flexible:
            out.append(0)


def put_structs(
    out: bytearray, items: Sequence[RowPart] | None, version: int, is_flexible: bool
) -> None:
    """Append an array of structs or null."""
    put_count(out, items, is_flexible)
    for each in items or ():
        each.write(out, version, is_flexible)


class RowKey(RowPart):
    """A key. `KIND` is Kafka's number of the row's kind."""

    KIND: ClassVar[int]

    def encoded(self) -> bytes:
        """The bytes. Raises ValueError for strings of more than 32,767 bytes."""
        out = bytearray(INT16(self.KIND))
        self.write(out, 0, False)
        return bytes(out)

    @classmethod
    def decoded(cls, data: bytes) -> Self:
        """The key in bytes of its kind. Raises MalformedError."""
        reader = Reader(data)
        reader.int16()
        found = cls.read(reader, 0)
        reader.end()
        return found


class Row(RowPart):
    """A value, or another message that begins with its version.

    `VERSIONS` are the first and the last one, and `FLEXIBLE` the first with compact lengths.
    """

    VERSIONS: ClassVar[tuple[int, int]]
    FLEXIBLE: ClassVar[int]

    def encoded(self, version: int) -> bytes:
        """Encode a version. Raises ValueError for too long a string."""
        out = bytearray(INT16(version))
        self.write(out, version, version >= self.FLEXIBLE)
        return bytes(out)

    @classmethod
    def decoded(cls, data: bytes) -> Self:
        """The message in its bytes.

        Raises MalformedError for bytes of another version, cut or too many.
        """
        reader = Reader(data)
        version = reader.int16()
        first, last = cls.VERSIONS
        if not first <= version <= last:
            known = f"versions {first} to {last}" if first < last else f"version {first}"
            raise MalformedError(f"{cls.__name__} has {known}, not {version}")
        reader.is_flexible = version >= cls.FLEXIBLE
        found = cls.read(reader, version)
        reader.end()
        return found

    @classmethod
    def parsed(cls, data: bytes) -> Self:
        """Decode a message; a newer version is read as the newest known.

        Raises MalformedError for bytes that are cut.
        """
        reader = Reader(data)
        return cls.read(reader, cls.version_of(reader))

    @classmethod
    def version_of(cls, reader: Reader) -> int:
        """Read the version, at most the newest. Raises MalformedError."""
        version = reader.int16()
        if version < 0:
            raise MalformedError("a version below 0")
        return min(version, cls.VERSIONS[1])
