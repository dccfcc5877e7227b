"""Packs: several events of a cell in one row of `requests`.

A pack is a JSON text sequence (RFC 7464). Each event follows a record separator, a byte that JSON
never contains. So a row with one event needs no mark, and a damaged event is refused alone.
"""

from collections.abc import Iterable

SEPARATOR = b"\x1e"
END = b"\n"

PACK_EVENTS_MAX = 1000
"""Maximum number of events in a pack. The last one and any further ones are refused as one."""

PACK_BYTES_MAX = 256 * 1024
"""Maximum size of a pack that we write. A larger event has a row of its own."""


def packed(documents: Iterable[bytes]) -> bytes:
    return b"".join(SEPARATOR + document + END for document in documents)


def is_packed(value: bytes) -> bool:
    return value.startswith(SEPARATOR)


def unpacked(value: bytes) -> list[bytes]:
    """Return the events of a row, packed or not."""
    if not is_packed(value):
        return [value]
    documents = value[1:].split(SEPARATOR, PACK_EVENTS_MAX - 1)
    return [document.removesuffix(END) for document in documents]
