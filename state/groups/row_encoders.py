"""Convert records whose fields have Kafka's names to rows."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import msgspec

from brokertwin.protocol.rows import Row, RowKey

T = TypeVar("T")


class Encoder(NamedTuple):
    """The struct of a row's key, and a function that returns the value or None."""

    key: type[RowKey]
    value: Callable[[Any], Row | None]


def alike(source: object, kind: type[T]) -> T:
    """Return a struct with the fields of the same names of another one."""
    return msgspec.convert(source, kind, from_attributes=True)


def of_field(name: str, kind: type[Row]) -> Callable[[Any], Row | None]:
    """Return a function that converts a field of the record; None is a tombstone."""

    def value(record: Any) -> Row | None:
        found = getattr(record, name)
        return None if found is None else alike(found, kind)

    return value


def of_epoch(name: str, kind: type[Row]) -> Callable[[Any], Row | None]:
    """Return a function that converts the record; the epoch None is a tombstone."""
    return lambda record: None if getattr(record, name) is None else alike(record, kind)
