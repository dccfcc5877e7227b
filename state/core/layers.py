"""Large columns of a state row in layers: a base, and the changes since.

A row is written whole in each micro-batch, but most of many items do not change. So a large column
is a *base*, compressed once and then copied, and the changes since, which are encoded again. When
there are many changes, all items become the next base.

    column    {key: item}                 a msgpack map: small tables
              [base, changes, dropped]    a msgpack array: two compressed maps, and keys

A base never changes, so a reader may cache it by its bytes.
"""

import zlib
from collections.abc import Callable, Iterable

import msgspec

LAYERED_BYTES = 1 << 16
"""Smaller columns are one map, because they are cheap to write and read."""

CHANGES_PART = 4
"""A new base is written when more than 1/`CHANGES_PART` of the items have changed."""

COMPRESSION_LEVEL = 1
"""The fastest level; items are alike, so a million producers shrink to a tenth."""

Items = dict[str, msgspec.Raw]
"""Encoded items by key."""


class LayeredColumn(msgspec.Struct, array_like=True):
    """A column in layers, as stored.

    Attributes:
        base: a compressed map of items.
        changes: a compressed map of items that are new or changed since.
        dropped: keys of dropped items of the base.
    """

    base: bytes
    changes: bytes
    dropped: list[str]


class DamagedError(Exception):
    """A column differs from the committed one; no event caused it."""


class Base:
    """A decoded base. Do not change its items: several tables may share them."""

    def __init__(self, packed: bytes) -> None:
        column = zlib.decompress(packed)
        self.packed = packed
        self.size = len(column)
        """Size of the items and their keys in bytes."""
        self.items = read_items(column)


ReadBase = Callable[[bytes], Base]
"""Decodes a compressed base, or returns a cached one."""

_encoder = msgspec.msgpack.Encoder()
_items_decoder = msgspec.msgpack.Decoder(Items)
_layers_decoder = msgspec.msgpack.Decoder(LayeredColumn)
_UNREADABLE = (zlib.error, msgspec.MsgspecError, UnicodeDecodeError, RecursionError, KeyError)
_FIRST_BYTE = _encoder.encode(LayeredColumn(b"", b"", []))[:1]


def read_items(column: bytes) -> Items:
    """Items of a column that is one map. Raises DamagedError."""
    try:
        return _items_decoder.decode(column) if column else {}
    except _UNREADABLE as error:
        raise DamagedError(f"a column of a state row is not a map of items: {error}") from None


def is_layered(column: bytes) -> bool:
    return column[:1] == _FIRST_BYTE


def flat(column: bytes) -> bytes:
    """A column as one map. Raises DamagedError."""
    if is_layered(column):
        return _encoder.encode(opened(column, Base)[1])
    read_items(column)
    return column


def opened(column: bytes, read_base: ReadBase) -> tuple[Base, Items, list[str]]:
    """Decode a layered column: base, all items, keys that differ from it.

    Raises:
        DamagedError: the column is damaged.
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
    """Encode a column for a state row.

    Args:
        items: all items.
        base: the column's base, if it was in layers.
        changed: keys that differ, or may differ, from the base.
    """
    if base is not None:
        existing = [key for key in changed if key in items]
        dropped = [key for key in changed if key not in items and key in base.items]
        if (len(existing) + len(dropped)) * CHANGES_PART <= len(items):
            changes = _packed({key: items[key] for key in existing})
            return _encoder.encode(LayeredColumn(base.packed, changes, dropped))
    column = _encoder.encode(items)
    if len(column) < LAYERED_BYTES:
        return column
    packed = zlib.compress(column, COMPRESSION_LEVEL)
    return _encoder.encode(LayeredColumn(packed, _packed({}), []))


def _packed(items: Items) -> bytes:
    return zlib.compress(_encoder.encode(items), COMPRESSION_LEVEL)
