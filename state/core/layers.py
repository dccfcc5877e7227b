"""A large column of a state row in layers: items as they lay once, and what has changed since.

A state row is written whole in each micro-batch, but of many items most rest. So a column that has
become large is a *base*, packed once and then handed on as it is, and the changes since: only
these are encoded again. Where they have become many, all items together are the next base.

    column    {key: item}                 a msgpack map: the form of small tables
              [base, changes, dropped]    a msgpack array: two such maps, compressed, and keys

Nobody changes what is in a base, so who has read it once may keep it: its bytes say which it is.
"""

import zlib
from collections.abc import Callable, Iterable

import msgspec

LAYERED_BYTES = 1 << 16
"""A column of fewer bytes is one map: it costs little to write, and to read."""

CHANGES_PART = 4
"""One item in so many may have changed since the base; with more of them there is a new one."""

COMPRESSION_LEVEL = 1
"""The fastest: items of a table are alike, and it makes a tenth of a million producers' bytes."""

Items = dict[str, msgspec.Raw]
"""Items' bytes by key."""


class LayeredColumn(msgspec.Struct, array_like=True):
    """A column in layers, as it is stored.

    Attributes:
        base: a compressed map of items.
        changes: another, of those that are new or otherwise since.
        dropped: keys of the base's items that are gone.
    """

    base: bytes
    changes: bytes
    dropped: list[str]


class DamagedError(Exception):
    """A column has other bytes than a commit has written; no event is to blame for it."""


class Base:
    """A base that was read. Its items are not to be changed: many tables may begin with them."""

    def __init__(self, packed: bytes) -> None:
        column = zlib.decompress(packed)
        self.packed = packed
        self.size = len(column)
        """Bytes of the items and their keys."""
        self.items = read_items(column)


ReadBase = Callable[[bytes], Base]
"""Reads a packed base, or gives the one that it has read before."""

_encoder = msgspec.msgpack.Encoder()
_items_decoder = msgspec.msgpack.Decoder(Items)
_layers_decoder = msgspec.msgpack.Decoder(LayeredColumn)
_UNREADABLE = (zlib.error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError)
_FIRST_BYTE = _encoder.encode(LayeredColumn(b"", b"", []))[:1]


def read_items(column: bytes) -> Items:
    """The items in a column that is one map. Raises DamagedError."""
    try:
        return _items_decoder.decode(column) if column else {}
    except _UNREADABLE as error:
        raise DamagedError(f"a column of a state row is no map of items: {error}") from None


def is_layered(column: bytes) -> bool:
    """Whether a column is stored in layers."""
    return column[:1] == _FIRST_BYTE


def flat(column: bytes) -> bytes:
    """A column as one map, in whichever form it is stored. Raises DamagedError."""
    if is_layered(column):
        return _encoder.encode(opened(column, Base)[1])
    read_items(column)
    return column


def opened(column: bytes, read_base: ReadBase) -> tuple[Base, Items, list[str]]:
    """A column in layers: its base, all its items, and the keys of what differs from the base.

    Raises:
        DamagedError: it is none.
    """
    try:
        layers = _layers_decoder.decode(column)
        base = read_base(layers.base)
        changes = read_items(zlib.decompress(layers.changes))
        items = base.items | changes
        for key in layers.dropped:
            del items[key]
    except _UNREADABLE as error:
        raise DamagedError(f"a column of a state row is not in layers: {error}") from None
    return base, items, [*changes, *layers.dropped]


def stored(items: Items, base: Base | None, changed: Iterable[str]) -> bytes:
    """A column's bytes in the form in which it is stored.

    Args:
        items: all of them.
        base: what the column began with, where it was in layers.
        changed: the keys of what differs from the base, and of what may.
    """
    if base is not None:
        there = [key for key in changed if key in items]
        dropped = [key for key in changed if key not in items and key in base.items]
        if (len(there) + len(dropped)) * CHANGES_PART <= len(items):
            changes = _packed({key: items[key] for key in there})
            return _encoder.encode(LayeredColumn(base.packed, changes, dropped))
    column = _encoder.encode(items)
    if len(column) < LAYERED_BYTES:
        return column
    packed = zlib.compress(column, COMPRESSION_LEVEL)
    return _encoder.encode(LayeredColumn(packed, _packed({}), []))


def _packed(items: Items) -> bytes:
    return zlib.compress(_encoder.encode(items), COMPRESSION_LEVEL)
